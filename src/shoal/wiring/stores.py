"""The stores of a network, opened as the settings name them, and joined into one graph."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput
from shoal.core.placement import source_of
from shoal.graph.contract import Store
from shoal.graph.failover import Histories
from shoal.graph.resolve import Owns
from shoal.graph.sharding.live_map import LiveMap, MapKeeper
from shoal.graph.sharding.shard_map import ShardMap, Side, SourceState, first_map
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.settings import Settings
from shoal.wiring.backends import LIVE_STORES, MOVING_STORES, STORES, scheme_of
from shoal.wiring.places import sqlite_path

_SHOWN = "sqlite:///path, postgresql://host/database, dynamodb://table, memory://"
_SHOWN_MOVING = "postgresql://host/database: data sources move between PostgreSQL stores only"


class Mapped(NamedTuple):
    """A graph with the map by which it is spread, and what its stores say of moves: by URL and data source."""

    store: Store
    map: ShardMap
    marks: Mapping[str, Mapping[int, SourceState]]


async def open_mapped(settings: Settings, stack: AsyncExitStack) -> Mapped:
    """The graph of the settings, to read and to look at. See `open_store`."""
    known = map_of(settings)
    if _lives(known):
        live = _live_map(known, stack, read_only=True, sole=False)
        return Mapped(await live.open(), live.map, await live.marks())
    return Mapped(await open_store(settings, stack, read_only=True, sole=False), known, {})


async def open_store(
    settings: Settings, stack: AsyncExitStack, histories: Histories | None = None, *, read_only: bool, sole: bool
) -> Store:
    """The graph of the settings; closed when the stack is.

    `sole`: this process keeps what no other can see, and so must be the only one that writes. `histories` are told which one
    each store is in. Raises `Unavailable` for a
    store that cannot be opened, `InvalidInput` for a URL that names no backend.
    """
    known = map_of(settings)
    if _lives(known):
        return await _live_map(known, stack, read_only=read_only, sole=sole, histories=histories).open()
    if isinstance(settings.store, str):
        return await open_one(settings.store, stack, _everything, read_only=read_only, sole=sole, histories=histories)
    owners = list(known.owners)
    stores = [
        await open_one(url, stack, _owner(owners, at), read_only=read_only, sole=sole, histories=histories)
        for at, url in enumerate(known.stores)
    ]
    return ShardedGraph(stores, owners)


async def newest_map(settings: Settings) -> ShardMap:
    """Return the newest map that the stores of the settings know of; that of the settings where stores keep none."""
    known = map_of(settings)
    if not _lives(known):
        return known
    async with AsyncExitStack() as stack:
        live = _live_map(known, stack, read_only=True, sole=False)
        await live.open()
        return live.map


def spans_stores(settings: Settings) -> bool:
    """Whether the graph is in several stores, or may be while it is open."""
    known = map_of(settings)
    return len(known.stores) > 1 or _lives(known)


def map_of(settings: Settings) -> ShardMap:
    """The shard map of the settings. Raises `InvalidInput`."""
    try:
        return first_map(settings.store)
    except ValueError as error:
        raise InvalidInput(f"store: {error}", field="store") from error


def _lives(known: ShardMap) -> bool:
    return {urlsplit(url).scheme for url in known.stores} <= LIVE_STORES.keys()


def _live_map(
    known: ShardMap, stack: AsyncExitStack, *, read_only: bool, sole: bool, histories: Histories | None = None
) -> LiveMap:
    """Stores between which data sources can move while they are in use."""
    histories = histories or Histories()

    async def open_store(url: str, owns: Owns) -> Store:
        return await open_one(url, stack, owns, read_only=read_only, sole=sole, histories=histories)

    def open_post(url: str) -> MapKeeper:
        post: MapKeeper = LIVE_STORES[urlsplit(url).scheme].load()(url, histories)
        return post

    live = LiveMap(open_store, open_post, known)
    stack.push_async_callback(live.close)
    return live


async def open_side(url: str, *, joins: bool) -> Side:
    """One end of a move of data sources. Raises `InvalidInput` for a store that cannot be one."""
    scheme = scheme_of(url, "store", MOVING_STORES, _SHOWN_MOVING)
    side: Side = await MOVING_STORES[scheme].load().open(url, joins=joins)
    return side


async def open_one(
    url: str, stack: AsyncExitStack, owns: Owns, *, read_only: bool, sole: bool, histories: Histories | None = None
) -> Store:
    """One store, which keeps the shards that `owns` says."""
    scheme = scheme_of(url, "store", STORES, _SHOWN)
    backend = STORES[scheme].load()
    store: Store
    if scheme == "memory":
        store = backend(owns)
    elif scheme == "sqlite":
        path = sqlite_path(url)
        if not path.parent.is_dir():
            raise InvalidInput(f"store: the directory of {path.name} does not exist", field="store")
        store = await backend.open(path, owns=owns, read_only=read_only)
    elif scheme == "dynamodb":
        store = await backend.open(url, owns=owns)
    else:
        store = await backend.open(url, owns=owns, read_only=read_only, sole=sole, histories=histories)
    stack.push_async_callback(store.close)
    return store


def _owner(at: list[int], index: int) -> Owns:
    return lambda shard: at[source_of(shard)] == index


def _everything(_shard: int) -> bool:
    return True
