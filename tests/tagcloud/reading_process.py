"""A process that shows the tag cloud: `python -m tests.tagcloud.reading_process POLL_SECONDS SETTINGS [MEMORY]`.

It reads the cloud every few milliseconds and prints each version that it sees, with the names of its tags. While it receives
updates, it polls the store after POLL_SECONDS. SETTINGS is a JSON object. MEMORY is the descriptor of the memory that this process,
a reader, shares with the owner of the store.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

import msgspec

from shoal.app.network import open_network
from shoal.app.shared import open_host_process
from shoal.multiprocess.shared_memory import SharedMemory
from shoal.settings import build
from shoal.tagcloud import reader
from tests.async_runner import eventually

READER = 1
CONNECTED = "connected"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(settings_json: str, memory: str = "") -> None:
    settings = build(**msgspec.json.decode(settings_json))
    async with AsyncExitStack() as stack:
        host_process = None
        if memory:
            host_process = open_host_process(settings, SharedMemory.attach(int(memory)), READER)
            assert host_process.reader is not None
            await stack.enter_async_context(host_process.reader.opened())
        network = await stack.enter_async_context(
            open_network(settings, read_only=bool(memory), background=False, host_process=host_process)
        )

        async def connected() -> bool:
            """Return whether the version was checked since the process receives updates."""
            await network.tags.cloud()
            held, update = network.tags._cached, network.counting.updates.newest()
            return held is not None and update is not None and held.update == update

        await eventually(connected, answer=True)
        _say(CONNECTED)
        seen = -1
        while True:
            shown = await network.tags.cloud()
            if shown.version != seen:
                seen = shown.version
                _say(" ".join([str(seen), *(word.name for word in shown.words)]))
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    reader._UPDATED_POLL_SECONDS = float(sys.argv[1])
    asyncio.run(main(*sys.argv[2:]))
