"""The guard of a process that owns its store: it knows of every change itself (`freshness.Guard`)."""

from __future__ import annotations

from collections.abc import Collection

from shoal.graph.cache.freshness import Settle


class SoleGuard:
    """For a process that makes every change itself."""

    def __init__(self) -> None:
        self._commits = 0
        # What is read of an object while a commit changes it may be older than an event that is out already: so many do.
        self._changing: dict[int, int] = {}
        # What several have been changing since it was last at rest.
        self._mixed: set[int] = set()

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # of all ids it is true
        return self._commits

    def keeps(self, ticket: int, id_: int) -> bool:
        return ticket == self._commits and id_ not in self._changing

    def change(self, ids: Collection[int], settle: Settle) -> _Change:
        return _Change(self, ids, settle)

    async def close(self) -> None:
        pass

    def renew(self) -> None:
        """Have nothing remembered that is being read or changed at this moment."""
        self._commits += 1
        self._mixed.update(self._changing)

    def begin(self, ids: Collection[int]) -> None:
        """A commit that may change these begins."""
        for id_ in ids:
            others = self._changing.get(id_, 0)
            if others:
                self._mixed.add(id_)
            self._changing[id_] = others + 1

    def end(self, ids: Collection[int]) -> Collection[int]:
        """It is done, or has failed. Returns those of these that no other commit was changing meanwhile."""
        self._commits += 1
        mixed = self._mixed.intersection(ids) if self._mixed else ()
        for id_ in ids:
            others = self._changing.pop(id_) - 1
            if others:
                self._changing[id_] = others
            else:
                self._mixed.discard(id_)
        return ids if not mixed else [id_ for id_ in ids if id_ not in mixed]


class _Change:
    """One commit of a process that makes every change itself. A generator would cost several times as much, for each post."""

    __slots__ = ("_guard", "_ids", "_settle")

    def __init__(self, guard: SoleGuard, ids: Collection[int], settle: Settle) -> None:
        self._guard = guard
        self._ids = ids
        self._settle = settle

    async def __aenter__(self) -> None:
        self._guard.begin(self._ids)

    async def __aexit__(self, *_failure: object) -> None:
        self._settle(self._guard.end(self._ids))
