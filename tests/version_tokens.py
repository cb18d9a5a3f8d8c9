"""Version tokens in this process, by which several caches of one graph notice each other's changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.graph.cache.coherence import MarkedChange, Renewal


class _Begun(NamedTuple):
    """A change in progress: the history at its start, and the tokens of objects without another change in progress."""

    history: int
    before: dict[int, bytes]


class LocalVersionTokens:
    """An in-memory implementation of `VersionTokens`, unreachable while `away` is set."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[Sequence[int]] = []
        self.renewed = 0
        """Number of tokens set at the end of changes."""
        self._ticks = count(1)
        self._versions: dict[int, bytes] = {}
        self._changing: Counter[int] = Counter()
        # Objects with overlapping changes since their last token.
        self._mixed: set[int] = set()
        self._history = 1

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        # As with a server, earlier requests arrive first.
        await asyncio.sleep(0)
        self._reach()
        self.asked.append(ids)
        return {id_: self._versions.setdefault(id_, self._new()) for id_ in ids if not self._changing[id_]}

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        self._reach()
        if reading:
            self.asked.append(ids)
            for id_ in ids:
                if not self._changing[id_]:
                    self._versions.setdefault(id_, self._new())
        self._mixed.update(id_ for id_ in ids if self._changing[id_])
        before = {id_: self._versions.get(id_, b"") for id_ in ids if not self._changing[id_]}
        self._changing.update(ids)
        return _Begun(self._history, before)

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        if begun is None and not changed:
            return {}
        known = begun if isinstance(begun, _Begun) and begun.history == self._history else None
        if known is not None:
            self._changing.subtract(ids)
        renewed = {}
        for id_ in ids:
            self._versions.pop(id_, None)
            if self._changing[id_]:
                self._mixed.add(id_)
                continue
            if known is not None and id_ in known.before and id_ not in self._mixed:
                self._versions[id_] = self._new() if changed else known.before[id_]
                renewed[id_] = Renewal(known.before[id_], self._versions[id_])
            self._mixed.discard(id_)
        self.renewed += len(renewed)
        return renewed

    def flush(self) -> None:
        """Lose all tokens and change marks, as a server may at any time."""
        self._history += 1
        self._versions.clear()
        self._changing.clear()
        self._mixed.clear()

    def _new(self) -> bytes:
        return b"%d" % next(self._ticks)

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("the version tokens cannot be reached")
