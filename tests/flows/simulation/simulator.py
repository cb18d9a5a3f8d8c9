"""A simulation of a small network under a seeded scheduler.

Members act concurrently, while the jobs of their operations run late, repeatedly, in any order, and crash half-way. In the end all
events are delivered, and a recount checks the invariants.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import count, product
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import numpy as np
from msgspec.structs import replace

from shoal.commands import (
    declared_reactions,
    members,
    moderation,
    polls,
    posts,
    ranking,
    reactions,
    relationships,
    reports,
)
from shoal.commands.context import Writes
from shoal.commands.members import ProfileChange
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.commands.relationships import FollowOptions
from shoal.commands.reports import Complaint
from shoal.consumers.active_posts import Activity
from shoal.consumers.context import Effects, Followers, Holding
from shoal.consumers.follower_sets import ListedFollowers, PackedFollowers
from shoal.consumers.high_fan_out import HighFanOutSources
from shoal.consumers.table import TABLE
from shoal.core.errors import Conflict, Gone, InvalidInput, NotAllowed, NotFound, Unavailable
from shoal.core.events import FollowersLost
from shoal.core.ids import BACKDATED_UNTIL_MS, IdMaker, milliseconds_of, shard_of
from shoal.core.model import Member, Post, Share, Visibility
from shoal.core.placement import SHARDS
from shoal.core.reactions import Reaction
from shoal.graph import changes
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import VersionTokens, one_request
from shoal.graph.contract import Batch, Cursor, Graph, Job, Outbox, Store
from shoal.graph.event_log import EventLog
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import BLOCKS, BOOKMARK, FOLLOWS, MUTES
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.media.library import MediaLibrary, Workshop
from shoal.outbox.runner import Outcome, Runner
from shoal.queries import home, pipeline, suggestions
from shoal.queries import members as member_queries
from shoal.queries.context import Reads
from shoal.queries.follows import FollowPeriod, history
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.hydration import hydrate
from shoal.queries.pipeline import Page
from shoal.streaming.contract import MemoryChannel
from shoal.tagcloud.collection import Collector, Emitter, Inbox
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.reader import TagCloud
from shoal.timelines.contract import Slots, Timelines
from shoal.timelines.follower_sets import FollowerSetCache
from shoal.timelines.memory import MemoryTimelines
from tests.async_runner import TurnClock
from tests.event_log_replica import Replica, facts_of
from tests.flows.simulation.concurrent_read_check import watch
from tests.flows.simulation.engines import Engines, opened, part_of
from tests.flows.simulation.faults import Between, Crash, Dice, Haltable, Lossy, SlowVersionTokens, Unruly
from tests.flows.simulation.follow_history_check import FollowStory
from tests.flows.simulation.invariants import GraphSnapshot
from tests.flows.simulation.page_cache_check import RememberedHomes
from tests.tagcloud.recount import stored_rows

NAMES = ("ann", "ben", "cyd", "dan", "fay", "gus")
"""The first three members are in the upper half of the data sources, the others in the lower half."""
TAGS = ("dawn", "reef", "surf")
REACTIONS = (
    Reaction(name="going", title="Going", group="attendance"),
    Reaction(name="maybe", title="Maybe", group="attendance"),
    Reaction(name="spam", title="Spam"),
)
EMOJI = ("👍", "❤️", "🇳🇱", *(reaction.name for reaction in REACTIONS))
ELSEWHERE = ("https://reef.example/@harbour", "https://dawn.example/@harbour")
LENGTH = 4
_REFUSALS = (Conflict, Gone, NotAllowed, NotFound, Unavailable)
_PATIENCE = 2_000
_FOR_EVER = 100_000.0
"""A number of days."""
_LOUD = ((2, 1), (4, 2), (1_000, 1), (1_000, 1))
"""Pairs of the number of followers above which a source is high-fan-out and the number below which it is demoted."""
_LOOKS = 0.3
"""Probability that a cached page is compared after an operation."""
_FICKLE = ((1, 2), (2, 3), (3, 4), (3, 2))


class Op(NamedTuple):
    """An operation: a verb and its actor. The numbers choose the target and the options."""

    verb: str
    actor: int
    other: int
    number: int


def _address(link: str) -> str:
    """Return the canonical name of the account that a link of `ELSEWHERE` opens."""
    site, _, name = link.removeprefix("https://").partition("/@")
    return f"{name}@{site}"


class Addressed(MemoryTimelines):
    """Timelines whose slots are member ids, cold or warm, as in timelines that several processes share."""

    def slots(self, members: Sequence[int]) -> Slots:
        return np.array(members, np.int64)

    async def push(self, entry: int, slots: Slots) -> int:
        return await super().push(entry, super().slots(slots.tolist()))

    async def remove(self, entry: int, slots: Slots) -> None:
        await super().remove(entry, super().slots(slots.tolist()))


class Simulator:
    """A simulated network of `stores` stores. All random choices come from `seed`.

    Args:
        seed: The seed of the random choices.
        stores: The number of stores.
        shared: Members write through one process and read through another, and a third processes events. Each has a cache.
        engines: Real engines, which several processes share, too.
        fickle: One or two followers make a member or a tag high-fan-out, or cause its demotion.
    """

    def __init__(
        self, seed: int, stores: int, *, shared: bool = False, engines: Engines | None = None, fickle: bool = False
    ) -> None:
        self.dice = dice = Dice(seed)
        self.versions: VersionTokens | None = SlowVersionTokens(dice) if shared else None
        self.stores = stores
        self._fickle = fickle
        self.reach = dice.random.choice((1, 3, 40))
        self.story = FollowStory()
        self._engines = engines
        away = dice.random.choice((0.02, 0.2, 0.5))
        self._line = Lossy(dice, away if stores > 1 else 0.0, dice.random.choice((0.0, 0.02, 0.2)))
        if engines:
            self.versions = engines.versions

        def lasting(memory: CachedGraph) -> Graph:
            return memory.uncached() if shared else memory

        self.halting = Haltable(self._store(stores))
        self.graph, reading, working = self._processes(dice)
        ticks = count(1)
        # Evicted timelines are rebuilt, which hides errors, so some runs evict no timelines.
        kind = Addressed if shared else MemoryTimelines
        length = 3 * LENGTH if fickle and not engines else LENGTH
        memory = kind(dice.random.choice((4, 16)), length, clock=lambda: float(next(ticks)))
        follower_set_cache = FollowerSetCache(dice.random.choice((1, 1_000, 1_000)))
        memory.on_drop = follower_set_cache.clear
        self.timelines: Timelines = engines.timelines if engines else memory
        self.cloud = MemoryCloud()
        kept = None if self.versions else follower_set_cache
        tags = TagCloud(self.cloud)
        self.reads = Reads(reading, lasting(reading), self.timelines, kept, tags, length, history_days=_FOR_EVER)
        self.retained = RememberedHomes(self.reads, reading, self.halting)
        # Later than all backdated ids of imports.
        self._now = BACKDATED_UNTIL_MS + 10_000_000
        self.inbox = Inbox(self.cloud)
        unsafe = cast("Inbox", Between(self.inbox, dice.crash, dice.crash))
        self.emitter = Emitter(unsafe.send, seconds=0.0, changes=dice.random.choice((1, 20)), clock=self._clock)
        new_id = IdMaker(self._clock)
        # No operation of the simulation uses media.
        self.writes = Writes(self.graph, new_id, cast("MediaLibrary", None))
        graph = cast("Graph", Between(lasting(working), dice.crash, dice.crash))
        timelines = cast("Timelines", Between(self.timelines, dice.crash, dice.crash_later))
        high_fan_out_from, self.quiet_below = dice.random.choice(_FICKLE if fickle else _LOUD)
        high_fan_out_sources = HighFanOutSources(graph, new_id, high_fan_out_from, self.quiet_below)
        page = dice.random.choice((1, 2) if fickle else (1, 2, 1_000))
        followers: Followers = PackedFollowers(graph, timelines, follower_set_cache, high_fan_out_sources, read=page)
        if self.versions:
            followers = ListedFollowers(
                graph, timelines, self.versions, high_fan_out_sources, dice.random.choice((60, 10_000))
            )
        self.effects = Effects(
            graph,
            timelines,
            followers,
            high_fan_out_sources,
            MemoryChannel(),
            new_id,
            self.emitter,
            cast("Workshop", None),
            page=page,
            merge=length,
            holding=Holding(reports=2, age_ms=0),
            activity=Activity(lambda: self._now),
        )
        self.outbox = Unruly(cast("Outbox", self.graph), dice)
        self.runner = Runner(self.outbox, TABLE, self.effects, attempts=1_000_000, first_delay=0.0)
        self.members: list[Member] = []
        self.posts: list[Post] = []
        self.author_of: dict[int, int] = {}
        self.reports: list[int] = []
        self.replica = Replica()
        self._last: dict[int, Op] = {}

    def _processes(self, dice: Dice) -> tuple[CachedGraph, CachedGraph, CachedGraph]:
        store = cast("Store", self.halting)
        if self.versions is None:
            graph = CachedGraph(store, 16)
            return graph, graph, graph
        one, two, three = (CachedGraph(store, 16, versions=self.versions) for _ in range(3))
        return one, two, three

    def _clock(self) -> int:
        """Return a time in milliseconds that sometimes repeats and sometimes goes back."""
        self._now += self.dice.random.choice((0, 1, 2, 5, -3))
        return self._now

    def _store(self, stores: int) -> Store:
        owners = [part_of(shard, stores) for shard in range(SHARDS)]

        def part(at: int) -> Store:
            owned = self._engines.stores[at] if self._engines else MemoryGraph(lambda n: owners[n] == at, logs=True)
            return cast("Store", Between(self.story.noting(owned), self._line.reach, self._line.answer))

        if stores == 1:
            return part(0)

        return ShardedGraph([part(at) for at in range(stores)], owners)

    # The run

    async def run(self, ops: Sequence[Op]) -> None:
        """Run the operations and two workers concurrently, deliver all events, and check the network.

        The check is repeated after a post of each member, and after all jobs have run again.
        """
        with _quiet():
            self.members = [await self._registered(name) for name in NAMES]
            for reaction in REACTIONS:
                await self._declared(reaction)
            await self._begin()
            workers = [asyncio.create_task(self._work()) for _ in range(2)]
            if self._fickle:
                workers.append(asyncio.create_task(self._keep_watch()))
            try:
                await self._act_all(ops)
            finally:
                self.dice.calm = True
                await asyncio.gather(*workers)
            await self._deliver()
            await self.check()
            await self._all_post()
            await self.check()
            await self._repeat_history()
            await self.check()

    async def _registered(self, name: str) -> Member:
        while True:
            with suppress(Unavailable):
                # The response to the first attempt may have been lost.
                return await members.find(self.writes, name) or await members.register(self.writes, name)

    async def _declared(self, reaction: Reaction) -> None:
        while True:
            with suppress(Unavailable):
                await declared_reactions.declare(self.writes, reaction)
                return

    async def _begin(self) -> None:
        """Create follows that exist before the operations."""
        for actor, other in product(range(len(NAMES)), repeat=2):
            op = Op("follow", actor, other, other)
            if self.dice.happens(0.4):
                await self._act(op, None)
            if other < len(TAGS) and self.dice.happens(0.4):
                await self._act(op._replace(verb="follow_tag"), None)

    async def _work(self) -> None:
        while not self.dice.calm:
            with suppress(Crash, Unavailable):
                await self.runner.run_once()
            await asyncio.sleep(0)

    async def _keep_watch(self) -> None:
        """Check home timelines during the run, because later jobs may repair a temporary error."""
        while not self.dice.calm:
            fading = any(isinstance(event, FollowersLost) for event in await self.outbox.undone())
            for actor in range(len(NAMES)) if fading else (self.dice.random.randrange(len(NAMES)),):
                await self._watch(Op("watch", actor, 0, 0))
            for _ in range(self.dice.random.choice((1, 10, 40))):
                await asyncio.sleep(0)

    async def _act_all(self, ops: Sequence[Op]) -> None:
        """Run the operations: in order for each member, mostly concurrently for different members."""
        in_flight: dict[int, asyncio.Task[None]] = {}
        for op in ops:
            in_flight[op.actor] = task = asyncio.create_task(self._act(op, in_flight.get(op.actor)))
            if self.dice.happens(0.5):
                await task
            for _ in range(self.dice.random.choice((0, 1, 10, 40))):
                await asyncio.sleep(0)
        await asyncio.gather(*in_flight.values())

    async def _act(self, op: Op, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        if op.verb == "again":
            op = self._last.get(op.actor, op._replace(verb="look"))
        self._last[op.actor] = op
        with suppress(*_REFUSALS):
            await getattr(self, f"_{op.verb}")(op)
        if self.dice.happens(_LOOKS):
            await self.retained.compare(self._id(op.other), 1 + op.number % 2 * 4)

    async def _deliver(self) -> None:
        """Process all events, and review the high-fan-out sources."""
        await self._drain()
        await self.effects.high_fan_out_sources.review()
        await self._drain()

    async def _drain(self) -> None:
        for _ in range(_PATIENCE):
            if not await self.outbox.backlog():
                return
            if not await self.runner.run_once() and self._engines:
                # Workers leave the inverse operations of a commit to its process for a short time.
                await asyncio.sleep(0.01)
        raise AssertionError(f"there are still events after {_PATIENCE} runs")

    async def _all_post(self) -> None:
        """Publish a post as each member, to find followers that a follower set has lost."""
        for actor in range(len(NAMES)):
            await self._act(Op("publish", actor, actor, 0x70), None)
        await self._deliver()

    async def _repeat_history(self) -> None:
        """Run all jobs of the history again, in another order."""
        jobs = list(self.outbox.history)
        self.dice.random.shuffle(jobs)
        for job in jobs:
            await self._repeat(job)
        await self._deliver()

    async def _repeat(self, job: Job) -> None:
        for consequence in TABLE.get(type(job.event), ()):
            mark: Outcome = 0
            while isinstance(mark, int):
                mark = await consequence(self.effects, job.event, mark)
            if mark is not None:
                await mark

    # What members do

    async def _create(self, op: Op) -> None:
        draft = Draft(text=self._text(op), visibility=list(Visibility)[op.number % 4])
        await self._post(op, draft)

    async def _publish(self, op: Op) -> None:
        await self._post(op, Draft(text=self._text(op)))

    async def _comment(self, op: Op) -> None:
        parent = self._chosen(op)
        await self._post(op, Draft(text=self._text(op), parent_id=parent.id, visibility=parent.visibility))

    async def _post(self, op: Op, draft: Draft) -> None:
        post = await posts.create(self.writes, self._id(op.actor), draft)
        self.posts.append(post)
        self.author_of[post.id] = post.author_id
        async with self.halting.halted():
            snapshot = await GraphSnapshot.of(cast("Store", self.graph))
            there = await self._first_after(post.author_id, post.id) == post.id
            assert there is snapshot.in_home(post.author_id, snapshot.objects.get(post.id)), (
                "the author's home timeline is wrong about a new post"
            )

    async def _ask(self, op: Op) -> None:
        await self._post(op, Draft(text=self._text(op), poll=self._question(op)))

    async def _ask_otherwise(self, op: Op) -> None:
        draft = Draft(text=self._text(op), poll=self._question(op))
        await posts.update(self.writes, self._id(op.actor), self._own(op).id, draft)

    async def _vote(self, op: Op) -> None:
        """Vote for one or more options, even where only one is allowed."""
        choices = [at for at in range(3) if op.number >> at & 1]
        with suppress(InvalidInput):
            await polls.vote(self.writes, self._id(op.actor), await self._poll_id(op), choices)

    async def _vote_twice(self, op: Op) -> None:
        """Vote from two devices concurrently."""
        await _together(self._vote(op), self._vote(op._replace(number=op.number ^ 1)))

    async def _vote_and_delete(self, op: Op) -> None:
        await _together(self._vote(op), self._delete(op._replace(actor=op.other)))

    async def _pin(self, op: Op) -> None:
        with suppress(InvalidInput):
            await reactions.pin(self.writes, self._id(op.actor), self._own(op).id)

    async def _pin_and_delete(self, op: Op) -> None:
        await _together(self._pin(op), self._delete(op))

    async def _unpin(self, op: Op) -> None:
        await reactions.unpin(self.writes, self._id(op.actor), self._own(op).id)

    async def _mute_thread(self, op: Op) -> None:
        await reactions.mute_thread(self.writes, self._id(op.actor), self._chosen(op).id)

    async def _unmute_thread(self, op: Op) -> None:
        await reactions.unmute_thread(self.writes, self._id(op.actor), self._chosen(op).id)

    def _question(self, op: Op) -> PollDraft:
        options = ("yes", "no", "perhaps")[: 2 + (op.number & 1)]
        return PollDraft(options=options, seconds=600, multiple=bool(op.number & 2))

    async def _poll_id(self, op: Op) -> int:
        """Return the current or an earlier poll of one of the newest posts with a poll. It may have been deleted."""
        asking = [post for post in self.posts if post.poll_id][-3:]
        if not asking:
            raise NotFound("there is none yet")
        post = asking[op.number % len(asking)]
        now = (await self.graph.obj_get((post.id,))).get(post.id) if op.number & 8 else None
        return now.poll_id if isinstance(now, Post) else post.poll_id

    async def _update(self, op: Op) -> None:
        await posts.update(self.writes, self._id(op.actor), self._own(op).id, Draft(text=self._text(op)))

    async def _narrow(self, op: Op) -> None:
        """Narrow the visibility of a post, with or without a new text. Widening it is refused."""
        held = await self._held(op)
        text = self._text(op) if op.number & 64 else held.text
        with suppress(InvalidInput):
            to = list(Visibility)[op.number % 4]
            await posts.update(self.writes, held.author_id, held.id, Draft(text=text), visibility=to)

    async def _held(self, op: Op) -> Post:
        post = (await self.graph.obj_get((self._own(op).id,))).get(self._own(op).id)
        if not isinstance(post, Post):
            raise NotFound("the post is deleted")
        return post

    async def _narrow_and_edit(self, op: Op) -> None:
        await _together(self._narrow(op), self._update(op))

    async def _narrow_and_share(self, op: Op) -> None:
        """Narrow a post while another member shares it."""
        place = self.posts.index(self._own(op))
        others = op._replace(actor=op.other, number=len(self.posts) - 1 - place)
        await _together(self._narrow(op), self._share(others))

    async def _delete(self, op: Op) -> None:
        post = await posts.delete(self.writes, self._id(op.actor), self._own(op).id)
        assert await self._first_after(post.author_id, post.id) != post.id, (
            "the author's home timeline shows a deleted post"
        )

    async def _edit_twice(self, op: Op) -> None:
        """Edit a post from two devices concurrently."""
        await _together(self._update(op), self._update(op._replace(number=op.number ^ 0x70)))

    async def _edit_and_delete(self, op: Op) -> None:
        await _together(self._update(op), self._delete(op))

    async def _follow_and_be_blocked(self, op: Op) -> None:
        await _together(self._follow(op), self._block(op._replace(actor=op.other, other=op.actor)))

    async def _waver(self, op: Op) -> None:
        """Unfollow and follow from two devices, while the other member posts."""
        reverse = op._replace(actor=op.other, other=op.actor)
        await _together(self._unfollow(op), self._publish(reverse), self._follow(op))

    async def _waver_about_a_tag(self, op: Op) -> None:
        await _together(self._unfollow_tag(op), self._publish(op._replace(actor=op.other)), self._follow_tag(op))

    async def _follow(self, op: Op) -> None:
        await relationships.follow(self.writes, self._id(op.actor), self._id(op.other))

    async def _follow_otherwise(self, op: Op) -> None:
        """Follow, or change whether a follow sends notifications. The recount does not support other options."""
        options = FollowOptions(notify=bool(op.number & 1))
        await relationships.follow(self.writes, self._id(op.actor), self._id(op.other), options)

    async def _follow_twice(self, op: Op) -> None:
        """Follow from several devices concurrently."""
        await _together(self._follow(op), self._follow_otherwise(op), self._follow(op))

    async def _remove_follower(self, op: Op) -> None:
        await relationships.remove_follower(self.writes, self._id(op.actor), self._id(op.other))

    async def _part(self, op: Op) -> None:
        """Unfollow a member, be removed as a follower and follow again, concurrently."""
        removal = self._remove_follower(op._replace(actor=op.other, other=op.actor))
        await _together(self._unfollow(op), removal, self._follow_otherwise(op))

    async def _lock(self, op: Op) -> None:
        """Require approval of followers, or stop requiring it."""
        await members.update_profile(self.writes, self._id(op.actor), ProfileChange(locked=bool(op.number & 1)))

    async def _grant(self, op: Op) -> None:
        for other in range(len(NAMES)):
            with suppress(NotFound):
                await relationships.authorize_request(self.writes, self._id(op.actor), self._id(other))

    async def _grant_and_withdraw(self, op: Op) -> None:
        reverse = op._replace(actor=op.other, other=op.actor)
        await _together(self._grant(op), self._unfollow(reverse), self._follow(reverse))

    async def _refuse(self, op: Op) -> None:
        await relationships.reject_request(self.writes, self._id(op.actor), self._id(op.other))

    async def _unfollow(self, op: Op) -> None:
        await relationships.unfollow(self.writes, self._id(op.actor), self._id(op.other))
        await self._look(op)

    async def _follow_tag(self, op: Op) -> None:
        await relationships.follow_tag(self.writes, self._id(op.actor), TAGS[op.number % 3])

    async def _unfollow_tag(self, op: Op) -> None:
        await relationships.unfollow_tag(self.writes, self._id(op.actor), TAGS[op.number % 3])
        await self._look(op)

    async def _block(self, op: Op) -> None:
        await relationships.block(self.writes, self._id(op.actor), self._id(op.other))
        await self._look(op)

    async def _unblock(self, op: Op) -> None:
        await relationships.unblock(self.writes, self._id(op.actor), self._id(op.other))

    async def _hide(self, op: Op) -> None:
        await moderation.hide(self.writes, self._chosen(op).id)

    async def _reveal(self, op: Op) -> None:
        await moderation.reveal(self.writes, self._chosen(op).id)

    async def _suspend(self, op: Op) -> None:
        await moderation.suspend(self.writes, self._id(op.other))

    async def _restore(self, op: Op) -> None:
        await moderation.restore(self.writes, self._id(op.other))

    async def _mute(self, op: Op) -> None:
        await relationships.mute(self.writes, self._id(op.actor), self._id(op.other))
        await self._look(op)

    async def _unmute(self, op: Op) -> None:
        await relationships.unmute(self.writes, self._id(op.actor), self._id(op.other))

    async def _like(self, op: Op) -> None:
        viewer, chosen = self._id(op.actor), self._chosen(op).id
        with self._request():
            post = await reactions.like(self.writes, viewer, chosen)
        async with self.halting.halted():
            found = await hydrate(self.graph, viewer, (post.id,), unasked=False)
            assert all(entry.liked for entry in found), "a liked post is not shown as liked"

    async def _unlike(self, op: Op) -> None:
        with self._request():
            await reactions.unlike(self.writes, self._id(op.actor), self._chosen(op).id)

    def _request(self) -> AbstractContextManager[None]:
        """Return a context in which half of the requests read each version token once and mark foreseen changes in advance."""
        return one_request() if self.dice.happens(0.5) else nullcontext()

    async def _share(self, op: Op) -> None:
        share = await reactions.share(self.writes, self._id(op.actor), self._chosen(op).id)
        async with self.halting.halted():
            snapshot = await GraphSnapshot.of(cast("Store", self.graph))
            there = await self._first_after(share.author_id, share.id) == share.id
            node = snapshot.objects.get(share.id)
            known = snapshot.in_home(share.author_id, node)
            assert known or not there, "the sharer's home timeline shows a share that does not belong there"
            # An older entry of the post may replace the share, and the recount does not see pending deliveries.
            assert there or not known or snapshot.stands_by_another(share.author_id, share.id), (
                "the sharer's home timeline lacks the share"
            )

    async def _declare(self, op: Op) -> None:
        """Replace the links to external accounts on the profile."""
        fields = [("Elsewhere", link) for bit, link in enumerate(ELSEWHERE) if op.number & 1 << bit]
        await members.update_profile(self.writes, self._id(op.actor), ProfileChange(fields=fields))

    async def _declare_twice(self, op: Op) -> None:
        """Replace the links from two devices concurrently."""
        await _together(self._declare(op), self._declare(op._replace(number=op.number ^ 3)))

    async def _turn_folding(self, op: Op) -> None:
        member = (await self.graph.obj_get((self._id(op.actor),)))[self._id(op.actor)]
        assert isinstance(member, Member)
        batch = Batch(shard_of(member.id))
        batch.obj_set(replace(member, folds_shares=bool(op.number & 1), version=member.version + 1))
        await self.graph.commit(batch)

    async def _unshare(self, op: Op) -> None:
        await reactions.unshare(self.writes, self._id(op.actor), self._chosen(op).id)

    async def _bookmark(self, op: Op) -> None:
        with self._request():
            await reactions.mark(self.writes, self._id(op.actor), self._chosen(op).id, BOOKMARK)

    async def _unbookmark(self, op: Op) -> None:
        with self._request():
            await reactions.unmark(self.writes, self._id(op.actor), self._chosen(op).id, BOOKMARK)

    async def _react(self, op: Op) -> None:
        await reactions.react(self.writes, self._id(op.actor), self._chosen(op).id, EMOJI[op.number % len(EMOJI)])

    async def _unreact(self, op: Op) -> None:
        emoji = EMOJI[op.number % len(EMOJI)]
        await reactions.unreact(self.writes, self._id(op.actor), self._chosen(op).id, emoji)

    async def _report(self, op: Op) -> None:
        """Report a post, which is hidden from the reporter at once."""
        viewer, post = self._id(op.actor), self._chosen(op)
        filed = await reports.file(self.writes, viewer, post.author_id, Complaint(post_ids=(post.id,)))
        self.reports.append(filed.id)
        async with self.halting.halted():
            found = await hydrate(self.graph, viewer, (post.id,), unasked=False)
            assert viewer == post.author_id or not found, "a reporter is shown the post"

    async def _resolve(self, op: Op) -> None:
        if self.reports:
            report = self.reports[op.number % len(self.reports)]
            await reports.resolve(self.writes, report, self._id(op.actor), upheld=(None, True, False)[op.other % 3])

    async def _reopen(self, op: Op) -> None:
        if self.reports:
            await reports.reopen(self.writes, self.reports[op.number % len(self.reports)])

    async def _look(self, op: Op) -> None:
        """Read the home timeline, and check that the viewer may see each entry at this moment."""
        viewer = self._id(op.actor)
        async with self.halting.halted():
            snapshot = await GraphSnapshot.of(cast("Store", self.graph))
            page = await home.page(self.reads, viewer, Cursor(limit=1 + op.number % 4))
            for entry in page.entries:
                assert snapshot.in_home(viewer, snapshot.objects.get(entry.id)), f"{entry.post} is shown"

    async def _discover(self, op: Op) -> None:
        """Read the ranked feed, suggestions and found accounts, and check that all results are allowed. Then send feedback."""
        viewer = self._id(op.actor)
        async with self.halting.halted():
            snapshot = await GraphSnapshot.of(cast("Store", self.graph))
            missed = await catch_up(self.reads, viewer)
            page = await feed.page(self.reads, viewer, deadline=60.0)
            muted = snapshot.pairs(MUTES)
            for entry in [ranked.entry for ranked in (*page.entries, *missed.quiet, *missed.best)]:
                post = snapshot.objects.get(entry.post.id)
                assert isinstance(post, Post)
                assert snapshot.may_see(viewer, post), f"{post} is shown"
                assert viewer != post.author_id
                assert (viewer, post.author_id) not in muted
                assert post.visibility is not Visibility.DIRECT
            known = muted | snapshot.pairs(FOLLOWS) | snapshot.pairs(BLOCKS)
            for one in await suggestions.suggestions(self.reads, viewer, 40):
                member = snapshot.objects.get(one.profile.member.id)
                assert isinstance(member, Member)
                assert not member.suspended
                assert member.id != viewer
                assert (viewer, member.id) not in known
            apart = muted | snapshot.pairs(BLOCKS) | {(two, one) for one, two in snapshot.pairs(BLOCKS)}
            for match in (await member_queries.followees_by_handle(self.reads, viewer, ELSEWHERE)).matches:
                member = snapshot.objects.get(match.profile.member.id)
                assert isinstance(member, Member)
                assert not member.suspended
                assert any(match.given == _address(row.value) for row in member.fields)
                assert (viewer, member.id) not in apart
        await ranking.add_seen_posts(self.writes, viewer, [ranked.entry.post.id for ranked in page.entries])
        if page.entries:
            chosen = page.entries[op.number % len(page.entries)].entry.post
            tag = chosen.tags[0] if chosen.tags and op.number & 2 else ""
            with suppress(InvalidInput):  # An edit may have taken the tag away.
                await ranking.tap_post(self.writes, viewer, chosen.id, 1 if op.number & 1 else -1, tag)
            await ranking.pick_tags(self.writes, viewer, TAGS[: op.number % 3])

    async def _watch(self, op: Op) -> None:
        await watch(self.graph, self.reads, self.outbox, self.halting, self._id(op.actor))

    async def _cool(self, op: Op) -> None:
        await self.timelines.drop([self._id(op.actor), self._id(op.other)])

    async def _restart(self, op: Op) -> None:
        """Drop all timelines, as a restart does."""
        await self.timelines.drop([member.id for member in self.members])

    def _id(self, place: int) -> int:
        return self.members[place].id

    def _text(self, op: Op) -> str:
        tags = " ".join(f"#{tag}" for bit, tag in enumerate(TAGS) if op.number >> 4 & 1 << bit)
        mention = f"@{NAMES[op.other]}" if op.number & 4 else ""
        return f"{op.number} {tags} {mention}"

    def _chosen(self, op: Op) -> Post:
        """Return one of the newest posts, which may be deleted."""
        if not self.posts:
            raise NotFound("there is none yet")
        return self.posts[-1 - op.number % min(5, len(self.posts))]

    def _own(self, op: Op) -> Post:
        mine = [post for post in self.posts if post.author_id == self._id(op.actor)]
        if not mine:
            raise NotFound("there is none yet")
        return mine[-1 - op.number % min(2, len(mine))]

    async def _first_after(self, viewer: int, entry: int) -> int | None:
        """Return the oldest entry of a home timeline that is not older than `entry`."""
        page = await home.page(self.reads, viewer, Cursor(after=entry - 1, limit=1, oldest_first=True))
        return page.entries[0].id if page.entries else None

    # Final checks

    async def check(self) -> None:
        snapshot = await GraphSnapshot.of(cast("Store", self.graph))
        wrong = [
            *snapshot.wrong_counts(),
            *snapshot.wrong_tallies(self.author_of | {s.id: s.author_id for s in snapshot.all(Share)}),
            *snapshot.missing_inverses(),
            *snapshot.wrong_tags(),
            *snapshot.wrong_declarations(),
            *snapshot.wrong_sight(),
            *snapshot.wrong_lists(),
            *snapshot.vain_shares(),
            *snapshot.wrong_votes(),
            *snapshot.wrong_emoji(),
            *snapshot.wrong_reviews(),
            *snapshot.wrong_threads(),
            *snapshot.wrong_activity(),
            *snapshot.wrong_loudness(self.quiet_below),
            *snapshot.remains(),
        ]
        assert not wrong, wrong
        await self._check_event_log()
        await self._check_histories()
        await self._check_cloud(snapshot)
        # Warm timelines first, because reading a cold one warms it and may evict a warm one.
        cold = {member.id for member in self.members if await self.timelines.floor(member.id) is None}
        for member in sorted(self.members, key=lambda member: member.id in cold):
            await self._check_home(member, snapshot.home(member.id, self.reach))

    async def _check_event_log(self) -> None:
        """Check that a consumer that knows nothing but the event log has the objects and associations of the graph."""
        store = cast("Store", self.graph)
        await self.replica.read(EventLog(store), self.dice.random.choice((1, 7, 100)))
        assert self.replica.facts == await facts_of(store)

    async def _check_histories(self) -> None:
        """Check that both members of each follow are shown the periods that were recorded when the follow was committed."""
        for follower, followee in self.story.pairs():
            told = [
                FollowPeriod(milliseconds_of(since), milliseconds_of(until) if until else None)
                for since, until in self.story.told((follower, followee))
            ]
            one = (await history(self.reads, follower, followee)).following
            other = (await history(self.reads, followee, follower)).followed_by
            assert one == other == told

    async def _check_cloud(self, snapshot: GraphSnapshot) -> None:
        """Check I4 for the tag cloud: the counts maintained by increments equal a recount."""
        await self.emitter.flush()
        collector = Collector(self.cloud, self.inbox, clock=self._clock)
        collector.take(await self.inbox.look())
        await collector.merge()
        rows = await stored_rows(self.cloud)
        assert {row.name: row.n for row in rows.values() if row.n} == snapshot.cloud()
        assert all(not row.forms and not row.days for row in rows.values() if not row.n)

    async def _check_home(self, member: Member, expected: list[int]) -> None:
        """Check I1 for pages of a random size, in both directions and from a position, and for the definition."""
        limit = self.dice.random.choice((1, 2, 3, 5))
        assert await self._downwards(home.page, member.id, limit) == expected, (member.name, limit)
        assert await self._downwards(home.definition, member.id, 9) == expected, member.name
        assert await self._upwards(member.id, limit + 1) == expected[::-1], (member.name, limit + 1)
        place = self.dice.random.randrange(len(expected) + 1)
        after = expected[place] if place < len(expected) else 0
        page = await home.page(self.reads, member.id, Cursor(after=after, limit=2))
        assert [shown.id for shown in page.entries] == expected[: min(place, 2)], (member.name, place)

    async def _downwards(
        self, read: Callable[[Reads, int, Cursor], Awaitable[Page]], viewer: int, limit: int
    ) -> list[int]:
        found: list[int] = []
        cursor: Cursor | None = Cursor(limit=limit)
        while cursor is not None:
            page = await read(self.reads, viewer, cursor)
            assert len(page.entries) <= limit
            found += [entry.id for entry in page.entries]
            cursor = None if page.next is None else cursor._replace(before=page.next)
        return found

    async def _upwards(self, viewer: int, limit: int) -> list[int]:
        found: list[int] = []
        after = 0
        while True:
            page = await home.page(self.reads, viewer, Cursor(after=after, limit=limit, oldest_first=True))
            if not page.entries:
                return found
            found += [entry.id for entry in page.entries[::-1]]
            after = page.entries[0].id


async def _together(*acts: Coroutine[Any, Any, object]) -> None:
    """Run several operations concurrently. Each of them may be refused."""
    for answer in await asyncio.gather(*acts, return_exceptions=True):
        if isinstance(answer, BaseException) and not isinstance(answer, _REFUSALS):
            raise answer


@contextmanager
def _quiet() -> Iterator[None]:
    """Make jobs yield at every opportunity, independent of the clock, clear lists in small pages, and do not log failures.

    Workers take over the inverse operations of a commit after a short time.
    """
    logging.disable(logging.ERROR)
    try:
        with (
            patch("shoal.outbox.runner._SLICE_SECONDS", -1.0),
            patch("shoal.outbox.runner._LONGEST_PAUSE_SECONDS", -1.0),
            patch("shoal.consumers.cleanup._PAGE", 2),
            patch("shoal.graph.postgres.writer._SETTLE_SECONDS", 0.05),
        ):
            yield
    finally:
        logging.disable(logging.NOTSET)


def run(seed: int, stores: int, ops: Sequence[Any], *, shared: bool = False, fickle: bool = False) -> object:
    """Simulate one run in memory, which depends only on the arguments. Return the final state of the random generator."""

    async def main() -> object:
        simulator = Simulator(seed, stores, shared=shared, fickle=fickle)
        await _run(simulator, ops)
        return simulator.dice.random.getstate()

    with asyncio.Runner(loop_factory=TurnClock) as runner:
        return runner.run(main())


async def _run(simulator: Simulator, ops: Sequence[Any]) -> None:
    with patch.object(pipeline, "REACH", simulator.reach), patch.object(changes, "random", simulator.dice.random):
        await simulator.run([Op(*op) for op in ops])


def run_on_engines(seed: int, ops: Sequence[Any], *, fickle: bool = False) -> None:
    """Simulate one run on two PostgreSQL stores and a Redis Cluster."""

    async def main() -> None:
        async with opened(2, LENGTH, cluster=True) as engines:
            await _run(Simulator(seed, 2, engines=engines, fickle=fickle), ops)

    asyncio.run(main())
