"""The way of clients: the name, the certificate, and what the proxy passes on."""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import random
import socket
import ssl
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from shoal.core.errors import InvalidInput, in_words
from shoal.doctor.answers import Answer, Destination, ask
from shoal.doctor.findings import SECONDS, Diagnosis, bad, ok, warn
from shoal.doctor.running import RunningServer
from shoal.settings import Settings
from shoal.wiring.places import check_base_url

_SOON_DAYS, _DAY = 14, 86_400
_SKEW_SECONDS = 5.0
_STREAM = "/api/v1/streaming"
_INSTANCE = "/api/v2/instance"
_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "c2hvYWwgZG9jdG9yIDEyMw==",
}
_PROXY = "compare the proxy's configuration with deploy/nginx.conf or deploy/Caddyfile"


async def front(settings: Settings, running: RunningServer) -> list[Diagnosis]:
    """Reach the server as clients do, at `base_url`."""
    try:
        check_base_url(settings.base_url)
    except InvalidInput:
        return []
    parts = urlsplit(settings.base_url)
    name, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(SECONDS):
            addresses = await _addresses(name, port)
    except (OSError, TimeoutError):
        return [bad("name", f"{name} has no address", "make a DNS entry for it, with the address of the proxy")]
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(SECONDS):
            place, told = await _first([Destination(one, port, name, tls, _source(one)) for one in addresses])
    except ssl.SSLCertVerificationError as error:
        return [bad("tls", f"the certificate of {name} is not valid: {error.verify_message}", "renew it")]
    except (OSError, ValueError, TimeoutError) as error:
        why = in_words(error) or f"no answer within {SECONDS:g} s"
        said = f"{settings.base_url} ({', '.join(addresses)}): {why}"
        return [bad("proxy", said, "start the proxy, and open its port")]
    found = [*_certificate(name, told), _clock(told)]
    if told.status != 200 or not _is_shoal(told):
        said = f"{settings.base_url} answers {told.status}, and not as Shoal does"
        return [*found, bad("proxy", said, _PROXY)]
    if running.ready is not None and not await _is_ours(told, running):
        said = f"another server answers at {settings.base_url} than at {running.place.host}:{running.place.port}"
        return [*found, bad("proxy", said, _PROXY)]
    # By itself, for it counts requests.
    found += await _bounded(_forwarded(place, running))
    for findings in await asyncio.gather(_bounded(_upgrade(place)), _bounded(_uploads(place, settings))):
        found += findings
    return found


async def _addresses(name: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


async def _first(places: Sequence[Destination]) -> tuple[Destination, Answer]:
    """The first address that answers, with what it answers. Raises what the last one raised, or at once for a certificate."""
    for place in places[:-1]:
        try:
            return place, await ask(place, _INSTANCE)
        except ssl.SSLCertVerificationError:
            raise
        except OSError:
            continue
    return places[-1], await ask(places[-1], _INSTANCE)


async def _bounded(look: Awaitable[Iterable[Diagnosis]]) -> list[Diagnosis]:
    try:
        async with asyncio.timeout(SECONDS):
            return list(await look)
    except (OSError, ValueError, TimeoutError) as error:
        return [warn("proxy", f"it broke off: {in_words(error) or 'no answer in time'}", "look at the proxy's log")]


def _source(address: str) -> str:
    """An address of our own, so that a proxy on this machine is not asked from the address that it has itself."""
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback or ":" in address:
        return ""
    return f"127.{random.randint(64, 127)}.{random.randint(0, 255)}.{random.randint(1, 254)}"  # noqa: S311


def _certificate(name: str, told: Answer) -> Iterable[Diagnosis]:
    if not told.certificate:
        return
    days = (ssl.cert_time_to_seconds(told.certificate["notAfter"]) - time.time()) / _DAY
    said = f"the certificate of {name} is good for {days:,.0f} more days"
    if days < _SOON_DAYS:
        yield warn("tls", said, "renew it, and see why that was not done by itself")
    else:
        yield ok("tls", said)


def _clock(told: Answer) -> Diagnosis:
    parsed = email.utils.parsedate_to_datetime(told.headers["Date"]) if told.headers["Date"] else None
    if parsed is None:
        return ok("clock_of_proxy", "the proxy does not tell its time")
    ahead = time.time() - parsed.timestamp()
    if abs(ahead) > _SKEW_SECONDS:
        said = f"this machine's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} the proxy's"
        return bad("clock_of_proxy", said, "set both from the network: systemd-timesyncd or chrony")
    return ok("clock_of_proxy", "it is that of this machine, to the second")


def _is_shoal(told: Answer) -> bool:
    return bool(_identity(told).get("domain"))


def _identity(told: Answer) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_unchunked(told))
    except msgspec.DecodeError:
        return {}
    wanted = ("domain", "title", "version", "description")
    return {name: found.get(name) for name in wanted} if isinstance(found, dict) else {}


