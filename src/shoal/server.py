"""API, web app and files as one ASGI application, and as a server that runs until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.core.media_files import MISSING_AVATAR, MISSING_HEADER
from shoal.http.application import build_app
from shoal.http.authentication import caller_of
from shoal.http.connection_passing import Passing, ReadableRoutes
from shoal.http.connections import OpenConnections, connections, descriptor_limits
from shoal.http.middleware import CORS_PATHS, Gate, Limited
from shoal.http.protocol import Config, PassedConnection
from shoal.mastodon_api.context import AppContext, AppParts, acting, app_context_of
from shoal.mastodon_api.media_files import Files, ShownFiles, is_file
from shoal.mastodon_api.routes import table
from shoal.mastodon_api.streaming import Sockets
from shoal.settings import Settings
from shoal.web.errors import refused_page
from shoal.web.request_context import logged_in
from shoal.web.routes import no_page, pages

__all__ = ["AppParts", "ProcessGroup", "RunningApp", "application", "build", "listen", "serve"]

_DEFAULT_IMAGES = (MISSING_AVATAR, MISSING_HEADER)
_GRACE_SECONDS = 10
_BACKLOG = 2_048
_ACCEPTED_AT_ONCE = 8
"""Connections that one turn of the event loop accepts. uvloop accepts one per turn and descriptor of the listening socket."""
_FRAME_BYTES = 64 * 1024
"""Maximum bytes of a WebSocket message from a client."""
_START_SECONDS = 5.0
"""Seconds that a connection from another process waits until this process is ready."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class RunningApp:
    app: AppContext
    gate: Gate | None
    """The limit on concurrent requests; None without a limit."""
    connections: OpenConnections


class ProcessGroup(Protocol):
    """The other processes that serve the same store and accept connections from the same listening socket."""

    def passing(self, routes: ReadableRoutes) -> Passing:
        """Return the policy that decides which process serves a connection."""
        ...

    def met(
        self, take: Callable[[socket.socket, bytes], Coroutine[Any, Any, None]], app_context: AppContext
    ) -> AbstractAsyncContextManager[None]:
        """Stay connected to the other processes until the block ends. `take` is called for each connection that they pass on."""
        ...


def _no_companion(_running: RunningApp) -> AbstractAsyncContextManager[None]:
    return contextlib.nullcontext()


def build(app_parts: AppParts) -> ASGIApp:
    app_context = app_context_of(app_parts)
    return application(app_context, https=_is_https(app_context))


def application(app_context: AppContext, *, https: bool, gate: Gate | None = None) -> ASGIApp:
    """Return the web application of a network. With `https`, responses contain the HSTS header.

    Without a `gate`, a gate is created from the settings.
    """
    return build_app(
        (*table(app_context.settings), *pages(app_context.settings)),
        app_context,
        authenticate=partial(caller_of, app_context.uses, staff_second_factor=app_context.settings.staff_second_factor),
        limiter=app_context.limiter,
        fallback=_fallback(app_context),
        gate=gate or _gate(app_context.settings),
        refusal=app_context.writes.pressure.refusal,
        websocket=Sockets(app_context),
        cors_paths=(*CORS_PATHS, *_DEFAULT_IMAGES),
        guard=app_context.ip_guard,
        https=https,
        log_in=partial(logged_in, app_context),
        error_page=partial(refused_page, app_context),
        meter=app_context.meter,
        response_cache=app_context.response_cache,
        recorder=app_context.recorder,
        bind=acting,
    )


