"""The ASGI application of a route table: startup checks of its declarations, and dispatch of each request.

Order: load shedding, admission, matching, authentication, rate limit, scope, body, parameters, handler, JSON. The body of an
unauthorized request is not read, and every failure becomes a response by the table of `errors.py`.

Every route must declare a scope, a rate limit class, a maximum for each field and its response type. A route that omits one
raises at startup, so no part of the API is unlimited by accident.

Matching (`Trie`): a literal segment takes precedence over a prefixed parameter (`@{name}`), and that over a bare parameter. A
trailing slash makes no difference. With 200 routes a match takes a microsecond; Starlette's list of patterns takes up to a
hundred (`docs/decisions/0041-uvicorn-with-our-own-protocol-class.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar, get_args
from urllib.parse import unquote

import msgspec
from msgspec import inspect
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.core.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    SecondFactorNeeded,
    ShoalError,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from shoal.core.model import Role
from shoal.graph.cache.coherence import one_request
from shoal.graph.failover import took_over_since
from shoal.http import rate_limits
from shoal.http.authentication import KNOWN, SERVER_SCOPES, granted
from shoal.http.bodies import Intake, Memory, UploadSlots, read_body
from shoal.http.errors import MethodNotAllowed, NeedsMember, OutsideScopes, reply_for
from shoal.http.middleware import (
    CORS_PATHS,
    REQUEST_ID,
    ROUTE,
    Admission,
    Edge,
    Gate,
    IpBlocking,
    IpGuard,
    LoadShedding,
    Refusal,
)
from shoal.http.params import (
    MAX_BODY,
    MAX_WORDS,
    CursorId,
    Id,
    Json,
    Limit,
    Params,
    Upload,
    convert,
    fixers_of,
    is_multipart,
    query_params,
    read_params,
)
from shoal.http.rate_limits import UNLIMITED, Limiter
from shoal.http.responses import MAX_QUERY, BodyReceiver, RawHeader, Reply, deliver, encode, plain_page, unless_had
from shoal.http.routes import ANONYMOUS, LISTS, Auth, Authenticate, Bind, Caller, Context, Route, inner_types
from shoal.observability.requests import Meter, Recorder, Stages
from shoal.observability.tracing import AUTHENTICATE, ENCODE, HANDLE, READ, enter, recording
from shoal.response_cache import ResponseCache

T = TypeVar("T")

_MAX_SEGMENTS = 32
"""Maximum segments of a path with percent-encoded characters."""
_SIGNS = "@"
"""Characters that may precede a parameter in a segment of a path."""


class _Node(Generic[T]):
    __slots__ = ("children", "other", "signed", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.signed: dict[str, _Node[T]] = {}
        """Children for segments that begin with a character of `_SIGNS`, by this character."""
        self.other: _Node[T] | None = None
        self.values: dict[str, T] = {}


@cache
def parameters(path: str) -> tuple[str, ...]:
    """Return the names of the parameters in a path such as `/api/v1/accounts/{id}/statuses`."""
    return tuple(segment.lstrip(_SIGNS)[1:-1] for segment in path.split("/") if _is_parameter(segment))


class Trie(Generic[T]):
    """A prefix tree of paths, with one value per method at the end of each."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        # Most requests are for a few paths without parameters, which one look-up in this dictionary finds.
        self._fixed: dict[str, tuple[dict[str, T], tuple[str, ...]]] = {}

    def add(self, method: str, path: str, value: T) -> None:
        """Add a route.

        Raises `ValueError` for a second route with this method and path. Paths that differ only in the names of parameters
        count as equal.
        """
        node = self._root
        for segment in path[1:].split("/"):
            if not _is_parameter(segment):
                node = _child(node.children, segment)
            elif segment[0] in _SIGNS:
                node = _child(node.signed, segment[0])
            else:
                node.other = node.other or _Node()
                node = node.other
        if method in node.values:
            raise ValueError(f"two routes for {method} {path}")
        node.values[method] = value
        if not parameters(path):
            self._fixed[path] = (node.values, ())

    def find(self, path: str) -> tuple[dict[str, T], tuple[str, ...]] | None:
        """Return the values stored for a path, by method, and the values of its parameters; None for an unknown path."""
        found = self._fixed.get(path)
        if found is not None:
            return found
        if path[-1:] == "/":
            path = path[:-1]
        return _find(self._root, path[1:].split("/"), 0, ())

    def find_encoded(self, path: str, raw: bytes) -> tuple[dict[str, T], tuple[str, ...]] | None:
        """Return the same as `find`, for a path with percent-encoded characters; an encoded slash is part of a parameter.

        `raw` is the path as sent, possibly with the prefix of a mount, which `path` lacks. A path that is not UTF-8 is unknown:
        the parameter could not be distinguished from others. If `raw` is of another path, encoded slashes separate segments.
        """
        pieces = raw.decode("ascii", "replace").partition("?")[0].split("/")[:_MAX_SEGMENTS]
        try:
            decoded = [unquote(piece, errors="strict") for piece in pieces]
        except UnicodeDecodeError:
            return None
        for start in range(len(decoded)):
            segments = decoded[start:]
            if path == "/" + "/".join(segments):
                return _find(self._root, segments if segments[-1] or len(segments) == 1 else segments[:-1], 0, ())
        return self.find(path)


