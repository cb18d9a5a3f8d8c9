"""Files with data or secrets are accessible only to their owner, independent of the umask."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shoal import private_files
from shoal.admin.control import listening
from shoal.admin.export_writer import export_target
from shoal.app.network import open_network
from shoal.app.paths import control_path
from shoal.commands import media, members, posts
from shoal.commands.posts import Draft
from shoal.settings import Settings, build
from shoal_demo import cli
from shoal_devcluster import cluster as cluster_folder
from shoal_devcluster.cluster import _write
from shoal_devcluster.program import Program
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    """Set a umask that allows access to all users."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of each file that other users can access."""
    return {
        str(path.relative_to(folder)): stat.filemode(path.lstat().st_mode)
        for path in folder.rglob("*")
        if stat.S_IMODE(path.lstat().st_mode) & 0o077
    }


def names_in(folder: Path) -> set[str]:
    """Return the names of all files in a folder."""
    return {path.name for path in folder.rglob("*")}


def open_up(folder: Path) -> None:
    """Make all files of a folder readable for all users, as a usual umask does."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


async def a_network(folder: Path) -> set[str]:
    """Run a network that creates files of every kind; return their names."""
    settings = build(store=f"sqlite:///{folder / 'shoal.db'}")
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(open_network(settings))
        path = control_path(settings)
        assert path is not None
        await stack.enter_async_context(listening(network, path))
        ann = await members.register(network.writes, "ann")
        uploaded = await media.upload(network.writes, ann.id, picture())
        await posts.create(network.writes, ann.id, Draft(text="low #tide", media=(uploaded.id,)))
        await network.settle()
        assert modes(folder) == {}
        return names_in(folder)


@in_loop
async def test_network_files_are_private_to_their_owner(tmp_path: Path) -> None:
    names = await a_network(tmp_path)
    for name in (
        "shoal.db",
        "shoal.db-wal",
        "shoal.db-shm",
        "shoal.db-lock",
        "shoal.db.sock",
        "shoal.db.tags",
        "shoal.db.media",
    ):
        assert name in names
    assert any("search" in name for name in names)
    assert any(name.endswith((".jpg", ".png")) for name in names), "no picture was stored"
    assert modes(tmp_path) == {}


@in_loop
async def test_network_files_with_open_permissions_become_private_on_open(tmp_path: Path) -> None:
    await a_network(tmp_path)
    open_up(tmp_path)
    settings = build(store=f"sqlite:///{tmp_path / 'shoal.db'}")
    async with open_network(settings):
        # Files below the media directory are unreachable, because the directory itself is private.
        assert all(name.startswith("shoal.db.media/") for name in modes(tmp_path)), modes(tmp_path)


@pytest.fixture
def reached() -> Iterator[Path]:
    """A folder that is accessible to other users, such as those of engines."""
    path = Path(tempfile.mkdtemp(prefix="shoal-private-"))
    path.chmod(0o755)
    yield path
    cluster_folder.clear(path)
    shutil.rmtree(path)


def test_demo_and_cluster_files_are_private_to_their_owner(reached: Path) -> None:
    folder = reached / "demo"
    private_files.make_folder(folder)
    cli.remember(folder, cli.Demo(1, 2, 3, 4))
    cli.clear(folder)
    cli.remember(folder, cli.Demo(1, 2, 3, 4))
    with cluster_folder.held(reached / "cluster") as held:
        cluster_folder.Ports(held).get("web")
        _write(held / "shoal.toml", Settings(broker="amqp://user:password@127.0.0.1/"))
        program = Program("true", ["/bin/sh", "-c", "echo x > made; mkdir sub"], held, answers=lambda: True)
        program.start()
        program.stop()
    found = modes(reached)
    # If the tests run as root, engines run as other users and need access to their own folders.
    assert found.pop("cluster", "drwx--x--x") == "drwx--x--x"
    assert found == {}
    assert {"cluster.json", "cluster.lock", "shoal.toml", "true.log"} <= {path.name for path in held.iterdir()}


@pytest.mark.parametrize("name", ["export", "export.zip"])
def test_export_files_are_private_to_their_owner(tmp_path: Path, name: str) -> None:
    with export_target(tmp_path / name) as opened, opened("media/one.jpg") as file:
        file.write(b"x")
    assert (tmp_path / name).exists()
    assert modes(tmp_path) == {}


def test_private_file_keeps_owner_permissions_and_missing_file_is_ignored(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("x")
    script.chmod(0o755)
    private_files.narrow(script)
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    private_files.narrow(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
