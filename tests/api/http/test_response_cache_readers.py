"""Responses of a reader process equal those of the uncached owner process after any change."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from shoal import settings as configuration
from shoal.app.network import open_network
from shoal.app.shared import HostProcess, open_host_process
from shoal.core.errors import Unavailable
from shoal.graph.cache.change_log import FollowedLog, OwnersLog
from shoal.graph.cache.dependencies import ReadSet
from shoal.multiprocess.shared_memory import SharedMemory
from shoal.queries import home
from tests.api.http.response_cache_scenario import HOME, FrontEnd, Story, differs, never_old, told
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.example_counts import DEEP, examples


async def _no_connection(sock: socket.socket, _data: bytes) -> None:
    sock.close()


STEPS = 120 if DEEP else 60


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[tuple[NetworkFixture, FrontEnd, FrontEnd]]:
    """Yield a network on SQLite, the front end of a reader process, and an uncached front end of the owner."""
    store = f"sqlite:///{folder / 'shoal.db'}"
    settings = configuration.load({}, store=store, rate_limits=False)
    memory = SharedMemory.create(2, 16, 800)
    owner, reader = (open_host_process(settings, memory, place) for place in range(2))
    with network_fixture(owner, store=store) as here:
        stack = AsyncExitStack()
        fresh = FrontEnd(here, 0)
        try:
            read = here.run(_opened(stack, here, fresh, owner, reader))
            with contextlib.closing(read), contextlib.closing(fresh):
                yield here, read, fresh
        finally:
            here.run(stack.aclose())


async def _opened(
    stack: AsyncExitStack, here: NetworkFixture, fresh: FrontEnd, owner: HostProcess, reader: HostProcess
) -> FrontEnd:
    assert owner.owner is not None
    assert reader.reader is not None
    await stack.enter_async_context(owner.owner.met(_no_connection, fresh.app_context))
    await stack.enter_async_context(reader.reader.opened())
    network = await stack.enter_async_context(open_network(here.network.settings, read_only=True, host_process=reader))
    reads = never_old(network, network.reads)
    app_parts = replace(
        here.app_parts, store=network.store, writes=network.writes, reads=reads, tell_use=reader.reader.used
    )
    return FrontEnd(here, 64_000, app_parts)


def played(folder: Path, seed: int, steps: int = STEPS) -> str:
    """Perform random actions; return the first difference of a cached page from a fresh one, or an empty text."""
    with beside(folder) as (here, read, fresh):
        story = Story(here, seed)
        return told(story, steps, read, lambda: differs(story, read, fresh))


@pytest.mark.parametrize("seed", range(examples(1, full=3)))
def test_reader_process_cache_returns_same_pages_as_uncached_owner(tmp_path: Path, seed: int) -> None:
    assert played(tmp_path, seed) == ""


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (ReadSet, "note_objects"),
        (ReadSet, "note_lists"),
        (home, "depends_on"),
        (OwnersLog, "note"),
        (FollowedLog, "unchanged"),
        (FollowedLog, "newly_changed"),
    ],
)
def test_reader_process_cache_test_detects_missing_change_notification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, what: str
) -> None:
    said: dict[str, object] = {"unchanged": True, "newly_changed": []}
    monkeypatch.setattr(where, what, lambda *_: said.get(what))
    stories = (tmp_path / str(seed) for seed in range(3))
    assert any(_differs(folder, seed) for seed, folder in enumerate(stories))


def _differs(folder: Path, seed: int) -> str:
    folder.mkdir()
    try:
        return played(folder, seed)
    except (KeyError, AssertionError) as error:
        return repr(error)


def test_reader_process_without_owner_process_disables_cache_and_pulls_timelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with beside(tmp_path) as (here, read, fresh):
        ann, ben = here.join("ann"), here.join("ben")
        here.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
        here.json("POST", "/api/v1/statuses", ben, json={"status": "Low tide"})
        here.settle()
        assert [len(read.ask(HOME, ann.token).json()) for _ in range(3)] == [1, 1, 1]

        async def gone(_member: int) -> None:
            raise Unavailable("the owner has gone")

        monkeypatch.setattr(read.app_context.reads.timelines, "_warm", gone)
        monkeypatch.setattr(FollowedLog, "alive", property(lambda _: False))
        monkeypatch.setattr(FollowedLog, "newly_changed", lambda _: [])
        monkeypatch.setattr(OwnersLog, "note", lambda *_: None)
        here.json("POST", "/api/v1/statuses", ben, json={"status": "High tide"})
        here.run(here.network.timelines.drop((ann.member.id,)))
        assert read.ask(HOME, ann.token).json() == fresh.ask(HOME, ann.token).json()
        assert len(read.ask(HOME, ann.token).json()) == 2
