"""The systemd units of server and workers: they are valid, have a low exposure score, and the confined server works.

systemd itself is not started: `tests/deploy/sandbox.py` applies the restrictions of the unit to a server process.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from shoal.multiprocess import service_manager
from tests.api.in_memory_network import picture
from tests.async_runner import eventually, run
from tests.deploy import sandbox
from tests.deploy.bare_debian import mounting_needed
from tests.deploy.programs import DEPLOY, program
from tests.server_process import children, first_url

UNITS = DEPLOY / "systemd"
SERVICES = ("shoal.service", "shoal-worker@.service")
MOST_EXPOSED = 1.5
"""Points of 10 in `systemd-analyze security`, lower is better; an unhardened service has 9.6."""


@pytest.mark.parametrize("name", [*SERVICES, "shoal-backup.service"])
def test_systemd_units_have_low_exposure_score(name: str) -> None:
    command = [program("systemd-analyze"), "security", "--offline=true", "--no-pager", str(UNITS / name)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", told)
    assert exposure is not None
    assert float(exposure[1]) <= (MOST_EXPOSED if name in SERVICES else 2.0), told


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_units_pass_systemd_analyze_verify(name: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text()
    (tmp_path / name).write_text(text.replace("/srv/shoal/venv/bin/shoal", "/bin/true").replace("User=shoal\n", ""))
    command = [program("systemd-analyze"), "verify", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_worker_unit_has_same_hardening_as_server_unit() -> None:
    def said(name: str) -> set[str]:
        lines = (UNITS / name).read_text().splitlines()
        own = ("ExecStart=", "Environment=", "TimeoutStopSec=", "Description=", "#")
        return {line for line in lines if not line.startswith(own)}

    assert said(SERVICES[0]) == said(SERVICES[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Create a folder for /srv/shoal outside /tmp, since PrivateTmp hides /tmp."""
    mounting_needed()
    program("systemd-analyze")
    path = Path(tempfile.mkdtemp(prefix="shoal-unit-", dir="/var/tmp"))  # not /tmp, see above
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_server_confined_by_systemd_unit_handles_signup_and_uploads(folder: Path) -> None:
    unit = folder / "shoal.service"
    unit.write_text((UNITS / "shoal.service").read_text().replace("/srv/shoal", str(folder)))
    (folder / "shoal.toml").write_text(f'store = "sqlite:///{folder}/shoal.db"\nport = 0\nrate_limits = false\n')
    (start,) = sandbox.lines(unit, "ExecStart")
    _, *arguments = shlex.split(start)
    outside = Path("/var/tmp", f"{folder.name}-outside")  # noqa: S108
    command = [sys.executable, "-m", "shoal.cli", *arguments]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(folder / "notify"))
    listener.settimeout(60)
    environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "600000"}
    launched = [sys.executable, sandbox.__file__, str(unit), "0", "--", *command]
    process = subprocess.Popen(["unshare", "--mount", *launched], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        url = first_url(process)
        told = [listener.recv(100)]
        while b"READY=1" not in told or told.count(b"WATCHDOG=1") < 4:
            told.append(listener.recv(100))
            assert len(told) < 100, set(told)
        assert set(told) == {b"READY=1", b"WATCHDOG=1"}
        status = Path(f"/proc/{process.pid}/status").read_text()
        for line in ("CapEff:\t0+", "CapBnd:\t0+", "NoNewPrivs:\t1", "Seccomp:\t2"):
            assert re.search(f"^{line}$", status, re.MULTILINE), (line, status)
        assert not _can_write(process.pid, outside)
        run(_used(url, folder))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
        listener.close()
        assert process.stdout is not None
        process.stdout.close()


def _can_write(pid: int, path: Path) -> bool:
    touched = subprocess.run(
        ["nsenter", f"--target={pid}", "--mount", "touch", str(path)], capture_output=True, text=True, check=False
    )
    return touched.returncode == 0


async def _used(url: str, folder: Path) -> None:
    """Sign up (hashes a password), upload a picture (decoded in a confined child) and, if ffmpeg is installed, a video."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        scopes = {"scopes": "read write"}
        asked = {"client_name": "x", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob", **scopes}
        app = await client.post("/api/v1/apps", data=asked)
        assert app.status_code == 200, app.text
        keys = {name: app.json()[name] for name in ("client_id", "client_secret")}
        entry = {"username": "ann", "email": "ann@example.org", "password": "a long password", "agreement": "true"}
        granted = await client.post(
            "/oauth/token", data={"grant_type": "client_credentials", "scope": "read write", **keys}
        )
        headers = {"Authorization": f"Bearer {granted.json()['access_token']}"}
        joined = await client.post("/api/v1/accounts", data={**entry, "locale": "en"}, headers=headers)
        assert joined.status_code == 200, joined.text
        client.headers["Authorization"] = f"Bearer {joined.json()['access_token']}"
        made = await client.post("/api/v2/media", files={"file": picture()})
        assert made.status_code == 200, made.text
        if shutil.which("ffmpeg"):
            await _upload_video(client, folder)
        posted = await client.post("/api/v1/statuses", data={"status": "hello", "media_ids[]": made.json()["id"]})
        assert posted.status_code == 200, posted.text


async def _upload_video(client: httpx.AsyncClient, folder: Path) -> None:
    film = folder / "film.mp4"
    drawn = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=1:size=64x64:rate=5", str(film)]
    await asyncio.to_thread(subprocess.run, drawn, check=True)
    sent = await client.post("/api/v2/media", files={"file": film.read_bytes()})
    assert sent.status_code in {200, 202}, sent.text

    async def done() -> int:
        return (await client.get(f"/api/v1/media/{sent.json()['id']}")).status_code

    await eventually(done, 200)


def test_server_unit_syscall_filter_denies_privileged_calls() -> None:
    allowed = sandbox.calls(UNITS / "shoal.service")
    assert {"openat", "execve", "clone3", "epoll_wait", "fdatasync", "setpriority", "prlimit64"} <= allowed
    assert not {"mount", "ptrace", "reboot", "init_module", "bpf", "setuid", "chroot", "sched_setscheduler"} & allowed


def test_service_manager_without_notify_socket_is_not_notified(tmp_path: Path) -> None:
    service_manager.ready({})
    service_manager.ready({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert service_manager.pause({"WATCHDOG_USEC": "600000"}) is None
    here = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "600000"}
    assert service_manager.pause({**here, "WATCHDOG_PID": str(os.getpid())}) == pytest.approx(0.2)
    assert service_manager.pause({**here, "WATCHDOG_PID": str(os.getppid())}) is None


def test_readiness_notification_waits_while_notification_queue_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, ThreadPoolExecutor(1) as threads:
        listener.bind(path)
        listener.settimeout(60)
        for _ in range(1000):
            service_manager.lives({"NOTIFY_SOCKET": path})
        sending = threads.submit(service_manager.ready, {"NOTIFY_SOCKET": path})
        with pytest.raises(TimeoutError):
            sending.result(0.1)
        for _ in range(1000):
            if listener.recv(100) == b"READY=1":
                break
        sending.result(60)


def test_watchdog_notifications_are_sent_by_server_process_itself_and_by_supervisor(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(60)
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "900000"}
    child = "import sys; from shoal.multiprocess.supervisor import Supervisor; Supervisor(['sleep', '60'], 1).run()"
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{tmp_path}/shoal.db", "serve", "--port", "0"]
    for words, hangs in ((command, True), ([sys.executable, "-c", child], False)):
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
            told = set[bytes]()
            for _ in range(100):
                told.add(listener.recv(100))
                if len(told) == 2:
                    break
            assert told == {b"READY=1", b"WATCHDOG=1"}
            if hangs:
                # A second process could keep reporting the hung server as alive.
                assert children(process.pid) == []
                process.send_signal(signal.SIGSTOP)
                while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                    time.sleep(0.01)
                process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    listener.close()
