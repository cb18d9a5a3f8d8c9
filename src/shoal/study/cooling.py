"""A hot server, and what each scheme can do about it: move a unit of its own, or only add a server and see.

Heat is the activity of a server over the mean of all. A scheme reaches the goal when no server is hotter than `HOT`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.study.names.batch import Numbers
from shoal.study.results import Cooling
from shoal.study.schemes.contract import Loads
from shoal.study.schemes.mapping import SignUps
from shoal.study.schemes.ring import Ring
from shoal.study.schemes.servers import ServerLoads
from shoal.study.schemes.shoal_map import even_map, owners_of
from shoal.study.units import Cooled, Owners, Units, cooled, dealt, units_of

HOT = 1.25
"""Times the mean that a server may be busy."""


class Named(NamedTuple):
    """A scheme as a table names it, and the unit that it moves."""

    key: str
    title: str
    unit: str


LETTERS = Named("letters", "Letters", "a letter")
SUMS = Named("ascii-sum", "ASCII sum", "a sum")
_MEMBERS = Named("mapping", "Mapping", "a member")
_SOURCES = Named("md5", "MD5 and Shoal's map", "a data source")
_ARCS = Named("ring", "Ring, bounded or not", "an arc of the ring")


def by_buckets(named: Named, loads: Loads, servers: int) -> Cooling:
    """Deal the buckets of a first level out to servers as evenly as they go, then move buckets from the hottest."""
    return _cooling(named, servers, dealt(loads.members, servers), units_of(loads.members, loads.activity))


def by_sources(loads: Loads, stores: int) -> Cooling:
    """Move data sources between the stores of a map."""
    return _cooling(_SOURCES, stores, owners_of(even_map(stores)), units_of(loads.members, loads.activity))


def by_arcs(ring: Ring, servers: int) -> Cooling:
    """Give arcs of the ring to other servers: fewer virtual nodes for the hottest."""
    return _cooling(_ARCS, servers, ring.owners(servers), units_of(ring.arcs.members, ring.arcs.activity))


def by_members(signups: SignUps, size: int) -> Cooling:
    """Move the busiest members out of their range, one by one."""
    units, owners = signups.units(size)
    return _cooling(_MEMBERS, signups.servers(size), owners, units)


def by_adding(named: Named, loads: ServerLoads) -> Cooling:
    """Add a server, which is all that such a scheme can do: it does not say from whom the newcomer takes."""
    home, grown = _heat(loads.loads[0]), _heat(loads.loads[1])
    if home <= HOT:
        return _unmoved(named, loads.sizes[0], home)
    return Cooling(
        key=named.key,
        title=named.title,
        unit=named.unit,
        servers=loads.sizes[0],
        before=home,
        after=grown,
        units=1,
        members=loads.moved[1],
        moved_activity=loads.moved[1] / max(int(loads.loads[0].members.sum()), 1),
        bound=HOT,
        reached=grown <= HOT,
    )


def _cooling(named: Named, servers: int, owners: Owners, units: Units) -> Cooling:
    done: Cooled = cooled(owners, units, servers, HOT)
    return Cooling(
        key=named.key,
        title=named.title,
        unit=named.unit,
        servers=servers,
        before=done.before,
        after=done.after,
        units=done.units,
        members=done.members,
        moved_activity=done.activity,
        bound=HOT,
        reached=done.after <= HOT,
    )


def _unmoved(named: Named, servers: int, heat: float) -> Cooling:
    return Cooling(
        key=named.key,
        title=named.title,
        unit=named.unit,
        servers=servers,
        before=heat,
        after=heat,
        units=0,
        members=0,
        moved_activity=0.0,
        bound=HOT,
        reached=True,
    )


def _heat(loads: Loads) -> float:
    total = float(loads.activity.sum())
    return float(loads.activity.max()) * len(loads.activity) / total if total else 0.0


def heats(members: Numbers, activity: NDArray[np.float64]) -> list[float]:
    """Return the activity of each server over the mean."""
    total = float(activity.sum())
    return [round(float(each) * len(members) / total, 4) for each in activity] if total else []
