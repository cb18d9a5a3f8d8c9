"""PostgreSQL as the source of a mapped import, through pg8000.

Transactions are read-only and REPEATABLE READ. The server ends a statement after ten minutes. A URL has the same options for TLS as
that of a store.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pg8000.dbapi
import scramp
import sqlalchemy as sa
from sqlalchemy import Engine

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.connection_errors import check_file, checked_url, read_authorities, why

_CONNECT_SECONDS = 10
_STATEMENT_SECONDS = 600
_SILENT_SECONDS = _STATEMENT_SECONDS + 10
"""How long to wait for a server that has stopped to answer. It should end the statement first."""
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_OPTIONS = ("host", "sslmode", "sslrootcert", "sslcert", "sslkey")
_SETTINGS = {
    "statement_timeout": f"{_STATEMENT_SECONDS}s",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    # A position with a time is compared in the time zone of the session, and in UTC no hour occurs twice.
    "TimeZone": "UTC",
    # pg8000 reads only these formats.
    "client_encoding": "UTF8",
    "DateStyle": "ISO",
    "bytea_output": "hex",
}
_UNAVAILABLE = ("08", "40", "53", "55", "57", "58")
"""Classes of SQLSTATE codes of errors that are no fault of the query."""


class _Cursor(pg8000.dbapi.Cursor):  # type: ignore[misc]  # the library has no types
    """A cursor for statements with the parameters $1, $2 and so on.

    pg8000 would look for its own marks of parameters in the whole statement, and refuse a map's query with the operator `%`.
    """

    def execute(self, operation: str, args: Any = (), stream: Any = None) -> _Cursor:
        if operation.startswith("CLOSE "):
            # A failed transaction has closed the cursor already, and SQLAlchemy would log the refusal with a traceback.
            with contextlib.suppress(pg8000.dbapi.Error):
                super().execute(operation)
            return self
        if not args:
            super().execute(operation, stream=stream)
            return self
        if not self._c._in_transaction:  # as in the base class
            self._c.execute_simple("BEGIN")
        self._context = self._c.execute_unnamed(operation, vals=args)
        self._row_iter = None if self._context.rows is None else iter(self._context.rows)
        return self


class _Connection(pg8000.dbapi.Connection):  # type: ignore[misc]  # the library has no types
    def cursor(self) -> _Cursor:
        return _Cursor(self)

    def close(self) -> None:
        # The connection may be lost, which was reported already.
        with contextlib.suppress(pg8000.dbapi.Error):
            super().close()

    def wait_for_statements(self) -> None:
        """Replace the timeout of the connection attempt by that of statements."""
        self._usock.settimeout(_SILENT_SECONDS)


def open_postgres(url: str) -> Engine:
    """Return an engine that connects when it is first used. Raises `InvalidInput`."""
    parts = checked_url(url, "from")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise InvalidInput(f"from: unknown option {name!r} in the URL; expected one of {', '.join(_OPTIONS)}")
    if not parts.username:
        raise InvalidInput("from: name a user, as in postgresql://user:password@host/database")
    if "," in parts.netloc:
        raise InvalidInput("from: expected one host in the URL")
    host, port = parts.hostname or "localhost", parts.port or 5432
    context = _tls(options)
    folder = options.get("host", "")
    if folder:
        if parts.hostname or not folder.startswith("/"):
            raise InvalidInput("from: the option host is the folder of a Unix socket, in a URL without a host")
        context = False
    given = {
        "host": host,
        "ssl_context": context,
        "user": unquote(parts.username),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")) or None,
        "startup_params": _SETTINGS,
    }

    def connect() -> _Connection:
        try:
            # pg8000 does not close its own socket if TLS fails.
            with contextlib.ExitStack() as stack:
                opened = stack.enter_context(_connected(folder, host, port))
                connection = _Connection(sock=opened, **given)
                stack.pop_all()
        except (pg8000.dbapi.Error, OSError, ValueError, LookupError, struct.error, scramp.ScramException) as error:
            place = folder or f"{host}:{port}"
            raise Unavailable(f"from: the source cannot be read: {place}: {words_of(error)}") from None
        connection.wait_for_statements()
        return connection

    return sa.create_engine("postgresql+pg8000://", creator=connect, paramstyle="numeric_dollar")


def _connected(folder: str, host: str, port: int) -> socket.socket:
    """Return a connection to a Unix socket in `folder`, or to a host."""
    if not folder:
        opened = socket.create_connection((host, port), _CONNECT_SECONDS)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return opened
    opened = socket.socket(socket.AF_UNIX)
    try:
        opened.settimeout(_CONNECT_SECONDS)
        opened.connect(f"{folder}/.s.PGSQL.{port}")
    except OSError:
        opened.close()
        raise
    return opened


def words_of(error: BaseException) -> str:
    """Return the message of an error of pg8000, in one line."""
    if fields := _fields(error):
        return " ".join(fields.get("M", "unknown error").split())
    # The errors of pg8000 itself say less than their causes.
    return why(error.__cause__ or error)


def is_unavailable(error: BaseException) -> bool:
    """Return whether an error of pg8000 is about the server, not the query."""
    return _fields(error).get("C", "").startswith(_UNAVAILABLE)


def _fields(error: BaseException) -> Mapping[str, str]:
    """Return the fields of a server's error message: C is the SQLSTATE code, M the message."""
    first = error.args[0] if isinstance(error, pg8000.dbapi.DatabaseError) and error.args else None
    return first if isinstance(first, dict) else {}


def _tls(options: Mapping[str, str]) -> ssl.SSLContext | bool | None:
    """Return what pg8000 expects: no TLS (False), TLS without verification if the server offers it (None), or a context."""
    mode = options.get("sslmode", "prefer")
    if mode not in _MODES:
        raise InvalidInput(f"from: sslmode must be one of {', '.join(_MODES)} (got {mode!r})")
    if mode == "disable":
        return False
    authorities, certificate = options.get("sslrootcert"), options.get("sslcert")
    if mode == "prefer" and not certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify-full"
    if mode.startswith("verify"):
        authorities = authorities or str(Path("~/.postgresql/root.crt").expanduser())
    if authorities:
        context.load_verify_locations(cadata=read_authorities(authorities, "from"))
    else:
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        key = options.get("sslkey") or None
        for file in filter(None, (certificate, key)):
            check_file(file, "from")
        try:
            context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            raise InvalidInput(f"from: {certificate} contains no PEM certificate with its key") from error
    return context
