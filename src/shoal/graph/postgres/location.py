"""The URL of a PostgreSQL store: the server and its standbys, and a PgBouncer in front of it for all that needs no session."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from shoal.core.errors import InvalidInput
from shoal.graph.reaching import check_file, checked_url

_POOLER = "pooler"
_FILES = ("sslrootcert", "sslcert", "sslkey")


class PostgresLocation(NamedTuple):
    """URLs for the client library: of the server itself, and of its pooler, which is the same where there is none.

    Either may name several hosts, of which one accepts writes at a time.
    """

    server: str
    pooler: str

    @property
    def pooled(self) -> bool:
        """Whether there is a pooler: then a connection may be to another session of the server in each transaction."""
        return self.pooler != self.server


def parse(url: str) -> PostgresLocation:
    """`postgresql://user:password@host,host/database?sslmode=...&pooler=host:port,host:port`. Raises `InvalidInput`."""
    parts = checked_url(url, "store")
    options = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in options:
        if name in _FILES:
            check_file(value, "store")
    login, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts and not all(hosts.split(",")):
        raise InvalidInput("store: its URL names several servers as host:port,host:port", field="store")
    poolers = [value for name, value in options if name == _POOLER]
    server = parts._replace(query=urlencode([(name, value) for name, value in options if name != _POOLER]))
    if not poolers:
        return PostgresLocation(url, url)
    if len(poolers) > 1 or not all(map(_is_address, poolers[-1].split(","))):
        raise InvalidInput(
            f"store: {_POOLER} names a PgBouncer as host:port, several as host:port,host:port", field="store"
        )
    return PostgresLocation(server.geturl(), server._replace(netloc=f"{login}{at}{poolers[-1]}").geturl())


def each_host(url: str) -> list[str]:
    """Return a URL for each host of a URL, in its order."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    return [parts._replace(netloc=f"{login}{at}{host}").geturl() for host in hosts.split(",")]


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal()