def _child(nodes: dict[str, _Node[T]], key: str) -> _Node[T]:
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = _Node()
    return found


def _find(
    node: _Node[T], segments: list[str], at: int, taken: tuple[str, ...]
) -> tuple[dict[str, T], tuple[str, ...]] | None:
    if at == len(segments):
        return (node.values, taken) if node.values else None
    segment = segments[at]
    child = node.children.get(segment)
    if child is not None:
        found = _find(child, segments, at + 1, taken)
        if found is not None:
            return found
    if not segment:
        return None
    signed = node.signed.get(segment[0])
    if signed is not None and len(segment) > 1:
        found = _find(signed, segments, at + 1, (*taken, segment[1:]))
        if found is not None:
            return found
    if node.other is None:
        return None
    return _find(node.other, segments, at + 1, (*taken, segment))


def _is_parameter(segment: str) -> bool:
    return segment.lstrip(_SIGNS)[:1] == "{" and segment[-1:] == "}"


_SELF_BOUNDED = (
    inspect.BoolType,
    inspect.NoneType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.DateTimeType,
    inspect.DateType,
)
_COMPOSED = (inspect.StructType, inspect.Metadata, inspect.UnionType, inspect.TupleType)
_WITH_LENGTH = (inspect.StrType, inspect.DictType, *LISTS)
_WIRE_TYPES = (Id, CursorId, Json, Limit, Upload)
"""Types with a limit of their own. An `Upload` or a `Json` may be as large as the body."""


def _check_declarations(route: Route, path_names: tuple[str, ...], limit_classes: Collection[str]) -> None:
    error = (
        _access_error(route)
        or _limits_error(route, limit_classes)
        or ("no response is declared" if route.answer is None else None)
        or _params_error(path_names, route.params)
    )
    if error:
        raise TypeError(f"invalid route {route.method} {route.path}: {error}")


_AUTHS = get_args(Auth)


def _access_error(route: Route) -> str | None:
    scope, auth, role = route.scope, route.auth, route.role
    if auth not in _AUTHS:
        return f"auth {auth!r} is not one of {', '.join(_AUTHS)}"
    if scope is None and auth in {"optional", "client", "user"}:
        return "no scope is declared"
    known = SERVER_SCOPES if auth == "server" else KNOWN
    if scope is not None and (scope not in known or auth in {"public", "browser"}):
        return f"scope {scope!r} is unknown, or declared on a public route or a page"
    if (scope or "").startswith("admin:") is not (role is not Role.NONE) or (role is not Role.NONE and auth != "user"):
        return f"scope {scope!r} and role {role.value!r}: an admin scope requires a role and the auth 'user', and vice versa"
    return None


