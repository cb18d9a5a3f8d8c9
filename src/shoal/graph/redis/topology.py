"""Redis servers and their logical shards, and the reasons why a server refuses or cannot be reached."""

from __future__ import annotations

import asyncio
from asyncio import StreamWriter
from binascii import crc_hqx
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import numpy as np
from numpy.typing import NDArray
from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, InvalidResponse, NoPermissionError
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as NotInTime

from shoal.core.errors import Unavailable
from shoal.core.placement import SHARDS
from shoal.graph.connection_errors import (
    MisconfiguredEngine,
    UnreachableEngine,
    chain,
    check_file,
    is_lasting,
    read_authorities,
    speaks_tls,
    why,
)

NOWHERE = -1
Client = Any
"""A client of redis-py, whose own types change from release to release."""

_PORT = 6379
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""The options of a URL over TLS, as redis-py names them."""
_SLOTS = 16_384
# The Redis Cluster slot of each shard: the CRC-16/XMODEM of the hash tag that the keys of the shard contain.
_SLOT_OF = np.array([crc_hqx(b"%04x" % shard, 0) % _SLOTS for shard in range(SHARDS)])


class ServerAddress(NamedTuple):
    host: str
    port: int


class Topology(NamedTuple):
    """The masters of a Redis Cluster, and for each shard the index of the master that has it (`NOWHERE`: none)."""

    addresses: tuple[ServerAddress, ...]
    server_of_shard: NDArray[np.int16]


class Url(NamedTuple):
    addresses: tuple[ServerAddress, ...]
    clustered: bool
    tls: bool
    db: int
    user: str | None
    password: str | None
    tls_files: Mapping[str, str]
    """PEM files by the names in `_TLS_FILES`: authorities to trust in addition to the system's, and the client's certificate."""

    async def look(self, client: Client, address: ServerAddress) -> Topology | None:
        """Ask the server at this address for the topology of its Redis Cluster or, outside a cluster, whether it is a primary.

        Returns None for a replica outside a Redis Cluster. Errors of the client library are raised unchanged.
        """
        if self.clustered:
            return _of_cluster(await client.execute_command("CLUSTER SLOTS"), address)
        replication = await client.info("replication")
        return Topology((address,), np.zeros(SHARDS, np.int16)) if replication["role"] == "master" else None


def parse(url: str) -> Url:
    """Parse a Redis URL.

    Raises:
        ValueError: The URL is invalid; the message omits the password.
        InvalidInput: A file cannot be read.
    """
    named, _, query = url.partition("?")
    scheme, _, rest = named.partition("://")
    if scheme not in {"redis", "rediss", "redis+cluster", "rediss+cluster"}:
        raise ValueError("expected a Redis URL with redis://, rediss://, redis+cluster:// or rediss+cluster://")
    hosts, _, db = rest.partition("/")
    login, _, hosts = hosts.rpartition("@")
    user, _, password = login.partition(":")
    addresses = tuple(_address(host) for host in hosts.split(","))
    if not (db or "0").isdecimal() or ("cluster" in scheme and int(db or 0)):
        raise ValueError("the path of a Redis URL must be a database number (only 0 for a cluster)")
    files = dict(parse_qsl(query, keep_blank_values=True))
    if (query and not files) or files.keys() - set(_TLS_FILES) or (files and not scheme.startswith("rediss")):
        raise ValueError(
            f"the only Redis URL options are {', '.join(_TLS_FILES)}, and they require rediss:// or rediss+cluster://"
        )
    for name, file in files.items():
        (read_authorities if name == "ssl_ca_certs" else check_file)(file, "timelines")
    return Url(
        addresses,
        clustered="cluster" in scheme,
        tls=scheme.startswith("rediss"),
        db=int(db or 0),
        user=unquote(user) or None,
        password=unquote(password) or None,
        tls_files=files,
    )


def _address(text: str) -> ServerAddress:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, str(_PORT)
    if not host or not port.isdecimal():
        raise ValueError("expected the servers of a Redis URL as host:port,host:port")
    return ServerAddress(host.strip("[]"), int(port))


def connect(
    url: Url, address: ServerAddress, connections: int, connect_seconds: float, answer_seconds: float
) -> Client:
    """Return a client of a server, without retries, which are left to the caller."""
    options: dict[str, Any] = {**url.tls_files}
    pool = BlockingConnectionPool(
        connection_class=_OverTls if url.tls else _Plain,
        max_connections=connections,
        timeout=answer_seconds,
        host=address.host,
        port=address.port,
        db=url.db,
        username=url.user,
        password=url.password,
        socket_connect_timeout=connect_seconds,
        socket_timeout=answer_seconds,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        **options,
    )
    return Redis.from_pool(pool)


class _Resettable:
    """Reconnects if the connection was reset while idle.

    redis-py considers such a connection usable until it has read the end of the stream, and writing to it raises `OSError` in
    asyncio, but `RuntimeError` in uvloop.
    """

    _writer: StreamWriter | None

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if self._writer is not None and self._writer.transport.is_closing():
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
        try:
            await super().send_packed_command(command, check_health)  # type: ignore[misc]
        except RuntimeError as error:
            raise NotConnected("the connection was reset") from error


class _Plain(_Resettable, Connection):
    pass


class _OverTls(_Resettable, SSLConnection):
    pass


def _of_cluster(ranges: Any, asked: ServerAddress) -> Topology:
    addresses: list[ServerAddress] = []
    slots = np.full(_SLOTS, NOWHERE, np.int16)
    for first, last, master, *_ in ranges:
        # A server that does not know its own name yet replies with an empty one.
        host = master[0].decode() if master[0] else asked.host
        address = ServerAddress(host, int(master[1]))
        if address not in addresses:
            addresses.append(address)
        slots[first : last + 1] = addresses.index(address)
    return Topology(tuple(addresses), slots[_SLOT_OF])


_WANTS_TLS = "the server requires TLS: use rediss:// or rediss+cluster://"
_WANTS_NONE = "the server does not support TLS on this port"
_PROBE_SECONDS = 1.0


async def refusal(failures: Sequence[tuple[ServerAddress, Exception]], *, tls: bool) -> Unavailable:
    """Return the error to raise, with the reason of each server as its cause. `tls`: whether the connections used TLS."""
    reasons = [(address, await _reason(address, error, tls=tls)) for address, error in failures]
    message = "; ".join(sorted({f"{host}:{port}: {reason}" for (host, port), reason in reasons}))
    lasts = any(
        is_lasting(error) or isinstance(error, AuthenticationError | NoPermissionError) for _, error in failures
    )
    other = any(reason in {_WANTS_TLS, _WANTS_NONE} for _, reason in reasons)
    unavailable = Unavailable("Redis is unreachable", retry_after=1.0)
    if lasts or other:
        unavailable = MisconfiguredEngine("Redis is misconfigured", retry_after=1.0)
    unavailable.__cause__ = UnreachableEngine(message or "no server is a primary")
    return unavailable


async def _reason(address: ServerAddress, error: Exception, *, tls: bool) -> str:
    # A server that expects TLS closes an unencrypted connection without a reply.
    cut_off = isinstance(error, NotConnected | InvalidResponse) and not isinstance(error, AuthenticationError)
    never_there = any(isinstance(cause, ConnectionRefusedError | TimeoutError) for cause in chain(error))
    if cut_off and not never_there and not tls and await speaks_tls(*address):
        return _WANTS_TLS
    if (
        tls
        and any(isinstance(cause, TimeoutError | NotInTime) for cause in chain(error))
        and await _speaks_plainly(*address)
    ):
        return _WANTS_NONE
    return why(error)


async def _speaks_plainly(host: str, port: int) -> bool:
    """Return whether a server replies without TLS. A server without TLS reads a TLS handshake as a partial command, and waits."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"PING\r\n")
                return await reader.read(1) in {b"+", b"-"}
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False
