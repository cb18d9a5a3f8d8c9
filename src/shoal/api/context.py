"""The bundle of everything that endpoints may use, and `Deps`, the parts of a running network that it is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from starlette.requests import Request

from shoal.api.cloud.picture import Pictures
from shoal.api.entities.addresses import Addresses
from shoal.api.entities.encoded import Presenter
from shoal.api.http import calls
from shoal.api.http.limits.connections import USUAL as USUAL_PATIENCE
from shoal.api.http.limits.connections import Patience
from shoal.api.http.limits.ip_guard import IpGuard, client_of
from shoal.api.http.limits.listeners import USUAL, Pace, Streams
from shoal.api.http.limits.ratelimit import Limiter, MemoryLimiter, rules
from shoal.api.http.meter import Meter
from shoal.api.http.readiness import Probe, Readiness
from shoal.api.http.remembered import kept
from shoal.api.http.replies import Reply
from shoal.api.network_totals import NetworkTotals
from shoal.commands.context import Background, Writes
from shoal.commands.sessions import TokenUses
from shoal.core.audit import MAX_ADDRESS, Actor
from shoal.core.tokens import Origin
from shoal.graph.bulk import Spread
from shoal.graph.cache.request_graph import NotedGraph
from shoal.graph.cache.responses import Answers
from shoal.graph.contract import Graph, Scanner, Store
from shoal.media.library import MediaLibrary
from shoal.ops.archives.shelf import ArchiveShelf
from shoal.ops.statistics.ledger import Ledger
from shoal.ops.vitals.contract import EngineProbe
from shoal.ops.vitals.watch import EngineWatch
from shoal.push.server_key import ServerKey
from shoal.queries.context import Reads, Renewed
from shoal.settings import Settings
from shoal.streaming.hub import Hub
from shoal.tracing.recorder import Recorder


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


Context = calls.Context[Front]
"""The first thing that a handler of ours is given: who calls, and what it may touch."""

P = TypeVar("P")
Handler = Callable[[Context, P], Awaitable[object]]
"""Answers a row with these parameters, or, where they are None, one that takes none; see `AnyHandler`."""


def acting(front: Front, caller: calls.Caller, request: Request) -> Front:
    """Return the front whose services know who calls, and from which address: the audit log says so."""
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
