"""The stores of a network: opened as the settings name them, joined into one graph, and their pending upgrades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from shoal.app.backends import (
    CLOUD_VERSIONS,
    INDEX_VERSIONS,
    LIVE_STORES,
    MOVING_STORES,
    STORES,
    UPGRADES,
    Backend,
    scheme_of,
)
from shoal.app.paths import distinct_urls, sibling_file, sqlite_path, store_urls
from shoal.core.errors import InvalidInput
from shoal.graph.contract import Store
from shoal.graph.failover import Histories
from shoal.graph.migrations import PendingStep, Progress
from shoal.graph.resolve import Owns, every_shard
from shoal.graph.shard_map import ShardMap, ShardState, Side, first_map, shown_url
from shoal.graph.sharding.live_map import LiveMap, MapKeeper
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.settings import Settings

_SHOWN = "sqlite:///path, postgresql://host/database, dynamodb://table, memory://"
_SHOWN_MOVING = "postgresql://host/database: data sources move between PostgreSQL stores only"


class Mapped(NamedTuple):
    """A graph, its shard map, and the states of shards that are moving or have moved, by store URL and shard."""

    store: Store
    map: ShardMap
    marks: Mapping[str, Mapping[int, ShardState]]


async def open_mapped(settings: Settings, stack: AsyncExitStack) -> Mapped:
    """Open the graph that the settings name, read-only and with its shard map. The exit stack `stack` closes it.

    Raises `Unavailable` for a store that cannot be opened, and `InvalidInput` for an unsupported URL.
    """
    known = map_of(settings)
    if _lives(known):
        live = _live_map(known, stack, read_only=True, sole=False)
        return Mapped(await live.open(), live.map, await live.marks())
    return Mapped(await open_store(settings, stack, read_only=True, sole=False), known, {})


async def open_store(
    settings: Settings, stack: AsyncExitStack, histories: Histories | None = None, *, read_only: bool, sole: bool
) -> Store:
    """Open the graph that the settings name. The exit stack `stack` closes it.

    `sole` means that this process must be the only writer, because it keeps state that other processes do not see. `histories`
    records when a standby takes over from the server of a store. Raises `Unavailable` for a store that cannot be opened, and
    `InvalidInput` for an unsupported URL.
    """
    known = map_of(settings)
    if _lives(known):
        return await _live_map(
            known, stack, read_only=read_only, sole=sole, histories=histories, logs=_logs(settings)
        ).open()
    opened = partial(open_one, stack=stack, read_only=read_only, sole=sole, histories=histories, logs=_logs(settings))
    if isinstance(settings.store, str):
        return await opened(settings.store, owns=every_shard)
    owners = list(known.owners)
    stores = [await opened(url, owns=_owner(owners, at)) for at, url in enumerate(known.stores)]
    return ShardedGraph(stores, owners)


async def newest_map(settings: Settings) -> ShardMap:
    """Return the newest shard map in the stores, or the map in the settings if the stores keep none."""
    known = map_of(settings)
    if not _lives(known):
        return known
    async with AsyncExitStack() as stack:
        live = _live_map(known, stack, read_only=True, sole=False)
        await live.open()
        return live.map


def spans_stores(settings: Settings) -> bool:
    known = map_of(settings)
    return len(known.stores) > 1 or _lives(known)


def map_of(settings: Settings) -> ShardMap:
    """Return the shard map in the settings. Raises `InvalidInput` if the map is invalid."""
    try:
        return first_map(settings.store)
    except ValueError as error:
        raise InvalidInput(f"store: {error}", field="store") from error


def _lives(known: ShardMap) -> bool:
    return {urlsplit(url).scheme for url in known.stores} <= LIVE_STORES.keys()


def _logs(settings: Settings) -> bool | None:
    return settings.event_log == "on" if settings.event_log else None


def _live_map(
    known: ShardMap,
    stack: AsyncExitStack,
    *,
    read_only: bool,
    sole: bool,
    histories: Histories | None = None,
    logs: bool | None = None,
) -> LiveMap:
    """Return the `LiveMap` over stores between which data sources can be moved while the network is in use."""
    histories = histories or Histories()

    async def open_store(url: str, owns: Owns) -> Store:
        return await open_one(url, stack, owns, read_only=read_only, sole=sole, histories=histories, logs=logs)

    def open_post(url: str) -> MapKeeper:
        post: MapKeeper = LIVE_STORES[urlsplit(url).scheme].load()(url, histories)
        return post

    live = LiveMap(open_store, open_post, known)
    stack.push_async_callback(live.close)
    return live


async def open_side(url: str, *, joins: bool) -> Side:
    """Open the source or target of a move of data sources. With `joins`, an empty database joins the network.

    Raises `InvalidInput` for an unsuitable store.
    """
    scheme = scheme_of(url, "store", MOVING_STORES, _SHOWN_MOVING)
    side: Side = await MOVING_STORES[scheme].load().open(url, joins=joins)
    return side


async def open_one(
    url: str,
    stack: AsyncExitStack,
    owns: Owns,
    *,
    read_only: bool,
    sole: bool,
    histories: Histories | None = None,
    logs: bool | None = None,
) -> Store:
    scheme = scheme_of(url, "store", STORES, _SHOWN)
    backend = STORES[scheme].load()
    store: Store
    if scheme == "memory":
        store = backend(owns, logs=bool(logs))
    elif scheme == "sqlite":
        path = sqlite_path(url)
        if not path.parent.is_dir():
            raise InvalidInput(f"store: the directory {path.parent} does not exist: create it first", field="store")
        store = await backend.open(path, owns=owns, read_only=read_only, logs=logs)
    elif scheme == "dynamodb":
        store = await backend.open(url, owns=owns, logs=None if read_only else logs)
    else:
        store = await backend.open(url, owns=owns, read_only=read_only, sole=sole, histories=histories, logs=logs)
    stack.push_async_callback(store.close)
    return store


def _owner(at: list[int], index: int) -> Owns:
    return lambda shard: at[shard] == index


class Upgradable(Protocol):
    async def plan(self) -> list[PendingStep]:
        """Return the steps of the upgrade that still have to run. Raises `Unavailable` if the store or index cannot be opened."""

    async def upgrade(self, progress: Progress) -> None:
        """Run the steps of the upgrade that still have to run. Raises `Unavailable` if the store or index cannot be opened."""


class NamedUpgrade(NamedTuple):
    name: str
    upgrade: Upgradable


def upgrades(settings: Settings) -> Sequence[NamedUpgrade]:
    """Return the upgrades of a network, in order.

    DynamoDB tables are upgraded when they are opened. Raises `InvalidInput` if an extra is missing.
    """
    found = [
        NamedUpgrade(shown_url(url), UPGRADES[scheme].load()(url))
        for url in store_urls(settings)
        if (scheme := urlsplit(url).scheme) in UPGRADES
    ]
    for url in distinct_urls(settings.search) or [""]:
        found += _index_files(settings, "search", url, INDEX_VERSIONS)
    found += _index_files(settings, "tags", settings.tags, CLOUD_VERSIONS)
    return found


def _index_files(settings: Settings, what: str, url: str, versions: Mapping[str, Backend]) -> list[NamedUpgrade]:
    """Return a list with the upgrade of an index; an empty list if its engine has no upgrades, or its file does not exist.

    `what` is the kind of index: `search` or `tags`. Without a `url`, the index is next to, or in, the first store.
    """
    first = store_urls(settings)[0]
    scheme = urlsplit(url or first).scheme
    if scheme not in versions:
        return []
    upgrade, known = UPGRADES[scheme].load(), versions[scheme].load()
    if scheme != "sqlite":
        return [NamedUpgrade(f"{what} in {shown_url(url or first)}", upgrade(url or first, known))]
    path = sibling_file(settings, url, what)
    # An index file next to the store is protected by the lock of the store; one that the settings name has its own lock.
    owner = None if url else sqlite_path(first)
    named = f"sqlite:///{path}"
    return [NamedUpgrade(f"{what} in {named}", upgrade(named, known, owner=owner))] if path.exists() else []
