"""`shoal doctor`: run all checks concurrently, including the HTTP checks of the public endpoint and the running server.

The checks of the public endpoint are about the host name, the certificate, and what the proxy passes on. The checks of
the running server are about its control socket, its clients, Prometheus, parked jobs and webhooks. Each HTTP request uses a new
connection and reads a bounded response. No check changes anything.
"""

from __future__ import annotations

import asyncio
import email.utils
import http.client
import io
import ipaddress
import os
import random
import socket
import ssl
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from shoal.admin import jobs
from shoal.app.engines import engine_probes
from shoal.app.outboxes import open_outboxes, refusal_limit
from shoal.app.paths import check_base_url, control_path, push_key_path, store_files
from shoal.app.stores import open_mapped
from shoal.core.errors import InvalidInput, ShoalError, Unavailable, in_words
from shoal.core.webhooks import PAUSE_CAUSES, Pause, host_of
from shoal.monitoring import preflight
from shoal.monitoring.preflight import SECONDS, Diagnosis, bad, engines, issuers, mail, ok, providers, schema, warn
from shoal.multiprocess.link import at
from shoal.push.encryption import read_key
from shoal.settings import Settings
from shoal.webhooks import endpoints

_MOST_HEAD = 65_536
_MOST_BODY = 4 << 20


class Destination(NamedTuple):
    host: str
    port: int
    name: str = ""
    """Host name for the request and the certificate. If it is empty, they use `host`."""
    tls: ssl.SSLContext | None = None
    source: str = ""
    """Local address from which to connect; empty: the system chooses it."""


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes
    certificate: dict[str, Any]
    """The server's certificate in the format of `SSLSocket.getpeercert`; empty without TLS."""


async def ask(
    destination: Destination,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    read_body: bool = True,
) -> Answer:
    """Send a request without a body and return the response.

    Raises `OSError`, and `ValueError` for a response that is not HTTP. The caller must set a timeout.
    """
    name = destination.name or destination.host
    reader, writer = await asyncio.open_connection(
        destination.host,
        destination.port,
        ssl=destination.tls,
        server_hostname=name if destination.tls else None,
        local_addr=(destination.source, 0) if destination.source else None,
        limit=_MOST_HEAD,
    )
    try:
        host = f"[{name}]" if ":" in name else name
        usual = 443 if destination.tls else 80
        lines = {
            "Host": host if destination.port == usual else f"{host}:{destination.port}",
            "Connection": "close",
            **(headers or {}),
        }
        head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
        first, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        words = first.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise ValueError("the response is not HTTP")
        body = await _body(reader) if read_body else b""
        certificate = writer.get_extra_info("peercert") or {}
        return Answer(int(words[1]), http.client.parse_headers(io.BytesIO(rest)), body, certificate)
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the connection was closed without a response") from error
    except asyncio.LimitOverrunError as error:
        raise ValueError(f"the response header exceeds {_MOST_HEAD:,} bytes") from error
    finally:
        # Close the connection without waiting for the server.
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _body(reader: asyncio.StreamReader) -> bytes:
    body = b""
    with suppress(ConnectionError):
        while len(body) < _MOST_BODY and (piece := await reader.read(_MOST_HEAD)):
            body += piece
    return body


_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # wildcard addresses in settings are queried at the loopback


class RunningServer(NamedTuple):
    """The address of the server, and its response to `GET /ready`. The response is None if the server did not answer."""

    destination: Destination
    ready: Answer | None


def local(settings: Settings) -> Destination:
    return Destination(_EVERYWHERE.get(settings.host, settings.host), settings.port)


async def find(settings: Settings) -> RunningServer:
    """Request `GET /ready` from the server at the address in the settings."""
    destination = local(settings)
    try:
        async with asyncio.timeout(SECONDS):
            return RunningServer(destination, await ask(destination, "/ready"))
    except (OSError, ValueError, TimeoutError):
        return RunningServer(destination, None)


