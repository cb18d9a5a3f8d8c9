"""The Django example under `gunicorn -w 4` with the embedded store, while the worker that owns the store is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from shoal.sync import Shoal
from tests.wheel import Installed

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_HANG_SECONDS = 60.0
_WORKERS = 4
_KILLS = 3
_LISTENING = re.compile(r"Listening at: (http://\S+)")


@contextmanager
def served(folder: Path, installed: Installed, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve the guest book with gunicorn; yield its address and process."""
    for module in ("django", "gunicorn"):
        if find_spec(module) is None:
            if os.environ.get("CI"):
                pytest.fail(f"{module} is not installed")
            pytest.skip(f"{module} is not installed: pip install {module}")
    command = [installed.python, "-m", "gunicorn", "-w", str(_WORKERS), "-b", "127.0.0.1:0", *options]
    command += ["--pythonpath", str(EXAMPLES), "--graceful-timeout", "20", "guestbook"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said: list[str] = []
        try:
            for line in server.stderr:
                said.append(line)
                if found := _LISTENING.search(line):
                    # Drain stderr so that the server does not block.
                    threading.Thread(target=server.stderr.read, daemon=True).start()
                    yield found[1], server
                    break
            else:
                pytest.fail("".join(said))
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
                try:
                    server.wait(_HANG_SECONDS)
                except subprocess.TimeoutExpired:
                    server.kill()


def _persistently(url: str, method: str, path: str, user: str, **given: object) -> httpx.Response:
    """Repeat a request with the same key until it is answered: a lost connection and a 503 both mean "try again"."""
    deadline = time.monotonic() + _HANG_SECONDS
    headers = {"X-User": user, "Idempotency-Key": str(given.get("json"))}
    while True:
        try:
            answer = httpx.request(method, f"{url}/{path}", headers=headers, timeout=_HANG_SECONDS, **given)  # type: ignore[arg-type]
        except httpx.TransportError:
            assert time.monotonic() < deadline
            continue
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            return answer
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.05)


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["each loads", "preload"])
def test_django_example_with_four_workers_survives_kill_of_store_owner_without_data_loss(
    options: tuple[str, ...], tmp_path: Path, installed: Installed
) -> None:
    acknowledged: dict[str, str] = {}
    workers: Counter[str] = Counter()
    stop = threading.Event()

    def write(number: int, url: str) -> None:
        for turn in range(10_000):
            text = f"entry {number}-{turn}"
            answer = _persistently(url, "POST", "entries", "ann", json={"text": text})
            assert answer.status_code == 201, answer.text
            acknowledged[answer.json()["id"]] = text
            workers[answer.headers["x-worker"]] += 1
            if stop.is_set():
                return

    with served(tmp_path, installed, *options) as (url, server), ThreadPoolExecutor(4) as pool:
        assert _persistently(url, "GET", "home", "ann").json() == {"entries": []}
        assert _persistently(url, "POST", "follow/ann", "bob").status_code == 204
        missing = _persistently(url, "POST", "follow/nobody", "bob")
        assert (missing.status_code, missing.json()) == (404, {"error": "no member 'nobody'"})
        writing = [pool.submit(write, number, url) for number in range(4)]
        try:
            for _ in range(_KILLS):
                _until_more(acknowledged, 20)
                owner = int((tmp_path / "guestbook.db-lock").read_text())
                assert owner != server.pid
                os.kill(owner, signal.SIGKILL)
            _until_more(acknowledged, 20)
        finally:
            stop.set()
        for one in writing:
            one.result()
        server.send_signal(signal.SIGTERM)
        assert server.wait(_HANG_SECONDS) == 0
    assert len(workers) > 2
    # Clean shutdown: SQLite leaves no log, and the owner no socket.
    assert not list(tmp_path.glob("*-wal"))
    assert not list(tmp_path.glob("*.sock"))
    with Shoal.open(f"sqlite:///{tmp_path / 'guestbook.db'}") as shoal:
        stored = _all_of(shoal, "ann")
    assert Counter(stored.values()).most_common(1)[0][1] == 1
    assert acknowledged.items() <= stored.items()


def _all_of(shoal: Shoal, name: str) -> dict[str, str]:
    stored: dict[str, str] = {}
    before = None
    while True:
        page = shoal.visitor.posts_by(name, before, limit=40)
        stored |= {str(entry.id): entry.post.text for entry in page.entries}
        before = page.next
        if before is None:
            return stored


def _until_more(acknowledged: dict[str, str], number: int) -> None:
    wanted = len(acknowledged) + number
    deadline = time.monotonic() + _HANG_SECONDS
    while len(acknowledged) < wanted:
        assert time.monotonic() < deadline, "no further writes are acknowledged"
        time.sleep(0.02)
