"""The mapping scheme of the paper: members are numbered as they sign up, and a range of numbers is a bucket on one server.

Nothing is kept of a member but the number: how active the members of each range are, and who are the most active of all.
"""

from __future__ import annotations

import numpy as np

from shoal.study.names.batch import Amounts, Numbers
from shoal.study.units import Owners, Units

_MOST_RANGES = 65_536
BUSIEST = 4_096
"""Members who are remembered one by one: those whom it would help most to move."""


class SignUps:
    """Members in the order in which they signed up, in ranges of `step` numbers: a power of two that grows with the list."""

    def __init__(self) -> None:
        self.count = 0
        self.step = 1
        self._activity = np.zeros(_MOST_RANGES)
        self._busy_activity: Amounts = np.zeros(0)
        self._busy_numbers: Numbers = np.zeros(0, np.int64)

    def add(self, numbers: Numbers, activity: Amounts | None) -> None:
        """Count the members with these numbers. Without `activity` all are alike."""
        last = int(numbers.max(initial=-1))
        self.count += len(numbers)
        while last // self.step >= _MOST_RANGES:
            pairs = self._activity.reshape(-1, 2).sum(axis=1)
            self._activity = np.concatenate((pairs, np.zeros(_MOST_RANGES // 2)))
            self.step *= 2
        given = np.ones(len(numbers)) if activity is None else activity
        self._activity += np.bincount(numbers // self.step, given, minlength=_MOST_RANGES)
        if activity is not None:
            self._remember(numbers, activity)

    def _remember(self, numbers: Numbers, activity: Amounts) -> None:
        least = self._busy_activity.min() if len(self._busy_activity) == BUSIEST else -1.0
        busy = activity > least
        both = np.concatenate((self._busy_activity, activity[busy]))
        who = np.concatenate((self._busy_numbers, numbers[busy]))
        if len(both) > BUSIEST:
            kept = np.argpartition(both, len(both) - BUSIEST)[-BUSIEST:]
            both, who = both[kept], who[kept]
        self._busy_activity, self._busy_numbers = both, who

    def range_for(self, servers: int) -> int:
        """Return the size of a range with which so many servers hold everybody, one range each."""
        return self.rounded(-(-self.count // servers))

    def rounded(self, size: int) -> int:
        """Return the next size of a range that the counts here can answer for."""
        return max(1, -(-size // self.step)) * self.step

    def servers(self, size: int) -> int:
        """Return how many ranges of this size there are, the last one perhaps not full."""
        return max(1, -(-self.count // size))

    def members(self, size: int) -> Numbers:
        """Return the members of each range."""
        ends = np.minimum(np.arange(1, self.servers(size) + 1) * size, self.count)
        return np.diff(ends, prepend=0)

    def units(self, size: int) -> tuple[Units, Owners]:
        """Return what can be moved and where it is: the busiest members one by one, and the rest of each range, which stays."""
        servers = self.servers(size)
        owners = self._busy_numbers // size
        per_step = np.add.reduceat(self._activity, np.arange(0, servers * size // self.step, size // self.step))
        rest = per_step[:servers] - np.bincount(owners, self._busy_activity, minlength=servers)
        members = np.concatenate(
            (np.ones(len(owners), np.int64), self.members(size) - np.bincount(owners, minlength=servers))
        )
        movable = np.arange(len(members)) < len(owners)
        activity = np.concatenate((self._busy_activity, np.maximum(rest, 0)))
        return Units(members, activity, movable), np.concatenate((owners, np.arange(servers))).astype(np.intp)
