"""An emitter and a collector as they are run in processes of their own, which are killed and started anew.

Jobs lie in `share-<number>` of a folder. An emitter writes the numbers of those that are safe to `safe-<number>`, and skips them
when it starts again: as with an outbox, a job is done when that is written down, and not before.
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
"""The clock of all of them, in Unix ms."""
_AT_ONCE = 4


class Job(msgspec.Struct, array_like=True):
    """Uses that are handed over together."""

    number: int
    uses: list[Use]


class Place(NamedTuple):
    """Where they meet."""

    url: str
    namespace: str
    folder: Path
    parts: int = 1
    """With a part of the uses, collectors merge so much earlier: there are as many versions."""

    @property
    def cloud(self) -> Path:
        """The store that collectors share."""
        return self.folder / "cloud.db"

    def hand_out(self, emitter: int, jobs: Sequence[Job]) -> None:
        """Give an emitter its jobs, before it is started for the first time."""
        (self.folder / f"share-{emitter}").write_bytes(msgspec.msgpack.encode(jobs))

    def share(self, emitter: int) -> list[Job]:
        """All jobs of an emitter."""
        return msgspec.msgpack.decode((self.folder / f"share-{emitter}").read_bytes(), type=list[Job])

    def safe(self, emitter: int) -> set[int]:
        """Return the increments of this emitter that are safe."""
        path = self.folder / f"safe-{emitter}"
        return {int(line) for line in path.read_text().split()} if path.exists() else set()

    def note(self, emitter: int, job: Job) -> None:
        """This one is safe too."""
        with (self.folder / f"safe-{emitter}").open("a") as file:
            file.write(f"{job.number}\n")


def emit(place: Place, number: int) -> None:
    """Send what is not known to be safe; ends when everything is."""
    logging.disable(logging.CRITICAL)
    asyncio.run(_emit(place, number))


async def _emit(place: Place, number: int) -> None:
    known = place.safe(number)
    left = [job for job in place.share(number) if job.number not in known]
    transport = await RabbitTransport.open(place.url, place.namespace, collecting=False)
    emitter = Emitter(transport.send, changes=60, seconds=0.02, clock=lambda: NOW)
    while left:
        at_once, left = left[:_AT_ONCE], left[_AT_ONCE:]
        sending = [(job, [emitter.count(use) for use in job.uses]) for job in at_once]
        for job, futures in sending:
            if any(isinstance(answer, Exception) for answer in await asyncio.gather(*futures, return_exceptions=True)):
                left.append(job)
            else:
                place.note(number, job)
    await transport.close()


def collect(place: Place) -> None:
    """Merge until killed."""
    logging.disable(logging.CRITICAL)
    asyncio.run(_collect(place))


async def _collect(place: Place) -> None:
    store = await SqliteCloud.open(place.cloud)
    transport = await RabbitTransport.open(place.url, place.namespace, collecting=True, prefetch=300, check_seconds=0.1)
    # Who is killed while merging keeps the others from it for half a second.
    collector = Collector(
        store,
        transport,
        changes=4_000 // place.parts,
        increments=150 // place.parts,
        seconds=0.3 / place.parts,
        lock_seconds=0.5,
        clock=lambda: NOW,
    )
    await collector.run()
