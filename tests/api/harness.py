"""An API small enough to read in one look, and ways to ask it something."""

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
    """A new status, or one by its id."""

    id: Id = Id(0)
    status: Text = ""
    media_ids: Annotated[tuple[Id, ...], Meta(max_length=4)] = ()
    sensitive: bool = False
    avatar: Upload | None = None


async def authenticate(request: Request) -> Caller | None:
    """The caller of one of TOKENS."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not token:
        return None
    if token not in TOKENS:
        raise Unauthenticated("The access token is invalid")
    return TOKENS[token]


async def echo(context: Context[object], params: StatusParams | None) -> object:
    """Says what it was given."""
    shown: dict[str, object] = {"member": context.caller.member_id, "path": context.path}
    if params is not None:
        file = params.avatar
        shown |= {"id": str(params.id), "status": params.status, "media_ids": list(map(str, params.media_ids))}
        shown |= {"sensitive": params.sensitive, "avatar": file and [file.filename, len(file.data)]}
    return shown


async def crash(context: Context[object], params: None) -> object:
    """A mistake of ours, with a secret in it."""
    raise RuntimeError("the password is hunter2")


async def refuse(context: Context[object], params: None) -> object:
    """A rule that the caller broke."""
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
    """The small API and more routes; without rate limits unless a limiter is given."""
    return build_app(
        (*routes, *more), None, authenticate=authenticate, limiter=limiter or MemoryLimiter(OFF), fallback=fallback
    )


def ask(app: ASGIApp, method: str, path: str, *, token: str = "", **more: Any) -> httpx.Response:
    """One request, without a network."""
    headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **more.pop("headers", {})}

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shoal.test") as client:
            return await client.request(method, path, headers=headers, **more)

    return asyncio.run(run())


async def call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """One connection as a server makes it."""
    await app(scope, receive, send)


def params_of(body: bytes = b"", content_type: str = "", *, query: str = "", max_body: int = 1 << 16) -> dict[str, Any]:
    """Return what `read_params` makes of a request that comes in two pieces."""
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
            # An upload of the request is empty once that is over.
            return {name: _copied(value) for name, value in params.items()}

    return asyncio.run(read())


def _copied(value: object) -> object:
    return Upload(value.filename, value.data) if isinstance(value, Upload) else value


def json_params(value: object) -> dict[str, Any]:
    """Return what `read_params` makes of a JSON body."""
    return params_of(json.dumps(value).encode(), "application/json")


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    """A real server on a free port, which it says."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", ws="none", lifespan="off", timeout_graceful_shutdown=2)
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
    """Serve the app on a real port, run the story with the port, and return its result."""

    async def run() -> T:
        async with serving(app) as port:
            return await story(port)

    return asyncio.run(run())
