"""Find the PostgreSQL server that accepts writes, among the hosts of a store URL.

The last known primary is tried first. If it does not answer, or has become a standby, all hosts are tried concurrently. If two
accept writes, the one on the newer PostgreSQL timeline wins, and a process never goes back to an older one. A URL may name a
PgBouncer for work that needs no session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.connection_errors import (
    MisconfiguredEngine,
    UnreachableEngine,
    address_of,
    check_file,
    checked_url,
    is_lasting,
    why,
)
from shoal.graph.failover import Histories

_POOLER = "pooler"
_FILES = ("sslrootcert", "sslcert", "sslkey")


class PostgresLocation(NamedTuple):
    """URLs for the client library: of the server itself, and of its pooler (equal if there is none).

    Either may name several hosts, one of which accepts writes.
    """

    server: str
    pooler: str

    @property
    def pooled(self) -> bool:
        return self.pooler != self.server


def parse(url: str) -> PostgresLocation:
    """Parse `postgresql://user:password@host,host/database?sslmode=...&pooler=host:port,host:port`. Raises `InvalidInput`."""
    parts = checked_url(url, "store")
    options = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in options:
        if name in _FILES:
            check_file(value, "store")
    login, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts and not all(hosts.split(",")):
        raise InvalidInput("store: separate several servers with commas, as in host:port,host:port", field="store")
    poolers = [value for name, value in options if name == _POOLER]
    server = parts._replace(query=urlencode([(name, value) for name, value in options if name != _POOLER]))
    if not poolers:
        return PostgresLocation(url, url)
    if len(poolers) > 1 or not all(map(_is_address, poolers[-1].split(","))):
        raise InvalidInput(
            f"store: {_POOLER} must be host:port of PgBouncer, or several as host:port,host:port", field="store"
        )
    return PostgresLocation(server.geturl(), server._replace(netloc=f"{login}{at}{poolers[-1]}").geturl())


def each_host(url: str) -> list[str]:
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    return [parts._replace(netloc=f"{login}{at}{host}").geturl() for host in hosts.split(",")]


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal()


_log = logging.getLogger(__name__)

LOST = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresConnectionError)
UNREACHABLE = "the store is unreachable: try again in a few seconds"
_MISCONFIGURED = "the store is misconfigured"
_NO_PRIMARY = "no server of the store accepts writes"
_CONNECT_SECONDS = 2.5
_HEAD_START_SECONDS = 0.5
_GRACE_SECONDS = 0.3
"""How long to wait for a host on a newer WAL timeline once one host accepts writes."""
_CACHED_STATEMENTS = 100
_REFUSALS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
)
_LOOK = """
    SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
        CASE WHEN pg_is_in_recovery() THEN 0
        ELSE ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint END AS history"""
"""The first eight digits in the name of a WAL file are the timeline, which is correct even right after a standby took over."""

# asyncpg raises `AttributeError` for a connection that ends while a statement is prepared.
_EXPECTED = (*LOST, asyncpg.PostgresError, ValueError, AttributeError)
_last_logged: dict[str, str] = {}
"""By store, the last logged reason why none of its servers could be used; empty after a successful connection."""


class PrimaryConnection(asyncpg.Connection):  # type: ignore[misc]  # the library has no types
    """A connection, and the WAL timeline of its server when the connection was opened (`history`)."""

    __slots__ = ("history",)

    history: int


@contextlib.contextmanager
def ended_after(connection: asyncpg.Connection, seconds: float) -> Iterator[None]:
    """Terminate the connection, and with it all pending queries, if the block takes longer than `seconds`. Raises `TimeoutError`.

    Cancelling the waiting task is not enough: the rollback of its transaction would wait again.
    """
    silent = False

    def end() -> None:
        nonlocal silent
        silent = True
        connection.terminate()

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield
    except Exception as error:
        if silent:
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()


@contextlib.contextmanager
def lost_if_closed(*connections: asyncpg.Connection) -> Iterator[None]:
    """Raise `ConnectionError` instead of asyncpg's `AttributeError` if a connection closes while a statement is being prepared."""
    try:
        yield
    except AttributeError as error:
        if not any(connection.is_closed() for connection in connections):
            raise
        raise ConnectionError("the connection was closed") from error


_Asked = dict[asyncio.Task[PrimaryConnection], str]


class NotThePrimary(ConnectionError):
    """A server answers, but it accepts no writes or has been replaced as the primary."""


