"""Settings in, running network out: the only module that names a backend."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput
from shoal.core.ids import IdMaker
from shoal.core.placement import DATA_SOURCES, source_of
from shoal.fanout.effects import Effects
from shoal.fanout.table import TABLE
from shoal.feeds.reads import Reads
from shoal.graph.cached import CachedGraph
from shoal.graph.contract import Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.resolve import Owns
from shoal.graph.sharded import ShardedGraph, parse_shard_map
from shoal.graph.sqlite import SqliteGraph
from shoal.media.decoder import Decoder
from shoal.media.library import MediaLibrary
from shoal.media.limits import Limits as MediaLimits
from shoal.media.store import MediaStore
from shoal.ops.upkeep import Upkeep
from shoal.outbox import Runner
from shoal.services.writes import Limits, Writes
from shoal.settings import Settings
from shoal.timelines.audience import Audiences
from shoal.timelines.memory import MemoryTimelines

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Network:
    """Everything that runs, each part whole."""

    settings: Settings
    store: Store
    timelines: MemoryTimelines
    writes: Writes
    reads: Reads
    effects: Effects
    runner: Runner[Effects]
    media: MediaLibrary


@asynccontextmanager
async def open_network(
    settings: Settings, *, read_only: bool = False, background: bool = True
) -> AsyncIterator[Network]:
    """Open every part, and close it again. `background` runs consequences and upkeep; without it, `runner.turn` does.

    Raises `Unavailable` for a store that cannot be opened, `InvalidInput` for a URL that names no backend.
    """
    async with AsyncExitStack() as stack:
        store = CachedGraph(await _open_store(settings.store, stack, read_only=read_only), settings.object_cache)
        timelines = MemoryTimelines(settings.timeline_members, settings.timeline_length)
        audiences = Audiences()
        timelines.on_drop = audiences.clear
        media_limits = MediaLimits(max_bytes=settings.max_upload_bytes, max_pixels=settings.max_pixels)
        decoder = await stack.enter_async_context(Decoder(media_limits))
        media = MediaLibrary(MediaStore.open(media_url(settings)), decoder, media_limits)
        new_id = IdMaker()
        loud: set[int] = set()
        effects = Effects(store, timelines, audiences, new_id, loud, settings.loud_from, merge=settings.timeline_length)
        network = Network(
            settings=settings,
            store=store,
            timelines=timelines,
            writes=Writes(store, new_id, media, _limits(settings), domain_of(settings)),
            reads=Reads(store, timelines, audiences, loud, settings.timeline_length),
            effects=effects,
            runner=Runner(store, TABLE, effects),
            media=media,
        )
        if background and not read_only:
            network.runner.start()
            stack.push_async_callback(network.runner.stop)
            upkeep = Upkeep(store, timelines, settings.timeline_idle_days, settings.tombstone_days)
            upkeep.start()
            stack.push_async_callback(upkeep.stop)
        yield network


async def _open_store(where: str | Mapping[str, str], stack: AsyncExitStack, *, read_only: bool) -> Store:
    if isinstance(where, str):
        return await _open_one(where, stack, _everything, read_only=read_only)
    owners = parse_shard_map(where)
    urls = list(dict.fromkeys(owners.values()))
    at = [urls.index(owners[source]) for source in range(DATA_SOURCES)]
    stores = [await _open_one(url, stack, _owner(at, index), read_only=read_only) for index, url in enumerate(urls)]
    return ShardedGraph(stores, at)


def _owner(at: list[int], index: int) -> Owns:
    return lambda shard: at[source_of(shard)] == index


def _everything(_shard: int) -> bool:
    return True


async def _open_one(url: str, stack: AsyncExitStack, owns: Owns, *, read_only: bool) -> Store:
    parts = urlsplit(url)
    store: Store
    if parts.scheme == "sqlite":
        path = sqlite_path(url)
        if not path.parent.is_dir():
            raise InvalidInput(f"store: the directory of {path.name} does not exist", field="store")
        store = await SqliteGraph.open(path, owns=owns, read_only=read_only)
    elif parts.scheme == "memory":
        store = MemoryGraph(owns)
    else:
        raise InvalidInput(f"store: {parts.scheme or url!r} is not one of sqlite:///path, memory://", field="store")
    stack.push_async_callback(store.close)
    return store


def sqlite_path(url: str) -> Path:
    """The file that `sqlite:///relative` or `sqlite:////absolute` names."""
    return Path(url.removeprefix("sqlite:///") or "shoal.db")


def media_url(settings: Settings) -> str:
    """Where pictures are: as set, or a directory `<store>.media` beside the first file of the store."""
    if settings.media:
        return settings.media
    first = settings.store if isinstance(settings.store, str) else next(iter(settings.store.values()))
    if urlsplit(first).scheme != "sqlite":
        return "memory://"
    path = sqlite_path(first)
    return path.absolute().with_name(f"{path.name}.media").as_uri()


def store_files(settings: Settings) -> list[Path]:
    """The files that the store is made of, in the order of the shard map; none for a store that has no files."""
    urls = [settings.store] if isinstance(settings.store, str) else settings.store.values()
    return [sqlite_path(url) for url in dict.fromkeys(urls) if urlsplit(url).scheme == "sqlite"]


def control_path(settings: Settings) -> Path | None:
    """Where a server of this store listens to its operator: `<store>.sock` beside the first file."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.sock") if files else None


def base_url(settings: Settings) -> str:
    """The root of every URL that clients are given, without a slash at the end."""
    return (settings.base_url or f"http://{settings.host}:{settings.port}").rstrip("/")


def domain_of(settings: Settings) -> str:
    """Our own name in `@user@domain`."""
    return urlsplit(base_url(settings)).hostname or "localhost"


def _limits(settings: Settings) -> Limits:
    return Limits(text=settings.max_post_characters, media=settings.max_media_per_post)
