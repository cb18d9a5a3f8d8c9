"""The URL of a PostgreSQL store: the server, and a PgBouncer in front of it for all that needs no session."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from shoal.core.errors import InvalidInput
from shoal.graph.reaching import check_file, checked_url

_POOLER = "pooler"
_FILES = ("sslrootcert", "sslcert", "sslkey")


class PostgresLocation(NamedTuple):
    """URLs for the client library: of the server itself, and of its pooler, which is the same where there is none."""

    server: str
    pooler: str

    @property
    def pooled(self) -> bool:
        """Whether there is a pooler: then a connection may be to another session of the server in each transaction."""
        return self.pooler != self.server


def parse(url: str) -> PostgresLocation:
    """`postgresql://user:password@host/database?sslmode=...&pooler=host:port`. Raises `InvalidInput`."""
    parts = checked_url(url, "store")
    options = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in options:
        if name in _FILES:
            check_file(value, "store")
    poolers = [value for name, value in options if name == _POOLER]
    server = parts._replace(query=urlencode([(name, value) for name, value in options if name != _POOLER]))
    if not poolers:
        return PostgresLocation(url, url)
    host, _, port = poolers[-1].rpartition(":")
    if len(poolers) > 1 or not host or not port.isdecimal():
        raise InvalidInput(f"store: {_POOLER} names a PgBouncer as host:port", field="store")
    login, at, _ = parts.netloc.rpartition("@")
    return PostgresLocation(server.geturl(), server._replace(netloc=f"{login}{at}{host}:{port}").geturl())
