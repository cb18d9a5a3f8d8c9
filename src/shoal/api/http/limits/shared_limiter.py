"""Rate limits that several processes of one machine count together, in memory that all of them map.

Each process writes a table of its own, and reads those of the others: a request is one too many when all of them together have
counted as many as are allowed. Two that come at the same moment may both be the last one, so there is at most one too many for
each further process.

A place of a table is two words: a hash of whom it counts, and the end of the window with the number of requests. One that is
taken by others four times over forgets whose window ends first, which errs on the side of serving.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from shoal.api.http.limits.ratelimit import RateKey, RateRule, RateWindow

_WAYS = 4
_USED_BITS = 24
_USED = (1 << _USED_BITS) - 1


class SharedLimiter:
    """A `Limiter` of one of several processes. `tables` has one for each, of so many words; `place` is which one is ours."""

    def __init__(
        self,
        rules: Mapping[str, RateRule],
        tables: Sequence[memoryview],
        place: int,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.classes = frozenset(rules)
        self.refused: Counter[str] = Counter()
        self._rules = {name: rule for name, rule in rules.items() if rule.limit}
        self._mine = tables[place]
        self._theirs = [table for at, table in enumerate(tables) if at != place]
        self._sets = len(self._mine) // (2 * _WAYS)
        self._clock = clock

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        rule = self._rules.get(key.limit_class)
        if rule is None:
            return None
        now = self._clock()
        reset = (int(now) // rule.seconds + 1) * rule.seconds
        whom = _hash(key)
        first = whom % self._sets * 2 * _WAYS
        place = self._place(first, whom, int(now))
        own = self._used(self._mine, place, whom, reset)
        used = own + sum(self._found(table, first, whom, reset) for table in self._theirs)
        if used + cost > rule.limit:
            self.refused[key.limit_class] += 1
            return RateWindow(rule.limit, max(0, rule.limit - used), reset, max(1.0, reset - now))
        # Whoever reads both words in between counts wrongly, for that moment.
        self._mine[place + 1] = reset << _USED_BITS | min(own + cost, _USED)
        self._mine[place] = whom
        return RateWindow(rule.limit, rule.limit - used - cost, reset)

    async def give_back(self, key: RateKey, window: RateWindow) -> None:
        whom = _hash(key)
        place = self._place(whom % self._sets * 2 * _WAYS, whom, int(self._clock()))
        if self._used(self._mine, place, whom, window.reset):
            self._mine[place + 1] -= 1

    def _place(self, first: int, whom: int, now: int) -> int:
        """Return where this process counts somebody: where it does so already, or where it forgets least."""
        mine = self._mine
        places = range(first, first + 2 * _WAYS, 2)
        for place in places:
            if mine[place] == whom:
                return place
        return min(places, key=lambda place: max(now, mine[place + 1] >> _USED_BITS))

    def _found(self, table: memoryview, first: int, whom: int, reset: int) -> int:
        return max(self._used(table, place, whom, reset) for place in range(first, first + 2 * _WAYS, 2))

    def _used(self, table: memoryview, place: int, whom: int, reset: int) -> int:
        counted: int = table[place + 1]
        return counted & _USED if table[place] == whom and counted >> _USED_BITS == reset else 0


@lru_cache(maxsize=16_384)
def _hash(key: RateKey) -> int:
    """Return the same positive number in every process."""
    return int.from_bytes(blake2b(repr(tuple(key)).encode(), digest_size=8).digest()) >> 1 or 1
