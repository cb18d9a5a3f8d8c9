"""Why servers of a Redis do not answer, and whether waiting may help."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.exceptions import AuthenticationError, InvalidResponse, NoPermissionError
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as NotInTime

from shoal.core.errors import Unavailable
from shoal.graph.reaching import MisconfiguredEngine, UnreachableEngine, chain, is_lasting, speaks_tls, why
from shoal.graph.redis.topology import ServerAddress

_WANTS_TLS = "it speaks TLS: name it as rediss:// or rediss+cluster://"
_WANTS_NONE = "it does not speak TLS at this port"
_PROBE_SECONDS = 1.0


async def refusal(failures: Sequence[tuple[ServerAddress, Exception]], *, tls: bool) -> Unavailable:
    """Return the error to raise, with what each server said as its cause. `tls`: we spoke TLS ourselves."""
    reasons = [(address, await _reason(address, error, tls=tls)) for address, error in failures]
    said = "; ".join(sorted({f"{host}:{port}: {reason}" for (host, port), reason in reasons}))
    lasts = any(
        is_lasting(error) or isinstance(error, AuthenticationError | NoPermissionError) for _, error in failures
    )
    other = any(reason in {_WANTS_TLS, _WANTS_NONE} for _, reason in reasons)
    unavailable = Unavailable("the cache cannot be reached", retry_after=1.0)
    if lasts or other:
        unavailable = MisconfiguredEngine("the cache cannot be used as it is set up", retry_after=1.0)
    unavailable.__cause__ = UnreachableEngine(said or "no server is a master")
    return unavailable


async def _reason(address: ServerAddress, error: Exception, *, tls: bool) -> str:
    # A server that expects TLS ends the connection without a word that we could understand.
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
    """Return whether a server understands us without TLS. It takes a handshake for the beginning of a command, and waits."""
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
