"""A small API for tests of request handling, and functions that send requests to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, TypeVar

import httpx
import msgspec
import uvicorn
from msgspec import Meta
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.errors import InvalidInput, Unauthenticated
from shoal.http.application import build_app
from shoal.http.bodies import Intake, Memory
from shoal.http.params import Id, Upload, read_params
from shoal.http.rate_limits import OFF, Limiter, MemoryLimiter
from shoal.http.routes import Caller, Context, Route

T = TypeVar("T")

Text = Annotated[str, Meta(max_length=500)]

MEMBER = Caller(1, 2, 3, frozenset({"read", "write"}))
TOKENS = {
    "member": MEMBER,
    "reader": Caller(4, 2, 5, frozenset({"read"})),
    "app": Caller(6, 2, None, frozenset({"read", "write"})),
}


class StatusParams(msgspec.Struct, frozen=True):
    """The parameters of a status request."""

    id: Id = Id(0)
    status: Text = ""
    media_ids: Annotated[tuple[Id, ...], Meta(max_length=4)] = ()
    sensitive: bool = False
    avatar: Upload | None = None


async def authenticate(request: Request) -> Caller | None:
    """Return the caller of a token in `TOKENS`, or None without a token."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not token:
        return None
    if token not in TOKENS:
        raise Unauthenticated("The access token is invalid")
    return TOKENS[token]


async def echo(context: Context[object], params: StatusParams | None) -> object:
    """Return the caller, the path and the parameters of the request."""
    shown: dict[str, object] = {"member": context.caller.member_id, "path": context.path}
    if params is not None:
        file = params.avatar
        shown |= {"id": str(params.id), "status": params.status, "media_ids": list(map(str, params.media_ids))}
        shown |= {"sensitive": params.sensitive, "avatar": file and [file.filename, len(file.data)]}
    return shown


async def crash(context: Context[object], params: None) -> object:
    """Raise an unexpected error whose message contains a secret."""
    raise RuntimeError("the password is hunter2")


async def refuse(context: Context[object], params: None) -> object:
    """Raise the error of an invalid parameter."""
    raise InvalidInput("Text can't be blank", field="status")


ROUTES = (
    Route("GET", "/api/v1/instance", echo, auth="public", limit_class="api", answer=dict),
    Route("GET", "/api/v1/crash", crash, auth="public", limit_class="api", answer=dict),
    Route("GET", "/api/v1/refuse", refuse, auth="public", limit_class="api", answer=dict),
    Route("GET", "/api/v1/apps/verify", echo, auth="app", limit_class="api", answer=dict),
    Route(
        "GET",
        "/api/v1/statuses/{id}",
        echo,
        scope="read:statuses",
        auth="optional",
        limit_class="api",
        answer=dict,
        params=StatusParams,
    ),
    Route("GET", "/api/v1/statuses/home", echo, scope="read:statuses", limit_class="api", answer=dict),
    Route(
        "POST", "/api/v1/statuses", echo, scope="write:statuses", limit_class="api", answer=dict, params=StatusParams
    ),
    Route(
        "POST", "/api/v1/statuses/{id}/pin", echo, scope="write:accounts", limit_class="api", answer=dict, max_body=100
    ),
    Route(
        "POST",
        "/api/v1/media",
        echo,
        scope="write:media",
        limit_class="media",
        answer=dict,
        params=StatusParams,
        max_body=1_000_000,
    ),
)


def make_app(
    *more: Route, limiter: Limiter | None = None, fallback: ASGIApp | None = None, routes: tuple[Route, ...] = ROUTES
) -> ASGIApp:
    """Build the small API with additional routes. There are no rate limits unless a limiter is given."""
    return build_app(
        (*routes, *more), None, authenticate=authenticate, limiter=limiter or MemoryLimiter(OFF), fallback=fallback
    )


def ask(app: ASGIApp, method: str, path: str, *, token: str = "", **more: Any) -> httpx.Response:
    """Send a request to the app in this process, and return its response."""
    headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **more.pop("headers", {})}

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shoal.test") as client:
            return await client.request(method, path, headers=headers, **more)

    return asyncio.run(run())


async def call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass one connection to the app, as a server does."""
    await app(scope, receive, send)


def params_of(body: bytes = b"", content_type: str = "", *, query: str = "", max_body: int = 1 << 16) -> dict[str, Any]:
    """Return the result of `read_params` for a request whose body arrives in two pieces."""
    pieces = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    headers = [(b"content-length", str(len(body)).encode())] if body else []
    headers += [(b"content-type", content_type.encode())] if content_type else []
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": query.encode(), "headers": headers}

    async def read() -> dict[str, Any]:
        async with Intake(Memory(), scope) as intake:
            params = await read_params(Request(scope, receive), intake, max_body=max_body)
            await intake.load()
            # The end of the request releases its uploads.
            return {name: _copied(value) for name, value in params.items()}

    return asyncio.run(read())


def _copied(value: object) -> object:
    return Upload(value.filename, value.data) if isinstance(value, Upload) else value


def json_params(value: object) -> dict[str, Any]:
    """Return the result of `read_params` for a JSON body."""
    return params_of(json.dumps(value).encode(), "application/json")


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    """Run a real server on a free port, and yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="critical",
            ws="none",
            lifespan="off",
            # A connection that the server closes during a pause of the test cannot carry the next request.
            timeout_keep_alive=600,
            timeout_graceful_shutdown=2,
        )
    )
    task = asyncio.create_task(server.serve([listener]))
    while not server.started:  # noqa: ASYNC110 (uvicorn has no event for this)
        await asyncio.sleep(0.005)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listener.close()


def on_a_server(app: ASGIApp, story: Callable[[int], Awaitable[T]]) -> T:
    """Serve the app on a real port, and return the result of `story`, which is called with the port."""

    async def run() -> T:
        async with serving(app) as port:
            return await story(port)

    return asyncio.run(run())