def _limits_error(route: Route, limit_classes: Collection[str]) -> str | None:
    if route.limit_class == UNLIMITED and (route.auth != "public" or route.params is not None):
        return "only a public route without parameters may be unlimited"
    if route.limit_class != UNLIMITED and route.limit_class not in limit_classes:
        return f"limit class {route.limit_class!r} is not one of {', '.join(sorted(limit_classes))}"
    return "max_body is negative" if route.max_body < 0 else None


@cache
def _params_error(path_names: tuple[str, ...], params: type[msgspec.Struct] | None) -> str | None:
    if params is None:
        return None
    missing = set(path_names) - {field.encode_name for field in msgspec.structs.fields(params)}
    if missing:
        return f"{params.__name__} has no field for {', '.join(sorted(missing))} of the path"
    return next(_unbounded(inspect.type_info(params), params.__name__), None)


def _unbounded(info: inspect.Type, name: str) -> Iterator[str]:
    """Yield an error for a type without a maximum length or value, and for each such type nested in it."""
    if error := _bound_error(info):
        yield f"{name} {error}"
    for suffix, inner in inner_types(info):
        yield from _unbounded(inner, f"{name}{suffix}")


def _bound_error(info: inspect.Type) -> str:
    if isinstance(info, _WITH_LENGTH):
        return "" if info.max_length is not None else "has no max_length"
    if isinstance(info, inspect.IntType | inspect.FloatType):
        low = info.ge if info.ge is not None else info.gt
        high = info.le if info.le is not None else info.lt
        return "" if low is not None and high is not None else "has no ge and le"
    if isinstance(info, inspect.CustomType):
        return "" if info.cls in _WIRE_TYPES else "is of a type that has no maximum"
    return "" if isinstance(info, (*_SELF_BOUNDED, *_COMPOSED)) else "is of a type that has no maximum"


_ENDLESS = (
    "/live",
    "/v1/events",
    "/events/stream",
    *(f"/api/v1/streaming/{name}" for name in ("user", "public", "hashtag", "list", "direct")),
)
"""Ends of the names of routes whose response is unlimited. Only the time until such a response begins is measured."""
_PRIVATE = (b"cache-control", b"private, no-store")
"""Added to the response to an authenticated request, unless its handler sets `Cache-Control`."""
_SAFE = frozenset(("GET", "HEAD"))
_MAX_REPEATED_QUERY = 200
"""Maximum bytes of a query whose parameters are cached."""


ErrorPage = Callable[[Reply, Request], Response]


class MatchedRoute(NamedTuple):
    route: Route
    names: tuple[str, ...]
    name: str
    """Method and path template, as in metrics."""
    only_query: bool
    """Whether the parameters are an immutable struct, and requests usually have no body."""


