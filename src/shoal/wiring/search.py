"""The search index of a network: where it is kept, and who fills it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from shoal.core.errors import InvalidInput
from shoal.graph.contract import Reader, Scanner, Store
from shoal.graph.sharding.shard_map import shown_url
from shoal.search.contract import NoIndex, SearchIndex
from shoal.search.indexing import Filler, Tell, fill_quietly, refill
from shoal.settings import Settings
from shoal.wiring.backends import CLOUDS, INDEXES, scheme_of
from shoal.wiring.places import file_beside, store_urls
from shoal.wiring.stores import open_store

_SHOWN = "sqlite:///path, postgresql://host/database, memory://"
_NOWHERE = (
    "there is no search index: the store %s has none of its own. Only accounts and hashtags are found, by their exact names; "
    "set search to one of %s to find more"
)

_log = logging.getLogger(__name__)


async def open_search(settings: Settings, stack: AsyncExitStack, *, read_only: bool) -> Filler:
    """The index, with what keeps it as the graph is. Raises as `open_store`."""
    index = await _open_index(settings, read_only=read_only)
    stack.push_async_callback(index.close)
    filler = Filler(index)
    stack.push_async_callback(filler.close)
    return filler


def begin_filling(store: Scanner, graph: Reader, filler: Filler, stack: AsyncExitStack) -> None:
    """Fill an index that is not complete, in the background; it ends with the stack, and goes on at the next start."""
    task = asyncio.create_task(fill_quietly(store, graph, filler), name="shoal-search")

    async def end() -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(end)


async def rebuild(settings: Settings, tell: Tell) -> int:
    """Look at every member and post again, beside a running server or without one; how many there are.

    Raises `InvalidInput` where there is no index that could be rebuilt.
    """
    async with _opened(settings) as (store, filler):
        return await refill(store, store, filler, tell)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Store, Filler]]:
    async with AsyncExitStack() as stack:
        filler = await open_search(settings, stack, read_only=False)
        if not filler.index.keeps or _scheme(settings) == "memory":
            raise InvalidInput("search: there is no index to rebuild; it is nowhere, or in the memory of a server")
        # Not remembered by this process: what a server changes meanwhile is seen.
        yield await open_store(settings, stack, read_only=True, sole=False), filler


async def _open_index(settings: Settings, *, read_only: bool) -> SearchIndex:
    """It lies beside the first store, in a file of its own on SQLite."""
    scheme = _scheme(settings)
    url = settings.search or store_urls(settings)[0]
    if scheme not in INDEXES:
        if not read_only:
            _log.warning(_NOWHERE, shown_url(url), _SHOWN)
        return NoIndex()
    backend = INDEXES[scheme].load()
    index: SearchIndex
    if scheme == "memory":
        index = backend()
    elif scheme == "sqlite":
        index = await backend.open(file_beside(settings, settings.search, "search"), read_only=read_only)
    else:
        index = await backend.open(url, read_only=read_only)
    return index


def _scheme(settings: Settings) -> str:
    if settings.search:
        return scheme_of(settings.search, "search", INDEXES, _SHOWN)
    return scheme_of(store_urls(settings)[0], "search", CLOUDS, _SHOWN)
