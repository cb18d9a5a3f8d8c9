"""Collectors that are killed or paused while they hold the lock: another one takes over within seconds, and counts stay exact."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shoal.core.errors import Unavailable
from shoal.tagcloud.collection import Collector
from shoal.tagcloud.contract import CloudStore, Increment, TagChange, Transport, Use, encode
from shoal.tagcloud.lease import locked
from tests.async_runner import eventually, in_loop
from tests.engines import rabbitmq
from tests.tagcloud.collector_process import CHANGES, open_transport
from tests.tagcloud.recount import differences, horizon_at, recounted, stored_rows
from tests.tagcloud.stores import AT, DURABLE_CLOUDS, CloudBackend, increment_id, merge, row
from tests.tiers import deep

PARTS = 5
USES = [Use(post + 1, 1, 7, AT, AT, (TagChange(f"tag{post % 90}", "Tag", 1),)) for post in range(PARTS * CHANGES)]
INCREMENT = Increment(increment_id(1), b"emitter", AT, tuple(USES))
TAKEOVER_SECONDS = 60.0
"""Maximum time until the lock of a dead holder is free: 3 seconds, and time for a busy machine."""


class TakeoverFixture:
    """A store and a transport with one large increment, and another process whose collector works step by step."""

    def __init__(self, store: CloudStore, transport: Transport, process: asyncio.subprocess.Process) -> None:
        self.store = store
        self.process = process
        self.transport = transport
        self.collector = Collector(store, transport, changes=CHANGES, seconds=0.0, clock=lambda: AT)

    async def reaches(self, step: str) -> None:
        """Wait until the process waits at a step."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            assert (await self.process.stdout.readline()).decode().strip() == step

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    async def writes(self, parts: int) -> None:
        """Let the process write versions."""
        for _ in range(parts):
            await self.reaches("write")
            self.go_on()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def merge_rest(self) -> None:
        """Merge with the collector of this process until the increment is acknowledged; check that each use is counted once."""
        self.collector.start()
        try:
            await eventually(self.transport.waiting, 0)
        finally:
            await self.collector.stop()
        stored = await stored_rows(self.store)
        assert not differences(stored, recounted(USES, horizon_at(AT)), AT)
        assert sum(found.n for found in stored.values()) == len(USES)
        # Neither process has written a version without new uses.
        assert await self.store.version() == PARTS


async def taken_after(store: CloudStore) -> float:
    """Return how long another holder's lock keeps this process from merging."""
    began = time.monotonic()
    while True:
        async with locked(store) as token:
            if token:
                return time.monotonic() - began
        await asyncio.sleep(0.02)


@asynccontextmanager
async def staged(name: str, carrier: str, folder: Path) -> AsyncIterator[TakeoverFixture]:
    backend = CloudBackend(name, folder)
    broker, namespace = (rabbitmq.node().url, rabbitmq.namespace()) if carrier == "rabbitmq" else ("", "")
    async with backend.open() as store:
        transport = await open_transport(store, broker, namespace)
        await transport.send(INCREMENT.id, encode(INCREMENT))
        command = [sys.executable, "-m", "tests.tagcloud.collector_process", name, await backend.url()]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, broker, namespace, stdin=pipe, stdout=pipe)
        try:
            yield TakeoverFixture(store, transport, process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await transport.close()


@pytest.mark.parametrize("carrier", ["inbox", "rabbitmq"])
@pytest.mark.parametrize("name", DURABLE_CLOUDS)
@in_loop
async def test_tag_collector_killed_between_parts_of_increment_is_replaced_and_uses_count_once(
    name: str, carrier: str, tmp_path: Path
) -> None:
    async with staged(name, carrier, tmp_path) as fixture:
        await fixture.writes(2)
        await fixture.reaches("write")
        await fixture.kill()
        assert await taken_after(fixture.store) < TAKEOVER_SECONDS
        assert await fixture.store.version() == 2
        await fixture.merge_rest()


@pytest.mark.parametrize("carrier", ["inbox", *deep("rabbitmq")])
@pytest.mark.parametrize("name", DURABLE_CLOUDS)
@in_loop
async def test_tag_collector_killed_before_acknowledging_increment_counts_its_uses_once(
    name: str, carrier: str, tmp_path: Path
) -> None:
    async with staged(name, carrier, tmp_path) as fixture:
        await fixture.writes(PARTS)
        await fixture.reaches("done")
        await fixture.kill()
        assert await taken_after(fixture.store) < TAKEOVER_SECONDS
        await fixture.merge_rest()


@pytest.mark.parametrize("name", DURABLE_CLOUDS)
@in_loop
async def test_tag_collector_paused_until_another_takes_the_lock_cannot_write(name: str, tmp_path: Path) -> None:
    async with staged(name, "inbox", tmp_path) as fixture:
        await fixture.writes(2)
        await fixture.reaches("write")
        fixture.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        while True:
            async with locked(fixture.store) as token:
                if token:
                    assert time.monotonic() - began < TAKEOVER_SECONDS
                    # The version is still the next one: only the fencing token tells that the process is late.
                    fixture.go_on()
                    fixture.process.send_signal(signal.SIGCONT)
                    await fixture.reaches("overtaken")
                    assert await fixture.store.version() == 2
                    break
            await asyncio.sleep(0.02)
        await fixture.reaches("write")
        await fixture.kill()
        await fixture.merge_rest()


@in_loop
async def test_postgres_tag_store_writer_paused_in_transaction_does_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, paused, resumed = CloudBackend("postgres", tmp_path), asyncio.Event(), asyncio.Event()
    execute = asyncpg.Connection.execute

    async def pause(connection: Any, *args: Any) -> Any:
        if connection.is_in_transaction() and not paused.is_set():
            paused.set()
            await resumed.wait()
        return await execute(connection, *args)

    async with backend.open() as late, backend.open() as other:
        assert await late.lock(b"late")
        monkeypatch.setattr(asyncpg.Connection, "execute", pause)
        began = time.monotonic()
        writing = asyncio.create_task(late.write(merge(1, rows=[row("late", 1)]), b"late"))
        try:
            await paused.wait()
            await taken_after(other)
            await other.write(merge(1, rows=[row("other", 1)]))
            assert time.monotonic() - began < TAKEOVER_SECONDS
        finally:
            resumed.set()
        with pytest.raises(Unavailable):
            await writing
        assert [found.name for found in await late.scan(-(2**63), 5)] == ["other"]
