"""Connection pools to one PostgreSQL server, opened on demand and reused.

If the server is lost, refuses connections or does not answer, queries raise `Unavailable` within seconds; once it is back, they
succeed again. A query that was sent is always awaited, even if its caller was cancelled, so no connection is left in the middle of
a reply. A connection that does not answer for too long is closed.

Through a PgBouncer (`PostgresLocation`), every query is a transaction that sets its own settings: between transactions PgBouncer
gives the connection to other clients, and keeps neither settings nor prepared statements. This needs four round trips instead of
one. Work that needs a session, such as a lock, uses a connection to the server itself (`connect`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from shoal.core.errors import OutcomeUnknown, StorageFull, Unavailable
from shoal.graph.contract import frozen_refusal
from shoal.graph.failover import Histories
from shoal.graph.postgres.primary import LOST, UNREACHABLE, PrimaryConnection, PrimaryFinder, parse
from shoal.observability.tracing import timed

T = TypeVar("T")
Work = Callable[[asyncpg.Connection], Awaitable[T]]

PATIENCE = 5.0
"""Seconds that a request waits for the server."""
LONG_PATIENCE = 120.0
"""Seconds that bulk reads and writes wait for the server. No request waits for them."""
_BACKOFF_SECONDS = 0.5
_GOODBYE_SECONDS = 2.0

_LOST_ANSWER = "lost the connection to the store: the change may or may not have been stored"
_FULL = "the store's disk is full: nothing was stored; free disk space and try again"
_BUSY = "the store is busy: try again in a moment"

# Every query is a few index lookups. Force such plans, because outdated statistics of a table that has just grown could lead to
# a full scan.
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

FROZEN = "SHFRZ"
"""The SQLSTATE with which the functions of `schema` refuse writes to data that is being moved."""
_LEAVING = ("57P", "25")
"""The server is shutting down or became read-only: a new connection can find the new primary."""
_ENDED = "57P"
"""The server ended the connection; a commit may have completed just before."""
_PASSING = ("08", "53", "57", "25", "40", "55")
"""Classes of temporary errors: connections, resources, shutdown, read-only server, serialization failures, lock timeouts."""


_OF_SESSIONS = ("application_name", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
"""Settings that a transaction through a pooler does not set: PgBouncer tracks the name, and keeps connections alive itself."""
_POOLED_ROUND_TRIPS = 4
"""One round trip each to begin with the settings, to prepare, to execute and to commit."""


class HistoryEnded(Exception):
    """A statement was not sent, because its values were read before a failover to another server."""


class ConnectionPool:
    """A pool of at most `size` connections to PostgreSQL, through PgBouncer if the URL names one.

    Any task may call `ask` and `use`. `direct` bypasses PgBouncer, for work that needs a session. All pools of a network share one
    `Histories` object, which records failovers.
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
        endpoint = location.pooler if self._pooled else location.server
        self._finder = PrimaryFinder(endpoint, self._histories, url, pooled=self._pooled)
        self._writes = writes
        """Whether statements make durable changes, unless the call sets `reads`."""
        self._patience = patience
        self._settings = {**SESSION_SETTINGS, **settings}
        self._local = _local_settings(self._settings)
        self._slots = asyncio.Semaphore(size)
        self._idle: list[PrimaryConnection] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._backoff_until = 0.0
        self._connected_at = float("-inf")
        self._closing = False
        self.asked = 0
        """Round trips so far."""

    @property
    def history(self) -> int:
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
        """Return the rows of a statement, which is a separate transaction.

        Args:
            translate: May replace an error of the server before it is handled here.
            history: The server's WAL timeline when the rows on which the statement is based were read. If a failover has started
                another timeline, raise `HistoryEnded` and send nothing.
        """

        async def answer(connection: asyncpg.Connection) -> list[Any]:
            self.asked += _POOLED_ROUND_TRIPS if self._pooled else 1
            try:
                rows: list[Any] = await (self._alone if self._pooled else _fetch)(connection, statement, values)
            except asyncpg.PostgresError as error:
                translated = translate(error) if translate is not None else error
                if translated is error:
                    raise
                raise translated from error
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
            # The connection must not return to the pool in the middle of a transaction.
            connection.terminate()
            raise
        return rows

    async def use(self, work: Work[T], *, patience: float | None = None, reads: bool = False) -> T:
        """Run `work` on a connection.

        Through a pooler, `work` is one transaction, and its own transactions are savepoints.

        Raises:
            Unavailable, StorageFull: Translated errors of the server; others are raised unchanged.
            OutcomeUnknown: A connection for writing was lost during the work, unless it only `reads`.
        """

        async def within(connection: asyncpg.Connection) -> T:
            async with connection.transaction():
                await connection.execute(self._local)
                return await work(connection)

        chosen = within if self._pooled else work
        return await timed("postgres", "transaction", self._have(chosen, patience, reads=reads))

    async def _have(self, work: Work[T], patience: float | None, *, reads: bool, history: int | None = None) -> T:
        if self._closing:
            raise Unavailable("the store is closing")
        reads = reads or not self._writes
        task = asyncio.create_task(self._use(work, patience or self._patience, history, reads=reads))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # The query continues if the caller is cancelled.
        return await asyncio.shield(task)

    async def _use(self, work: Work[T], patience: float, history: int | None, *, reads: bool) -> T:
        await self._take_slot(patience)
        try:
            connection = await self._connection()
            if history is not None and connection.history != history:
                self._idle.append(connection)
                raise HistoryEnded
            return await self._watched(connection, work, patience, reads=reads)
        finally:
            self._slots.release()

    async def _take_slot(self, patience: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(patience):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Unavailable(_BUSY) from error

    async def _watched(self, connection: PrimaryConnection, work: Work[T], patience: float, *, reads: bool) -> T:
        timer = asyncio.get_running_loop().call_later(patience, self._give_up, connection)
        try:
            answer = await work(connection)
        except (*LOST, AttributeError) as error:
            # asyncpg raises `AttributeError` if the connection ends while a statement is prepared (`primary.lost_if_closed`).
            if isinstance(error, AttributeError) and not connection.is_closed():
                raise
            connection.terminate()
            raise _lost(reads=reads) from error
        except asyncpg.PostgresError as error:
            state = error.sqlstate or ""
            if state.startswith(_LEAVING):
                # The idle connections lead to this unresponsive server too, so terminate them.
                self._give_up(connection)
                self._finder.forget()
            if state.startswith(_ENDED):
                raise _lost(reads=reads) from error
            refused = refusal(error)
            if refused is error:
                raise
            raise refused from error
        else:
            if self._finder.is_stale(connection):
                # The statement was run by a former primary: if it wrote anything, the new primary does not have it.
                connection.terminate()
                raise _lost(reads=reads)
            return answer
        finally:
            timer.cancel()
            if not connection.is_closed():
                self._idle.append(connection)

    def _give_up(self, connection: asyncpg.Connection) -> None:
        connection.terminate()
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
        began = loop.time()
        if began < self._backoff_until:
            raise Unavailable(UNREACHABLE)
        try:
            connection = await self._finder.connect(self._settings, self._patience)
        except Unavailable:
            # A concurrent attempt may have found a promoted standby since.
            if self._connected_at < began:
                self._backoff_until = loop.time() + _BACKOFF_SECONDS
            raise
        self._connected_at, self._backoff_until = loop.time(), 0.0
        return connection

    async def close(self) -> None:
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
    """Open a connection to the server itself, outside of a pool. Raises `Unavailable`."""
    return await PrimaryFinder(parse(url).server, histories or Histories(), url).connect(settings, patience)


async def _fetch(connection: asyncpg.Connection, statement: str, values: Sequence[Any]) -> list[Any]:
    rows: list[Any] = await connection.fetch(statement, *values)
    return rows


def _local_settings(settings: Mapping[str, str]) -> str:
    # Set `transaction_read_only` instead of `default_transaction_read_only`, which only affects later transactions.
    return "; ".join(
        f"SET LOCAL {name.removeprefix('default_')} = '{value}'"
        for name, value in settings.items()
        if name not in _OF_SESSIONS
    )


async def goodbye(connection: asyncpg.Connection) -> None:
    """Close a connection gracefully, or terminate it if the server does not answer."""
    try:
        await connection.close(timeout=_GOODBYE_SECONDS)
    except (*LOST, asyncpg.PostgresError):
        connection.terminate()


def _lost(*, reads: bool) -> Unavailable:
    return Unavailable(UNREACHABLE) if reads else OutcomeUnknown(_LOST_ANSWER)


def refusal(error: Exception) -> Exception:
    """Translate an error of the server into the error to raise; return any other exception unchanged."""
    state: str = getattr(error, "sqlstate", None) or ""
    if state == FROZEN:
        return frozen_refusal()
    if state == asyncpg.DiskFullError.sqlstate:
        return StorageFull(_FULL)
    if state.startswith(_PASSING):
        return Unavailable(_BUSY if state.startswith(("40", "55")) else UNREACHABLE)
    return error
