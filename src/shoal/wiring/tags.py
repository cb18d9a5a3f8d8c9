"""The tag cloud of a network: where it is kept, what carries increments to it, who counts and who merges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from shoal.settings import Settings
from shoal.tagcloud.collection import Collector, Emitter, Inbox
from shoal.tagcloud.contract import CloudStore, TagRule, Transport
from shoal.tagcloud.reader import TagCloud
from shoal.wiring.backends import CLOUDS, TRANSPORTS, scheme_of
from shoal.wiring.places import file_beside, store_urls

_SHOWN = "sqlite:///path, postgresql://host/database, dynamodb://table, memory://"

_EMIT_SECONDS = 0.02
"""How long an event waits for others to be counted with."""


@dataclass(frozen=True, slots=True)
class TagCounting:
    """The parts, each whole. The collector works where events are worked off."""

    store: CloudStore
    transport: Transport
    emitter: Emitter
    collector: Collector

    async def settle(self, *, collecting: bool) -> None:
        """Return when all that was counted is merged: by the collector that runs here, or by others, or by hand."""
        await self.emitter.flush()
        if collecting or not isinstance(self.transport, Inbox):
            await self.collector.settle(merging=collecting)
            return
        while parcels := await self.transport.look():
            self.collector.take(parcels)
            await self.collector.merge()


@asynccontextmanager
async def open_cloud(settings: Settings) -> AsyncIterator[TagCloud]:
    """The cloud alone, without the graph, to read and to rule: it works beside a running server."""
    async with AsyncExitStack() as stack:
        yield TagCloud(await _open_store(settings, stack, read_only=False))


async def tag_rules(settings: Settings) -> Sequence[TagRule]:
    """Return the rules of admins on tags, read beside a running server or without one."""
    async with AsyncExitStack() as stack:
        return [*(await (await _open_store(settings, stack, read_only=True)).rules()).values()]


async def open_tags(settings: Settings, stack: AsyncExitStack, *, read_only: bool, working: bool) -> TagCounting:
    """Where tags are counted, and who does it. Raises as `open_store`."""
    store = await _open_store(settings, stack, read_only=read_only)
    transport: Transport = Inbox(store)
    if settings.broker:
        broker = TRANSPORTS[urlsplit(settings.broker).scheme].load()
        transport = await broker.open(settings.broker, collecting=working)
        stack.push_async_callback(transport.close)
    emitter = Emitter(transport.send, seconds=_EMIT_SECONDS)
    return TagCounting(store, transport, emitter, collector_of(settings, store, transport))


def collector_of(settings: Settings, store: CloudStore, transport: Transport) -> Collector:
    """Make the collector of a process, which merges when the settings say."""
    return Collector(
        store,
        transport,
        changes=settings.tag_merge_tags,
        increments=settings.tag_merge_increments,
        seconds=settings.tag_merge_seconds,
        pause=settings.tag_merge_pause_seconds,
    )


async def _open_store(settings: Settings, stack: AsyncExitStack, *, read_only: bool) -> CloudStore:
    """It lies beside the first store, in a file of its own on SQLite."""
    url = settings.tags or store_urls(settings)[0]
    scheme = scheme_of(url, "tags", CLOUDS, _SHOWN)
    backend = CLOUDS[scheme].load()
    store: CloudStore
    if scheme == "memory":
        store = backend()
    elif scheme == "sqlite":
        store = await backend.open(file_beside(settings, settings.tags, "tags"), read_only=read_only)
    elif scheme == "dynamodb":
        store = await backend.open(url)
    else:
        store = await backend.open(url, read_only=read_only)
    stack.push_async_callback(store.close)
    return store