def _fallback(app_context: AppContext) -> ASGIApp:
    files = Limited(
        Files(app_context.media, ShownFiles(app_context.graph)),
        app_context.limiter,
        "files",
        app_context.meter,
        "(file)",
    )
    no_route = Limited(partial(no_page, app_context), app_context.limiter, "pages", app_context.meter, "(no such page)")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (files if is_file(scope["path"]) else no_route)(scope, receive, send)

    return answer


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket that several processes may use.

    Port 0 selects a free port. Raises `OSError` if the port is in use.
    """
    return socket.create_server((host, port), family=_family(host), backlog=_BACKLOG)


async def serve(
    app_parts: AppParts,
    *,
    listener: socket.socket,
    ready: Callable[[str], None],
    companion: Callable[[RunningApp], AbstractAsyncContextManager[object]] = _no_companion,
    process_group: ProcessGroup | None = None,
) -> None:
    """Serve HTTP until SIGINT, SIGTERM or cancellation. Running requests get ten seconds to finish.

    `ready` is called with the root of all URLs when connections are accepted. The listener is closed at the end. The
    context of `companion` is entered before the first request and left after the last response. The processes of
    `process_group` pass connections to each other.
    """
    base_url = app_parts.base_url or app_parts.settings.base_url or _address(listener, app_parts.settings.host)
    app_context = app_context_of(replace(app_parts, base_url=base_url))
    space = descriptor_limits()
    counted = connections(app_context.settings, space.most, app_parts.patience)
    app_context.streams.most = min(app_context.streams.most, space.most * 4 // 5)
    gate = _gate(app_context.settings)
    passing = (
        process_group.passing(ReadableRoutes((*table(app_context.settings), *pages(app_context.settings))))
        if process_group
        else None
    )
    config = Config(
        application(app_context, https=_is_https(app_context), gate=gate),
        counted,
        passing=passing,
        ws_max_size=_FRAME_BYTES,
        ws_ping_interval=app_parts.pace.ping,
        ws_ping_timeout=app_parts.pace.ping,
        # Compression would take more memory per socket than everything else together.
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        backlog=space.backlog,
    )
    server = _Server(config, partial(ready, app_context.at.root), app_context.streams.stop)
    try:
        with contextlib.closing(listener):
            running = RunningApp(app_context, gate, counted)
            async with (
                counted.watching(),
                app_context.ip_guard.watching(),
                companion(running),
                _met(process_group, server, app_context),
            ):
                await _run(server, listener)
    finally:
        await app_context.close()


def _met(
    process_group: ProcessGroup | None, server: _Server, app_context: AppContext
) -> AbstractAsyncContextManager[None]:
    return contextlib.nullcontext() if process_group is None else process_group.met(server.take, app_context)


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until the server is stopped. A cancellation stops it as gracefully as a signal."""
    running = asyncio.create_task(server.serve(_descriptors(listener)), name="shoal-http")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        server.should_exit = True
        await running
        raise


def _descriptors(listener: socket.socket) -> list[socket.socket]:
    """Return descriptors of the listening socket.

    Several processes can share this socket and its mode, and `dup` sets the mode of the original. So the original must be
    non-blocking: otherwise another process would wait in `accept` when this process has taken the connection.
    """
    listener.setblocking(False)
    return [listener, *(listener.dup() for _ in range(_ACCEPTED_AT_ONCE - 1))]


def _is_https(app_context: AppContext) -> bool:
    return app_context.at.root.startswith("https:")


def _gate(settings: Settings) -> Gate | None:
    if not settings.requests_at_work:
        return None
    return Gate(settings.requests_at_work, settings.requests_waiting, settings.waiting_seconds)


class _Server(uvicorn.Server):
    """A server with callbacks at startup and shutdown. After a signal, its caller cleans up."""

    def __init__(self, config: Config, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._parts = config
        self._up = asyncio.Event()
        self._ready = ready
        self._ending = ending

    async def take(self, sock: socket.socket, data: bytes) -> None:
        """Continue a connection that another process has begun to serve. After an error, the socket is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                await self._up.wait()
        if not self.started or self.should_exit:
            sock.close()
            return
        make = partial(PassedConnection, self._parts, self.server_state, self.lifespan.state, begun=data)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(make, sock)
        except OSError:
            # The client has disconnected.
            sock.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._up.set()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams do not end by themselves, so the shutdown must end them.
        self._ending()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own method raises the signal again at the end, which would end the process before the stores are
        # closed.
        loop = asyncio.get_running_loop()
        installed: list[signal.Signals] = []
        # Python handles signals only in the main thread.
        with contextlib.suppress(ValueError, RuntimeError):
            for number in _SIGNALS:
                loop.add_signal_handler(number, self.handle_exit, number, None)
                installed.append(number)
        try:
            yield
        finally:
            for number in installed:
                loop.remove_signal_handler(number)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _address(listener: socket.socket, host: str) -> str:
    """Return the URL at which a browser on this machine reaches the listener."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}"
