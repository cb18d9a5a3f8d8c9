"""A reader's requests to the owner of the store."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from shoal.core.errors import Unavailable
from shoal.ops.socket_files import at, bound
from shoal.readers import reader as reading
from shoal.readers.link import WARM, WARMED, ProcessLink, ProcessMessage
from shoal.readers.memory import SharedMemory
from shoal.readers.reader import StoreReader
from tests.running import eventually, in_loop


@in_loop
async def test_warm_after_an_earlier_request_timed_out_gets_the_answer_to_its_own_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "readers.sock"
    asked: list[ProcessMessage] = []
    with at(path) as address:
        listener = bound(address, socket.SOCK_SEQPACKET)
    listener.listen()
    reader = StoreReader(SharedMemory.create(2, 1, 1), 1, path)
    async with reader.opened():
        owner = ProcessLink(listener.accept()[0], asked.append, lambda: None)

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
        owner.close()
    listener.close()