_Found = tuple[dict[str, MatchedRoute], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    """The ASGI application of the API, without middleware. For the fields see `build_app`."""

    trie: Trie[MatchedRoute]
    app_context: object
    bind: Bind | None
    authenticate: Authenticate
    log_in: Authenticate
    limiter: Limiter
    fallback: ASGIApp | None
    websocket: ASGIApp
    memory: Memory
    upload_slots: UploadSlots
    error_page: ErrorPage
    meter: Meter
    response_cache: ResponseCache[Reply] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or b""
            found = self.trie.find_encoded(scope["path"], raw) if b"%" in raw else self.trie.find(scope["path"])
            if found is None and self.fallback is not None and not _is_api(scope["path"]):
                await self.fallback(scope, receive, send)
            else:
                with one_request():
                    await self._http(found, scope, receive, send)
        elif scope["type"] == "websocket":
            await self.websocket(scope, receive, send)
        else:
            await lifespan(receive, send)

    async def _http(self, found: _Found | None, scope: Scope, receive: Receive, send: Send) -> None:
        inbox = BodyReceiver(scope, receive)
        request = Request(scope, inbox.receive)
        more: list[RawHeader] = []
        began = admitted = perf_counter()
        name = "(no such path)"
        record = recording()
        if record is not None:
            record.route = name
            record.enter(AUTHENTICATE)
        try:
            entry, values = await self._entry(found, request, more)
            scope[ROUTE] = name = entry.name
            if record is not None:
                record.route = entry.route.path
            caller = await self._admit(entry.route, request, more)
            if record is not None:
                record.member = caller.member_id or 0
                record.enter(READ)
            admitted = perf_counter()
            answer = await self._run(entry, values, caller, request, inbox)
            if record is not None:
                record.enter(ENCODE)
            content = b"" if isinstance(answer, Response) else encode(answer.body)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors answers it)
            if isinstance(error, ShoalError) and not isinstance(error, Unavailable) and took_over_since(began):
                # The error may be wrong, because the request may have read from the former and the new primary, whose data differ.
                error = Unavailable("the store is failing over to its standby: try again in a moment")
            reply = reply_for(error, where=f"{name} ({scope.get(REQUEST_ID, '-')})")
            answer = self.error_page(reply, request) if _is_page(found) else reply
            content = encode(reply.body)
        handled = perf_counter()
        if isinstance(answer, Response):
            has_cache_control = "cache-control" in answer.headers
            answer.raw_headers.extend(header for header in more if not has_cache_control or header is not _PRIVATE)
            await answer(scope, inbox.receive, send)
            status = answer.status_code
        else:
            if answer.keeps_itself:
                more = [header for header in more if header is not _PRIVATE]
            await deliver(answer, content, more, inbox, send)
            status = answer.status
        sent = perf_counter() if found is None or not name.endswith(_ENDLESS) else handled
        stages = Stages((admitted - began) * 1e3, (handled - admitted) * 1e3, (sent - handled) * 1e3)
        self.meter.note(name, status, stages, str(scope.get(REQUEST_ID, "-")))

    async def _entry(
        self, found: _Found | None, request: Request, more: list[RawHeader]
    ) -> tuple[MatchedRoute, tuple[str, ...]]:
        """Return the matched route and its parameter values. If no route matches, count the request and raise an error."""
        method = request.scope["method"]
        if found is not None:
            entry = found[0].get("GET" if method == "HEAD" else method)
            if entry is not None:
                return entry, found[1]
        await self._take("api", ANONYMOUS, request, more)
        raise NotFound if found is None else MethodNotAllowed(found[0])

    async def _admit(self, route: Route, request: Request, more: list[RawHeader]) -> Caller:
        """Authenticate the caller, and check the rate limit and the caller's rights. Raises `ShoalError`."""
        caller = ANONYMOUS
        failure: ShoalError | None = None
        if route.auth != "public":
            try:
                ask = self.log_in if route.auth == "browser" else self.authenticate
                caller = await ask(request) or ANONYMOUS
            except (Unauthenticated, NotAllowed, InvalidInput) as error:
                failure = error
        # Count the request before any refusal, so that guessing tokens is limited too.
        await self._take(route.limit_class, caller, request, more)
        if failure is not None:
            raise failure
        if caller.token_id:
            more.append(_PRIVATE)
            _check_rights(route, caller)
        elif route.auth in {"app", "client", "user", "server"}:
            raise Unauthenticated
        return caller

    async def _take(self, limit_class: str, caller: Caller, request: Request, more: list[RawHeader]) -> None:
        if limit_class == rate_limits.UNLIMITED:
            return
        who = None if limit_class in rate_limits.BY_ADDRESS else rate_limits.counted_as(caller)
        if who is None:
            who = rate_limits.address_of(request.scope)
        window = await self.limiter.take(rate_limits.RateKey(limit_class, who))
        if window is None:
            return
        more += rate_limits.headers(window)
        if window.wait:
            raise TooMany("Too many requests", retry_after=window.wait)

    async def _run(
        self, entry: MatchedRoute, values: tuple[str, ...], caller: Caller, request: Request, inbox: BodyReceiver
    ) -> Reply | Response:
        intake = Intake(self.memory, request.scope)
        if not inbox.unread:
            if entry.route.cached and self.response_cache is not None:
                return await self._cached(self.response_cache, entry, values, caller, request, intake)
            return await self._handled(entry, values, caller, request, intake)
        async with AsyncExitStack() as stack:
            if entry.route.max_body > MAX_WORDS and is_multipart(request):
                who = caller.member_id or rate_limits.address_of(request.scope)
                await stack.enter_async_context(self.upload_slots.of(who, request.scope))
            await stack.enter_async_context(intake)
            if entry.route.params is None:
                await read_body(request, intake, entry.route.max_body)
            return await self._handled(entry, values, caller, request, intake, has_body=True)

    async def _cached(
        self,
        response_cache: ResponseCache[Reply],
        entry: MatchedRoute,
        values: tuple[str, ...],
        caller: Caller,
        request: Request,
        intake: Intake,
    ) -> Reply | Response:
        path, query = request.scope["path"], request.scope["query_string"]

        async def make() -> Reply:
            answer = await self._handled(entry, values, caller, request, intake)
            if isinstance(answer, Response):
                raise TypeError(f"{entry.name}: the handler of a cached route must return a Reply (got a Response)")
            return answer

        if len(query) > MAX_QUERY:
            return await make()
        name = (entry.name, path, values, query, caller.member_id, caller.role, caller.unguarded)
        return unless_had(await response_cache.get(name, make), request.scope)

    async def _handled(
        self,
        entry: MatchedRoute,
        values: tuple[str, ...],
        caller: Caller,
        request: Request,
        intake: Intake,
        *,
        has_body: bool = False,
    ) -> Reply | Response:
        route, names = entry.route, entry.names
        path = dict(zip(names, values, strict=True))
        params = None
        if entry.only_query and not has_body and len(query := request.scope["query_string"]) <= _MAX_REPEATED_QUERY:
            params = _params_of_query(route.params, query, tuple(path.items()), once=route.once)
        elif route.params is not None:
            given = await _read_parameters(route, caller, request, intake)
            params = convert({**given, **path}, route.params)
            if not route.on_disk:
                await intake.load()
        enter(HANDLE)
        app_context = self.app_context
        if self.bind is not None and route.method not in _SAFE:
            app_context = self.bind(app_context, caller, request)
        answer = await route.handler(Context(caller, request, app_context, path), params)
        return answer if isinstance(answer, Reply | Response) else Reply(answer)


