"""Updates on the tag cloud: another process shows a new version without polling, and a lost update only delays it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from shoal import Shoal
from shoal.app import tag_updates
from shoal.app.network import Network, open_network
from shoal.app.shared import HostProcess, open_host_process
from shoal.core.errors import Unavailable
from shoal.mastodon_api.context import AppContext
from shoal.multiprocess.shared_memory import OWNER, SharedMemory
from shoal.settings import build
from shoal.streaming.contract import MemoryChannel
from shoal.tagcloud import reader
from shoal.tagcloud.contract import encode
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.rules import denying
from tests.async_runner import in_loop
from tests.engines import postgres, redis
from tests.tagcloud.factories import Clock, count_into, increment_of, uses
from tests.tagcloud.reading_process import CONNECTED

NEVER = 3_600.0
KINDS = ["sqlite", "redis"]
WAIT_SECONDS = 60


class Pair:
    """A network whose collector runs in this process, and another process that shows its tag cloud."""

    def __init__(self, network: Network, process: asyncio.subprocess.Process) -> None:
        self.network = network
        self._process = process

    async def merge(self, text: str) -> None:
        """Merge the tags of a text as one version."""
        counting = self.network.counting
        increment = increment_of(uses(text, 1))
        await counting.transport.send(increment.id, encode(increment))
        await counting.settle(collecting=False)

    async def shown(self) -> list[str]:
        """Return the next line of the other process: a version, and the names of its tags in alphabetical order."""
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            version, *names = (await self._process.stdout.readline()).decode().split()
        return [version, *sorted(names)]


async def settings_of(kind: str, folder: Path, owner: object) -> dict[str, Any]:
    """Return the settings of a network for several processes; a database belongs to the owner."""
    common = {"media": f"file://{folder}"}
    if kind == "sqlite":
        return {**common, "store": f"sqlite:///{folder / 'shoal.db'}", "timeline_members": 10}
    return {**common, "store": await postgres.database(owner), "timelines": redis.single()}


@asynccontextmanager
async def a_pair(kind: str, folder: Path, poll_seconds: float = NEVER) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        given = await settings_of(kind, folder, stack)
        settings = build(**given)
        descriptors: list[int] = []
        host_process: HostProcess | None = None
        if kind == "sqlite":
            memory = SharedMemory.create(2, settings.timeline_members, settings.timeline_length)
            stack.callback(os.close, memory.number)
            descriptors, host_process = [memory.number], open_host_process(settings, memory, OWNER)
        network = await stack.enter_async_context(open_network(settings, background=False, host_process=host_process))
        if host_process is not None:
            assert host_process.owner is not None
            await stack.enter_async_context(host_process.owner.met(_refuse, cast("AppContext", None)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.tagcloud.reading_process"),
            *(str(poll_seconds), msgspec.json.encode(given).decode(), *map(str, descriptors)),
            stdout=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
        )
        pair = Pair(network, process)
        try:
            assert await pair.shown() == [CONNECTED]
            assert await pair.shown() == ["0"]
            yield pair
        finally:
            process.kill()
            await process.wait()


async def _refuse(*_: object) -> None:
    raise AssertionError("no connection is passed")


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_tag_cloud_merge_is_shown_by_another_process_without_polling(kind: str, tmp_path: Path) -> None:
    async with a_pair(kind, tmp_path) as pair:
        await pair.merge("dawn")
        assert await pair.shown() == ["1", "dawn"]
        await pair.merge("dawn tide")
        assert await pair.shown() == ["2", "dawn", "tide"]


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_tag_cloud_rule_is_applied_by_another_process_without_polling(kind: str, tmp_path: Path) -> None:
    async with a_pair(kind, tmp_path) as pair:
        await pair.merge("dawn tide")
        assert await pair.shown() == ["1", "dawn", "tide"]
        await pair.network.tags.rule(denying("dawn"))
        assert await pair.shown() == ["2", "tide"]


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_tag_cloud_version_of_lost_update_is_shown_with_next_update(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pair(kind, tmp_path) as pair:
        with monkeypatch.context() as lost:
            lost.setattr(pair.network.counting.updates, "publish", _lose)
            await pair.merge("dawn")
        await pair.merge("tide")
        assert await pair.shown() == ["2", "dawn", "tide"]


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_tag_cloud_version_of_lost_update_is_shown_after_poll(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pair(kind, tmp_path, poll_seconds=0.1) as pair:
        monkeypatch.setattr(pair.network.counting.updates, "publish", _lose)
        await pair.merge("dawn")
        assert await pair.shown() == ["1", "dawn"]


async def _lose(_version: int) -> None:
    """Lose the update, like a collector that is killed after the merge."""


@in_loop
async def test_tag_cloud_live_iteration_yields_each_new_version_until_network_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_UPDATED_POLL_SECONDS", NEVER)
    async with asyncio.timeout(WAIT_SECONDS):
        async with Shoal.open("memory://", tag_merge_seconds=0.0) as shoal:
            ann = await shoal.register("ann")
            versions = shoal.tags.live()
            assert await anext(versions) == 0
            await ann.create("#dawn")
            seen = await anext(versions)
            assert seen > 0
            assert [word.name for word in (await shoal.tags.cloud()).words] == ["dawn"]
            await shoal.settle()
            waiting = asyncio.ensure_future(anext(versions, None))
            await asyncio.sleep(0)
        assert await waiting is None


@pytest.mark.parametrize(("refresh", "shown"), [("notify", ["dawn"]), ("poll", [])])
@in_loop
async def test_tag_cloud_refresh_setting_selects_updates_or_polling(refresh: str, shown: list[str]) -> None:
    settings = build(store="memory://", media="memory://", tag_cloud_refresh=refresh)
    async with open_network(settings, background=False) as network:
        tags, clock = network.tags, Clock()
        tags.clock = clock
        for _ in range(2):
            assert not (await tags.cloud()).words
            clock.now += 1_000
        clock.now -= 500
        await count_into(cast("MemoryCloud", network.tag_store), uses("dawn", 1), updates=network.counting.updates)
        assert [word.name for word in (await tags.cloud()).words] == shown
        clock.now += 500
        assert [word.name for word in (await tags.cloud()).words] == ["dawn"]


class Unreachable(MemoryChannel):
    """A channel that refuses every message, or does not answer."""

    def __init__(self, *, answers: bool) -> None:
        super().__init__()
        self._answers = answers

    async def publish(self, message: bytes) -> None:
        if self._answers:
            raise Unavailable("the channel is away")
        await asyncio.Event().wait()


@pytest.mark.parametrize("answers", [True, False])
@in_loop
async def test_tag_cloud_merge_succeeds_while_update_log_is_unreachable(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tag_updates, "_PUBLISH_SECONDS", 0.01)
    store = MemoryCloud()
    await count_into(store, uses("dawn", 1), updates=tag_updates.ChannelUpdates(Unreachable(answers=answers)))
    assert await store.version() == 1
