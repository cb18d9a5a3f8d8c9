"""A reader's requests to the owner of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from shoal.app import readers as reading
from shoal.app.readers import Join, StoreReader, TokenUsed, Warm
from shoal.core.errors import NotFound, Unavailable
from shoal.core.tokens import Origin
from shoal.multiprocess.rpc import ServedCall, Service, serving
from shoal.multiprocess.shared_memory import SharedMemory
from tests.async_runner import eventually, in_loop

Message = Join | Warm | TokenUsed


@asynccontextmanager
async def reading_from_owner(path: Path) -> AsyncIterator[tuple[StoreReader, list[Message], asyncio.Event]]:
    """Open a reader; yield it with the messages sent to its owner and an event that releases warm-up requests."""
    asked: list[Message] = []
    warm = asyncio.Event()

    async def answer(body: msgspec.Raw, _call: ServedCall) -> bytes:
        asked.append(message := msgspec.msgpack.decode(body, type=Message))
        if isinstance(message, Warm):
            await warm.wait()
            if message.member != 7:
                raise NotFound("there is no such member")
        return b"\xc0"

    reader = StoreReader(SharedMemory.create(2, 1, 1), 1, path)
    async with serving(path, Service(answer)), reader.opened():
        yield reader, asked, warm


@in_loop
async def test_reader_process_timeline_request_after_timed_out_request_gets_its_own_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading_from_owner(tmp_path / "readers.sock") as (reader, asked, warm):
        monkeypatch.setattr(reading, "_WARM_SECONDS", 0.02)
        with pytest.raises(Unavailable, match="the timeline could not be materialized"):
            await reader.warm(7)
        monkeypatch.setattr(reading, "_WARM_SECONDS", 60.0)
        second = asyncio.create_task(reader.warm(7))
        await eventually(lambda: _length(asked), 2)
        warm.set()
        await second
        assert asked == [Warm(7), Warm(7)]


@in_loop
async def test_reader_process_timeline_request_with_failing_owner_raises_unavailable(tmp_path: Path) -> None:
    async with reading_from_owner(tmp_path / "readers.sock") as (reader, _, warm):
        warm.set()
        with pytest.raises(Unavailable, match="the timeline could not be materialized"):
            await reader.warm(8)


@in_loop
async def test_reader_process_without_owner_is_not_alive_and_reconnects(tmp_path: Path) -> None:
    path = tmp_path / "readers.sock"
    async with reading_from_owner(path) as (reader, _, _):
        assert reader.alive()
        reader._owner().link.close()
        assert not reader.alive()
        with pytest.raises(Unavailable):
            await reader.warm(7)
        await eventually(lambda: _alive(reader), answer=True)


@in_loop
async def test_reader_process_reports_access_token_use_to_owner(tmp_path: Path) -> None:
    async with reading_from_owner(tmp_path / "readers.sock") as (reader, asked, _):
        reader.used(12, Origin("192.0.2.1", "Tide"))
        await eventually(lambda: _length(asked), 1)
        assert asked == [TokenUsed(12, tuple(Origin("192.0.2.1", "Tide")))]


async def _length(of: list[Message]) -> int:
    return len(of)


async def _alive(reader: StoreReader) -> bool:
    return reader.alive()
