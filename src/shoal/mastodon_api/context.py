"""The context of a request: `Front`, everything that endpoints may use, and `Deps`, the parts of a running network.

`NetworkTotals` counts members and posts periodically in the background, because no counter of the whole network is stored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from starlette.requests import Request

from shoal.admin.archives.storage import ArchiveShelf
from shoal.admin.statistics import Ledger
from shoal.commands.context import Background, Writes
from shoal.commands.sessions import TokenUses
from shoal.core.audit import MAX_ADDRESS, Actor
from shoal.core.ids import floor_at
from shoal.core.model import Member, Post
from shoal.core.tokens import Origin
from shoal.graph.bulk import Spread
from shoal.graph.cache.request_graph import NotedGraph
from shoal.graph.cache.responses import Answers
from shoal.graph.contract import Graph, Scanner, Store
from shoal.health.probes import EngineProbe, EngineWatch
from shoal.http import routes
from shoal.http.connections import USUAL as USUAL_PATIENCE
from shoal.http.connections import Patience
from shoal.http.event_streams import USUAL, Pace, Streams
from shoal.http.ip_blocks import IpGuard, client_of
from shoal.http.rate_limits import Limiter, MemoryLimiter, rules
from shoal.http.responses import Reply, kept
from shoal.mastodon_api.entities.presenter import Presenter
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.mastodon_api.tag_cloud_image import Pictures
from shoal.media.library import MediaLibrary
from shoal.observability.readiness import Probe, Readiness
from shoal.observability.request_log import Recorder
from shoal.observability.request_metrics import Meter
from shoal.push.encryption import ServerKey
from shoal.queries.context import Reads, Renewed
from shoal.settings import Settings
from shoal.streaming.hub import Hub

_log = logging.getLogger("shoal.api")

_PAGE = 2_000
_FRESH_SECONDS = 600.0
_PATIENCE_SECONDS = 0.5
"""How long a request waits for a count; after that it takes the numbers there are."""
_MONTH_MS = 30 * 86_400_000
_WEEK_MS = 7 * 86_400_000
_MONDAY_MS = 4 * 86_400_000
"""The first Monday of Unix time."""
WEEKS = 12
"""So many weeks are counted one by one, with this one."""


class Week(NamedTuple):
    """Counts of one week, which began on a Monday (`began`: UTC, in Unix seconds)."""

    began: int
    posts: int
    authors: int
    """Members who posted."""
    members: int
    """Members who joined."""


class Totals(NamedTuple):
    """The network in numbers."""

    members: int = 0
    posts: int = 0
    active: int = 0
    """Members who posted in the last 30 days."""
    weeks: tuple[Week, ...] = ()
    """The last ones, this one first."""


class NetworkTotals:
    """Counts when it is asked and its numbers are old; whoever asks meanwhile gets the old ones."""

    def __init__(self, store: Scanner) -> None:
        self._store = store
        self._totals = Totals()
        self._tried_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def totals(self) -> Totals:
        """The numbers as last counted."""
        if time.monotonic() - self._tried_at > _FRESH_SECONDS and self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="shoal-network-totals")
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=_PATIENCE_SECONDS)
        return self._totals

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def _count(self) -> None:
        try:
            self._totals = await self._scan()
        except Exception:  # noqa: BLE001 (whoever asked has the old numbers; it is in the log)
            _log.exception("counting members and posts failed")
        finally:
            # After a failure as well: a store in trouble is not scanned at every request.
            self._tried_at = time.monotonic()
            self._counting = None

    async def _scan(self) -> Totals:
        members = posts = after = 0
        authors: set[int] = set()
        now = time.time_ns() // 1_000_000
        recent = floor_at(now - _MONTH_MS)
        weeks = _Weeks(now)
        while page := await self._store.obj_scan(after, _PAGE):
            after = page[-1].id
            for node in page:
                if isinstance(node, Post):
                    posts += node.open
                    weeks.add_post(node)
                    if node.id >= recent:
                        authors.add(node.author_id)
                elif isinstance(node, Member):
                    members += not node.suspended
                    weeks.add_member(node)
        return Totals(members, posts, len(authors), weeks.told())


class _Weeks:
    """Counts by week, up to a moment."""

    def __init__(self, now: int) -> None:
        self._this = _week_of(now)
        self._posts = [0] * WEEKS
        self._authors: list[set[int]] = [set() for _ in range(WEEKS)]
        self._members = [0] * WEEKS

    def add_post(self, post: Post) -> None:
        """In the week when it was written."""
        ago = self._this - _week_of(post.created_at)
        if 0 <= ago < WEEKS:
            self._posts[ago] += post.open
            self._authors[ago].add(post.author_id)

    def add_member(self, member: Member) -> None:
        """In the week when they joined."""
        ago = self._this - _week_of(member.created_at)
        if 0 <= ago < WEEKS:
            self._members[ago] += 1

    def told(self) -> tuple[Week, ...]:
        """All of them, this week first."""
        return tuple(
            Week(
                ((self._this - ago) * _WEEK_MS + _MONDAY_MS) // 1000,
                self._posts[ago],
                len(self._authors[ago]),
                self._members[ago],
            )
            for ago in range(WEEKS)
        )


def _week_of(milliseconds: int) -> int:
    """Weeks since the first Monday."""
    return (milliseconds - _MONDAY_MS) // _WEEK_MS


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
    answers: Answers[Reply] | None = None
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

P = TypeVar("P")
Handler = Callable[[Context, P], Awaitable[object]]
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
    answers: Answers[Reply] | None = None
    if isinstance(deps.store, NotedGraph):
        answers = Answers(deps.store.changes, settings.answer_cache, kept)
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
