"""Repeats of what anybody may cause, told rarely: the first, the tenth, the hundredth of an hour and so on.

    wrong passwords for ann from 203.0.113.0/24     1  2 .. 9  10  11 .. 99  100  ...
    told                                            1          10            100

A flood of names or networks does not help either: an hour has a bound on the different things that are told, and everything
beyond is counted together. Each count is that of one process.
"""

from __future__ import annotations

from typing import NamedTuple

HOUR_MS = 3_600_000


class Repeat(NamedTuple):
    """A repeat that is to be told."""

    times: int
    """How often it happened in this hour."""
    together: bool
    """Whether it stands for many different things, those beyond the bound."""


class RepeatCounter:
    """Counts what is repeated within an hour. `most` bounds the different things of an hour, and so the memory."""

    def __init__(self, most: int = 500) -> None:
        self._most = most
        self._hour = 0
        self._counts: dict[str, int] = {}
        self._beyond = 0

    def count(self, what: str, now: int) -> Repeat | None:
        """Count once more at a moment in Unix milliseconds. None: it was told lately."""
        if now // HOUR_MS != self._hour:
            self._hour, self._counts, self._beyond = now // HOUR_MS, {}, 0
        together = what not in self._counts and len(self._counts) >= self._most
        if together:
            self._beyond += 1
        else:
            self._counts[what] = self._counts.get(what, 0) + 1
        count = self._beyond if together else self._counts[what]
        return Repeat(count, together) if str(count).strip("0") == "1" else None