async def server(settings: Settings, found: RunningServer) -> Iterable[Diagnosis]:
    where = f"{found.destination.host}:{found.destination.port}"
    door = await _door(settings)
    if found.ready is None:
        if door:
            message = f"a server has the store open, but no server answers at {where}"
            return [bad("server", message, "see its log; if it was started with --port, set port to the same value")]
        return [warn("server", f"no server answers at {where}", "start `shoal serve` or its systemd unit")]
    if door is False:
        message = f"the server at {where} does not have this store open"
        return [
            bad("server", message, "check store and port: the server may use another store or belong to another user")
        ]
    if found.ready.status != 200:
        response = found.ready.body.decode(errors="replace").strip()[:200]
        return [bad("server", f"not ready: {response}", "check the engines and the log of the server")]
    return [ok("server", f"ready at {where}")]


async def _door(settings: Settings) -> bool | None:
    """Return whether a server listens on the control socket; None for a store without a control socket."""
    path = control_path(settings)
    if path is None:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            with at(path) as address:
                _, writer = await asyncio.open_unix_connection(address)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return True


async def work(settings: Settings) -> Iterable[Diagnosis]:
    if any(not path.exists() for path in store_files(settings)):
        return []
    try:
        async with asyncio.timeout(SECONDS):
            if await _broker_is_empty(settings):
                return [ok("jobs", "the broker has no queues yet: the first server or worker declares them")]
        async with asyncio.timeout(SECONDS), open_outboxes(settings, read_only=True) as outboxes:
            job_state = await jobs.survey(outboxes, refusal_limit(settings))
    except (ShoalError, OSError, TimeoutError):
        return []
    found = []
    if job_state.parked:
        message = f"{len(job_state.parked):,} parked jobs; error of the first: {job_state.parked[0].error}"
        found.append(warn("jobs", message, "fix the cause, then run `shoal jobs replay --all`"))
    silent = job_state.silent_workers or 0
    if job_state.workers is not None and job_state.workers <= silent:
        found.append(bad("workers", "no worker responds: posts do not reach followers", "start `shoal worker`"))
    elif silent:
        message = f"{silent} of {job_state.workers} workers do not respond"
        found.append(warn("workers", message, "check their logs: they are busy, stopped or stuck"))
    return found or [ok("jobs", f"{job_state.waiting:,} pending, none parked")]


async def webhooks(settings: Settings) -> Iterable[Diagnosis]:
    """Report webhooks that the worker paused, and parked events. The check of the stores reports stores that cannot be read."""
    if settings.event_log == "off" or any(not path.exists() for path in store_files(settings)):
        return []
    try:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as stack:
            views = await endpoints.views((await open_mapped(settings, stack)).store)
    except (ShoalError, OSError, TimeoutError):
        return []
    found = []
    for view in views:
        # The rest of the URL may contain a secret.
        name = f"webhook {view.id} to {host_of(view.url)}"
        if view.paused is Pause.NO_KEY:
            advice = f"delete it: `shoal webhooks delete {view.id}`"
            found.append(warn("webhooks", f"{name} is paused: {PAUSE_CAUSES[view.paused]}", advice))
        elif view.paused in PAUSE_CAUSES:
            advice = f"fix the cause (docs/howto/webhooks.md), then run `shoal webhooks resume {view.id}`"
            found.append(warn("webhooks", f"{name} is paused: {PAUSE_CAUSES[view.paused]}", advice))
        if view.parked:
            advice = f"fix the cause, then run `shoal webhooks replay {view.id}`"
            found.append(warn("webhooks", f"{name}: {view.parked:,} parked events", advice))
    paused = sum(bool(view.paused) for view in views)
    healthy = [ok("webhooks", f"{len(views):,} in total, {paused:,} of them paused on purpose")] if views else []
    return found or healthy


async def _broker_is_empty(settings: Settings) -> bool:
    """Return whether the broker lacks the queues of this network.

    If so, the caller must not open the outboxes, which would create the queues.
    """
    for probe in engine_probes(settings):
        if probe.engine == "RabbitMQ":
            try:
                return not any(response.measurements for response in await probe.ask())
            except Exception as error:
                raise Unavailable("the broker does not respond") from error
    return False


