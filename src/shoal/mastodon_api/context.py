"""The context of endpoints, and what their handlers share: route kinds, cursors and pages with a Link header.

`Deps` are the parts of a running network, and `Front` is what handlers find in `context.deps`. A route kind holds common
declarations, so a route is mostly one line and the type checker verifies each handler against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote

import msgspec
from starlette.requests import Request

from shoal.admin.archives.storage import ArchiveShelf
from shoal.admin.statistics import Ledger
from shoal.commands.context import Background, Writes
from shoal.commands.oauth import TokenUses
from shoal.core.audit import MAX_ADDRESS, Actor
from shoal.core.errors import NotFound
from shoal.core.model import Role
from shoal.core.tokens import Origin
from shoal.graph.bulk import Spread
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import MAX_TIME, Cursor, Graph, Scanner, Store
from shoal.health.probes import EngineProbe, EngineWatch
from shoal.http import routes
from shoal.http.connections import USUAL as USUAL_PATIENCE
from shoal.http.connections import Patience
from shoal.http.event_streams import USUAL, Pace, Streams
from shoal.http.middleware import IpGuard, client_of
from shoal.http.pagination import PageQuery, StatusesQuery, link_header
from shoal.http.params import Id
from shoal.http.rate_limits import Limiter, MemoryLimiter, rules
from shoal.http.responses import Reply, kept
from shoal.http.routes import Auth, Route
from shoal.mastodon_api.entities.presenter import Presenter
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.mastodon_api.entities.statuses import Status
from shoal.mastodon_api.network_totals import NetworkTotals
from shoal.mastodon_api.tag_cloud_image import Pictures
from shoal.media.library import MediaLibrary
from shoal.observability.readiness import Probe, Readiness
from shoal.observability.requests import Meter, Recorder
from shoal.push.encryption import ServerKey
from shoal.queries.context import Reads, Renewed
from shoal.queries.hydration import Entry, Profile, hydrate, hydrate_taken_back, profiles_by_id
from shoal.queries.members import MemberPage
from shoal.queries.pipeline import Page
from shoal.response_cache import ResponseCache
from shoal.settings import Settings
from shoal.streaming.hub import Hub


@dataclass(frozen=True, slots=True)
class Deps:
    """The parts of a running network that the front end is made of."""

    settings: Settings
    store: Store
    writes: Writes
    reads: Reads
    media: MediaLibrary
    hub: Hub
    """Tells those who listen to this process what comes."""
    limiter: Limiter | None = None
    """Rate limits counted together with other processes; None counts in this process, by the limits in the settings."""
    base_url: str = ""
    """The root of every URL that clients are given, without a slash at the end; empty: as the settings say."""
    pace: Pace = USUAL
    """How often something is done for each of those who listen."""
    probes: Mapping[str, Probe] = field(default_factory=dict)
    """How the parts that must answer are asked whether they do, by their kind."""
    engines: Sequence[EngineProbe] = ()
    """How each engine is asked for its own figures."""
    server_key: ServerKey | None = None
    """The key for web push; None where there is none, and so no web push."""
    patience: Patience = USUAL_PATIENCE
    """How long a client may keep a connection waiting."""
    recorder: Recorder = field(default_factory=Recorder)
    """Writes a line for each request."""
    demo_member: int = 0
    """Id of the member as whom everybody may log in by a click; 0 for nobody. Only a demo has one."""
    archives: ArchiveShelf | None = None
    """Where archives lie that members send; None where nobody takes them in."""
    tell_use: Callable[[int, Origin], None] | None = None
    """Tells another process that a token is used, where this one only reads; see `TokenUses`."""


@dataclass(frozen=True, slots=True)
class Front:
    """The bundle that a handler finds in `context.deps`."""

    settings: Settings
    graph: Graph
    scanner: Scanner
    """A scanner of the store behind `graph`, which reads all of it in order."""
    store: Store
    """The store behind `graph`."""
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
    """See `Deps`."""
    ip_guard: IpGuard
    """Knows which networks are blocked."""
    uses: TokenUses
    """Notes that tokens are used."""
    background: Background
    """Runs what no answer waits for."""
    recorder: Recorder = field(default_factory=Recorder)
    """Writes a line for each request."""
    meter: Meter = field(default_factory=Meter)
    """Figures of the requests of this process."""
    spread: Renewed[tuple[int, list[Spread]]] = field(default_factory=lambda: Renewed(600_000, 86_400_000))
    """Contents of each data source, and when they were counted, in Unix milliseconds: the whole network is read for it."""
    answers: ResponseCache[Reply] | None = None
    """Whole answers that are remembered; None where the reads of the graph are not noted."""
    demo_member: int = 0
    """See `Deps`."""
    archives: ArchiveShelf | None = None
    """See `Deps`."""

    @property
    def push_key(self) -> str:
        """Return the public key for web push, in base64 for URLs; empty where there is none."""
        return self.server_key.public if self.server_key else ""


Context = routes.Context[Front]
"""The first thing that a handler of ours is given: who calls, and what it may touch."""

ParamsT = TypeVar("ParamsT")
Handler = Callable[[Context, ParamsT], Awaitable[object]]
"""Answers a row with these parameters, or, where they are None, one that takes none; see `AnyHandler`."""


def acting(front: Front, caller: routes.Caller, request: Request) -> Front:
    """Return the front whose commands record the caller and its address in the audit log."""
    address = client_of(request.scope).partition("%")[0][:MAX_ADDRESS]
    return replace(front, writes=front.writes.by(Actor(caller.member_id or 0, caller.name, address)))


def front_of(deps: Deps) -> Front:
    """The front of these parts, with caches of its own."""
    settings = deps.settings
    base_url = deps.base_url or settings.base_url or f"http://{settings.host}:{settings.port}"
    at = Addresses(base_url.rstrip("/"), deps.writes.domain)
    answers: ResponseCache[Reply] | None = None
    if isinstance(deps.store, CachedGraph):
        answers = ResponseCache(deps.store.changes, settings.answer_cache, kept)
    background = Background()
    return Front(
        settings=settings,
        answers=answers,
        graph=deps.writes.graph,
        scanner=deps.store,
        store=deps.store,
        writes=replace(deps.writes, background=background),
        reads=deps.reads,
        media=deps.media,
        at=at,
        present=Presenter(deps.writes.graph, at, settings.object_cache),
        network_totals=NetworkTotals(deps.store),
        ledger=Ledger(deps.store),
        limiter=deps.limiter or MemoryLimiter(rules(settings)),
        pictures=Pictures(),
        streams=Streams(deps.hub, deps.pace),
        readiness=Readiness(deps.probes),
        engines=EngineWatch(deps.engines),
        server_key=deps.server_key,
        ip_guard=IpGuard(deps.store),
        recorder=deps.recorder,
        meter=Meter(slow_ms=settings.slow_ms),
        uses=TokenUses(deps.writes, deps.tell_use),
        background=background,
        demo_member=deps.demo_member,
        archives=deps.archives,
    )


class One(msgspec.Struct, frozen=True):
    """One thing by its id, from the path."""

    id: Id


class PageOf(PageQuery, frozen=True, kw_only=True):
    """A page of something that one thing has."""

    id: Id


class StatusesOf(PageOf, frozen=True, kw_only=True):
    """A page of statuses that one thing has."""

    with_data: bool = False
    """See `WithData`."""


def cursor_of(query: PageQuery, default: int = 20, maximum: int = 40) -> Cursor:
    """The part of a feed that the query asks for."""
    before, limit = query.max_id or MAX_TIME, query.size(default, maximum)
    if query.min_id:
        return Cursor(before, query.min_id, limit, oldest_first=True)
    return Cursor(before, query.since_id, limit)


async def entries_page(
    context: Context, page: Page, cursor: Cursor, *, data: int = 0, filters_applied: bool = False
) -> Reply:
    """Return a page of statuses; those of others include their data if it has at most `data` bytes.

    With `filters_applied` the entries already list the caller's filters that match them.
    """
    front = context.deps
    body = await front.present.page(context.caller.member_id, page.entries, data, filters_applied=filters_applied)
    return paged(context, body, [entry.id for entry in page.entries], page.next, cursor)


def people_page(context: Context, people: MemberPage, cursor: Cursor) -> Reply:
    """A page of accounts; its cursors are the times of the associations, which stand in the Link header only."""
    front = context.deps
    return paged(context, front.present.accounts(people.profiles), people.times, people.next, cursor)


def paged(context: Context, body: bytes, cursors: Sequence[int], after: int | None, cursor: Cursor) -> Reply:
    """A JSON array with the cursors of its items, newest first; `after` is where the next page begins, None at the end."""
    last = after or (cursors[-1] if cursors else None)
    first = cursors[0] if cursors else after
    link = link_header(address_of(context), first, last, limit=cursor.limit, more=after is not None)
    return Reply(body, headers=(("Link", link),) if link else ())


def address_of(context: Context) -> str:
    """The address of the request below our own root, whatever a proxy in front made of it."""
    front = context.deps
    scope = context.request.scope
    return f"{front.at.root}{quote(scope['path'])}?{scope['query_string'].decode('latin-1')}"


async def entry_of(context: Context, id_: int) -> Entry:
    """A post or share as the caller sees it. Raises `NotFound`."""
    front = context.deps
    found = await hydrate(front.graph, context.caller.member_id, (id_,), unasked=False)
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def show(context: Context, id_: int) -> bytes:
    """A status as the caller sees it. Raises `NotFound`."""
    front = context.deps
    return await front.present.status(context.caller.member_id, await entry_of(context, id_))


async def show_taken_back(context: Context, id_: int) -> bytes:
    """A status that the caller takes something of their own back from, whether they may still see it or not."""
    front = context.deps
    entry = await hydrate_taken_back(front.graph, actor(context), id_)
    if entry is None:
        raise NotFound("Record not found")
    return await front.present.status(actor(context), entry)


async def profile_of(context: Context, member_id: int) -> Profile:
    """A member with their numbers. Raises `NotFound`."""
    front = context.deps
    found = await profiles_by_id(front.graph, context.caller.member_id, (member_id,))
    if not found:
        raise NotFound("Record not found")
    return found[0]


def actor(context: Context) -> int:
    """The member who calls. Routes with `auth="user"` have one."""
    member_id = context.caller.member_id
    if member_id is None:
        raise NotFound("Record not found")
    return member_id


FORM = 64 * 1024
"""Bytes of a multipart body besides its files."""

P = TypeVar("P", bound=msgspec.Struct)


class Words(TypedDict, total=False):
    """The declarations of a row besides its address, its handler and its parameters: see `Route`."""

    scope: str
    auth: Auth
    role: Role
    limit_class: str
    max_body: int
    answer: object
    also: tuple[tuple[int, str], ...]
    refuses: tuple[int, ...]
    what: str
    delivers: bool
    page: bool
    remembered: bool
    by_owner: bool
    once: bool
    stub: bool


@dataclass(frozen=True, slots=True)
class RouteKind:
    """Rows that have these words in common. Each may say more, and may say something else instead.

    A row without parameters needs a handler that is given None, and one with parameters a handler that takes them.
    """

    words: Words

    @overload
    def __call__(self, method: str, path: str, handler: Handler[None], **more: Unpack[Words]) -> Route: ...

    @overload
    def __call__(
        self, method: str, path: str, handler: Handler[P], *, params: type[P], **more: Unpack[Words]
    ) -> Route: ...

    def __call__(
        self,
        method: str,
        path: str,
        handler: Handler[Any],
        *,
        params: type[msgspec.Struct] | None = None,
        **more: Unpack[Words],
    ) -> Route:
        words: Words = {**self.words, **more}
        return Route(method, path, handler, params=params, **words)

    def having(self, **more: Unpack[Words]) -> RouteKind:
        """Rows that have these words in common as well."""
        return RouteKind({**self.words, **more})

    def taking(self, params: type[P]) -> KindTaking[P]:
        """Rows that take these parameters."""
        return KindTaking(self, params)


@dataclass(frozen=True, slots=True)
class KindTaking(Generic[P]):
    """Rows that have their parameters in common, too."""

    kind: RouteKind
    params: type[P]

    def __call__(self, method: str, path: str, handler: Handler[P], **more: Unpack[Words]) -> Route:
        return self.kind(method, path, handler, params=self.params, **more)

    def having(self, **more: Unpack[Words]) -> KindTaking[P]:
        """Rows that have these words in common as well."""
        return KindTaking(self.kind.having(**more), self.params)


route = RouteKind({"limit_class": "api"})
"""For members."""
public = route.having(auth="public")
"""For everybody; nobody asks who it is."""
oauth = public.having(once=True)
"""For everybody, in the words of OAuth: a parameter that comes twice is refused."""
seen = route.having(auth="optional")
"""For everybody; who has a token may see more."""
staff = route.having(role=Role.MODERATOR)
"""For those who look after the network."""
admin = route.having(role=Role.ADMIN)
"""For admins alone."""
one = route.taking(One)
"""For members, about one thing."""
page = route.taking(PageQuery)
"""For members, a page of something of theirs."""
statuses_page = route.having(answer=list[Status]).taking(StatusesQuery)
"""For members, a page of statuses."""