@lru_cache(1_024)
def _params_of_query(
    kind: type[msgspec.Struct], query: bytes, path: tuple[tuple[str, str], ...], *, once: bool
) -> msgspec.Struct:
    """Return the parameters of a request without a body. They are cached, because clients repeat a few queries."""
    return convert({**query_params(query, once=once), **dict(path)}, kind)


async def _read_parameters(route: Route, caller: Caller, request: Request, intake: Intake) -> Params:
    """Return the parameters. Only logged-in members may send files to pages; other callers may send short forms."""
    if route.auth != "browser" or caller.member_id is not None or route.max_body <= MAX_BODY:
        return await read_params(request, intake, max_body=route.max_body, max_fields=route.max_fields, once=route.once)
    try:
        return await read_params(request, intake, max_body=MAX_BODY, once=route.once)
    except TooLarge:
        raise Unauthenticated("Log in, then send the files again: they were not stored") from None


def _check_rights(route: Route, caller: Caller) -> None:
    if caller.key and caller.member_id is None and route.auth != "server":
        raise NotAllowed("A server key needs the header Shoal-Member here")
    if route.auth == "user" and caller.member_id is None:
        raise NeedsMember
    if route.scope is not None and not granted(caller.scopes, route.scope):
        raise OutsideScopes
    if route.auth == "server" and not caller.key:
        raise NotAllowed("This needs a server key")
    if route.auth == "server" and caller.member_id is not None:
        raise NotAllowed("A server key must not send the header Shoal-Member here")
    if route.auth == "client" and caller.member_id is not None:
        raise NotAllowed("This action is not allowed")
    if route.role is not Role.NONE and caller.role.rank < route.role.rank:
        raise NotAllowed("This action is not allowed")
    if route.role is not Role.NONE and caller.unguarded:
        raise SecondFactorNeeded


