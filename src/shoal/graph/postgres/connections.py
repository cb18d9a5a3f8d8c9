"""Connections to one PostgreSQL server, opened when they are needed and used again.

A server that is lost, refuses or stays silent is `Unavailable` within seconds; when it is back, so are the connections. A
question that has been sent is always waited for, also when whoever asked has gone: nothing is left half said on a
connection. What keeps silent for too long loses its connection.

Through a PgBouncer (`location`) every piece of work is a transaction, which brings its settings along: between two transactions
PgBouncer gives the connection to somebody else, and keeps neither settings nor prepared statements. That makes four round trips of
one. What needs a session of its own, such as a lock, goes to the server itself (`connect`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from shoal.core.errors import OutcomeUnknown, StorageFull, Unavailable
from shoal.graph.contract import Frozen
from shoal.graph.failover import Histories
from shoal.graph.postgres.primary import LOST, UNREACHABLE, PrimaryConnection, PrimaryFinder, parse
from shoal.observability.tracing import timed

T = TypeVar("T")
Row = tuple[Any, ...]

PATIENCE = 5.0
"""Seconds that a request waits for the server."""
LONG_PATIENCE = 120.0
"""Seconds that bulk reads and writes wait for the server. No request waits for them."""
_REST_SECONDS = 0.5
"""For so long after a failed connection nobody tries another."""
_GOODBYE_SECONDS = 2.0

_LOST_ANSWER = "the store was lost before it answered: what was sent may have been stored or not"
_FULL = "the store's disk is full: nothing was stored; free some room and repeat"
_BUSY = "the store is busy: repeat in a moment"

# Every question is a few descents of an index, planned once: what the planner believes of a table that has just grown must
# not make it read the whole table.
SESSION_SETTINGS = {
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

# Connections, resources, shutting down, a server that only reads, and what waited for others in vain.
FROZEN = "SHFRZ"
"""The state with which the functions of `schema` refuse what is being moved."""
_LEAVING = ("57P", "25")
"""It is shutting down, or only reads any more: its successor is found by a new connection."""
_ENDED = "57P"
"""The server ended the connection; a commit may have come just before."""
_PASSING = ("08", "53", "57", "25", "40", "55")


_OF_SESSIONS = ("application_name", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
"""Settings that a transaction through a pooler does not bring along: it knows the first, and keeps connections alive itself."""
_POOLED_ROUND_TRIPS = 4
"""Begin with the settings, prepare, execute, end."""


class HistoryEnded(Exception):
    """A statement was not sent, because it was made of reads in a history that has ended."""


class ConnectionPool:
    """Up to `size` connections, through the pooler if the URL names one. `ask` and `use` may be called from any task.

    `direct`: around the pooler, for what needs sessions. `histories`: those of the network, where what is read is remembered.
    """

    def __init__(
        self,
        url: str,
        size: int,
        settings: Mapping[str, str],
        patience: float = PATIENCE,
        *,
        writes: bool = False,
        direct: bool = False,
        histories: Histories | None = None,
    ) -> None:
        location = parse(url)
        self._pooled = location.pooled and not direct
        self._name = url
        self._histories = histories or Histories()
        place = location.pooler if self._pooled else location.server
        self._finder = PrimaryFinder(place, self._histories, url, pooled=self._pooled)
        self._writes = writes
        """Whether what is sent changes something that lasts, unless the caller says that it only reads."""
        self._patience = patience
        self._settings = {**SESSION_SETTINGS, **settings}
        self._local = _local_settings(self._settings)
        self._places = asyncio.Semaphore(size)
        self._idle: list[PrimaryConnection] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._rest_until = 0.0
        self._closing = False
        self.asked = 0
        """Round trips so far."""

    @property
    def history(self) -> int:
        """The newest history of the store that this process has seen."""
        return self._histories.newest(self._name)

    async def ask(
        self,
        statement: str,
        *values: Any,
        patience: float | None = None,
        reads: bool = False,
        translate: Callable[[Exception], Exception] | None = None,
        history: int | None = None,
    ) -> list[Any]:
        """The rows that answer one statement, which is a transaction of its own.

        `translate` may replace an error of the server before it is looked at here. Raises `HistoryEnded`, with nothing sent,
        when the store is in another `history` than this.
        """

        async def answer(connection: asyncpg.Connection) -> list[Any]:
            self.asked += _POOLED_ROUND_TRIPS if self._pooled else 1
            try:
                rows: list[Any] = await (self._alone if self._pooled else _fetch)(connection, statement, values)
            except asyncpg.PostgresError as error:
                told = translate(error) if translate is not None else error
                if told is error:
                    raise
                raise told from error
            return rows

        return await timed("postgres", statement, self._have(answer, patience, reads=reads, history=history))

    async def _alone(self, connection: asyncpg.Connection, statement: str, values: Sequence[Any]) -> list[Any]:
        try:
            await connection.execute(f"BEGIN; {self._local}")
            rows = await _fetch(connection, statement, values)
            await connection.execute("COMMIT")
        except asyncpg.PostgresError:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        except BaseException:
            # Nobody may find it in the middle of a transaction.
            connection.terminate()
            raise
        return rows

    async def use(
        self,
        work: Callable[[asyncpg.Connection], Awaitable[T]],
        *,
        patience: float | None = None,
        reads: bool = False,
    ) -> T:
        """Do something on a connection. Raises `Unavailable` and `StorageFull`; other errors of the server as they are.

        Raises `OutcomeUnknown` when a connection for writing is lost under it, unless it only `reads`. Through a pooler all of
        it is one transaction, and its own ones are parts of that.
        """

        async def within(connection: asyncpg.Connection) -> T:
            async with connection.transaction():
                await connection.execute(self._local)
                return await work(connection)

        return await timed(
            "postgres", "transaction", self._have(within if self._pooled else work, patience, reads=reads)
        )

    async def _have(
        self,
        work: Callable[[asyncpg.Connection], Awaitable[T]],
        patience: float | None,
        *,
        reads: bool,
        history: int | None = None,
    ) -> T:
        if self._closing:
            raise Unavailable("the store is closing")
        lost = _unreachable if reads or not self._writes else _unanswered
        task = asyncio.create_task(self._use(work, patience or self._patience, lost, history))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # Whoever asked may go away; the answer comes all the same.
        return await asyncio.shield(task)

    async def _use(
        self,
        work: Callable[[asyncpg.Connection], Awaitable[T]],
        patience: float,
        lost: Callable[[], Unavailable],
        history: int | None,
    ) -> T:
        await self._place(patience)
        try:
            connection = await self._connection()
            if history is not None and connection.history != history:
                self._idle.append(connection)
                raise HistoryEnded
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
        connection: PrimaryConnection,
        work: Callable[[asyncpg.Connection], Awaitable[T]],
        patience: float,
        lost: Callable[[], Unavailable],
    ) -> T:
        timer = asyncio.get_running_loop().call_later(patience, self._give_up, connection)
        try:
            answer = await work(connection)
        except (*LOST, AttributeError) as error:
            if not was_lost(connection, error):
                raise
            connection.terminate()
            raise lost() from error
        except asyncpg.PostgresError as error:
            state = error.sqlstate or ""
            if state.startswith(_LEAVING):
                # So have the others, which were opened to it too.
                self._give_up(connection)
                self._finder.forget()
            if state.startswith(_ENDED):
                raise lost() from error
            refused = refusal(error)
            if refused is error:
                raise
            raise refused from error
        else:
            if self._finder.is_stale(connection):
                # An old primary answered, and its successor knows nothing of what it stored.
                connection.terminate()
                raise lost()
            return answer
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

    async def _connection(self) -> PrimaryConnection:
        while self._idle:
            connection = self._idle.pop()
            if self._finder.is_stale(connection):
                connection.terminate()
            if not connection.is_closed():
                return connection
        loop = asyncio.get_running_loop()
        if loop.time() < self._rest_until:
            raise Unavailable(UNREACHABLE)
        try:
            return await self._finder.connect(self._settings, self._patience)
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


async def connect(
    url: str,
    settings: Mapping[str, str] = SESSION_SETTINGS,
    patience: float = PATIENCE,
    *,
    histories: Histories | None = None,
) -> PrimaryConnection:
    """One more connection to the server itself. Raises `Unavailable`."""
    return await PrimaryFinder(parse(url).server, histories or Histories(), url).connect(settings, patience)


async def _fetch(connection: asyncpg.Connection, statement: str, values: Sequence[Any]) -> list[Any]:
    rows: list[Any] = await connection.fetch(statement, *values)
    return rows


def _local_settings(settings: Mapping[str, str]) -> str:
    """Return statements that give these settings to one transaction."""
    chosen = [(name, value) for name, value in settings.items() if name not in _OF_SESSIONS]
    return "; ".join(
        # The default of a session is for its next transaction.
        f"SET LOCAL {name.removeprefix('default_')} = '{value}'"
        for name, value in chosen
    )


def was_lost(connection: asyncpg.Connection, error: Exception) -> bool:
    """Return whether an error says that the connection ended.

    Where a statement was prepared and the connection ended before it was sent, asyncpg raises `AttributeError`.
    """
    return isinstance(error, LOST) or (isinstance(error, AttributeError) and connection.is_closed())


async def goodbye(connection: asyncpg.Connection) -> None:
    """Close in order, or at once when the server does not listen."""
    try:
        await connection.close(timeout=_GOODBYE_SECONDS)
    except (*LOST, asyncpg.PostgresError):
        connection.terminate()


def _unreachable() -> Unavailable:
    return Unavailable(UNREACHABLE)


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
        return Unavailable(_BUSY if state.startswith(("40", "55")) else UNREACHABLE)
    return error
