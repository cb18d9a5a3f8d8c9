"""A collector that waits before and after each version: `python -m tests.tagcloud.collector_process KIND URL BROKER NAMESPACE`.

Before it writes a version, and before it acknowledges increments, it prints `write` or `done` and continues when it reads a line.
It prints `overtaken` if the store refuses a version. Without BROKER, the increments are in the inbox of the store.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from shoal.tagcloud.collection import Collector, Inbox
from shoal.tagcloud.contract import Merge, Overtaken, Parcel, Transport
from shoal.tagcloud.rabbitmq import RabbitTransport
from tests.engines.dynamodb import CREDENTIALS
from tests.tagcloud.stores import AT, opened

CHANGES = 20
"""The most tags of a merge."""


def _wait(step: str) -> None:
    """Wait in the thread of the event loop, like a process that is paused: the lock is not renewed."""
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def _stepping(store: Any, transport: Any) -> None:
    write: Callable[..., Any] = store.write
    done: Callable[..., Any] = transport.done

    async def write_stepping(merge: Merge, holder: bytes = b"") -> None:
        _wait("write")
        try:
            await write(merge, holder)
        except Overtaken:
            sys.stdout.write("overtaken\n")
            sys.stdout.flush()
            raise

    async def done_stepping(parcels: Sequence[Parcel]) -> None:
        if parcels:
            _wait("done")
        await done(parcels)

    store.write, transport.done = write_stepping, done_stepping


async def open_transport(store: Any, broker: str, namespace: str) -> Transport:
    """Return the transport of a collector."""
    if broker:
        return await RabbitTransport.open(broker, namespace, collecting=True, check_seconds=0.1)
    return Inbox(store, 0.02)


async def main() -> None:
    """Merge until the process is killed."""
    kind, url, broker, namespace = sys.argv[1:]
    os.environ.update(CREDENTIALS)
    store = await opened(kind, url)
    transport = await open_transport(store, broker, namespace)
    _stepping(store, transport)
    await Collector(store, transport, changes=CHANGES, seconds=0.0, clock=lambda: AT).run()


if __name__ == "__main__":
    asyncio.run(main())