def _is_page(found: _Found | None) -> bool:
    return found is not None and any(entry.route.page for entry in found[0].values())


def _is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


async def _refuse_websocket(_scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1000})


async def lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge the messages of the ASGI lifespan protocol. The caller opens and closes the network."""
    for _ in ("startup", "shutdown"):
        message = await receive()
        await send({"type": message["type"] + ".complete"})


_UPDATES = ("PUT", "PATCH")
"""Methods of an update.

A route for `PUT` is also reachable by `PATCH` and vice versa, as in Mastodon, because clients send either.
"""


async def _anonymous(_request: Request) -> None: ...


def build_app(
    routes: Iterable[Route],
    app_context: object,
    *,
    authenticate: Authenticate,
    log_in: Authenticate = _anonymous,
    limiter: Limiter,
    fallback: ASGIApp | None = None,
    websocket: ASGIApp = _refuse_websocket,
    gate: Gate | None = None,
    refusal: Refusal | None = None,
    memory: Memory | None = None,
    upload_slots: UploadSlots | None = None,
    cors_paths: tuple[str, ...] = CORS_PATHS,
    https: bool = False,
    error_page: ErrorPage = plain_page,
    guard: IpGuard | None = None,
    meter: Meter | None = None,
    response_cache: ResponseCache[Reply] | None = None,
    recorder: Recorder | None = None,
    bind: Bind | None = None,
) -> ASGIApp:
    """Return the ASGI application of a route table. Raises `TypeError` for a route that lacks a declaration.

    `fallback` handles unknown paths outside /api, and `websocket` all WebSockets. `gate` limits concurrent requests, `guard`
    refuses clients in blocked address ranges, and `refusal` returns the reason to refuse a request that causes deliveries; each
    is optional. `log_in` authenticates requests for pages, by their cookie. `bind` returns `app_context` bound to the caller of
    a route that changes something. `https` means that clients use HTTPS, so HSTS is sent.
    """
    trie: Trie[MatchedRoute] = Trie()
    for route in routes:
        names = parameters(route.path)
        _check_declarations(route, names, limiter.classes)
        if route.params is not None:
            fixers_of(route.params)
        only_query = route.method in _SAFE and route.params is not None and route.params.__struct_config__.frozen
        matched = MatchedRoute(route, names, f"{route.method} {route.path}", only_query)
        for method in _UPDATES if route.method in _UPDATES else (route.method,):
            trie.add(method, route.path, matched)
    app: ASGIApp = _Api(
        trie=trie,
        app_context=app_context,
        bind=bind,
        authenticate=authenticate,
        log_in=log_in,
        limiter=limiter,
        fallback=fallback,
        websocket=websocket,
        memory=memory or Memory(),
        upload_slots=upload_slots or UploadSlots(),
        error_page=error_page,
        meter=meter or Meter(),
        response_cache=response_cache,
    )
    if gate is not None:
        app = Admission(app, gate)
    if refusal is not None:
        app = LoadShedding(app, partial(_delivers, trie), refusal)
    if guard is not None:
        app = IpBlocking(app, guard)
    return Edge(app, cors_paths=cors_paths, https=https, recorder=recorder)


def _delivers(trie: Trie[MatchedRoute], path: str) -> bool:
    found = trie.find(path)
    entry = found[0].get("POST") if found else None
    return entry is not None and entry.route.delivers
