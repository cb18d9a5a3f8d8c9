"""Connections to one PostgreSQL server, opened when they are needed and used again.

A server that is lost, refuses or stays silent is `Unavailable` within seconds; when it is back, so are the connections. A
question that has been sent is always waited for, also when whoever asked has gone: nothing is left half said on a
connection. What keeps silent for too long loses its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import asyncpg

from shoal.core.errors import OutcomeUnknown, StorageFull, Unavailable
from shoal.graph.contract import Frozen
from shoal.tracing.record import timed

T = TypeVar("T")
Row = tuple[Any, ...]

PATIENCE = 5.0
"""Seconds that a request waits for the server."""
LONG_PATIENCE = 120.0
"""Seconds that bulk reads and writes wait for the server. No request waits for them."""
_CONNECT_SECONDS = 2.5
_REST_SECONDS = 0.5
"""For so long after a failed connection nobody tries another."""
_GOODBYE_SECONDS = 2.0

_UNREACHABLE = "the store cannot be reached at the moment: repeat in a few seconds"
_LOST_ANSWER = "the store was lost before it answered: what was sent may have been stored or not"
_FULL = "the store's disk is full: nothing was stored; free some room and repeat"
_BUSY = "the store is busy: repeat in a moment"

# Every question is a few descents of an index, planned once: what the planner believes of a table that has just grown must
# not make it read the whole table.
_SETTINGS = {
    "application_name": "shoal",
    "default_transaction_isolation": "read committed",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "lock_timeout": "4s",
    "statement_timeout": "150s",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

_LOST = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresConnectionError)
# Connections, resources, shutting down, a server that only reads, and what waited for others in vain.
FROZEN = "SHFRZ"
"""The state with which the functions of `schema` refuse what is being moved."""
_LEAVING = ("57P", "25")
"""It is shutting down, or only reads any more: its successor is found by a new connection."""
_ENDED = "57P"
"""The server ended the connection; a commit may have come just before."""
_PASSING = ("08", "53", "57", "25", "40", "55")


class ConnectionPool:
    """Up to `size` connections. `ask` and `use` may be called from any task."""

    def __init__(
        self, url: str, size: int, settings: Mapping[str, str], patience: float = PATIENCE, *, writes: bool = False
    ) -> None:
        self._url = url
        self._writes = writes
        """Whether what is sent changes something that lasts, unless the caller says that it only reads."""
        self._patience = patience
        self._settings = {**_SETTINGS, **settings}
        self._places = asyncio.Semaphore(size)
        self._idle: list[asyncpg.Connection] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._rest_until = 0.0
        self._closing = False
        self.asked = 0
        """Round trips so far."""

    async def ask(self, statement: str, *values: Any, patience: float | None = None, reads: bool = False) -> list[Any]:
        """The rows that answer one statement, which is a transaction of its own."""

        async def answer(connection: asyncpg.Connection) -> list[Any]:
            self.asked += 1
            rows: list[Any] = await connection.fetch(statement, *values)
            return rows

        return await timed("postgres", statement, self._asked(answer, patience, reads=reads))

    async def use(
        self,
        work: Callable[[asyncpg.Connection], Awaitable[T]],
        *,
        patience: float | None = None,
        reads: bool = False,
    ) -> T:
        """Do something on a connection. Raises `Unavailable` and `StorageFull`; other errors of the server as they are.

        Raises `OutcomeUnknown` when a connection for writing is lost under it, unless it only `reads`.
        """
        return await timed("postgres", "transaction", self._asked(work, patience, reads=reads))

    async def _asked(
        self, work: Callable[[asyncpg.Connection], Awaitable[T]], patience: float | None, *, reads: bool
    ) -> T:
        if self._closing:
            raise Unavailable("the store is closing")
        lost = _unreachable if reads or not self._writes else _unanswered
        task = asyncio.create_task(self._use(work, patience or self._patience, lost))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # Whoever asked may go away; the answer comes all the same.
        return await asyncio.shield(task)

    async def _use(
        self, work: Callable[[asyncpg.Connection], Awaitable[T]], patience: float, lost: Callable[[], Unavailable]
    ) -> T:
        await self._place(patience)
        try:
            connection = await self._connection()
            return await self._watched(connection, work, patience, lost)
        finally:
            self._places.release()

    async def _place(self, patience: float) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(patience):
                await self._places.acquire()
        except TimeoutError as error:
            raise Unavailable(_BUSY) from error

    async def _watched(
        self,
        connection: asyncpg.Connection,
        work: Callable[[asyncpg.Connection], Awaitable[T]],
        patience: float,
        lost: Callable[[], Unavailable],
    ) -> T:
        timer = asyncio.get_running_loop().call_later(patience, self._give_up, connection)
        try:
            return await work(connection)
        except (*_LOST, AttributeError) as error:
            if not was_lost(connection, error):
                raise
            connection.terminate()
            raise lost() from error
        except asyncpg.PostgresError as error:
            state = error.sqlstate or ""
            if state.startswith(_LEAVING):
                connection.terminate()
            if state.startswith(_ENDED):
                raise lost() from error
            refused = refusal(error)
            if refused is error:
                raise
            raise refused from error
        finally:
            timer.cancel()
            if not connection.is_closed():
                self._idle.append(connection)

    def _give_up(self, connection: asyncpg.Connection) -> None:
        """The server is silent: the others that wait idle are no better, and are opened anew."""
        connection.terminate()
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    async def _connection(self) -> asyncpg.Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        loop = asyncio.get_running_loop()
        if loop.time() < self._rest_until:
            raise Unavailable(_UNREACHABLE)
        try:
            return await connect(self._url, self._settings, self._patience)
        except Unavailable:
            self._rest_until = loop.time() + _REST_SECONDS
            raise

    async def close(self) -> None:
        """Wait for what is under way, then let go of every connection."""
        self._closing = True
        while self._running:
            await asyncio.wait(self._running)
        await asyncio.gather(*[goodbye(connection) for connection in self._idle])
        self._idle.clear()


async def connect(url: str, settings: Mapping[str, str] = _SETTINGS, patience: float = PATIENCE) -> asyncpg.Connection:
    """One more connection. Raises `Unavailable`."""
    seconds = min(_CONNECT_SECONDS, patience)
    try:
        return await asyncpg.connect(
            url, timeout=seconds, max_cached_statement_lifetime=0, server_settings=dict(settings)
        )
    except (*_LOST, asyncpg.PostgresError, ValueError) as error:
        raise Unavailable(_UNREACHABLE) from error


def was_lost(connection: asyncpg.Connection, error: Exception) -> bool:
    """Return whether an error says that the connection ended.

    Where a statement was prepared and the connection ended before it was sent, asyncpg raises `AttributeError`.
    """
    return isinstance(error, _LOST) or (isinstance(error, AttributeError) and connection.is_closed())


async def goodbye(connection: asyncpg.Connection) -> None:
    """Close in order, or at once when the server does not listen."""
    try:
        await connection.close(timeout=_GOODBYE_SECONDS)
    except (*_LOST, asyncpg.PostgresError):
        connection.terminate()


def _unreachable() -> Unavailable:
    return Unavailable(_UNREACHABLE)


def _unanswered() -> OutcomeUnknown:
    return OutcomeUnknown(_LOST_ANSWER)


def frozen_refusal() -> Frozen:
    """For what belongs to a data source that is being moved."""
    return Frozen("this part of the network is being moved: repeat in a moment", retry_after=1.0)


def refusal(error: Exception) -> Exception:
    """Return the error that the caller may see for an error of the server; a mistake of ours is returned unchanged."""
    state: str = getattr(error, "sqlstate", None) or ""
    if state == FROZEN:
        return frozen_refusal()
    if state == asyncpg.DiskFullError.sqlstate:
        return StorageFull(_FULL)
    if state.startswith(_PASSING):
        return Unavailable(_BUSY if state.startswith(("40", "55")) else _UNREACHABLE)
    return error