class PrimaryFinder:
    """Opens connections to the store at `url`. `name` is the key of the store in `histories`, by default `url`."""

    def __init__(self, url: str, histories: Histories, name: str = "", *, pooled: bool = False) -> None:
        self._hosts = each_host(url)
        self._histories = histories
        self._name = name or url
        self._address = address_of(url)
        self._pooled = pooled
        self._last = self._hosts[0] if len(self._hosts) == 1 else ""
        """The last known primary; empty while several hosts are yet to be compared."""

    def is_stale(self, connection: PrimaryConnection) -> bool:
        return connection.history < self._histories.newest(self._name)

    async def connect(self, settings: Mapping[str, str], patience: float) -> PrimaryConnection:
        """Open a connection to the primary.

        Raises `MisconfiguredEngine` if every host rejects the credentials or the database name, or TLS fails with it; otherwise
        `Unavailable`.
        """
        errors: dict[str, Exception] = {}
        opened = await self._ask(settings, min(_CONNECT_SECONDS, patience), errors)
        if opened is None:
            raise self._refused(errors)
        host, connection = opened
        if not self._histories.note(self._name, connection.history, self._address):
            # While this task was connecting, another task found a newer primary.
            connection.terminate()
            raise Unavailable(UNREACHABLE)
        self._last, _last_logged[self._address] = host, ""
        return connection

    def forget(self) -> None:
        if len(self._hosts) > 1:
            self._last = ""

    async def _ask(
        self, settings: Mapping[str, str], seconds: float, errors: dict[str, Exception]
    ) -> tuple[str, PrimaryConnection] | None:
        """Connect to the last known primary, then to all hosts; return the best server that accepts writes, or None."""
        several = len(self._hosts) > 1
        asked: _Asked = {}
        try:
            if self._last:
                asked[self._start(self._last, settings, seconds)] = self._last
            best = await _best_of(asked, errors, _HEAD_START_SECONDS if several else None)
            if best is None and several:
                others = [host for host in self._hosts if host != self._last]
                asked.update({self._start(host, settings, seconds): host for host in others})
                best = await _best_of(asked, errors, None)
        finally:
            for task in asked:
                task.cancel()
            for late in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(late, PrimaryConnection):
                    late.terminate()
        return best

    def _start(self, host: str, settings: Mapping[str, str], seconds: float) -> asyncio.Task[PrimaryConnection]:
        return asyncio.create_task(self._open(host, settings, seconds))

    async def _open(self, host: str, settings: Mapping[str, str], seconds: float) -> PrimaryConnection:
        given = {"application_name": settings["application_name"]} if self._pooled else dict(settings)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        async with asyncio.timeout_at(deadline):
            connection: PrimaryConnection = await asyncpg.connect(
                host,
                connection_class=PrimaryConnection,
                max_cached_statement_lifetime=0,
                statement_cache_size=0 if self._pooled else _CACHED_STATEMENTS,
                server_settings=given,
            )
        try:
            with ended_after(connection, deadline - loop.time()):
                # BEGIN keeps a pooler in one session. On cancellation, the connection is terminated without a rollback.
                await connection.execute("BEGIN")
                look = await connection.fetchrow(_LOOK)
                await connection.execute("COMMIT")
        except BaseException:
            connection.terminate()
            raise
        connection.history = look["history"]
        reads = settings.get("default_transaction_read_only") == "on"
        if refusal := self._objection(
            connection.history, standby=look["standby"], frozen=look["read_only"] and not reads
        ):
            connection.terminate()
            raise NotThePrimary(refusal)
        return connection

    def _objection(self, history: int, *, standby: bool, frozen: bool) -> str:
        if standby:
            return "the server is a standby, which accepts no writes"
        if history < self._histories.newest(self._name):
            return "the server is a former primary: stop it, or make it a standby of the new primary"
        return "the server accepts no writes (default_transaction_read_only)" if frozen else ""

    def _refused(self, errors: Mapping[str, Exception]) -> Unavailable:
        """Return the error to raise if no host can be used. Its cause names the reason of each host.

        Logs the reasons if all are permanent, or if a server answers but is not the primary. Reasons that were logged last are
        not repeated.
        """
        reasons = {host: why(error) for host, error in errors.items()}
        details = (
            "; ".join(f"{address_of(host)}: {reason}" for host, reason in reasons.items())
            or f"{self._address}: no response"
        )
        lasting = bool(errors) and all(
            isinstance(error, _REFUSALS) or is_lasting(error) or "rejected SSL" in reasons[host]
            for host, error in errors.items()
        )
        answering = [host for host, error in errors.items() if isinstance(error, NotThePrimary)]
        if lasting:
            self._say(logging.ERROR, f"{_MISCONFIGURED}: {details}")
        elif answering:
            # Servers answer, but none is the primary. The operator may have to promote a standby, so tell what each server said.
            wrong = "; ".join(f"{address_of(host)}: {reasons[host]}" for host in sorted(answering))
            self._say(logging.WARNING, f"{_NO_PRIMARY}: {wrong}")
        refused = MisconfiguredEngine(_MISCONFIGURED) if lasting else Unavailable(UNREACHABLE)
        refused.__cause__ = UnreachableEngine(details)
        refused.__cause__.__cause__ = next(iter(errors.values()), None)
        return refused

    def _say(self, level: int, text: str) -> None:
        if _last_logged.get(self._address, text) != text:
            _log.log(level, "%s", text)
            _last_logged[self._address] = text


async def _best_of(
    asked: _Asked, errors: dict[str, Exception], seconds: float | None
) -> tuple[str, PrimaryConnection] | None:
    """Await connections to hosts, and return the writable host with the newest WAL timeline.

    A host is removed from `asked` when its connection has succeeded or failed; errors are added to `errors`.
    """
    best: tuple[str, PrimaryConnection] | None = None
    while asked:
        patience = _GRACE_SECONDS if best else seconds
        done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            break
        for task in done:
            host = asked.pop(task)
            error = task.exception()
            if error is None:
                best = _newer(best, (host, task.result()))
            elif isinstance(error, _EXPECTED):
                errors[host] = error
            else:
                if best is not None:
                    best[1].terminate()
                raise error
    return best


def _newer(
    best: tuple[str, PrimaryConnection] | None, found: tuple[str, PrimaryConnection]
) -> tuple[str, PrimaryConnection]:
    if best is None:
        return found
    worse, better = (best, found) if found[1].history > best[1].history else (found, best)
    worse[1].terminate()
    return better
