"""Client for one Redis server, replicas or Redis Cluster: batched scripts over many keys, and blocking connections.

A key is `<prefix>:{<shard>}:<id>` in fixed-width hexadecimal: the logical shard is the hash tag, so a member's keys are on one
server. Scripts declare no keys, so one call serves all slots of a server, which rejects keys of other servers one by one. Rejected
or lost keys are retried once after a topology refresh, then raise `Unavailable`; scripts must be idempotent. Calls made in one
iteration of the event loop share a round trip.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from redis.exceptions import AskError, OutOfMemoryError, RedisError, ResponseError

from shoal.core.errors import StorageFull, Unavailable
from shoal.core.ids import SEQUENCE_BITS
from shoal.core.placement import SHARDS
from shoal.graph.connection_errors import MisconfiguredEngine
from shoal.graph.redis.topology import NOWHERE, Client, ServerAddress, Topology, connect, parse, refusal
from shoal.observability.tracing import for_many, timed

KEY_BYTES = 25


def _lua(package: str, name: str) -> str:
    return "\n" + files(package).joinpath("lua", f"{name}.lua").read_text("utf-8")


_OPENING = f"\nlocal KEY = {KEY_BYTES}" + _lua("shoal.graph.redis", "opening")


_log = logging.getLogger(__name__)

_TRIES = 3
_BACKOFF_SECONDS = 0.5
_SCANNED = 500
_CONNECTIONS = 16
_BULK = 3
"""Connections to one server for big batches; the others stay free for requests."""

_TRY_AGAIN = ("non local key", "cluster is down", "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN")


class Script:
    """A Lua script whose first argument is the concatenated keys, and which returns `{refused, result}`.

    `refused` has the positions of keys that belong to other servers. A script that does not `grow` the stored data also runs when
    the server's memory is full. `name` identifies it in traces.
    """

    def __init__(self, name: str, body: str, *, grows: bool = True) -> None:
        self.name = name
        flags = "allow-cross-slot-keys" if grows else "allow-cross-slot-keys,allow-oom"
        self.text = f"#!lua flags={flags}{_OPENING}{body}"
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    @classmethod
    def load(cls, package: str, name: str, *, common: str = "", grows: bool = True) -> Script:
        """Load a script from the folder `lua` of a package: the file is the last part of `name`, after the file `common`."""
        parts = filter(None, (common, name.rpartition(".")[2]))
        return cls(name, "".join(_lua(package, part) for part in parts), grows=grows)


class PartialAnswer(NamedTuple):
    """The result of a script on one server. `at` has the indexes of the keys of this call among all keys of the request."""

    at: NDArray[np.intp]
    result: Any


Arguments = Callable[[NDArray[np.intp]], Sequence[bytes | int]]
"""A function that returns the arguments of the call for the keys at these indexes."""


def shards_of(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return ids >> SEQUENCE_BITS & (SHARDS - 1)


def keys_of(prefix: str, ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return an array with one row per id: the Redis key of the id. Scripts take concatenated rows: `keys[at].tobytes()`."""
    keys = np.empty((len(ids), KEY_BYTES), np.uint8)
    keys[:] = np.frombuffer(f"{prefix}:{{0000}}:{'0' * 16}".encode(), np.uint8)
    keys[:, 3:7] = _hexadecimal(shards_of(ids).astype(">u2"), 4)
    keys[:, 9:] = _hexadecimal(ids.astype(">i8"), 16)
    return keys


def _hexadecimal(numbers: NDArray[Any], digits: int) -> NDArray[np.uint8]:
    return np.frombuffer(numbers.tobytes().hex().encode(), np.uint8).reshape(-1, digits)


class _Server:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.failed_at = 0.0
        self.backoff_until = 0.0
        self.bulk = asyncio.Semaphore(_BULK)
        self.quick = asyncio.Semaphore(_CONNECTIONS - _BULK)


