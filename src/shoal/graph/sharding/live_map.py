"""The live shard map of a process: polled, adopted and acknowledged while data sources move.

The process asks every store a few times a second which map it knows, less often if there are many stores; the first answer with a
newer map makes it ask all of them at once. After a store has confirmed the map, the process uses it for
that store for two seconds; then it asks again before any read or write there. So a process that was cut off or suspended never
reads data that has moved away, and a move need not wait for it.

A process that has not used a store for a while deregisters there, and only looks for a newer map now and then. Its next use of
the store waits for a heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.bulk import grouped
from shoal.graph.contract import Store, WakeUp
from shoal.graph.resolve import Owns
from shoal.graph.shard_map import (
    DEAD_SECONDS,
    LEASE_SECONDS,
    LogEnd,
    ShardMap,
    ShardState,
    heartbeat_seconds,
    shown_url,
)
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.locks import set_within

_PATIENCE_SECONDS = 2.5
_RETRY_SECONDS = 1.0
_OPEN_SECONDS = 2.0
_OPENED_AT_ONCE = 8
_IDLE_SECONDS = 1.0
_LOOK_SECONDS = 15.0

_log = logging.getLogger(__name__)

T = TypeVar("T")


class MapNews(NamedTuple):
    """The reply of a store to a heartbeat: a newer shard map, if it has one, and the URLs of stores about to join."""

    newer: ShardMap | None
    joining: list[str]


class MapKeeper(Protocol):
    """The copy of the shard map in one store, with a list of the processes that use the store."""

    async def beat(self, me: int, version: int, *, joins: bool) -> MapNews:
        """Report the map version that this process uses, and return any newer map. Raises `Unavailable`."""

    async def look(self, version: int) -> MapNews:
        """Return what `beat` would return, without registering the process. Raises `Unavailable`."""

    async def leave(self, me: int) -> None:
        """Remove the process `me` from the list of processes that use the store. Raises `Unavailable`."""

    async def offer(self, known: ShardMap) -> None:
        """Store the map, if it is newer than the stored one."""

    async def admit(self, shards: list[int], version: int, seconds: float, ends: Mapping[int, LogEnd]) -> None:
        """After `seconds`, accept writes to these shards again (see `shard_map.Side`)."""

    async def marks(self) -> dict[int, ShardState]:
        """Return the states of shards that are moving or have moved, according to the store."""

    async def close(self, me: int) -> None:
        """Leave, if the store is reachable, and close the connection."""


class _Away:
    """A placeholder for an unreachable store: every operation raises `Unavailable`."""

    def on_event(self, wake: WakeUp) -> None:
        """Do nothing: an unopened store has no events."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    @property
    def log_sources(self) -> Sequence[Any]:
        return (self,)

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_: Any, **__: Any) -> Any:
            raise Unavailable("the store is unreachable: try again in a few seconds")

        return refuse


async def _few_at_once(work: Callable[[str], Awaitable[T]], urls: Sequence[str]) -> list[T]:
    """Run `work` for all URLs, a few at a time, then raise the first error if there is one."""
    found: list[T | BaseException] = []
    for start in range(0, len(urls), _OPENED_AT_ONCE):
        some = [work(url) for url in urls[start : start + _OPENED_AT_ONCE]]
        found += await asyncio.gather(*some, return_exceptions=True)
    for answer in found:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in found if not isinstance(answer, BaseException)]