async def metrics(settings: Settings, found: RunningServer) -> Iterable[Diagnosis]:
    if not settings.metrics_port:
        return [warn("metrics", "metrics_port is not set, so no alerts are sent", "set metrics_port (docs/metrics.md)")]
    destination = Destination(_EVERYWHERE.get(settings.metrics_host, settings.metrics_host), settings.metrics_port)
    where = f"{settings.metrics_host}:{settings.metrics_port}"
    try:
        async with asyncio.timeout(SECONDS):
            response = await ask(destination, "/metrics")
    except (OSError, ValueError, TimeoutError) as error:
        if found.ready is None:
            return []
        return [bad("metrics", f"{where}: {in_words(error) or 'no response'}", "check the log of the server")]
    if response.status != 200 or b"shoal_" not in response.body:
        return [bad("metrics", f"{where} is in use by another program", "set metrics_port to a free port")]
    if _is_public(settings.metrics_host):
        message = f"{where} may be reachable from the internet"
        return [warn("metrics", message, "set metrics_host to an address of your private network")]
    return [ok("metrics", f"served at {where}")]


def _is_public(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_global or address.is_unspecified


def push_key(settings: Settings) -> Diagnosis:
    if settings.push_key:
        try:
            read_key(settings.push_key)
        except ShoalError as error:
            return bad(
                "push_key", str(error).removeprefix("push_key: "), "set push_key to the output of `shoal push key`"
            )
        return ok("push_key", "set")
    path = push_key_path(settings)
    if path is None:
        advice = "set push_key to the output of `shoal push key` in all processes"
        return warn("push_key", "not set, so web push is unavailable with this store", advice)
    if not path.exists():
        return ok("push_key", "the first server generates a key next to the store")
    try:
        read_key(path.read_text())
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return bad("push_key", in_words(error), "run this as the user of the server")
    except (ShoalError, ValueError):
        return bad(
            "push_key", f"{path} contains no key", "restore it from a backup; a new key invalidates all subscriptions"
        )
    if mode & 0o077:
        return bad("push_key", f"{path} is readable by other users", f"chmod 600 {path}")
    return ok("push_key", f"stored next to the store as {path.name}")


_SOON_DAYS, _DAY = 14, 86_400
_UPLOAD_SECONDS = SECONDS / 2
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


async def public_endpoint(settings: Settings, running: RunningServer) -> list[Diagnosis]:
    """Check the URL in the setting `base_url`, as clients use it."""
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
        return [bad("name", f"{name} does not resolve", "create a DNS record with the address of the proxy")]
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(SECONDS):
            destination, response = await _first(
                [Destination(address, port, name, tls, _source(address)) for address in addresses]
            )
    except ssl.SSLCertVerificationError as error:
        return [bad("tls", f"the certificate of {name} is not valid: {error.verify_message}", "renew it")]
    except (OSError, ValueError, TimeoutError) as error:
        why = in_words(error) or f"no response within {SECONDS:g} s"
        message = f"{settings.base_url} ({', '.join(addresses)}): {why}"
        return [bad("proxy", message, "start the proxy and open its port")]
    found = [*_certificate(name, response), _clock(response)]
    if response.status != 200 or not _identity(response).get("domain"):
        message = f"{settings.base_url} returned status {response.status}, and the response is not from Shoal"
        return [*found, bad("proxy", message, _PROXY)]
    if running.ready is not None and not await _is_ours(response, running):
        message = f"{settings.base_url} and {running.destination.host}:{running.destination.port} are different servers"
        return [*found, bad("proxy", message, _PROXY)]
    # This check reads how many requests the rate limit leaves, so no other check may send requests concurrently.
    found += await _bounded(_forwarded(destination, running))
    for findings in await asyncio.gather(_bounded(_upgrade(destination)), _bounded(_uploads(destination, settings))):
        found += findings
    return found


async def _addresses(name: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


async def _first(destinations: Sequence[Destination]) -> tuple[Destination, Answer]:
    """Return the first address that answers, with its response.

    A certificate error is raised at once; otherwise, the last error is raised.
    """
    for destination in destinations[:-1]:
        try:
            return destination, await ask(destination, _INSTANCE)
        except ssl.SSLCertVerificationError:
            raise
        except OSError:
            continue
    return destinations[-1], await ask(destinations[-1], _INSTANCE)


async def _bounded(look: Awaitable[Iterable[Diagnosis]]) -> list[Diagnosis]:
    try:
        async with asyncio.timeout(SECONDS):
            return list(await look)
    except (OSError, ValueError, TimeoutError) as error:
        return [warn("proxy", f"the check was interrupted: {in_words(error) or 'timeout'}", "check the proxy's log")]


def _source(address: str) -> str:
    """Return a loopback address from which to connect to a local proxy, so that the requests do not have the proxy's own address.

    The result is empty for a proxy on another machine or with an IPv6 address.
    """
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback or ":" in address:
        return ""
    return f"127.{random.randint(64, 127)}.{random.randint(0, 255)}.{random.randint(1, 254)}"  # noqa: S311


def _certificate(name: str, response: Answer) -> Iterable[Diagnosis]:
    if not response.certificate:
        return
    days = (ssl.cert_time_to_seconds(response.certificate["notAfter"]) - time.time()) / _DAY
    message = f"the certificate of {name} expires in {days:,.0f} days"
    if days < _SOON_DAYS:
        yield warn("tls", message, "renew it, and check why automatic renewal failed")
    else:
        yield ok("tls", message)


def _clock(response: Answer) -> Diagnosis:
    parsed = email.utils.parsedate_to_datetime(response.headers["Date"]) if response.headers["Date"] else None
    if parsed is None:
        return ok("clock_of_proxy", "the proxy sends no Date header")
    skew = time.time() - parsed.timestamp()
    if abs(skew) > _SKEW_SECONDS:
        message = f"this machine's clock is {abs(skew):,.0f} s {'ahead of' if skew > 0 else 'behind'} the proxy's"
        return bad("clock_of_proxy", message, "synchronize both clocks with systemd-timesyncd or chrony")
    return ok("clock_of_proxy", "matches the clock of this machine")


def _identity(response: Answer) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_unchunked(response))
    except msgspec.DecodeError:
        return {}
    fields = ("domain", "title", "version", "description")
    return {name: found.get(name) for name in fields} if isinstance(found, dict) else {}


def _unchunked(response: Answer) -> bytes:
    """Return a body without the framing of the chunked transfer coding, which a proxy may use."""
    if "chunked" not in response.headers.get("Transfer-Encoding", ""):
        return response.body
    rest, body = response.body, b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body


async def _is_ours(response: Answer, running: RunningServer) -> bool:
    try:
        async with asyncio.timeout(SECONDS):
            ours = await ask(running.destination, _INSTANCE)
    except (OSError, ValueError, TimeoutError):
        return True
    return ours.status != 200 or _identity(ours) == _identity(response)


async def _forwarded(destination: Destination, running: RunningServer) -> Iterable[Diagnosis]:
    """Check that a client cannot evade its rate limit with the header `X-Forwarded-For`."""
    first, second = [await _left(destination, _claimed()) for _ in range(2)]
    if first is None or second is None:
        return [ok("forwarded", "skipped: rate_limits is off")]
    if not first.requests or second.until != first.until:
        return [ok("forwarded", "skipped: the limit was exhausted or reset during the check")]
    if second.requests >= first.requests:
        message = "clients can evade rate limits: the proxy passes on their X-Forwarded-For"
        return [bad("forwarded", message, f"configure the proxy to overwrite X-Forwarded-For: {_PROXY}")]
    if running.ready is not None:
        # The requests before and after this one go through the proxy; this one goes directly to the server, from the proxy's
        # machine. If all of them count toward one rate limit, the server takes the address of the proxy for that of the client.
        await _left(running.destination, {})
        third = await _left(destination, {})
        if third is not None and third.until == second.until and third.requests < second.requests - 1:
            return [_ALL_ONE]
    if not destination.source:
        return [
            ok(
                "forwarded",
                "the proxy overwrites X-Forwarded-For; whether the server trusts it cannot be checked from here",
            )
        ]
    before, other = (
        await _left(destination, {}),
        await _left(destination._replace(source=_source(destination.host)), {}),
    )
    if before and other and before.until == other.until and other.requests < before.requests:
        return [_ALL_ONE]
    return [ok("forwarded", "the server sees the clients' own addresses")]


_ALL_ONE = bad(
    "forwarded",
    "all clients share one rate limit: the server sees only the proxy's address",
    "configure the proxy to send X-Forwarded-For, and add its address to trusted_proxies",
)


def _claimed() -> dict[str, str]:
    return {"X-Forwarded-For": f"203.0.113.{random.randint(1, 254)}"}  # noqa: S311  # documentation addresses, RFC 5737


class _Left(NamedTuple):
    """The number of requests that a client may still send, and when its window ends."""

    requests: int
    until: str


async def _left(destination: Destination, headers: dict[str, str]) -> _Left | None:
    response = await ask(destination, _STREAM, headers, read_body=False)
    text = response.headers.get("X-RateLimit-Remaining", "")
    return _Left(int(text), response.headers.get("X-RateLimit-Reset", "")) if text.isdecimal() else None


async def _upgrade(destination: Destination) -> Iterable[Diagnosis]:
    """Check that the proxy passes WebSockets. The server answers a handshake without a token with 101 or 401."""
    response = await ask(destination, f"{_STREAM}?stream=user", _UPGRADE, read_body=False)
    if response.status not in {101, 401}:
        message = f"the proxy blocks WebSockets: status {response.status}"
        return [bad("websocket", message, f"configure the proxy to pass Upgrade and Connection: {_PROXY}")]
    return [ok("websocket", "the proxy passes WebSockets")]


async def _uploads(destination: Destination, settings: Settings) -> Iterable[Diagnosis]:
    """Check the proxy's limit on bodies: announce the largest body that the server accepts, without sending it."""
    most = settings.max_video_bytes + settings.max_upload_bytes
    headers = {"Content-Length": str(most), "Content-Type": "multipart/form-data; boundary=x"}
    try:
        async with asyncio.timeout(_UPLOAD_SECONDS):
            response = await ask(destination, "/api/v2/media", headers, method="POST", read_body=False)
    except TimeoutError:
        # The proxy waits for the body, so it accepts a body of this size.
        return [ok("uploads", f"the proxy accepts request bodies of {most:,} bytes")]
    if response.status == 413:
        advice = f"raise the proxy's body size limit to {most >> 20} MiB (client_max_body_size, max_size)"
        return [bad("uploads", f"the proxy rejects request bodies of {most:,} bytes, which the server accepts", advice)]
    return [ok("uploads", f"the proxy accepts request bodies of {most:,} bytes")]


_RESOLVER = ("RES_OPTIONS", f"timeout:1 attempts:{int(SECONDS)}")
"""Without these options, the C library waits ten seconds for a name server that does not answer, in a thread that
cannot be cancelled.
"""


async def examine(environ: Mapping[str, str], overrides: Mapping[str, str]) -> list[Diagnosis]:
    os.environ.setdefault(*_RESOLVER)
    found, settings = preflight.read(environ, overrides)
    if settings is None:
        return [*found, preflight.clock(), preflight.sqlite(), await preflight.programs()]
    running = await find(settings)
    parts = await asyncio.gather(
        _findings("server", server, settings, running),
        _findings("engine", engines, settings),
        _findings("store", schema, settings),
        _findings("jobs", work, settings),
        _findings("webhooks", webhooks, settings),
        _findings("proxy", public_endpoint, settings, running),
        _findings("mail", mail, settings),
        _findings("issuers", issuers, settings),
        _findings("oidc_providers", providers, settings),
        _findings("metrics", metrics, settings, running),
        _findings("disk", preflight.disks, settings),
        _findings("ffmpeg", preflight.programs),
        _findings("places", asyncio.to_thread, preflight.place_names),
    )
    found += [finding for part in parts for finding in part]
    found += await _findings("push_key", push_key, settings)
    found += await _findings("memory", preflight.memory, settings)
    found += await _findings("files", preflight.files, settings)
    found += await _findings("clock", preflight.clock)
    found += await _findings("sqlite", preflight.sqlite)
    return found


_Found = Diagnosis | Iterable[Diagnosis]


async def _findings(check: str, look: Callable[..., _Found | Awaitable[_Found]], *args: object) -> list[Diagnosis]:
    """Return the findings of a check. If the check itself fails, the error is a finding."""
    try:
        found = look(*args)
        if isinstance(found, Awaitable):
            found = await found
        return [found] if isinstance(found, Diagnosis) else list(found)
    except PermissionError as error:
        return [bad(check, in_words(error), "run this as the user of the server")]
    except Exception as error:  # noqa: BLE001  # report any failure to the operator
        return [bad(check, f"this check failed: {error!r}", "report this to the developers of Shoal")]
