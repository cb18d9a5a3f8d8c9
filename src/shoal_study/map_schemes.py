"""Schemes with a map from units to servers: the mapping scheme of the paper, and Shoal's 64 data sources.

In the mapping scheme members are numbered as they sign up, and each range of numbers is a bucket. Range n is on server
n mod S (section 3.2 of the paper), so with at most S ranges each server has one. Shoal's map is the one that a network
stores (`graph/shard_map.py`). Units (letters, data sources, arcs, ranges) move as a whole; moves are chosen greedily, since
the underlying bin packing has no fast exact solution.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput
from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE
from shoal.graph.shard_map import ShardMap, first_map
from shoal_study.names import Amounts, Numbers

Owners = NDArray[np.intp]


class Units(NamedTuple):
    """The units that a scheme can move, such as buckets, with their members and activity."""

    members: Numbers
    activity: Amounts


class Cooled(NamedTuple):
    """The outcome of moving `Units` from the hottest server to the coldest. Heat is activity relative to the mean."""

    before: float
    after: float
    units: int
    members: int
    activity: float
    """Fraction of all activity that moved."""


def evenly_assigned(members: Numbers, servers: int) -> Owners:
    """Assign each of the `Units` to a server: the largest units first, each to the server with the fewest members."""
    owners = np.zeros(len(members), np.intp)
    loads = np.zeros(servers, np.int64)
    for unit in np.argsort(-members, kind="stable"):
        server = int(loads.argmin())
        owners[unit] = server
        loads[server] += members[unit]
    return owners


def expanded(owners: Owners, members: Numbers, servers: int) -> Owners:
    """Return the server of each unit after servers were added. They take units from the fullest servers.

    No unit moves twice. A new server takes units until it has its share. It takes no unit that would make it as full as the
    server that loses the unit.
    """
    found = owners.copy()
    old = int(owners.max()) + 1
    loads = np.bincount(found, members, minlength=servers).astype(np.int64)
    share = members.sum() / servers
    for taker in range(old, servers):
        while (unit := _next_unit(found, members, loads, old, taker, share)) is not None:
            loads[found[unit]] -= members[unit]
            loads[taker] += members[unit]
            found[unit] = taker
    return found


def _next_unit(owners: Owners, members: Numbers, loads: Numbers, old: int, taker: int, share: float) -> int | None:
    """Return the unit that a new server should take next: the largest that fits, from the fullest server with such a unit."""
    capacity = share - loads[taker]
    for giver in np.argsort(-loads[:old], kind="stable"):
        if loads[giver] <= share:
            return None
        fits = (owners == giver) & (members > 0) & (members <= capacity) & (members < loads[giver] - loads[taker])
        own = np.flatnonzero(fits)
        if len(own):
            return int(own[members[own].argmax()])
    return None


def moved_members(before: Owners, after: Owners, members: Numbers) -> int:
    return int(members[before != after].sum())


def cooled(owners: Owners, units: Units, servers: int, bound: float) -> Cooled:
    """Move units until no server exceeds `bound` times the mean activity, or until no move helps.

    Each move is from the most active to the least active server. It takes the unit with the most activity per member that does
    not bring the least active server above the bound.
    """
    found = owners.copy()
    heat = np.bincount(found, units.activity, minlength=servers)
    mean = heat.sum() / servers
    if not mean:
        return Cooled(0.0, 0.0, 0, 0, 0.0)
    before, moved = float(heat.max() / mean), np.zeros(len(found), np.bool_)
    worth = units.activity / np.maximum(units.members, 1)
    while heat.max() > bound * mean:
        hot, cold = int(heat.argmax()), int(heat.argmin())
        fits = (found == hot) & ~moved & (units.activity > 0)
        fits &= units.activity + heat[cold] <= bound * mean
        own = np.flatnonzero(fits)
        if not len(own):
            break
        unit = own[worth[own].argmax()]
        found[unit], moved[unit] = cold, True
        heat[hot] -= units.activity[unit]
        heat[cold] += units.activity[unit]
    share = float(units.activity[moved].sum() / units.activity.sum())
    return Cooled(before, float(heat.max() / mean), int(moved.sum()), int(units.members[moved].sum()), share)


MOST_RANGES = 1 << 20


def members_by_server(count: int, size: int, servers: int) -> Numbers:
    """Return the members of each server if ranges of `size` numbers are assigned in turn: range n is on server n mod `servers`."""
    full, rest = divmod(count, size)
    ranges = np.arange(servers)
    found = ((full - ranges + servers - 1) // servers).clip(0).astype(np.int64) * size
    found[full % servers] += rest
    return found


class Ranges:
    """Counts members by ranges of `size` numbers. Members are numbered in order of sign-up.

    Range n is on server n modulo the number of servers.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self._members: Numbers = np.zeros(64, np.int64)
        self._activity: Amounts = np.zeros(64)

    def add(self, numbers: Numbers, activity: Amounts | None) -> None:
        """Count the members with these numbers. Without `activity` all are equally active.

        Raises `InvalidInput` for more ranges than can be counted.
        """
        if not len(numbers):
            return
        ranges = numbers // self.size
        first, last = int(ranges.min()), int(ranges.max())
        if last >= MOST_RANGES:
            raise InvalidInput(
                f"--range: too small for more than {MOST_RANGES * self.size:,} names (got {self.size:,} members per range; "
                f"at most {MOST_RANGES:,} ranges)",
                field="range",
            )
        while last >= len(self._members):
            self._members = np.concatenate((self._members, np.zeros_like(self._members)))
            self._activity = np.concatenate((self._activity, np.zeros_like(self._activity)))
        found = np.bincount(ranges - first)
        self.count += len(numbers)
        self._members[first : last + 1] += found
        self._activity[first : last + 1] += found if activity is None else np.bincount(ranges - first, activity)

    @property
    def units(self) -> Units:
        """The members and activity of each range of member numbers, including the last range, which is being filled."""
        used = max(1, -(-self.count // self.size))
        return Units(self._members[:used], self._activity[:used])

    def owners(self, servers: int) -> Owners:
        return np.arange(len(self.units.members)) % servers

    def full_next(self) -> int:
        """Return the number of members at which the range that is being filled lacks one member."""
        return (self.count // self.size + 1) * self.size - 1


def even_map(stores: int) -> ShardMap:
    """Return a map that distributes adjacent data sources evenly over `stores` stores."""
    cuts = [store * DATA_SOURCES // stores for store in range(stores + 1)]
    ranges = {f"{first}-{last - 1}": _url(store) for store, (first, last) in enumerate(itertools.pairwise(cuts))}
    return first_map(ranges)


def with_stores(known: ShardMap, stores: int) -> ShardMap:
    """Return the shard map after stores were added, or the last ones removed, with as few data sources moved as possible."""
    while len(known.stores) < stores:
        known = _with_one_more(known)
    return _without(known, stores)


def owners_of(known: ShardMap) -> NDArray[np.intp]:
    """Return the store of each data source, for a map that divides no data source between stores."""
    return np.array(known.owners[::SHARDS_PER_SOURCE], np.intp)


def _url(store: int) -> str:
    return f"memory://{store}"


def _with_one_more(known: ShardMap) -> ShardMap:
    added = len(known.stores)
    known = known.with_store(_url(added))
    for _ in range(DATA_SOURCES // (added + 1)):
        giver = max(range(added), key=lambda store: (len(_sources(known, store)), store))
        known = _moved(known, _sources(known, giver)[-1], giver, added)
    return known


def _sources(known: ShardMap, store: int) -> list[int]:
    found: list[int] = np.flatnonzero(owners_of(known) == store).tolist()
    return found


def _moved(known: ShardMap, source: int, giver: int, taker: int) -> ShardMap:
    shards = range(source * SHARDS_PER_SOURCE, (source + 1) * SHARDS_PER_SOURCE)
    return known.moving(shards, giver, taker, returns=False)


def _without(known: ShardMap, stores: int) -> ShardMap:
    for removed in range(stores, len(known.stores)):
        for source in _sources(known, removed):
            taker = min(range(stores), key=lambda store: len(_sources(known, store)))
            known = _moved(known, source, removed, taker)
    return known
