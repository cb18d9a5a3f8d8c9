"""`shoal cluster`: starting a complete cluster, keeping its data, restarting processes and cleaning up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from shoal.cli import main
from shoal.core.errors import InvalidInput, Unavailable
from shoal_devcluster.cluster import Ports, clear, held
from tests.async_runner import at_a_desk
from tests.example_counts import DEEP
from tests.ops.test_supervisor import until

PASSWORD = "a long password"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that engines can access; its processes are stopped after the test."""
    path = Path(tempfile.mkdtemp(prefix="shoal-cluster-"))
    path.chmod(0o755)
    yield path
    clear(path)
    shutil.rmtree(path)


@contextmanager
def up(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `shoal cluster up` with one web process and one worker. Outside CI, the test is skipped without the engines."""
    command = [sys.executable, "-m", "shoal.cli", "cluster", "up", "--folder", str(folder), "--web", "1"]
    said = folder / "said"
    with said.open("wb") as out:
        process = subprocess.Popen([*command, "--workers", "1"], stdout=out, stderr=out, preexec_fn=at_a_desk)  # noqa: PLW1509
    try:
        until(lambda: b"Ctrl-C" in said.read_bytes() or process.poll() is not None, 300.0)
        if "is not installed" in said.read_text() and not os.environ.get("CI"):
            pytest.skip(said.read_text())
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)


def web_of(folder: Path) -> str:
    """Return the URL of the web process."""
    return f"http://127.0.0.1:{Ports(folder).known['web-1']}"


def shoal(folder: Path, *arguments: str) -> Result:
    """Run a command on the cluster."""
    return CliRunner().invoke(main, ["--config", str(folder / "shoal.toml"), *arguments], input=f"{PASSWORD}\n")


def down(folder: Path) -> Result:
    return CliRunner().invoke(main, ["cluster", "down", "--folder", str(folder)])


def token_of(client: httpx.Client, name: str) -> str:
    """Log in with the password grant and return the access token."""
    said = {"client_name": "test", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob", "scopes": "read write"}
    app = client.post("/api/v1/apps", json=said).json()
    asked = {key: app[key] for key in ("client_id", "client_secret")}
    asked |= {"grant_type": "password", "username": name, "password": PASSWORD, "scope": "read write"}
    token: str = client.post("/oauth/token", json=asked).json()["access_token"]
    return token


def running_in(folder: Path) -> set[int]:
    """Return the processes of the cluster, without its supervisor."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if folder in (entry / "cwd").readlink().parents:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def test_shoal_cluster_keeps_data_restarts_workers_and_leaves_no_processes(folder: Path) -> None:
    with up(folder) as process:
        assert shoal(folder, "member", "add", "ann", "--password-stdin").exit_code == 0
        with httpx.Client(base_url=web_of(folder), timeout=60) as client:
            bearer = {"Authorization": f"Bearer {token_of(client, 'ann')}"}
            post = client.post("/api/v1/statuses", json={"status": "still here"}, headers=bearer).json()["id"]
        worker = min(pid for pid in running_in(folder) if Path(f"/proc/{pid}/cwd").readlink() == folder / "worker-1")
        os.kill(worker, signal.SIGKILL)
        until(lambda: b"worker-1 exited" in (folder / "said").read_bytes())
        again = CliRunner().invoke(main, ["cluster", "up", "--folder", str(folder)])
        assert (again.exit_code, "stop it with `shoal cluster down`" in again.stderr) == (1, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not running_in(folder)
    with up(folder) as process:
        home = httpx.get(f"{web_of(folder)}/api/v1/timelines/home", headers=bearer, timeout=60).json()
        assert [status["id"] for status in home] == [post]
        assert shoal(folder, "check").exit_code == 0
        process.kill()
    assert running_in(folder), "no processes are left to clean up"
    if DEEP:
        with up(folder) as process:
            assert shoal(folder, "check").exit_code == 0
            process.kill()
    assert "stopped the cluster" in down(folder).output
    assert not running_in(folder)
    assert "no cluster is running" in down(folder).output


def test_cluster_folder_lock_is_exclusive(folder: Path) -> None:
    with held(folder), pytest.raises(Unavailable, match="is already running"), held(folder):
        pass
    with held(folder):
        pass


def test_cluster_folder_lock_kills_processes_left_by_dead_holder(folder: Path) -> None:
    home = folder / "engine"
    home.mkdir()
    left = subprocess.Popen(["sleep", "600"], cwd=home, start_new_session=True)
    with held(folder):
        assert left.wait(60) == -signal.SIGKILL


def test_cluster_folder_lock_does_not_kill_processes_of_other_programs(folder: Path) -> None:
    home = folder / "engine"
    home.mkdir()
    with subprocess.Popen(["sleep", "600"], cwd=home) as mine:
        with held(folder):
            assert mine.poll() is None
        mine.kill()


def test_cluster_ports_are_stable_and_damaged_file_is_refused(folder: Path) -> None:
    first = Ports(folder)
    ports = [first.get(name) for name in ("one", "two")]
    assert len(set(ports)) == 2
    again = Ports(folder)
    assert [again.get(name) for name in ("one", "two")] == ports
    (folder / "cluster.json").write_text("[")
    with pytest.raises(InvalidInput, match="gets new ports"):
        Ports(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="engines run as the current user unless started by root")
def test_cluster_folder_that_engine_processes_cannot_enter_is_refused(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(0o700)
    with pytest.raises(InvalidInput, match="name another --folder"), held(closed / "cluster"):
        pass