def _unchunked(told: Answer) -> bytes:
    """Return a body without the frames of a transfer in chunks, in which proxies may send it."""
    if "chunked" not in told.headers.get("Transfer-Encoding", ""):
        return told.body
    rest, body = told.body, b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body


async def _is_ours(told: Answer, running: RunningServer) -> bool:
    try:
        async with asyncio.timeout(SECONDS):
            ours = await ask(running.place, _INSTANCE)
    except (OSError, ValueError, TimeoutError):
        return True
    return ours.status != 200 or _identity(ours) == _identity(told)


async def _forwarded(place: Destination, running: RunningServer) -> Iterable[Diagnosis]:
    """Find out whom the server counts requests for, by what it says is left of the limit: the client, whatever it claims?"""
    first, second = [await _left(place, _claimed()) for _ in range(2)]
    if first is None or second is None:
        return [ok("forwarded", "not looked at, as rate_limits are off")]
    if not first.requests or second.until != first.until:
        return [ok("forwarded", "not looked at, as the limit was used up or began anew meanwhile")]
    if second.requests >= first.requests:
        said = "whoever writes an X-Forwarded-For gets limits of their own: the proxy passes it on"
        return [bad("forwarded", said, f"have the proxy overwrite X-Forwarded-For: {_PROXY}")]
    if running.ready is not None:
        # The server takes us for this machine here, and so for the proxy, where it cannot tell clients behind it.
        await _left(running.place, {})
        third = await _left(place, {})
        if third is not None and third.until == second.until and third.requests < second.requests - 1:
            return [_ALL_ONE]
    if not place.source:
        return [
            ok("forwarded", "the proxy overwrites X-Forwarded-For; whether the server believes it cannot be seen here")
        ]
    before, other = await _left(place, {}), await _left(place._replace(source=_source(place.host)), {})
    if before and other and before.until == other.until and other.requests < before.requests:
        return [_ALL_ONE]
    return [ok("forwarded", "the server knows clients by their own addresses")]


_ALL_ONE = bad(
    "forwarded",
    "all clients are one to the server, which sees the proxy's address alone",
    "have the proxy send X-Forwarded-For, and put its address into trusted_proxies",
)


def _claimed() -> dict[str, str]:
    return {"X-Forwarded-For": f"203.0.113.{random.randint(1, 254)}"}  # noqa: S311  # for documentation, RFC 5737


class _Left(NamedTuple):
    """Requests that a client has left, and until when."""

    requests: int
    until: str


async def _left(place: Destination, headers: dict[str, str]) -> _Left | None:
    told = await ask(place, _STREAM, headers, read_body=False)
    text = told.headers.get("X-RateLimit-Remaining", "")
    return _Left(int(text), told.headers.get("X-RateLimit-Reset", "")) if text.isdecimal() else None


async def _upgrade(place: Destination) -> Iterable[Diagnosis]:
    """Ask for a WebSocket without a token: the server refuses that in another way than a plain request."""
    told = await ask(place, f"{_STREAM}?stream=user", _UPGRADE, read_body=False)
    if told.status not in {101, 401}:
        said = f"WebSockets do not get through: {told.status}"
        return [bad("websocket", said, f"have the proxy pass Upgrade and Connection: {_PROXY}")]
    return [ok("websocket", "WebSockets get through")]


async def _uploads(place: Destination, settings: Settings) -> Iterable[Diagnosis]:
    """Announce the largest body that the server takes, and send nothing of it."""
    most = settings.max_video_bytes + settings.max_upload_bytes
    headers = {"Content-Length": str(most), "Content-Type": "multipart/form-data; boundary=x"}
    try:
        async with asyncio.timeout(SECONDS / 2):
            told = await ask(place, "/api/v2/media", headers, method="POST", read_body=False)
    except TimeoutError:
        # It waits for the body, so it would take one.
        return [ok("uploads", f"bodies of {most:,} bytes are not refused by their length")]
    if told.status == 413:
        advice = f"raise the proxy's limit on bodies to {most >> 20} MiB (client_max_body_size, max_size)"
        return [bad("uploads", f"the proxy refuses bodies of {most:,} bytes, which the server takes", advice)]
    return [ok("uploads", f"bodies of {most:,} bytes are not refused by their length")]
