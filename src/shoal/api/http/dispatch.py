"""The way of one request through the API, and the one place where a failure becomes an answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.api.http.bodies import BodyReceiver, deliver, read_body
from shoal.api.http.calls import ANONYMOUS, Authenticate, Bind, Caller, Context, Route
from shoal.api.http.convert import convert
from shoal.api.http.errors import MethodNotAllowed, NeedsMember, OutsideScopes, reply_for
from shoal.api.http.limits import ratelimit
from shoal.api.http.limits.intake import Intake, Memory, UploadTurns
from shoal.api.http.matching import Trie
from shoal.api.http.meter import Meter, Stages
from shoal.api.http.middleware import REQUEST_ID, ROUTE
from shoal.api.http.params import MAX_BODY, MAX_WORDS, Params, is_multipart, read_params
from shoal.api.http.remembered import MAX_QUERY, unless_had
from shoal.api.http.replies import RawHeader, Reply, encode
from shoal.api.http.scopes import granted
from shoal.core.errors import (
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
from shoal.graph.cache.responses import Answers
from shoal.graph.failover import takeovers
from shoal.tracing.record import AUTHENTICATE, ENCODE, HANDLE, READ, enter, recording

_ENDLESS = ("/live", *(f"/api/v1/streaming/{name}" for name in ("user", "public", "hashtag", "list", "direct")))
"""Ends of the names of routes whose answer goes on: the time until it began is what counts."""
_PRIVATE = (b"cache-control", b"private, no-store")
"""The header of every answer to a token, unless the answer itself says for how long it may be kept."""
_SAFE = frozenset(("GET", "HEAD"))
"""Methods of requests that change nothing."""


ErrorPage = Callable[[Reply, Request], Response]
"""Makes a page for people of a refusal."""


class MatchedRoute(NamedTuple):
    """A route, and the names of the parameters in its path."""

    route: Route
    names: tuple[str, ...]
    name: str
    """Method and path, as figures name it."""


class Api:
    """The application inside the edge."""

    def __init__(
        self,
        trie: Trie[MatchedRoute],
        deps: object,
        bind: Bind | None,
        authenticate: Authenticate,
        log_in: Authenticate,
        limiter: ratelimit.Limiter,
        fallback: ASGIApp | None,
        websocket: ASGIApp | None,
        memory: Memory,
        turns: UploadTurns,
        error_page: ErrorPage,
        meter: Meter,
        answers: Answers[Reply] | None,
    ) -> None:
        self._find = trie.find
        self._deps = deps
        self._bind = bind
        self._authenticate = authenticate
        self._log_in = log_in
        self._limiter = limiter
        self._fallback = fallback
        self._websocket = websocket or _refuse_websocket
        self._memory = memory
        self._turns = turns
        self._error_page = error_page
        self._meter = meter
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] == "http":
            found = self._find(scope["path"])
            if found is None and self._fallback is not None and not _is_api(scope["path"]):
                await self._fallback(scope, receive, send)
            else:
                with one_request():
                    await self._http(found, scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await _lifespan(receive, send)

    async def _http(
        self, found: tuple[dict[str, MatchedRoute], tuple[str, ...]] | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        inbox = BodyReceiver(scope, receive)
        request = Request(scope, inbox.receive)
        more: list[RawHeader] = []
        began = admitted = perf_counter()
        before = takeovers()
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
            if takeovers() != before and isinstance(error, ShoalError) and not isinstance(error, Unavailable):
                # What is missing, or in the way, was read from two servers, of which one may lack what the other had.
                error = Unavailable("the store has just been replaced by its standby: repeat in a moment")
            reply = reply_for(error, where=f"{name} ({scope.get(REQUEST_ID, '-')})")
            answer = self._error_page(reply, request) if _is_page(found) else reply
            content = encode(reply.body)
        handled = perf_counter()
        if isinstance(answer, Response):
            kept = "cache-control" in answer.headers
            answer.raw_headers.extend(header for header in more if not kept or header is not _PRIVATE)
            await answer(scope, inbox.receive, send)
            status = answer.status_code
        else:
            if answer.keeps_itself:
                more = [header for header in more if header is not _PRIVATE]
            await deliver(answer, content, more, inbox, send)
            status = answer.status
        sent = perf_counter() if found is None or not name.endswith(_ENDLESS) else handled
        stages = Stages((admitted - began) * 1e3, (handled - admitted) * 1e3, (sent - handled) * 1e3)
        self._meter.note(name, status, stages, str(scope.get(REQUEST_ID, "-")))

    async def _entry(
        self, found: tuple[dict[str, MatchedRoute], tuple[str, ...]] | None, request: Request, more: list[RawHeader]
    ) -> tuple[MatchedRoute, tuple[str, ...]]:
        """The route that is meant and the values in its path. Who asks for what is not there is counted too."""
        method = request.scope["method"]
        if found is not None:
            entry = found[0].get("GET" if method == "HEAD" else method)
            if entry is not None:
                return entry, found[1]
        await self._take("api", ANONYMOUS, request, more)
        raise NotFound if found is None else MethodNotAllowed(found[0])

    async def _admit(self, route: Route, request: Request, more: list[RawHeader]) -> Caller:
        """The caller, once it is known that they may call this now."""
        caller = ANONYMOUS
        failure: ShoalError | None = None
        if route.auth != "public":
            try:
                ask = self._log_in if route.auth == "browser" else self._authenticate
                caller = await ask(request) or ANONYMOUS
            except (Unauthenticated, NotAllowed) as error:
                failure = error
        # Before any refusal, so that guessing tokens is limited as well.
        await self._take(route.limit_class, caller, request, more)
        if failure is not None:
            raise failure
        if caller.token_id:
            more.append(_PRIVATE)
            _check_rights(route, caller)
        elif route.auth in {"app", "client", "user"}:
            raise Unauthenticated
        return caller

    async def _take(self, limit_class: str, caller: Caller, request: Request, more: list[RawHeader]) -> None:
        if limit_class == ratelimit.UNLIMITED:
            return
        member = None if limit_class in ratelimit.BY_ADDRESS else caller.member_id
        who = ratelimit.address_of(request.scope) if member is None else member
        window = await self._limiter.take(ratelimit.RateKey(limit_class, who))
        if window is None:
            return
        more += ratelimit.headers(window)
        if window.wait:
            raise TooMany("Too many requests", retry_after=window.wait)

    async def _run(
        self, entry: MatchedRoute, values: tuple[str, ...], caller: Caller, request: Request, inbox: BodyReceiver
    ) -> Reply | Response:
        intake = Intake(self._memory, request.scope)
        if not inbox.unread:
            if entry.route.remembered and self._answers is not None:
                return await self._remembered(self._answers, entry, values, caller, request, intake)
            return await self._handled(entry, values, caller, request, intake)
        async with AsyncExitStack() as stack:
            if entry.route.max_body > MAX_WORDS and is_multipart(request):
                who = caller.member_id or ratelimit.address_of(request.scope)
                await stack.enter_async_context(self._turns.of(who, request.scope))
            await stack.enter_async_context(intake)
            if entry.route.params is None:
                await read_body(request, intake, entry.route.max_body)
            return await self._handled(entry, values, caller, request, intake)

    async def _remembered(
        self,
        answers: Answers[Reply],
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
                raise TypeError(f"{entry.name}: only a Reply can be remembered")
            return answer

        if len(query) > MAX_QUERY:
            return await make()
        name = (entry.name, path, query, caller.member_id, caller.role, caller.unguarded)
        return unless_had(await answers.get(name, make), request.scope)

    async def _handled(
        self, entry: MatchedRoute, values: tuple[str, ...], caller: Caller, request: Request, intake: Intake
    ) -> Reply | Response:
        route, names = entry.route, entry.names
        path = dict(zip(names, values, strict=True))
        params = None
        if route.params is not None:
            said = await _said(route, caller, request, intake)
            params = convert({**said, **path}, route.params)
            if not route.on_disk:
                await intake.load()
        enter(HANDLE)
        deps = self._deps
        if self._bind is not None and route.method not in _SAFE:
            deps = self._bind(deps, caller, request)
        answer = await route.handler(Context(caller, request, deps, path), params)
        return answer if isinstance(answer, Reply | Response) else Reply(answer)


async def _said(route: Route, caller: Caller, request: Request, intake: Intake) -> Params:
    """Return what a request says. A form of a page that takes files takes them from members alone; others send few words."""
    if route.auth != "browser" or caller.member_id is not None or route.max_body <= MAX_BODY:
        return await read_params(request, intake, max_body=route.max_body, once=route.once)
    try:
        return await read_params(request, intake, max_body=MAX_BODY, once=route.once)
    except TooLarge:
        raise Unauthenticated("Nobody is logged in here any more") from None


def _check_rights(route: Route, caller: Caller) -> None:
    if route.auth == "user" and caller.member_id is None:
        raise NeedsMember
    if route.scope is not None and not granted(caller.scopes, route.scope):
        raise OutsideScopes
    if route.auth == "client" and caller.member_id is not None:
        raise NotAllowed("This action is not allowed")
    if route.role is not Role.NONE and caller.role.rank < route.role.rank:
        raise NotAllowed("This action is not allowed")
    if route.role is not Role.NONE and caller.unguarded:
        raise SecondFactorNeeded


def _is_page(found: tuple[dict[str, MatchedRoute], tuple[str, ...]] | None) -> bool:
    return found is not None and any(entry.route.page for entry in found[0].values())


def _is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


async def _refuse_websocket(_scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1000})


async def _lifespan(receive: Receive, send: Send) -> None:
    """Nothing happens here: the wiring starts and stops what there is."""
    for _ in ("startup", "shutdown"):
        message = await receive()
        await send({"type": message["type"] + ".complete"})