class LiveMap:
    """Keeps the `graph` on the newest shard map (see `Watch`). The caller closes the stores that `open_store` opened."""

    def __init__(
        self,
        open_store: Callable[[str, Owns], Awaitable[Store]],
        open_post: Callable[[str], MapKeeper],
        known: ShardMap,
        *,
        idle_seconds: float = _IDLE_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """Create the map of a process.

        Args:
            open_store: Opens a store by its URL.
            open_post: Returns the copy of the map in a store.
            known: The map in the settings.
            idle_seconds: Time without a read or write after which the process deregisters from a store.
            look_seconds: Interval at which a deregistered process looks for a newer map.
        """
        self._open_store = open_store
        self._open_post = open_post
        self._idle_seconds = idle_seconds
        self._look_seconds = look_seconds
        self._me = secrets.randbits(62)
        self.map = known
        self.graph = ShardedGraph([], known.owners)
        # The URL of each shard's store. The `owns` functions of the stores read this list.
        self._homes: list[str] = []
        self._stores: dict[str, Store] = {}
        self._posts: dict[str, MapKeeper] = {}
        self._until: dict[str, float] = {}
        self._used: dict[str, float] = {}
        """When the process last read or wrote each store."""
        self._idle: dict[str, asyncio.Event] = {}
        """For each store from which the process is deregistered: set to register again."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._side_tasks: set[asyncio.Task[Any]] = set()
        self._beaten: dict[str, asyncio.Event] = {}
        self._lock = asyncio.Lock()
        self._opening: dict[str, asyncio.Lock] = {}
        self._closing = asyncio.Event()
        self._changed = asyncio.Event()
        """Set when the map changes and when the process closes; then replaced."""

    async def open(self) -> ShardedGraph:
        """Return the graph, with the newest shard map that any store has. Raises `Unavailable` if a store cannot be opened."""
        newest: ShardMap | None = self.map
        while newest is not None:
            self._set(newest)
            replies = await _few_at_once(self._joined, self.map.stores)
            newest = max(
                (reply.newer for reply in replies if reply.newer), key=lambda known: known.version, default=None
            )
        self._route()
        self.graph.watch = self
        for url in self.map.stores:
            self._follow(url)
        await self._admit()
        return self.graph

    async def close(self) -> None:
        """Deregister this process. The graph may not be used afterwards."""
        self._closing.set()
        self._wake_up()
        for beaten in self._beaten.values():
            beaten.set()
        await asyncio.gather(*self._tasks.values(), *self._side_tasks)
        await asyncio.gather(*[post.close(self._me) for post in self._posts.values()])

    async def marks(self) -> dict[str, dict[int, ShardState]]:
        return {url: await self._post(url).marks() for url in self.map.stores}

    async def _joined(self, url: str) -> MapNews:
        await self._store(url)
        return await self._beat(url, joins=True)

    def fresh(self, store: int) -> bool:
        url = self.map.stores[store]
        now = self._used[url] = asyncio.get_running_loop().time()
        return now < self._until.get(url, 0.0)

    async def renew(self, store: int) -> None:
        if (idle := self._idle.get(self.map.stores[store])) is not None:
            idle.set()
        beaten = self._beaten[self.map.stores[store]]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await beaten.wait()
                if not self.fresh(store):
                    # The heartbeat that just ended may have started before this call, so wait for the next one.
                    await self._beaten[self.map.stores[store]].wait()
        if not self.fresh(store):
            raise Unavailable("the store is unreachable: try again in a few seconds")

    def _post(self, url: str) -> MapKeeper:
        if url not in self._posts:
            self._posts[url] = self._open_post(url)
        return self._posts[url]

    async def _beat(self, url: str, *, joins: bool) -> MapNews:
        loop = asyncio.get_running_loop()
        began = loop.time()
        reply = await self._post(url).beat(self._me, self.map.version, joins=joins)
        if reply.newer is None:
            self._until[url] = began + LEASE_SECONDS
        return reply

    def _follow(self, url: str) -> None:
        self._beaten[url] = asyncio.Event()
        self._used.setdefault(url, asyncio.get_running_loop().time())
        self._tasks[url] = asyncio.create_task(self._keep(url), name="shoal-map")

    async def _keep(self, url: str) -> None:
        joined = url in self._until
        while not self._closing.is_set():
            pause = heartbeat_seconds(len(self.map.stores))
            changed = self._changed
            try:
                reply = await self._beat(url, joins=not joined)
                joined = True
                if reply.newer is not None:
                    await self._adopt(reply.newer)
                    # Send the next heartbeat at once, because the publisher of the map waits for our acknowledgment.
                    continue
                self._prepare(reply.joining)
                if asyncio.get_running_loop().time() - self._used[url] > self._idle_seconds:
                    joined = False
                    await self._rest(url)
                    continue
            except ShoalError:
                _log.debug("the heartbeat to %s failed", shown_url(url))
            except Exception:  # noqa: BLE001  # without heartbeats the process could not use the store any more
                _log.exception("the heartbeats that check for a newer shard map failed")
                pause = _RETRY_SECONDS
            self._stir(url)
            await self._pause(pause, changed)

    async def _rest(self, url: str) -> None:
        """Deregister from a store, until this process uses it or has a newer map. Raises `Unavailable`."""
        woken = self._idle[url] = asyncio.Event()
        self._until[url] = 0.0
        try:
            await self._post(url).leave(self._me)
            # `close` may have been called before the event existed.
            while not self._closing.is_set() and not await set_within(woken, self._look_seconds):
                reply = await self._post(url).look(self.map.version)
                if reply.newer is not None:
                    await self._adopt(reply.newer)
                self._prepare(reply.joining)
        finally:
            del self._idle[url]

    async def _pause(self, seconds: float, ended_by: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended_by.wait()

    def _wake_up(self) -> None:
        """End all pauses between heartbeats."""
        self._changed.set()
        for idle in self._idle.values():
            idle.set()

    def _stir(self, url: str) -> None:
        """Wake all tasks that wait for a heartbeat of this store, so that they check its state again."""
        self._beaten[url].set()
        if not self._closing.is_set():
            self._beaten[url] = asyncio.Event()

    def _set(self, known: ShardMap) -> None:
        self.map = known
        self._homes[:] = [known.stores[owner] for owner in known.owners]

    async def _adopt(self, newer: ShardMap) -> None:
        async with self._lock:
            if newer.version <= self.map.version:
                return
            await asyncio.gather(*[self._store_or_none(url) for url in newer.stores])
            # No await between these steps, so the stores' ownership and the graph's routing never differ.
            self._set(newer)
            self._route()
            for url in newer.stores:
                if url not in self._tasks:
                    self._follow(url)
                if url not in self._stores:
                    self._run_in_background(self._open_later(url))
            self._wake_up()
            self._changed = asyncio.Event()
        self._run_in_background(self._admit())

    def _route(self) -> None:
        stores = [self._stores.get(url) or cast("Store", _Away()) for url in self.map.stores]
        self.graph.remap(stores, self.map.owners)

    async def _admit(self) -> None:
        """Send the newest shard map to all stores and allow writes to moved shards, in case the mover died before it did so."""
        known = self.map
        here_of = grouped({*known.moved, *known.left}, lambda shard: known.stores[known.owners[shard]])
        # Send the map first to the stores that still refuse writes to their new shards.
        for url in sorted(known.stores, key=lambda url: url not in here_of) if known.version else ():
            here = here_of.get(url)
            try:
                await self._post(url).offer(known)
                if here:
                    await self._post(url).admit(here, known.version, DEAD_SECONDS, known.ends)
            except ShoalError:
                _log.debug("sending the shard map to %s failed", shown_url(url))

    def _prepare(self, urls: list[str]) -> None:
        """Open stores that are about to join, so that the switch to the new map need not wait for them."""
        for url in urls:
            if url not in self._stores and url not in self._opening:
                self._run_in_background(self._store_or_none(url))

    async def _store_or_none(self, url: str) -> Store | None:
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                return await self._store(url)
        except (ShoalError, TimeoutError):
            _log.warning("cannot open %s, a store of this network", shown_url(url))
            return None

    async def _store(self, url: str) -> Store:
        async with self._opening.setdefault(url, asyncio.Lock()):
            if url not in self._stores:
                self._stores[url] = await self._open_store(url, lambda shard: self._homes[shard] == url)
            return self._stores[url]

    async def _open_later(self, url: str) -> None:
        while not self._closing.is_set():
            if await self._store_or_none(url) is not None:
                async with self._lock:
                    self._route()
                return
            await self._pause(_RETRY_SECONDS, self._closing)

    def _run_in_background(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)
