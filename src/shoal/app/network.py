"""All components of a network, opened and closed together."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import Any

from shoal import gazetteer
from shoal.admin.moderation_rules import RuleBook
from shoal.admin.tags import TagUpgrade
from shoal.app.backends import Backend
from shoal.app.engines import Statements, engine_probes
from shoal.app.indexes import TagCounting, begin_filling, open_search, open_tags
from shoal.app.mail_and_push import open_key, open_mail, open_push_sender
from shoal.app.outboxes import limits_of, open_recorder, pressure_of, probes_of, runner_of
from shoal.app.paths import base_url, domain_of, media_url
from shoal.app.shared import HostProcess, Sharing, open_broker, open_sharing
from shoal.app.stores import open_store, spans_stores
from shoal.app.tag_updates import ChannelUpdates, tag_updates_of
from shoal.commands.audit import drop_old
from shoal.commands.context import Writes
from shoal.consumers.active_posts import forget_inactive
from shoal.consumers.context import Effects, Followers, Holding
from shoal.consumers.follower_sets import ListedFollowers, PackedFollowers
from shoal.consumers.high_fan_out import HighFanOutSources
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import IdMaker
from shoal.core.publishing import Check, Checks
from shoal.core.ranking.recipes import recipe_of
from shoal.core.tokens import TokenLifetime
from shoal.graph.access import prefetches
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Graph, Outbox, Store
from shoal.graph.failover import Histories
from shoal.health.probes import EngineProbe
from shoal.http.rate_limits import Limiter
from shoal.media.clips import Clips, Programs
from shoal.media.decoder import Decoder
from shoal.media.library import MediaLibrary, Workshop
from shoal.media.limits import ClipLimits
from shoal.media.limits import UploadLimits as MediaLimits
from shoal.media.store import MediaStore
from shoal.moderation_hook import ModerationHook, guarded, url_check
from shoal.observability.requests import Recorder
from shoal.outbox.relay import Relay
from shoal.outbox.runner import Runner
from shoal.outgoing import networks_of
from shoal.push.encryption import ServerKey
from shoal.queries.context import Reads
from shoal.queries.events import Event, EventReader
from shoal.scheduler import Agenda, Upkeep, begin_histories, begin_token_uses
from shoal.search.indexing import Filler
from shoal.settings import Settings
from shoal.streaming.contract import MemoryChannel
from shoal.streaming.hub import Hub
from shoal.tagcloud.contract import CloudStore
from shoal.tagcloud.merger import Amendment
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.rules import amend
from shoal.tasks import running
from shoal.timelines.contract import MARKED_SECONDS, MemoryReadings, PushCounter, Timelines
from shoal.timelines.follower_sets import FollowerSetCache
from shoal.timelines.memory import MemoryTimelines
from shoal.webhooks.worker import WebhookWorker


async def open_media(settings: Settings, stack: AsyncExitStack) -> MediaLibrary:
    """Open the media library with its decoding processes. Raises `InvalidInput` for an unknown URL."""
    limits = _limits(settings)
    decoder = await stack.enter_async_context(Decoder(limits))
    return MediaLibrary(MediaStore.open(media_url(settings)), decoder, limits, _clips(settings))


def _clips(settings: Settings) -> Clips | None:
    """Return the converter of video and audio, or None if ffmpeg is not installed."""
    programs = Programs.found()
    limits = ClipLimits(max_bytes=settings.max_video_bytes, max_duration=settings.max_video_seconds)
    return Clips(programs, limits) if programs else None


def _limits(settings: Settings) -> MediaLimits:
    limits = MediaLimits(
        max_bytes=settings.max_upload_bytes, max_pixels=settings.max_pixels, feed_edge=settings.feed_edge
    )
    return limits.keeping_originals() if settings.keep_originals else limits


_MASTODON_BODIES = Backend("shoal.mastodon_api.webhook_bodies", "MastodonBodies")
_LOOK_SECONDS = 0.02
_QUIET_LOOKS = 3
_HURRY_SECONDS = 0.002


class ProcessRole(Enum):
    WEB = "web"
    """Serves requests, and processes events unless workers do."""
    WORKER = "worker"
    """Processes events."""


@dataclass(frozen=True, slots=True)
class Network:
    settings: Settings
    store: Store
    timelines: Timelines
    writes: Writes
    reads: Reads
    tags: TagCloud
    effects: Effects
    runner: Runner[Effects]
    media: MediaLibrary
    counting: TagCounting
    search: Filler
    """Keeps the search index in sync with the graph."""
    hub: Hub
    """Delivers updates to the viewers connected to this process."""
    limiter: Limiter | None
    """Rate limiter that is shared with other processes; None: each HTTP front end creates its own."""
    collecting: bool
    """Whether this process merges tag counts."""
    probes: Mapping[str, Callable[[], Awaitable[object]]]
    """A cheap request to each component that may be remote; the request raises an exception if there is no answer."""
    engines: Sequence[EngineProbe]
    """Health probes of the engines."""
    server_key: ServerKey | None
    """The web push key; None disables web push."""
    memory: CachedGraph
    """The cache in front of the store; identical to `store`."""
    statements: Statements
    """Counts the requests to engines."""
    recorder: Recorder
    rules: RuleBook
    """The moderation rules of this process."""
    webhooks: WebhookWorker | None
    """Delivers the event log to webhooks; None in a process that does not process jobs, and without an event log."""
    moderation_hook: ModerationHook | None
    """The hook that decides about content before it is public."""

    @property
    def tag_store(self) -> CloudStore:
        return self.counting.store

    async def amend_tags(self, amendment: Amendment) -> None:
        await amend(self.counting.store, lambda _: amendment, self.counting.updates)

    async def settle(self, patience: float = 60.0) -> None:
        """Wait until all events so far are processed, by this process or by workers.

        Raises `TimeoutError` after `patience` seconds.
        """
        async with asyncio.timeout(patience):
            await self._drain(patience)
            await self.counting.settle(collecting=self.collecting)

    @asynccontextmanager
    async def _hurried(self) -> AsyncIterator[None]:
        """During the block, let the search index and the tag counters write at once, without waiting for a batch."""
        async with running(self._hurry(), "shoal-hurry"):
            yield

    async def _hurry(self) -> None:
        while True:
            await asyncio.sleep(_HURRY_SECONDS)
            with suppress(Unavailable):
                if await self.runner.waits():
                    self.search.hurry()
                    await self.counting.emitter.flush()

    async def _drain(self, patience: float) -> None:
        if not self.settings.broker:
            async with self._hurried():
                await self.runner.drain(patience, busy=True)
            return
        await self.runner.drain(patience)
        # A job on its way between the store and the broker is in neither, so several consecutive checks must find both empty.
        quiet = 0
        while quiet < _QUIET_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            quiet = 0 if await self.store.backlog() else quiet + 1
            await self.runner.drain(patience)


@asynccontextmanager
async def open_network(
    settings: Settings,
    *,
    read_only: bool = False,
    background: bool = True,
    role: ProcessRole = ProcessRole.WEB,
    host_process: HostProcess | None = None,
    moderation: Check | None = None,
) -> AsyncIterator[Network]:
    """Open all components, and close them afterwards.

    `background` starts event processing and upkeep; without it, the caller processes events with `runner.turn`. `host_process` is
    given if this is one of several processes on one SQLite file, of which only the owner may write. `moderation` decides about
    content before it is public; it excludes the setting `moderation_hook`.

    Raises `Unavailable` for a store that cannot be opened, and `InvalidInput` for an unsupported URL.
    """
    async with AsyncExitStack() as stack:
        if role is ProcessRole.WEB and background:
            # The first requests need the names of places. Read them now, in a thread, to keep the event loop free.
            await asyncio.to_thread(gazetteer.installed)
        recorder = open_recorder(settings, stack)
        sharing = await open_sharing(settings, stack, histories := Histories())
        raw = await open_store(settings, stack, histories, read_only=read_only, sole=not (sharing or read_only))
        log = host_process.log() if host_process else None
        store = CachedGraph(raw, settings.object_cache, versions=sharing.versions if sharing else None, log=log)
        working = background and not read_only and (role is ProcessRole.WORKER or settings.run_consequences)
        broker = await open_broker(settings, stack, taking=working)
        outbox: Outbox = store if broker is None else broker
        updates = tag_updates_of(settings, sharing, host_process)
        counting = await open_tags(settings, stack, updates, read_only=read_only, working=working)
        search = await open_search(settings, stack, read_only=read_only)
        statements = Statements(raw, counting.store, sharing)
        server_key = None if read_only else open_key(settings)
        uses_since = await begin_token_uses(store, read_only=read_only)
        lifetime = TokenLifetime(settings.token_days * 86_400_000, uses_since)
        network = await _assemble(
            settings,
            store,
            sharing,
            outbox,
            counting,
            search,
            statements,
            stack,
            server_key,
            recorder,
            lifetime,
            host_process,
            _moderation_hook(settings, stack, moderation),
            working=working,
        )
        if isinstance(network.timelines, MemoryTimelines):
            histories.on_change(store.forget_all, network.timelines.forget_all)
        if not read_only:
            await begin_histories(network.store, settings.tombstone_days)
            await network.rules.read()
            network.rules.start()
            stack.push_async_callback(network.rules.stop)
        if background and not read_only:
            _start(network, broker, stack, working=working)
        yield network


async def _assemble(
    settings: Settings,
    store: CachedGraph,
    sharing: Sharing | None,
    outbox: Outbox,
    counting: TagCounting,
    search: Filler,
    statements: Statements,
    stack: AsyncExitStack,
    server_key: ServerKey | None,
    recorder: Recorder,
    lifetime: TokenLifetime,
    host_process: HostProcess | None,
    moderation_hook: ModerationHook | None,
    *,
    working: bool,
) -> Network:
    media = await open_media(settings, stack)
    workshop = Workshop(media)
    new_id = IdMaker(first=secrets.randbelow(512)) if sharing else IdMaker()
    # The cache of a single process is never stale. With several processes, caches may be stale while Redis is down, so
    # event processing and other background work bypass them.
    lasting: Graph = store if sharing is None else store.uncached()
    marked_seconds = MARKED_SECONDS if prefetches(store) else 0.0
    high_fan_out_sources = HighFanOutSources(lasting, new_id, settings.high_fan_out_from, marked_seconds=marked_seconds)
    follower_set_cache = None
    timelines: Timelines
    followers: Followers
    if sharing is None:
        timelines = _timelines(settings, host_process)
        slots = FollowerSetCache()
        followers = PackedFollowers(store, timelines, slots, high_fan_out_sources)
        if isinstance(timelines, MemoryTimelines):
            timelines.on_drop = slots.clear
            follower_set_cache = slots
    else:
        timelines = sharing.timelines
        followers = ListedFollowers(lasting, timelines, sharing.versions, high_fan_out_sources)
    channel = sharing.channel if sharing else MemoryChannel()
    push_counter = PushCounter()
    effects = Effects(
        lasting,
        timelines,
        followers,
        high_fan_out_sources,
        channel,
        new_id,
        counting.emitter,
        workshop,
        across=spans_stores(settings),
        merge=settings.timeline_length,
        push_counter=push_counter,
        search=search,
        holding=Holding(settings.reports_to_hold, int(settings.reporter_age_days * 86_400_000)),
        mail_sender=open_mail(settings),
        push_sender=open_push_sender(settings, server_key) if server_key else None,
        lifetime=lifetime,
    )
    rules = RuleBook(lasting)
    hub = Hub(channel, lasting, on_merge=counting.updates.receive)
    stack.push_async_callback(hub.close)
    if isinstance(counting.updates, ChannelUpdates):
        counting.updates.follow = hub.follow
    tags = TagCloud(counting.store, counting.updates)
    stack.callback(counting.updates.close)
    runner = runner_of(outbox, effects, recorder, afar=sharing is not None)
    return Network(
        settings=settings,
        store=store,
        timelines=timelines,
        writes=Writes(
            store,
            new_id,
            media,
            limits_of(settings),
            domain_of(settings),
            pressure_of(runner, search, settings),
            inviters=settings.invitations,
            lifetime=lifetime,
            checks=Checks(
                (moderation_hook,) if moderation_hook else (),
                rules.checks,
                direct=settings.moderation_direct,
                refresh=rules.refresh,
            ),
        ),
        reads=Reads(
            store,
            lasting,
            timelines,
            follower_set_cache,
            tags,
            settings.timeline_length,
            search=search.index,
            readings=sharing.readings if sharing else MemoryReadings(),
            history_days=settings.follow_history_days,
            staff_second_factor=settings.staff_second_factor,
            recipe=recipe_of(settings.recipe),
            push_counter=push_counter,
        ),
        tags=tags,
        effects=effects,
        runner=runner,
        media=media,
        counting=counting,
        search=search,
        collecting=working,
        hub=hub,
        limiter=shared.limiter if (shared := host_process or sharing) and settings.rate_limits else None,
        probes=probes_of(store, timelines, outbox),
        engines=engine_probes(settings),
        server_key=server_key,
        memory=store,
        statements=statements,
        recorder=recorder,
        rules=rules,
        webhooks=_webhook_worker(settings, store, effects) if working and settings.event_log != "off" else None,
        moderation_hook=moderation_hook,
    )


def _moderation_hook(settings: Settings, stack: AsyncExitStack, check: Check | None) -> ModerationHook | None:
    by_url = url_check(settings)
    if by_url is None:
        return guarded(check, settings) if check is not None else None
    if check is not None:
        raise InvalidInput("moderation: use either a callable or the setting moderation_hook", field="moderation")
    stack.push_async_callback(by_url.close)
    return guarded(by_url, settings)


def _timelines(settings: Settings, host_process: HostProcess | None) -> Timelines:
    if host_process is not None:
        return host_process.timelines()
    return MemoryTimelines(settings.timeline_members, settings.timeline_length)


def _start(network: Network, broker: Any, stack: AsyncExitStack, *, working: bool) -> None:
    """Start background tasks. When `stack` is closed, they stop in reverse order."""
    settings = network.settings
    # `Upkeep` and `Agenda` use the uncached graph: their changes must not depend on stale values.
    lasting = replace(network.writes, graph=network.effects.graph)
    upkeep = Upkeep(
        network.store,
        network.timelines,
        network.effects.high_fan_out_sources.review,
        partial(forget_inactive, network.effects.graph),
        settings.timeline_idle_days,
        settings.tombstone_days,
        settings.follow_history_days,
        partial(drop_old, lasting),
        settings.audit_days,
        settings.event_log_days,
    )
    upkeep.start()
    stack.push_async_callback(upkeep.stop)
    if broker is not None:
        relay = Relay(network.store, broker.send)
        relay.start()
        stack.push_async_callback(relay.stop)
    if working:
        network.counting.collector.start()
        stack.push_async_callback(network.counting.collector.stop)
        network.runner.start()
        stack.push_async_callback(network.runner.stop)
        agenda = Agenda(lasting)
        agenda.start()
        stack.push_async_callback(agenda.stop)
        if network.webhooks is not None:
            network.webhooks.start()
            stack.push_async_callback(network.webhooks.stop)
        tag_upgrade = TagUpgrade(network.store, lasting, network.counting.store)
        tag_upgrade.start()
        stack.push_async_callback(tag_upgrade.stop)
        begin_filling(network.store, network.effects.graph, network.search, stack)
        # Stop media processing before the runner, which waits for its jobs: a long video must not delay the shutdown.
        stack.push_async_callback(network.effects.workshop.close)
        if network.effects.push_sender is not None:
            stack.push_async_callback(network.effects.push_sender.close)
        if network.effects.mail_sender is not None:
            stack.push_async_callback(network.effects.mail_sender.close)


def _webhook_worker(settings: Settings, store: Store, effects: Effects) -> WebhookWorker:
    root = base_url(settings)

    @cache
    def bodies() -> Any:
        # Import the API at the first use: most networks have no webhook in Mastodon's format.
        return _MASTODON_BODIES.load()(effects.graph, settings, root, domain_of(settings))

    async def render(name: str, event: Event) -> bytes | None:
        body: bytes | None = await bodies().render(name, event)
        return body

    allowed = networks_of(settings.webhook_networks, "webhook_networks")
    return WebhookWorker(effects.graph, effects.new_id, EventReader(store, root), render, allowed)
