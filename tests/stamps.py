"""Stamps in this process: what several memories of one graph see of each other's changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

from shoal.core.errors import Unavailable


class LocalStamps:
    """Keeps what `freshness.Stamps` promises; `away` it cannot be reached."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[Sequence[int]] = []
        self._ticks = count(1)
        self._stamps: dict[int, bytes] = {}
        self._changing: Counter[int] = Counter()
        self._history = 1

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        self._reach()
        self.asked.append(ids)
        return {id_: self._stamps.setdefault(id_, b"%d" % next(self._ticks)) for id_ in ids if not self._changing[id_]}

    async def begin(self, ids: Sequence[int]) -> object:
        self._reach()
        self._changing.update(ids)
        return self._history

    async def end(self, ids: Sequence[int], begun: object) -> None:
        if begun == self._history:
            self._changing.subtract(ids)
        for id_ in ids:
            self._stamps.pop(id_, None)

    def flush(self) -> None:
        """Forget everything, marks too, as a server may at any time."""
        self._history += 1
        self._stamps.clear()
        self._changing.clear()

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("the stamps cannot be reached")
