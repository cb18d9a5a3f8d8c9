"""Shoal's own way: 64 data sources by the MD5 of the name, and a map that says which store has which of them.

The map is the one that a network keeps (`graph/sharding/shard_map.py`), and stores come and go by its own changes of owner.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from shoal.core.placement import DATA_SOURCES
from shoal.graph.sharding.shard_map import ShardMap, first_map

MOST_STORES = DATA_SOURCES


def even_map(stores: int) -> ShardMap:
    """Return a map in which so many stores have neighbouring data sources, as equally many as 64 allows."""
    cuts = [place * DATA_SOURCES // stores for place in range(stores + 1)]
    ranges = {f"{first}-{last - 1}": _url(place) for place, (first, last) in enumerate(itertools.pairwise(cuts))}
    return first_map(ranges)


def with_stores(known: ShardMap, stores: int) -> ShardMap:
    """Return the map after stores came, or the last ones went: as few data sources as possible change their owner."""
    while len(known.stores) < stores:
        known = _joined(known)
    return _without(known, stores)


def owners_of(known: ShardMap) -> NDArray[np.intp]:
    """Return the store of each data source."""
    return np.array(known.owners, np.intp)


def _url(place: int) -> str:
    return f"memory://{place}"


def _joined(known: ShardMap) -> ShardMap:
    place = len(known.stores)
    known = known.with_store(_url(place))
    for _ in range(DATA_SOURCES // (place + 1)):
        giver = max(range(place), key=lambda store: (len(known.of(store)), store))
        known = known.moving(known.of(giver)[-1:], giver, place, returns=False)
    return known


def _without(known: ShardMap, stores: int) -> ShardMap:
    for place in range(stores, len(known.stores)):
        for source in known.of(place):
            taker = min(range(stores), key=lambda store: len(known.of(store)))
            known = known.moving([source], place, taker, returns=False)
    return known
