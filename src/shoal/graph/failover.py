"""Histories of stores. A *history* is the time between two takeovers, in which one server is the primary server of a store.

When a standby takes over, it may lack the last changes of the previous server. So everything that a process has read in one history
is invalid in the next: cached data, version tokens and home timelines each belong to one history. The histories of a store are
numbered upwards (on PostgreSQL: the timeline of its log). A server with an older history than the newest known one has been
replaced and is ignored.

For example, a process caches that Ann follows Bob, under a version token of history 1. The server dies, and the standby that takes
over never received the follow. No commit changes the follow, so the token in Redis stays. But a process that connects to the new
server records history 2, which is part of every token from then on: the cached follow is not used again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

from shoal.graph.cache.coherence import MarkedChange, Renewal, VersionTokens

_log = logging.getLogger(__name__)

MARK_BYTES = 2
_last_takeover = float("-inf")


def took_over_since(moment: float) -> bool:
    """Return whether this process has noticed a failover of any store, in any network, since `moment` (`time.perf_counter`)."""
    return _last_takeover >= moment


class Histories:
    """The highest known history number of each store, by URL. A failover to a standby increases the number.

    One instance serves one network in one process.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._listeners: list[Callable[[], None]] = []

    def newest(self, store: str) -> int:
        return self._newest.get(store, 0)

    def note(self, store: str, history: int, address: str) -> bool:
        """Record the history number that a server reports, and notify listeners if it increased: the store failed over.

        Returns False if a higher number is known, which means that this server has been replaced. `address` names the store in
        the log.
        """
        before = self.newest(store)
        if history <= before:
            return history == before
        global _last_takeover  # noqa: PLW0603  # of the process, as its memory is
        self._newest[store] = history
        if before:
            _last_takeover = perf_counter()
            _log.warning(
                "%s: another server has taken over (PostgreSQL timeline %d follows %d); if replication was asynchronous, the last "
                "writes may be lost: run shoal check --repair",
                address,
                history,
                before,
            )
            for tell in self._listeners:
                tell()
        return True

    def on_change(self, *tell: Callable[[], None]) -> None:
        """Register functions to call after each failover of a store, before anything is read from the new server."""
        self._listeners += tell

    @property
    def mark(self) -> bytes:
        """The failover mark: two bytes that are equal in all processes, and change with each failover of any store."""
        takeovers = sum(history - 1 for history in self._newest.values())
        return takeovers.to_bytes(8, "little")[:MARK_BYTES]


class _Change(NamedTuple):
    mark: bytes
    inner: MarkedChange
    before: Mapping[int, bytes]


class HistoryTokens:
    """Version tokens that become invalid when any store fails over to a standby (see `VersionTokens`)."""

    def __init__(self, versions: VersionTokens, histories: Histories) -> None:
        self._versions = versions
        self._histories = histories

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        # Read the failover mark before the tokens. If a failover is noticed in between, the old failover mark is appended to the
        # tokens, which only invalidates entries unnecessarily.
        mark = self._histories.mark
        return {id_: version + mark for id_, version in (await self._versions.read(ids)).items()}

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> _Change:
        mark, inner = self._histories.mark, await self._versions.begin(ids, reading=reading)
        return _Change(mark, inner, {id_: _marked(version, mark) for id_, version in inner.before.items()})

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        change = begun if isinstance(begun, _Change) else None
        renewed = await self._versions.end(ids, change.inner if change is not None else None, changed=changed)
        mark = self._histories.mark
        if change is None or mark != change.mark:
            return {}
        return {
            id_: Renewal(_marked(versions.before, mark), versions.after + mark) for id_, versions in renewed.items()
        }


def _marked(version: bytes, mark: bytes) -> bytes:
    return version + mark if version else b""
