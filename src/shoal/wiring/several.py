"""Several processes on one SQLite file: the parts that are in a memory of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.core.errors import InvalidInput
from shoal.graph.cache.coherence import FollowedLog, OwnersLog
from shoal.http.rate_limits import SharedLimiter, rules
from shoal.multiprocess.messages import OWNER
from shoal.multiprocess.readers import StoreOwner, StoreReader
from shoal.multiprocess.shared_memory import NEWEST, POSITION, USED, VERSION, SharedMemory, barrier
from shoal.settings import Settings
from shoal.timelines.memory import OwnersTimelines, ReadTimelines, SharedRows, TimelineRows
from shoal.wiring.places import readers_path


@dataclass(frozen=True, slots=True)
class Several:
    """One of several processes: the `owner` of the store, or a `reader` beside it."""

    memory: SharedMemory
    place: int
    limiter: SharedLimiter
    owner: StoreOwner | None
    reader: StoreReader | None = field(default=None)

    def log(self) -> OwnersLog | FollowedLog:
        """Return the log of changes, to be written or to be followed."""
        if self.reader is None:
            return OwnersLog(self.memory, POSITION, barrier)
        return FollowedLog(self.memory, POSITION, self.reader.alive)

    def timelines(self) -> OwnersTimelines | ReadTimelines:
        """Return the timelines, to be written or to be read. What an owner before had written is gone."""
        if self.reader is None:
            return OwnersTimelines(self.memory.length, self._rows())
        return ReadTimelines(self.memory.length, self._rows(), self.reader.warm)

    def _rows(self) -> SharedRows:
        memory = self.memory
        rows = TimelineRows(memory.rings, memory.next, memory.floors, memory.members, memory.read_at)
        return SharedRows(rows, memory.filled, memory.words, VERSION, NEWEST, USED, barrier)


def one_of_several(settings: Settings, memory: SharedMemory, place: int) -> Several:
    """Return the parts for the process in a place. Raises `InvalidInput` for any other store than one SQLite file."""
    path = readers_path(settings)
    if path is None:
        raise InvalidInput("store: processes read beside another one where the store is one SQLite file", field="store")
    limiter = SharedLimiter(rules(settings), memory.counts, place)
    if place == OWNER:
        return Several(memory, place, limiter, StoreOwner(memory, path))
    return Several(memory, place, limiter, None, StoreReader(memory, place, path))
