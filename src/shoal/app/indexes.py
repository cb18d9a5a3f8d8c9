"""The search index and the tag cloud of a network: their locations and fillers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from shoal.app.backends import CLOUDS, INDEXES, TRANSPORTS, scheme_of
from shoal.app.paths import distinct_urls, sibling_file, store_urls
from shoal.app.stores import open_store
from shoal.core.errors import InvalidInput
from shoal.graph.contract import Reader, Scanner, Store
from shoal.graph.shard_map import first_map, shown_url
from shoal.search.contract import SearchIndex
from shoal.search.divided import DividedIndex
from shoal.search.indexing import Filler, Tell, fill_quietly, refill
from shoal.search.memory import NoIndex
from shoal.settings import Settings
from shoal.tagcloud.collection import Collector, Emitter, Inbox
from shoal.tagcloud.contract import CloudStore, TagRule, Transport
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.updates import VersionUpdates
from shoal.tasks import cancel

_INDEX_URLS = "sqlite:///path, postgresql://host/database, memory://"
_NOWHERE = (
    "no search index: the store %s has none. Search finds only accounts and hashtags by exact name; "
    "set search to one of %s for full search"
)

_log = logging.getLogger(__name__)


async def open_search(settings: Settings, stack: AsyncExitStack, *, read_only: bool) -> Filler:
    """Open the search index with its filler, which keeps it in sync with the graph.

    Raises `Unavailable` for an index that cannot be opened, and `InvalidInput` for an unsupported URL.
    """
    index = await _open_index(settings, read_only=read_only)
    stack.push_async_callback(index.close)
    filler = Filler(index)
    stack.push_async_callback(filler.close)
    return filler


def begin_filling(store: Scanner, graph: Reader, filler: Filler, stack: AsyncExitStack) -> None:
    """Fill an incomplete index in the background. Closing `stack` interrupts the filling, and the next start resumes it."""
    task = asyncio.create_task(fill_quietly(store, graph, filler), name="shoal-search")
    stack.push_async_callback(cancel, task)


async def rebuild(settings: Settings, tell: Tell) -> int:
    """Index every member and post again, whether or not a server is running; return their number.

    Raises `InvalidInput` if there is no index that can be rebuilt.
    """
    async with _opened(settings) as (store, filler):
        return await refill(store, store, filler, tell)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Store, Filler]]:
    async with AsyncExitStack() as stack:
        filler = await open_search(settings, stack, read_only=False)
        in_memory = urlsplit(next(iter(distinct_urls(settings.search) or store_urls(settings)))).scheme == "memory"
        if not filler.index.keeps or in_memory:
            raise InvalidInput("search: no index to rebuild: search is off, or its index is in the memory of a server")
        # Open the store without a cache, because a running server may change objects during the rebuild.
        yield await open_store(settings, stack, read_only=True, sole=False), filler


async def _open_index(settings: Settings, *, read_only: bool) -> SearchIndex:
    """Open the search index, which may be distributed over several stores.

    By default it is in the database of the first store or, on SQLite, in a file next to the store.
    """
    if isinstance(settings.search, str):
        return await _open_part(settings, settings.search, read_only=read_only)
    known = first_map(settings.search)
    parts: list[SearchIndex] = []
    try:
        for url in known.stores:
            parts.append(await _open_part(settings, url, read_only=read_only))  # noqa: PERF401  # closed one by one on an error
    except BaseException:
        for part in parts:
            await part.close()
        raise
    return DividedIndex(parts, known.owners)


async def _open_part(settings: Settings, named: str, *, read_only: bool) -> SearchIndex:
    scheme = _scheme(settings, named)
    url = named or store_urls(settings)[0]
    if scheme not in INDEXES:
        if not read_only:
            _log.warning(_NOWHERE, shown_url(url), _INDEX_URLS)
        return NoIndex()
    backend = INDEXES[scheme].load()
    index: SearchIndex
    if scheme == "memory":
        index = backend()
    elif scheme == "sqlite":
        index = await backend.open(sibling_file(settings, named, "search"), read_only=read_only)
    else:
        index = await backend.open(url, read_only=read_only)
    return index


def _scheme(settings: Settings, named: str) -> str:
    if named:
        return scheme_of(named, "search", INDEXES, _INDEX_URLS)
    return scheme_of(store_urls(settings)[0], "search", CLOUDS, _INDEX_URLS)


_CLOUD_URLS = "sqlite:///path, postgresql://host/database, dynamodb://table, memory://"

_EMIT_SECONDS = 0.02
"""How long an increment is delayed to be batched with others."""


@dataclass(frozen=True, slots=True)
class TagCounting:
    """The tag store and its counters. The collector runs in the processes that process events."""

    store: CloudStore
    transport: Transport
    emitter: Emitter
    collector: Collector
    updates: VersionUpdates

    async def settle(self, *, collecting: bool) -> None:
        """Wait until all tag uses are merged into the counts, by the local collector, by others, or by this call."""
        await self.emitter.flush()
        if collecting or not isinstance(self.transport, Inbox):
            await self.collector.settle(merging=collecting)
            return
        while parcels := await self.transport.look():
            self.collector.take(parcels)
            await self.collector.merge()


@asynccontextmanager
async def open_cloud(settings: Settings) -> AsyncIterator[TagCloud]:
    """Open only the tag cloud, for reading and for tag rules. This also works while a server is running."""
    async with AsyncExitStack() as stack:
        yield TagCloud(await _open_store(settings, stack, read_only=False))


async def tag_rules(settings: Settings) -> Sequence[TagRule]:
    """Return the tag rules of admins. This also works while a server is running."""
    async with AsyncExitStack() as stack:
        return [*(await (await _open_store(settings, stack, read_only=True)).rules()).values()]


async def open_tags(
    settings: Settings, stack: AsyncExitStack, updates: VersionUpdates, *, read_only: bool, working: bool
) -> TagCounting:
    """Open the tag cloud and its counters.

    Raises `Unavailable` for a store that cannot be opened, and `InvalidInput` for an unsupported URL.
    """
    store = await _open_store(settings, stack, read_only=read_only)
    transport: Transport = Inbox(store)
    if settings.broker:
        broker = TRANSPORTS[urlsplit(settings.broker).scheme].load()
        transport = await broker.open(settings.broker, collecting=working)
        stack.push_async_callback(transport.close)
    emitter = Emitter(transport.send, seconds=_EMIT_SECONDS)
    return TagCounting(store, transport, emitter, collector_of(settings, store, transport, updates), updates)


def collector_of(
    settings: Settings, store: CloudStore, transport: Transport, updates: VersionUpdates | None = None
) -> Collector:
    return Collector(
        store,
        transport,
        changes=settings.tag_merge_tags,
        increments=settings.tag_merge_increments,
        seconds=settings.tag_merge_seconds,
        pause=settings.tag_merge_pause_seconds,
        updates=updates,
    )


async def _open_store(settings: Settings, stack: AsyncExitStack, *, read_only: bool) -> CloudStore:
    """Open the tag cloud: by default in the database of the first store; on SQLite in a separate file next to it."""
    url = settings.tags or store_urls(settings)[0]
    scheme = scheme_of(url, "tags", CLOUDS, _CLOUD_URLS)
    backend = CLOUDS[scheme].load()
    store: CloudStore
    if scheme == "memory":
        store = backend()
    elif scheme == "sqlite":
        store = await backend.open(sibling_file(settings, settings.tags, "tags"), read_only=read_only)
    elif scheme == "dynamodb":
        store = await backend.open(url)
    else:
        store = await backend.open(url, read_only=read_only)
    stack.push_async_callback(store.close)
    return store
