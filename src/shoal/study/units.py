"""Units that move as a whole between servers (letters, data sources, arcs, single members): dealt out, taken in, cooled down.

All of it is greedy: the bin packing behind it has no quick exact answer, and operators do not wait for one either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.study.names.batch import Amounts, Numbers

Owners = NDArray[np.intp]


class Units(NamedTuple):
    """Units, of each its members and how active they are."""

    members: Numbers
    activity: Amounts
    movable: NDArray[np.bool_]
    """False for a unit that no scheme can move, such as all members of a range who have no entry of their own."""


class Cooled(NamedTuple):
    """The outcome of moving units from the hottest server to the coldest. Heat is activity over the mean of a server."""

    before: float
    after: float
    units: int
    members: int
    activity: float
    """Share of all activity that moved."""


def units_of(members: Numbers, activity: Amounts) -> Units:
    """Return units all of which can be moved."""
    return Units(members, activity, np.ones(len(members), np.bool_))


def dealt(members: Numbers, servers: int) -> Owners:
    """Return a server for each unit: the largest first, each to the server with the fewest members."""
    owners = np.zeros(len(members), np.intp)
    held = np.zeros(servers, np.int64)
    for unit in np.argsort(-members, kind="stable"):
        server = int(held.argmin())
        owners[unit] = server
        held[server] += members[unit]
    return owners


def taken_in(owners: Owners, members: Numbers, servers: int) -> Owners:
    """Return the servers of the units when there are `servers` of them, more than before: newcomers take units from the fullest.

    No unit moves twice. A newcomer takes until it has its share, and nothing that would leave it as full as the giver was.
    """
    found = owners.copy()
    old = int(owners.max()) + 1
    held = np.bincount(found, members, minlength=servers).astype(np.int64)
    share = members.sum() / servers
    for taker in range(old, servers):
        while (unit := _given(found, members, held, old, taker, share)) is not None:
            held[found[unit]] -= members[unit]
            held[taker] += members[unit]
            found[unit] = taker
    return found


def _given(owners: Owners, members: Numbers, held: Numbers, old: int, taker: int, share: float) -> int | None:
    """Return the unit that a newcomer takes next: the largest it has room for, from the fullest server that has one."""
    room = share - held[taker]
    for giver in np.argsort(-held[:old], kind="stable"):
        if held[giver] <= share:
            return None
        fits = (owners == giver) & (members > 0) & (members <= room) & (members < held[giver] - held[taker])
        own = np.flatnonzero(fits)
        if len(own):
            return int(own[members[own].argmax()])
    return None


def moved_members(before: Owners, after: Owners, members: Numbers) -> int:
    """Return how many members are in units that changed their server."""
    return int(members[before != after].sum())


def cooled(owners: Owners, units: Units, servers: int, bound: float) -> Cooled:
    """Move units until no server has more than `bound` times the mean activity, or until no unit is left that helps.

    From the hottest server to the coldest goes the unit that carries most activity for each member it moves, of those after which
    the coldest does not become too hot itself.
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
        fits = (found == hot) & units.movable & ~moved & (units.activity > 0)
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
