"""A reader's requests to the owner of the store."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shoal.app import readers as reading
from shoal.app.readers import StoreReader
from shoal.core.errors import Unavailable
from shoal.multiprocess.messages import WARM, WARMED, ProcessLink, ProcessMessage, at, bound
from shoal.multiprocess.shared_memory import SharedMemory
from tests.running import eventually, in_loop


@asynccontextmanager
async def reading_from_owner(path: Path) -> AsyncIterator[tuple[StoreReader, ProcessLink, list[ProcessMessage]]]:
    """A reader, the owner's side of its link, and what the owner was sent."""
    asked: list[ProcessMessage] = []
    with at(path) as address:
        listener = bound(address, socket.SOCK_SEQPACKET)
    listener.listen()
    reader = StoreReader(SharedMemory.create(2, 1, 1), 1, path)
    async with reader.opened():
        owner = ProcessLink(listener.accept()[0], asked.append, lambda: None)
        yield reader, owner, asked
        owner.close()
    listener.close()


@in_loop
async def test_warm_after_an_earlier_request_timed_out_gets_the_answer_to_its_own_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading_from_owner(tmp_path / "readers.sock") as (reader, owner, asked):

        async def requests() -> int:
            return len([message for message in asked if message.kind == WARM])

        def warming(seconds: float) -> asyncio.Task[None]:
            monkeypatch.setattr(reading, "_WARM_SECONDS", seconds)
            return asyncio.create_task(reader.warm(7))

        first = warming(0.02)
        await eventually(requests, 1)
        joined = warming(0.3)
        with pytest.raises(Unavailable):
            await first
        second = warming(10.0)
        await eventually(requests, 2)
        with pytest.raises(Unavailable):
            await joined
        owner.send(WARMED, (7).to_bytes(8, "big") + b"\x01")
        await second


@in_loop
async def test_warm_is_answered_after_an_earlier_caller_for_the_same_member_timed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading_from_owner(tmp_path / "readers.sock") as (reader, owner, _):
        monkeypatch.setattr(reading, "_WARM_SECONDS", 0.02)
        first = asyncio.create_task(reader.warm(7))
        await asyncio.sleep(0)
        monkeypatch.setattr(reading, "_WARM_SECONDS", 10.0)
        joined = asyncio.create_task(reader.warm(7))
        with pytest.raises(Unavailable):
            await first
        owner.send(WARMED, (7).to_bytes(8, "big") + b"\x01")
        async with asyncio.timeout(5):
            await joined