class Nodes:
    """The Redis servers of a URL, connected on demand.

    The URL is `redis://host:port/db`, with several `host:port` if a primary has replicas, or `redis+cluster://host:port,host:port`
    for a Redis Cluster. `rediss` uses TLS.
    """

    def __init__(self, url: str, *, connect_seconds: float = 1.0, answer_seconds: float = 2.0) -> None:
        self._url = parse(url)
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._servers: dict[ServerAddress, _Server] = {}
        self._topology: Topology | None = None
        self._looking: asyncio.Task[Topology] | None = None
        self._opening = False
        self._last_refusal = ""
        """The last logged reason why all servers refuse us permanently."""
        self.calls = 0
        """Scripts that were run, for tests and metrics."""

    @classmethod
    async def open(cls, url: str) -> Nodes:
        """Connect to the servers. An unreachable server is no error, because it may come back later.

        Raises `ValueError` for an invalid URL, and `MisconfiguredEngine` if the credentials are rejected or TLS fails.
        """
        nodes = cls(url)
        # Do not log the reason of a refusal during the opening, because the caller reports it.
        nodes._opening = True
        try:
            await nodes._known()
        except MisconfiguredEngine:
            await nodes.close()
            raise
        except Unavailable:
            return nodes
        finally:
            nodes._opening = False
        return nodes

    async def each(
        self, script: Script, shards: NDArray[np.int64], arguments: Arguments, *, batch: int, bulk: bool = False
    ) -> list[PartialAnswer]:
        """Run a script for many keys: concurrently on their servers, `batch` keys in each call, in order within a server.

        Raises `Unavailable` if any key could not be reached; others may have been written by then.
        """
        parts: list[PartialAnswer] = []
        left = np.arange(len(shards))
        unreachable = False
        topology = await self._known()
        for attempt in range(_TRIES):
            left, unreachable = await self._round(script, shards, left, arguments, topology, batch, bulk, parts)
            if not len(left):
                return parts
            if attempt and not unreachable:
                left = await self._follow(script, shards, left, arguments, topology, parts)
                if not len(left):
                    return parts
            if attempt == _TRIES - 1 or (attempt and unreachable):
                break
            topology = await self._look(topology)
        if unreachable:
            self._back_off(topology, shards[left])
        raise _unreachable()

    async def _round(
        self,
        script: Script,
        shards: NDArray[np.int64],
        left: NDArray[np.intp],
        arguments: Arguments,
        topology: Topology,
        batch: int,
        bulk: bool,
        parts: list[PartialAnswer],
    ) -> tuple[NDArray[np.intp], bool]:
        servers_of = topology.server_of_shard[shards[left]]
        lost = left[servers_of == NOWHERE]
        calls: list[tuple[_Server, NDArray[np.intp]]] = []
        for index, address in enumerate(topology.addresses):
            mine = left[servers_of == index]
            calls += [(self._server(address), mine[first : first + batch]) for first in range(0, len(mine), batch)]
        if any(server.backoff_until > time.monotonic() for server, _ in calls):
            raise _unreachable()
        replies = await _each([self._call(server, script, at, arguments, bulk=bulk) for server, at in calls])
        refused, unreachable = [lost], bool(len(lost))
        for (_, at), reply in zip(calls, replies, strict=True):
            if isinstance(reply, _Retryable):
                unreachable = True
                refused.append(at)
            elif isinstance(reply, BaseException):
                raise reply
            else:
                parts.append(reply[0])
                refused.append(reply[1])
        return np.concatenate(refused), unreachable

    async def _call(
        self, server: _Server, script: Script, at: NDArray[np.intp], arguments: Arguments, *, bulk: bool
    ) -> tuple[PartialAnswer, NDArray[np.intp]]:
        """Run a script on one server. Return its result, and the indexes of the keys that belong to another server."""
        queued = time.monotonic()
        async with server.bulk if bulk else server.quick:
            if server.failed_at > queued:
                # The server failed while this call was queued: do not wait for another timeout.
                raise _Retryable
            try:
                reply = await timed("redis", script.name, self._run(server.client, script, arguments(at)))
            except _Retryable:
                server.failed_at = time.monotonic()
                raise
        return _answered(at, reply)

    async def _run(
        self, client: Client, script: Script, arguments: Sequence[bytes | int], *, redirected: bool = False
    ) -> Any:
        """Run a script on a server and return its reply. Raises `_Retryable` if a retry on this or another server may succeed."""
        self.calls += 1
        try:
            async with asyncio.timeout(self._connect_seconds + self._answer_seconds):
                if redirected:
                    pipeline = client.pipeline(transaction=False)
                    pipeline.execute_command("ASKING")
                    pipeline.execute_command("EVAL", script.text, 0, *arguments)
                    return (await pipeline.execute())[1]
                try:
                    return await client.execute_command("EVALSHA", script.sha, 0, *arguments)
                except ResponseError as error:
                    if "NOSCRIPT" not in _words(error):
                        raise
                    return await client.execute_command("EVAL", script.text, 0, *arguments)
        except OutOfMemoryError as error:
            raise StorageFull("Redis is out of memory") from error
        except (RedisError, OSError, TimeoutError) as error:
            if isinstance(error, ResponseError) and not any(word in _words(error) for word in _TRY_AGAIN):
                raise
            raise _Retryable from error

    async def _follow(
        self,
        script: Script,
        shards: NDArray[np.int64],
        left: NDArray[np.intp],
        arguments: Arguments,
        topology: Topology,
        parts: list[PartialAnswer],
    ) -> NDArray[np.intp]:
        """Run the script for the keys at `left`, whose slots are migrating, on the target servers. Return the indexes that failed.

        The keys at `left` have already moved to the target server, or do not exist.
        """
        failed = [np.empty(0, np.intp)]
        for shard in np.unique(shards[left]).tolist():
            at = left[shards[left] == shard]
            index = int(topology.server_of_shard[shard])
            target = None if index == NOWHERE else await self._destination(topology.addresses[index], shard)
            if target is None:
                failed.append(at)
                continue
            server = self._server(target)
            try:
                run = self._run(server.client, script, arguments(at), redirected=True)
                reply = await timed("redis", script.name, run)
            except _Retryable:
                failed.append(at)
                continue
            part, refused = _answered(at, reply)
            parts.append(part)
            failed.append(refused)
        return np.concatenate(failed)

    async def _destination(self, address: ServerAddress, shard: int) -> ServerAddress | None:
        """Return the server to which a shard moves from the server at `address`; None if the latter still has the shard."""
        try:
            async with asyncio.timeout(self._connect_seconds + self._answer_seconds):
                await self._server(address).client.execute_command("EXISTS", f"{{{shard:04x}}}")
        except AskError as error:
            return ServerAddress(str(error.host), int(error.port))
        except (RedisError, OSError, TimeoutError):
            return None
        return None

    def _back_off(self, topology: Topology, shards: NDArray[np.int64]) -> None:
        """Mark the servers of these shards as failed for a while, so that not every caller waits for a timeout."""
        for server in np.unique(topology.server_of_shard[shards]).tolist():
            if server != NOWHERE:
                self._server(topology.addresses[server]).backoff_until = time.monotonic() + _BACKOFF_SECONDS

    async def _known(self) -> Topology:
        return self._topology or await self._look(None)

    async def _look(self, seen: Topology | None) -> Topology:
        """Return a newer topology than `seen`. Concurrent callers share one request to the servers."""
        if self._topology is not None and self._topology is not seen:
            return self._topology
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._topology_now())
            self._looking.add_done_callback(self._looked)
        return await asyncio.shield(self._looking)

    async def _topology_now(self) -> Topology:
        known = () if self._topology is None else self._topology.addresses
        every = {*known, *self._url.addresses}
        failures: list[tuple[ServerAddress, Exception]] = []
        for address in sorted(every, key=lambda address: self._server(address).failed_at):
            try:
                async with asyncio.timeout(self._connect_seconds + self._answer_seconds):
                    found = await self._url.look(self._server(address).client, address)
            except (RedisError, OSError, TimeoutError) as error:
                failures.append((address, error))
                continue
            if found is not None:
                self._topology, self._last_refusal = found, ""
                return found
        refused = await refusal(failures, tls=self._url.tls)
        message = str(refused.__cause__) if isinstance(refused, MisconfiguredEngine) else ""
        if message and message != self._last_refusal and not self._opening:
            _log.error("Redis is misconfigured: %s", message)
        self._last_refusal = message
        raise refused

    def _looked(self, task: asyncio.Task[Topology]) -> None:
        self._looking = None
        # Mark the exception as retrieved, even if no caller awaits the task any more.
        if not task.cancelled():
            task.exception()

    def _server(self, address: ServerAddress) -> _Server:
        server = self._servers.get(address)
        if server is None:
            client = connect(self._url, address, _CONNECTIONS + 2, self._connect_seconds, self._answer_seconds)
            server = self._servers[address] = _Server(client)
        return server

    async def apart(self, shard: int, seconds: float) -> Client:
        """Return a separate connection to the server of a shard, for commands that may block for `seconds`; the caller closes it.

        Raises `Unavailable`.
        """
        topology = await self._known()
        server = int(topology.server_of_shard[shard])
        if server == NOWHERE:
            raise _unreachable()
        answer_seconds = seconds + self._answer_seconds
        return connect(self._url, topology.addresses[server], 1, self._connect_seconds, answer_seconds)

    async def by_server(self, shards: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Group the indexes of these shards by server; a shard without a server is in no group.

        Raises `Unavailable`.
        """
        servers_of = (await self._known()).server_of_shard[shards]
        return [np.flatnonzero(servers_of == server) for server in np.unique(servers_of).tolist() if server != NOWHERE]

    async def ids(self, prefix: str, shards: NDArray[np.int64] | None = None) -> AsyncIterator[NDArray[np.int64]]:
        """Yield the ids in all keys with a prefix, or in those on these shards, in pages. An id may occur twice.

        Raises `Unavailable`.
        """
        topology = await self._known()
        addresses = topology.addresses
        if shards is not None:
            addresses = tuple(
                addresses[server] for server in np.unique(topology.server_of_shard[shards]) if server != NOWHERE
            )
        for address in addresses:
            client, cursor = self._server(address).client, -1
            while cursor:
                try:
                    cursor, keys = await client.scan(max(cursor, 0), match=f"{prefix}:{{*", count=_SCANNED)
                except (RedisError, OSError) as error:
                    raise _unreachable() from error
                page = np.array([int(key[9:], 16) for key in keys], np.uint64).astype(np.int64)
                yield page if shards is None else page[np.isin(shards_of(page), shards)]

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for server in self._servers.values():
            await server.client.aclose()
        self._servers.clear()


class _Retryable(Exception):
    """The call may be retried after a topology refresh."""


async def _each(calls: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Await calls concurrently; return their results or errors. A single call is awaited directly: a task costs 10 us."""
    if len(calls) != 1:
        return await asyncio.gather(*calls, return_exceptions=True)
    try:
        return [await calls[0]]
    except _Retryable as retryable:
        return [retryable]


def _answered(at: NDArray[np.intp], reply: Any) -> tuple[PartialAnswer, NDArray[np.intp]]:
    refused, result = reply
    return PartialAnswer(at, result), at[np.array(refused, np.intp) - 1] if refused else at[:0]


def _unreachable() -> Unavailable:
    return Unavailable("Redis is unreachable", retry_after=1.0)


def _words(error: Exception) -> str:
    return f"{type(error).__name__.upper()} {error}"


class ShardConnection:
    """A connection to the Redis server that has a shard, opened on first use and again after each failure.

    It runs one command at a time, which may block for `seconds`.
    """

    def __init__(self, nodes: Nodes, shard: int, seconds: float) -> None:
        self._nodes = nodes
        self._shard = shard
        self._seconds = seconds
        self._client: Client | None = None

    async def ask(self, *words: bytes | str | int) -> Any:
        """Run a command. Any error becomes `Unavailable`, even an error reply: the server may no longer have the shard."""
        if self._client is None:
            self._client = await self._nodes.apart(self._shard, self._seconds)
        try:
            answer = await self._client.execute_command(*words)
        except (RedisError, OSError, TimeoutError) as error:
            await self.close()
            raise Unavailable("Redis is unreachable", retry_after=1.0) from error
        # The client calls `asyncio.wait_for`, which before Python 3.12 ignores a cancellation that arrives when it returns.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        return answer

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batching(Generic[Item, Answer]):
    """Groups the items of an event loop iteration into one call of `act`, which returns their results in order.

    An error of `act` is raised for every caller. The trace of each caller records its wait under `name`.
    """

    def __init__(self, name: str, act: Callable[[list[Item]], Awaitable[list[Answer]]]) -> None:
        self._name = name
        self._act = act
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, item: Item) -> Answer:
        """Return the result of `act` for this item. The batch is completed even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._send)
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        return await timed("redis", self._name, answer)

    def _send(self) -> None:
        requests, self._waiting = self._waiting, []
        with for_many():
            task = asyncio.ensure_future(self._run_batch(requests))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, requests: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._act([item for item, _ in requests])
        except Exception as error:  # noqa: BLE001  # raised again in the caller
            for _, answer in requests:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), found in zip(requests, answers, strict=True):
            if not answer.done():
                answer.set_result(found)

    async def close(self) -> None:
        while self._waiting or self._tasks:
            await asyncio.sleep(0)
            await asyncio.gather(*self._tasks)
