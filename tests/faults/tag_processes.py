"""An emitter and a collector for separate processes, which tests kill and restart.

The jobs of an emitter are in the file `share-<number>` of a folder. The emitter records the numbers of safe jobs in
`safe-<number>`, and skips these jobs after a restart: as with an outbox, a job is done once this is recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.tagcloud.collection import Collector, Emitter
from shoal.tagcloud.contract import DAY_MS, Use
from shoal.tagcloud.rabbitmq import RabbitTransport
from shoal.tagcloud.sqlite import SqliteCloud

NOW = 20_500 * DAY_MS + 5_000_000
"""The time of all processes, in Unix ms."""
_AT_ONCE = 4


class Job(msgspec.Struct, array_like=True):
    """A batch of uses."""

    number: int
    uses: list[Use]


class SharedBroker(NamedTuple):
    """The broker and the folder that emitters and collectors share."""

    url: str
    namespace: str
    folder: Path
    parts: int = 1
    """The divisor of the merge thresholds, so that a test with a fraction of the uses has as many versions."""

    @property
    def cloud(self) -> Path:
        """Return the path of the store that collectors share."""
        return self.folder / "cloud.db"

    def hand_out(self, emitter: int, jobs: Sequence[Job]) -> None:
        """Write the jobs of an emitter, before its first start."""
        (self.folder / f"share-{emitter}").write_bytes(msgspec.msgpack.encode(jobs))

    def share(self, emitter: int) -> list[Job]:
        """Return all jobs of an emitter."""
        return msgspec.msgpack.decode((self.folder / f"share-{emitter}").read_bytes(), type=list[Job])

    def safe(self, emitter: int) -> set[int]:
        """Return the numbers of this emitter's safe jobs."""
        path = self.folder / f"safe-{emitter}"
        return {int(line) for line in path.read_text().split()} if path.exists() else set()

    def note(self, emitter: int, job: Job) -> None:
        """Record a job as safe."""
        with (self.folder / f"safe-{emitter}").open("a") as file:
            file.write(f"{job.number}\n")


def emit(shared: SharedBroker, number: int) -> None:
    """Send the jobs that are not recorded as safe, until all of them are."""
    logging.disable(logging.CRITICAL)
    asyncio.run(_emit(shared, number))


async def _emit(shared: SharedBroker, number: int) -> None:
    known = shared.safe(number)
    left = [job for job in shared.share(number) if job.number not in known]
    transport = await RabbitTransport.open(shared.url, shared.namespace, collecting=False)
    emitter = Emitter(transport.send, changes=60, seconds=0.02, clock=lambda: NOW)
    while left:
        at_once, left = left[:_AT_ONCE], left[_AT_ONCE:]
        sending = [(job, [emitter.count(use) for use in job.uses]) for job in at_once]
        for job, futures in sending:
            if any(isinstance(answer, Exception) for answer in await asyncio.gather(*futures, return_exceptions=True)):
                left.append(job)
            else:
                shared.note(number, job)
    await transport.close()


def collect(shared: SharedBroker) -> None:
    """Merge until killed."""
    logging.disable(logging.CRITICAL)
    asyncio.run(_collect(shared))


async def _collect(shared: SharedBroker) -> None:
    store = await SqliteCloud.open(shared.cloud)
    transport = await RabbitTransport.open(
        shared.url, shared.namespace, collecting=True, prefetch=300, check_seconds=0.1
    )
    # A collector killed during a merge blocks the others for half a second.
    collector = Collector(
        store,
        transport,
        changes=4_000 // shared.parts,
        increments=150 // shared.parts,
        seconds=0.3 / shared.parts,
        lock_seconds=0.5,
        clock=lambda: NOW,
    )
    await collector.run()
