"""Home timelines and cached rankings on Redis.

A timeline is one packed string for each member, written by scripts that run inside the server; `redis_scripts` defines the
layout. The last `length` entries count, and the entries they pushed out determine the floor. A timeline that was started under
another history of its server (before a failover, or a restart from an old snapshot) is cold, because a write to it may have been
lost. So is a timeline of another history of the stores, because the data it was filled with may have been lost. Writes do not
check this.

A cached ranking is one string with an expiry.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.ids import milliseconds_of
from shoal.graph.contract import Cursor
from shoal.graph.redis.client import Batching, Nodes, PartialAnswer, Script, keys_of, shards_of
from shoal.timelines import redis_scripts as scripts
from shoal.timelines.contract import RETENTION_SECONDS, Window

Members = NDArray[np.int64]
_Sent = tuple[int, Members]

_PREFIX = "t"
_PUSHES = 300
"""Maximum number of keys in a call, which takes less than 0.5 ms on the server, or 2 ms on a slow one, including cuts."""
_REMOVALS = 50
_READS = 16
_CUTS = 4
_LATE_SECONDS = 60.0
_BEGUN = 10_000


class RedisTimelines:
    """Timelines of up to `length` entries, for members whose ids are their slots.

    A timeline that is not read for `idle_seconds` expires. `slack` is the fraction of `length` by which a stored timeline may
    be longer before its oldest entries are cut off. `mark` returns two bytes that change with each failover of a store.
    """

    def __init__(
        self,
        nodes: Nodes,
        length: int = 800,
        *,
        idle_seconds: float = 14 * 86_400,
        slack: float = 0.75,
        clock: Callable[[], float] = time.time,
        mark: Callable[[], bytes] = lambda: bytes(scripts.MARK_BYTES),
    ) -> None:
        self.length = length
        self._nodes = nodes
        self._idle = max(1, int(idle_seconds))
        self._clock = clock
        self._mark = mark
        self._capacity_bytes = 8 * length
        spare = int(length * slack)
        # A timeline is cut to `length` entries when it has used 60 to 90 percent of its slack, depending on the key, so
        # that not all are cut at the same time. The rest of the slack is for delayed cuts.
        self._full = scripts.HEAD_BYTES + self._capacity_bytes + 8 * (spare * 3 // 5)
        self._spread = max(1, spare * 3 // 10)
        self._half = (scripts.HEAD_BYTES + self._capacity_bytes + 8 * spare) // 2
        self._begun: dict[int, bytes] = {}
        self._pushing = Batching("timelines.push", self._push)
        self._removing = Batching("timelines.remove", self._remove)
        self._reading = Batching("timelines.read", self._read)

    def slots(self, members: Sequence[int]) -> Members:
        return np.array(members, np.int64)

    async def create(self, member: int) -> None:
        new = self._mark() + secrets.token_bytes(7 - scripts.MARK_BYTES)
        beginning = await self._one(scripts.CREATE, member, new, self._idle)
        if len(self._begun) >= _BEGUN:
            del self._begun[next(iter(self._begun))]
        self._begun[member] = beginning

    async def fill(self, member: int, ids: Sequence[int], floor: int) -> None:
        # Fill the timeline only if this process created it. Another process may have replaced it by one that lacks
        # earlier pushes.
        await self._merge(member, ids, floor, b"f", self._begun.pop(member, b""))

    async def union(self, member: int, ids: Sequence[int], floor: int) -> None:
        await self._merge(member, ids, floor, b"", b"")

    async def _merge(self, member: int, ids: Sequence[int], floor: int, fill: bytes, beginning: bytes) -> None:
        every = np.unique(np.array(ids, np.int64))
        if len(every) > self.length:
            floor = max(floor, int(every[-self.length - 1]))
        packed = every[-self.length :].astype("<i8").tobytes()
        edge = floor.to_bytes(8, "little")
        await self._one(scripts.MERGE, member, self._capacity_bytes, self._half, edge, packed, fill, beginning)

    async def subtract(self, member: int, ids: Sequence[int]) -> None:
        await self._one(scripts.SUBTRACT, member, self._capacity_bytes, np.array(ids, "<i8").tobytes())

    async def push(self, entry: int, slots: Members) -> int:
        return await self._pushing.ask((entry, slots)) if len(slots) else 0

    async def remove(self, entry: int, slots: Members) -> None:
        if len(slots):
            await self._removing.ask((entry, slots))

    async def _push(self, sent: list[_Sent]) -> list[int]:
        members, owners = _together(sent)
        keys = keys_of(_PREFIX, members)
        # Entries after this time are most likely above all floors, so floors are checked only for earlier ones.
        recent = (self._clock() - _LATE_SECONDS) * 1000
        late = [b"0" if milliseconds_of(entry) > recent else b"1" for entry, _ in sent]

        def arguments(at: NDArray[np.intp]) -> list[bytes | int]:
            runs = [word for owner, n in _runs(owners[at]) for word in (_packed(sent[owner][0]), n, late[owner])]
            return [keys[at].tobytes(), self._capacity_bytes, self._full, self._spread, self._half, _CUTS, *runs]

        written = [0] * len(sent)
        parts = await self._nodes.each(scripts.PUSH, shards_of(members), arguments, batch=_PUSHES, bulk=True)
        for part in parts:
            for (owner, _), count in zip(_runs(owners[part.at]), part.result, strict=True):
                written[owner] += count
        return written

    async def _remove(self, sent: list[_Sent]) -> list[None]:
        members, owners = _together(sent)
        keys = keys_of(_PREFIX, members)

        def arguments(at: NDArray[np.intp]) -> list[bytes | int]:
            runs = [word for owner, n in _runs(owners[at]) for word in (_packed(sent[owner][0]), n)]
            return [keys[at].tobytes(), self._capacity_bytes, *runs]

        await self._nodes.each(scripts.REMOVE, shards_of(members), arguments, batch=_REMOVALS, bulk=True)
        return [None] * len(sent)

    async def read(self, member: int, at: Cursor) -> Window | None:
        data = await self._reading.ask(member)
        if data is None or not self._is_current(data):
            return None
        ids, floor = self._visible(data)
        ids = _in_order(ids[(ids > at.after) & (ids < at.before)])
        page = ids[: at.limit] if at.oldest_first else ids[: -at.limit - 1 : -1]
        return Window(page.tolist(), floor)

    async def _read(self, members: list[int]) -> list[bytes | None]:
        every = np.array(members, np.int64)
        keys = keys_of(_PREFIX, every)
        found: list[bytes | None] = [None] * len(members)
        parts = await self._nodes.each(
            scripts.READ, shards_of(every), lambda at: (keys[at].tobytes(), self._idle), batch=_READS
        )
        for part in parts:
            for at, data in zip(part.at.tolist(), part.result, strict=True):
                found[at] = data or found[at]
        return found

    def _is_current(self, data: bytes) -> bool:
        return data.startswith(self._mark(), scripts.MARK_AT)

    def _visible(self, data: bytes) -> tuple[Members, int]:
        row = np.frombuffer(data, "<i8", offset=scripts.FLOOR_AT)
        cut = max(1, len(row) - self.length)
        floor = int(row[:cut].max())
        ids = row[cut:]
        return ids[ids > floor], floor

    async def floor(self, member: int) -> int | None:
        data = await self._one(scripts.LOOK, member)
        return None if data is None or not self._is_current(data) else self._visible(data)[1]

    async def drop(self, members: Sequence[int]) -> None:
        for member in members:
            self._begun.pop(member, None)
        await self._all(scripts.DROP, np.array(members, np.int64))

    async def drop_idle(self, seconds: float) -> None:
        # Timelines that were idle for `idle_seconds` have expired already.
        if seconds < self._idle:
            async for page in self._nodes.ids(_PREFIX):
                await self._all(scripts.DROP_IDLE, page, int(self._idle - seconds))

    async def clear(self) -> None:
        self._begun.clear()
        async for page in self._nodes.ids(_PREFIX):
            await self._all(scripts.DROP, page)

    async def members(self, most: int) -> list[int]:
        found: dict[int, None] = {}
        async for page in self._nodes.ids(_PREFIX):
            for part in await self._all(scripts.WARM, page, self._mark()):
                warm = np.array(part.result, bool)
                found.update(dict.fromkeys(page[part.at[warm]].tolist()))
            if len(found) >= most:
                break
        return list(found)[:most]

    async def _all(self, script: Script, members: Members, *arguments: bytes | int) -> list[PartialAnswer]:
        keys = keys_of(_PREFIX, members)
        return await self._nodes.each(
            script, shards_of(members), lambda at: (keys[at].tobytes(), *arguments), batch=_PUSHES, bulk=True
        )

    async def _one(self, script: Script, member: int, *arguments: bytes | int) -> Any:
        return await _run(self._nodes, script, _PREFIX, member, *arguments)

    async def close(self) -> None:
        await self._pushing.close()
        await self._removing.close()
        await self._reading.close()


async def _run(nodes: Nodes, script: Script, prefix: str, id_: int, *arguments: bytes | int) -> Any:
    at = np.array([id_], np.int64)
    key = keys_of(prefix, at).tobytes()
    parts = await nodes.each(script, shards_of(at), lambda _: (key, *arguments), batch=1)
    return parts[-1].result


def _in_order(ids: Members) -> Members:
    return ids if (ids[1:] > ids[:-1]).all() else np.unique(ids)


def _packed(entry: int) -> bytes:
    return entry.to_bytes(8, "little")


def _together(sent: list[_Sent]) -> tuple[Members, NDArray[np.intp]]:
    members = np.concatenate([slots for _, slots in sent])
    return members, np.repeat(np.arange(len(sent)), [len(slots) for _, slots in sent])


def _runs(owners: NDArray[np.intp]) -> list[tuple[int, int]]:
    if not len(owners):
        return []
    starts = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1, [len(owners)]))
    return list(zip(owners[starts[:-1]].tolist(), np.diff(starts).tolist(), strict=True))


_READINGS_PREFIX = "r"

_KEEP = Script.load(__package__, "readings.keep")
_GET = Script.load(__package__, "readings.get", grows=False)


class RedisReadings:
    """A cache of ranked feeds in Redis, shared by several processes. The shard in the id of a feed selects its Redis server."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def keep(self, id_: int, data: bytes) -> None:
        await _run(self._nodes, _KEEP, _READINGS_PREFIX, id_, data, RETENTION_SECONDS)

    async def get(self, id_: int) -> bytes | None:
        return await _run(self._nodes, _GET, _READINGS_PREFIX, id_) or None
