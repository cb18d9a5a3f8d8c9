"""An in-memory tag cloud: the reference for every other store, and the store of an in-memory network."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from shoal.tagcloud.contract import (
    CLOCK_SLACK,
    KEEP_CLOUDS,
    KEEP_INCREMENTS_MS,
    LOCK_SECONDS,
    AuthorKey,
    Head,
    Merge,
    Overtaken,
    TagRow,
    TagRule,
    rank_in,
    says_something,
)


class MemoryCloud:
    """A `contract.CloudStore` in memory. `clock` returns seconds, for the lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holder = b""
        self._held_seconds = self._held_until = 0.0
        self._head = Head()
        self._clouds: list[tuple[int, int, bytes]] = []
        self._increments: dict[bytes, int] = {}
        self._marks: dict[int, list[tuple[int, bytes]]] = {}
        self._rows: dict[int, TagRow] = {}
        self._authors: dict[AuthorKey, int] = {}
        self._rules: dict[str, TagRule] = {}
        self._inbox: dict[bytes, bytes] = {}

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        now = self._clock()
        is_held = now < self._held_until <= now + CLOCK_SLACK * self._held_seconds
        if self._holder not in (b"", holder) and is_held:
            return False
        self._holder, self._held_seconds, self._held_until = holder, seconds, now + seconds
        return True

    async def renew(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        return self._holder == holder and await self.lock(holder, seconds)

    async def unlock(self, holder: bytes) -> None:
        if self._holder == holder:
            self._holder = b""

    async def version(self) -> int:
        return self._head.version

    async def head(self) -> Head:
        return self._head

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        return self._clouds[:limit]

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        return self._increments.keys() & set(increments)

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        found = {
            bucket: [marks for version, marks in self._marks.get(bucket, ()) if version > after_version]
            for bucket in buckets
        }
        return {bucket: marks for bucket, marks in found.items() if marks}

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        return {id_: self._rows[id_] for id_ in ids if id_ in self._rows}

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        return {key: self._authors[key] for key in keys if key in self._authors}

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        return {key: n for key, n in self._authors.items() if key[:2] in days}

    async def top(self, window: int, limit: int) -> list[TagRow]:
        return sorted(self._rows.values(), key=lambda row: rank_in(row, window))[:limit]

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        return [self._rows[id_] for id_ in sorted(self._rows) if id_ > after][:limit]

    async def rules(self) -> dict[str, TagRule]:
        return dict(self._rules)

    async def write(self, merge: Merge, holder: bytes = b"") -> None:
        if merge.head.version != self._head.version + 1 or (holder and holder != self._holder):
            raise Overtaken("the tag cloud was changed concurrently")
        self._head = merge.head
        self._clouds = [(merge.head.version, merge.head.at, merge.head.cloud), *self._clouds][:KEEP_CLOUDS]
        for id_ in merge.increments:
            self._increments.setdefault(id_, merge.head.at)
        self._increments = {id_: at for id_, at in self._increments.items() if at >= merge.head.at - KEEP_INCREMENTS_MS}
        for bucket, marks in merge.marks.items():
            self._marks.setdefault(bucket, []).append((merge.head.version, marks))
        for row in merge.rows:
            self._rows[row.id] = row
            if row.blank:
                del self._rows[row.id]
        self._authors.update(merge.authors)
        self._authors = {key: n for key, n in self._authors.items() if n and key[1] >= merge.before_day}
        for rule in merge.rules:
            self._rules[rule.name] = rule
            if not says_something(rule):
                del self._rules[rule.name]
        for id_ in merge.increments:
            self._inbox.pop(id_, None)

    async def put(self, id_: bytes, body: bytes) -> None:
        self._inbox.setdefault(id_, body)

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        return list(self._inbox.items())[:limit]

    async def discard(self, increments: Collection[bytes]) -> None:
        for id_ in increments:
            self._inbox.pop(id_, None)

    async def waiting(self) -> int:
        return len(self._inbox)

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
