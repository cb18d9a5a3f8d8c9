"""The context of API handlers, the router that declares their routes, and helpers that they share."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import msgspec
from starlette.requests import Request

from shoal.admin.archives.storage import ArchiveStorage
from shoal.admin.statistics import Ledger
from shoal.commands.context import Background, Writes
from shoal.commands.oauth import TokenUses
from shoal.core.audit import MAX_ADDRESS, Actor
from shoal.core.errors import NotFound
from shoal.core.model import Role
from shoal.core.tokens import Origin
from shoal.graph.bulk import Spread
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import MAX_TIME, Cursor, Graph, Store
from shoal.health.probes import EngineProbe, EngineWatch
from shoal.health.readiness import Probe, Readiness
from shoal.http import routes
from shoal.http.connections import USUAL as USUAL_PATIENCE
from shoal.http.connections import Patience
from shoal.http.event_streams import USUAL, Pace, Streams
from shoal.http.middleware import IpGuard, client_of
from shoal.http.pagination import PageQuery, StatusesQuery, link_header, listed_data, offset_links
from shoal.http.params import Id
from shoal.http.rate_limits import Limiter, MemoryLimiter, rules
from shoal.http.responses import Reply, with_etag
from shoal.http.routes import AnyHandler, Auth, Route
from shoal.issuers import Issuers
from shoal.mastodon_api.entities.presenter import Presenter
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.mastodon_api.network_totals import NetworkTotals
from shoal.mastodon_api.tag_cloud_image import Pictures
from shoal.media.library import MediaLibrary
from shoal.observability.requests import Meter, Recorder
from shoal.oidc import Providers
from shoal.push.encryption import ServerKey
from shoal.queries.context import Reads, Renewed
from shoal.queries.events import EventReader
from shoal.queries.hydration import Entry, Profile, hydrate, hydrate_taken_back, profiles_by_id
from shoal.queries.members import MemberPage
from shoal.queries.pipeline import Page
from shoal.response_cache import ResponseCache
from shoal.settings import Settings
from shoal.streaming.hub import Hub


class PhotoCredit(NamedTuple):
    """The title, author, source and license of a photograph. `source` and `license_url` are URLs; `license_url` may be empty."""

    title: str
    author: str
    source: str
    license: str
    license_url: str


@dataclass(frozen=True, slots=True)
class AppParts:
    """The parts of a running network from which an `AppContext` is built."""

    settings: Settings
    store: Store
    writes: Writes
    reads: Reads
    media: MediaLibrary
    hub: Hub
    """Delivers updates to the streams of this process."""
    limiter: Limiter | None = None
    """Rate limits that are shared with other processes.

    If it is None, this process counts alone, by the limits in the settings.
    """
    base_url: str = ""
    """The root of all URLs in responses, without a trailing slash; empty to use the setting `base_url`."""
    pace: Pace = USUAL
    """Intervals of the periodic work for each open stream."""
    probes: Mapping[str, Probe] = field(default_factory=dict)
    """Readiness checks of the required backends, by kind of backend."""
    engines: Sequence[EngineProbe] = ()
    """Functions that measure the health of each engine, such as a database."""
    server_key: ServerKey | None = None
    """The VAPID key of web push; None disables web push."""
    patience: Patience = USUAL_PATIENCE
    """How long a client may keep a connection waiting."""
    recorder: Recorder = field(default_factory=Recorder)
    """Writes the access log."""
    demo_member: int = 0
    """Id of the member that any visitor of a demo may log in as; 0 outside demos."""
    photo_credits: Sequence[PhotoCredit] = ()
    """Credits of the photographs of a demo, for the about page."""
    archives: ArchiveStorage | None = None
    """Storage of archives that members upload; None disables uploads."""
    tell_use: Callable[[int, Origin], None] | None = None
    """Reports the use of a token to another process if this process is read-only; see `TokenUses`."""


@dataclass(frozen=True, slots=True)
class AppContext:
    """The services that a handler uses as `context.app`. For fields that are missing here, see `AppParts`."""

    settings: Settings
    graph: Graph
    store: Store
    writes: Writes
    reads: Reads
    media: MediaLibrary
    at: Addresses
    present: Presenter
    network_totals: NetworkTotals
    ledger: Ledger
    limiter: Limiter
    pictures: Pictures
    streams: Streams
    readiness: Readiness
    engines: EngineWatch
    server_key: ServerKey | None
    ip_guard: IpGuard
    uses: TokenUses
    background: Background
    issuers: Issuers
    events: EventReader
    providers: Providers
    recorder: Recorder = field(default_factory=Recorder)
    meter: Meter = field(default_factory=Meter)
    """Request metrics of this process."""
    spread: Renewed[tuple[int, list[Spread]]] = field(default_factory=lambda: Renewed(600_000, 86_400_000))
    """The contents of each data source, and when they were counted (Unix ms). A count reads the whole network."""
    response_cache: ResponseCache[Reply] | None = None
    """The response cache; None if the store cannot report which dependencies a response has."""
    demo_member: int = 0
    photo_credits: Sequence[PhotoCredit] = ()
    archives: ArchiveStorage | None = None

    async def close(self) -> None:
        async with AsyncExitStack() as closing:
            # Close these services in reverse order. If one of them fails, close the others nevertheless.
            for part in (self.ledger, self.network_totals, self.background, self.uses, self.issuers, self.providers):
                closing.push_async_callback(part.close)

    @property
    def push_key(self) -> str:
        """The public key for web push, in base64url; empty if web push is disabled."""
        return self.server_key.public if self.server_key else ""


Context = routes.Context[AppContext]


def acting(app_context: AppContext, caller: routes.Caller, request: Request) -> AppContext:
    """Return a context whose commands record the caller and its address in the audit log."""
    address = client_of(request.scope).partition("%")[0][:MAX_ADDRESS]
    actor = Actor(caller.member_id or 0, caller.name, address, key=caller.key)
    return replace(app_context, writes=app_context.writes.by(actor))


def app_context_of(app_parts: AppParts) -> AppContext:
    """Create the services that handlers use, with empty caches."""
    settings = app_parts.settings
    base_url = app_parts.base_url or settings.base_url or f"http://{settings.host}:{settings.port}"
    at = Addresses(base_url.rstrip("/"), app_parts.writes.domain)
    response_cache: ResponseCache[Reply] | None = None
    if isinstance(app_parts.store, CachedGraph):
        response_cache = ResponseCache(app_parts.store.changes, settings.answer_cache, with_etag)
    background = Background()
    return AppContext(
        settings=settings,
        response_cache=response_cache,
        graph=app_parts.writes.graph,
        store=app_parts.store,
        writes=replace(app_parts.writes, background=background),
        reads=app_parts.reads,
        media=app_parts.media,
        at=at,
        present=Presenter(app_parts.writes.graph, at, settings.object_cache),
        network_totals=NetworkTotals(app_parts.store),
        ledger=Ledger(app_parts.store),
        limiter=app_parts.limiter or MemoryLimiter(rules(settings)),
        pictures=Pictures(),
        streams=Streams(app_parts.hub, app_parts.pace),
        readiness=Readiness(app_parts.probes),
        engines=EngineWatch(app_parts.engines),
        server_key=app_parts.server_key,
        ip_guard=IpGuard(app_parts.store),
        recorder=app_parts.recorder,
        meter=Meter(slow_ms=settings.slow_ms),
        uses=TokenUses(app_parts.writes, app_parts.tell_use),
        background=background,
        issuers=Issuers(settings),
        events=EventReader(app_parts.store, at.root),
        providers=Providers(settings),
        demo_member=app_parts.demo_member,
        photo_credits=app_parts.photo_credits,
        archives=app_parts.archives,
    )


class RouteOptions(TypedDict, total=False):
    scope: str
    auth: Auth
    role: Role
    limit_class: str
    max_body: int | Callable[[Settings], int]
    max_fields: int
    answer: object
    also: tuple[tuple[int, str], ...]
    refuses: tuple[int, ...]
    what: str
    delivers: bool
    cached: bool
    by_owner: bool
    once: bool
    stub: bool


@cache
def _params_of(handler: AnyHandler) -> Any:
    """Return the annotation of the second argument, which takes time to evaluate."""
    return [*inspect.get_annotations(handler, eval_str=True).values()][1]


HandlerT = TypeVar("HandlerT", bound=Callable[[Context, Any], Awaitable[object]])


class Router:
    """Declares routes by decorators on their handlers.

    The annotation of a handler's second argument is the type of its parameters, or None. Options of the router are
    defaults for its routes. A `max_body` may be a function of the settings.
    """

    def __init__(self, **options: Unpack[RouteOptions]) -> None:
        self._defaults: dict[str, Any] = {"limit_class": "api", **options}
        self._declared: list[tuple[str, str, AnyHandler, dict[str, Any]]] = []

    def get(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("POST", path, options)

    def put(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("PUT", path, options)

    def patch(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("PATCH", path, options)

    def delete(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[HandlerT], HandlerT]:
        return self._declare("DELETE", path, options)

    def routes(self, settings: Settings) -> Iterator[Route]:
        for method, path, handler, options in self._declared:
            params = _params_of(handler)
            max_body = options.get("max_body")
            resolved = {"max_body": max_body(settings)} if callable(max_body) else {}
            yield Route(method, path, handler, params=params, **{**options, **resolved})

    def _declare(self, method: str, path: str, options: RouteOptions) -> Callable[[HandlerT], HandlerT]:
        def declare(handler: HandlerT) -> HandlerT:
            self._declared.append((method, path, handler, {**self._defaults, **options}))
            return handler

        return declare


class One(msgspec.Struct, frozen=True):
    """The object whose id is in the path."""

    id: Id


class PageOf(PageQuery, frozen=True, kw_only=True):
    """The query parameters of a page of a list that belongs to the object in the path."""

    id: Id


class StatusesOf(StatusesQuery, frozen=True, kw_only=True):
    """The query parameters of a page of statuses that belong to the object in the path."""

    id: Id


FORM = 64 * 1024
"""Maximum bytes of the parts of a multipart body that are not files."""


def cursor_of(query: PageQuery, default: int = 20, maximum: int = 40) -> Cursor:
    before, limit = query.max_id or MAX_TIME, query.size(default, maximum)
    if query.min_id:
        return Cursor(before, query.min_id, limit, oldest_first=True)
    return Cursor(before, query.since_id, limit)


async def entries_page(
    context: Context, page: Page, cursor: Cursor, *, with_data: bool, filters_applied: bool = False
) -> Reply:
    """Return a page of statuses, with their custom data if it is requested (see `WithData`).

    `filters_applied` means that the entries already contain the matches of the caller's filters.
    """
    body = await context.app.present.page(
        context.caller.member_id, page.entries, listed_data(with_data=with_data), filters_applied=filters_applied
    )
    return paged(context, body, [entry.id for entry in page.entries], page.next, cursor)


def people_page(context: Context, people: MemberPage, cursor: Cursor) -> Reply:
    """Return a page of accounts. Its cursors are times of associations, such as follows."""
    return paged(context, context.app.present.accounts(people.profiles), people.times, people.next, cursor)


def paged(context: Context, body: object, cursors: Sequence[int], after: int | None, cursor: Cursor) -> Reply:
    """Return a JSON array with its Link header.

    Args:
        context: The request.
        body: The array, or its encoded bytes.
        cursors: The cursors of its items, newest first.
        after: The cursor at which the next page begins; None on the last page.
        cursor: The range of the page.
    """
    last = after or (cursors[-1] if cursors else None)
    first = cursors[0] if cursors else after
    link = link_header(address_of(context), first, last, limit=cursor.limit, more=after is not None)
    return Reply(body, headers=(("Link", link),) if link else ())


def offset_page(context: Context, body: object, offset: int, limit: int, *, more: bool) -> Reply:
    link = offset_links(address_of(context), offset, limit, more=more)
    return Reply(body, headers=(("Link", link),) if link else ())


def address_of(context: Context) -> str:
    """Return the URL of the request under this server's configured root, regardless of proxies."""
    scope = context.request.scope
    return f"{context.app.at.root}{quote(scope['path'])}?{scope['query_string'].decode('latin-1')}"


async def entry_of(context: Context, id_: int) -> Entry:
    """Return a post or share as the caller sees it. Raises `NotFound`."""
    found = await hydrate(context.app.graph, context.caller.member_id, (id_,), unasked=False)
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def show(context: Context, id_: int) -> bytes:
    """Return a status as the caller sees it. Raises `NotFound`."""
    return await context.app.present.status(context.caller.member_id, await entry_of(context, id_))


async def show_taken_back(context: Context, id_: int) -> bytes:
    """Return a status after the caller removed a reaction to it, even if the caller may no longer see it. Raises `NotFound`."""
    entry = await hydrate_taken_back(context.app.graph, actor(context), id_)
    if entry is None:
        raise NotFound("Record not found")
    return await context.app.present.status(actor(context), entry)


async def profile_of(context: Context, member_id: int) -> Profile:
    """Return a member with their counts. Raises `NotFound`."""
    found = await profiles_by_id(context.app.graph, context.caller.member_id, (member_id,))
    if not found:
        raise NotFound("Record not found")
    return found[0]


def actor(context: Context) -> int:
    """Return the id of the calling member, which is present in all routes with `auth="user"`."""
    member_id = context.caller.member_id
    if member_id is None:
        raise NotFound("Record not found")
    return member_id
