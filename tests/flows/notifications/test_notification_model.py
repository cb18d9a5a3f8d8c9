"""Notifications equal their definition on the graph, minus dismissed ones, when events are delivered late, twice, out of order or
after a crash."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import settings as configuration
from shoal.app.network import Network, open_network
from shoal.commands import members, notifications, posts, reactions, relationships
from shoal.commands.posts import Draft
from shoal.consumers.context import Effects
from shoal.consumers.notifications import _settle, note
from shoal.consumers.table import TABLE
from shoal.core.errors import Conflict, Gone, NotAllowed, NotFound
from shoal.core.model import Member, Post, Share, Visibility
from shoal.graph.contract import Cursor, Graph, Outbox
from shoal.graph.payloads.members import CLEARED, marks
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.schema import BLOCKED_BY, BLOCKS, FOLLOWS, LIKES, MUTES, NOTIFIED, REVISED
from shoal.outbox.runner import Runner
from shoal.queries import notifications as feed
from tests.async_runner import in_loop
from tests.example_counts import examples
from tests.flows.simulation.faults import Between, Crash, Dice, Unruly
from tests.flows.simulation.invariants import GraphSnapshot

NAMES = ("ann", "ben", "cyd", "dan")
VERBS = {
    "post": 4,
    "name": 4,
    "edit": 3,
    "like": 6,
    "unlike": 4,
    "share": 4,
    "unshare": 3,
    "follow": 4,
    "unfollow": 3,
    "delete": 2,
    "block": 1,
    "unblock": 1,
    "mute": 1,
    "unmute": 1,
    "dismiss": 3,
    "dismiss_group": 1,
    "clear": 1,
}
_REFUSALS = (Conflict, Gone, NotAllowed, NotFound)

Act = tuple[str, int, int, int]
Shown = tuple[Notice, int]


class Case(NamedTuple):
    """An actor, another member, and a number that selects the object."""

    actor: Member
    other: Member
    number: int


class Story:
    """Four members and an unruly worker; mentions, dismissals, blocks and mutes are recorded."""

    def __init__(self, network: Network, dice: Dice) -> None:
        self.network = network
        self.dice = dice
        graph = cast("Graph", Between(network.store, dice.crash_later, dice.crash_later))
        effects: Effects = replace(network.effects, graph=graph)
        self.outbox = Unruly(cast("Outbox", network.store), dice)
        self.runner = Runner(self.outbox, TABLE, effects, attempts=1_000_000, first_delay=0.0)
        self.members: list[Member] = []
        self.posts: list[Post] = []
        self.named: dict[tuple[int, int], int] = {}
        """The time since when a post mentions a member."""
        self.dismissed: dict[tuple[int, int], int] = {}
        self.fallen_out: set[tuple[int, int]] = set()

    async def run(self, acts: Sequence[Act]) -> None:
        self.members = [await members.register(self.network.writes, name) for name in NAMES]
        workers = [asyncio.create_task(self._work()) for _ in range(2)]
        try:
            for verb, actor, other, number in acts:
                with suppress(*_REFUSALS):
                    await getattr(self, f"_{verb}")(Case(self.members[actor], self.members[other], number))
                for _ in range(self.dice.random.choice((0, 1, 10, 40))):
                    await asyncio.sleep(0)
        finally:
            self.dice.calm = True
            await asyncio.gather(*workers)
        await self._deliver()
        await self._check()
        await self._repeat_history()
        await self._check()

    async def _work(self) -> None:
        while not self.dice.calm:
            with suppress(Crash):
                await self.runner.run_once()
            await asyncio.sleep(0)

    async def _deliver(self) -> None:
        while await self.outbox.backlog():
            await self.runner.run_once()

    async def _repeat_history(self) -> None:
        jobs = list(self.outbox.history)
        self.dice.random.shuffle(jobs)
        for job in jobs:
            for consequence in TABLE[type(job.event)]:
                mark: Any = 0
                while isinstance(mark, int):
                    mark = await consequence(self.network.effects, job.event, mark)
        await self._deliver()

    # Actions

    async def _post(self, case: Case) -> None:
        await self._write(case, Draft(text=f"{case.number}"))

    async def _name(self, case: Case) -> None:
        visibility = list(Visibility)[case.number % 4]
        await self._write(case, Draft(text=f"{case.number} @{case.other.name}", visibility=visibility))

    async def _write(self, case: Case, draft: Draft) -> None:
        post = await posts.create(self.network.writes, case.actor.id, draft)
        self.posts.append(post)
        self.named.update({(post.id, mention.id): post.id for mention in post.mentions})

    async def _edit(self, case: Case) -> None:
        """Edit a post so that it mentions another member, or no member."""
        post = self._chosen(case, by=case.actor)
        text = f"{case.number}" + (f" @{case.other.name}" if case.number % 4 else "")
        before = await self.network.store.obj_get((post.id,))
        edited = await posts.update(self.network.writes, case.actor.id, post.id, Draft(text=text))
        had = {mention.id for mention in cast("Post", before[post.id]).mentions}
        revisions = await self.network.store.assoc_range(post.id, REVISED, Cursor(limit=1))
        self.named.update({(post.id, to.id): revisions[0].id2 for to in edited.mentions if to.id not in had})

    async def _like(self, case: Case) -> None:
        await reactions.like(self.network.writes, case.actor.id, self._chosen(case).id)

    async def _unlike(self, case: Case) -> None:
        await reactions.unlike(self.network.writes, case.actor.id, self._chosen(case).id)

    async def _share(self, case: Case) -> None:
        await reactions.share(self.network.writes, case.actor.id, self._chosen(case).id)

    async def _unshare(self, case: Case) -> None:
        await reactions.unshare(self.network.writes, case.actor.id, self._chosen(case).id)

    async def _follow(self, case: Case) -> None:
        await relationships.follow(self.network.writes, case.actor.id, case.other.id)

    async def _unfollow(self, case: Case) -> None:
        await relationships.unfollow(self.network.writes, case.actor.id, case.other.id)

    async def _delete(self, case: Case) -> None:
        await posts.delete(self.network.writes, case.actor.id, self._chosen(case, by=case.actor).id)

    async def _block(self, case: Case) -> None:
        self._fall_out(case)
        await relationships.block(self.network.writes, case.actor.id, case.other.id)

    async def _unblock(self, case: Case) -> None:
        await relationships.unblock(self.network.writes, case.actor.id, case.other.id)

    async def _mute(self, case: Case) -> None:
        self._fall_out(case)
        await relationships.mute(self.network.writes, case.actor.id, case.other.id)

    async def _unmute(self, case: Case) -> None:
        await relationships.unmute(self.network.writes, case.actor.id, case.other.id)

    async def _dismiss(self, case: Case) -> None:
        shown = await self._shown(case.actor.id)
        if shown:
            notice, time = shown[case.number % len(shown)]
            await notifications.dismiss(self.network.writes, case.actor.id, time)
            self.dismissed[case.actor.id, notice.id] = time

    async def _dismiss_group(self, case: Case) -> None:
        page = await feed.grouped(self.network.reads, case.actor.id, Cursor(limit=20))
        group = next((one.group for one in page.groups if one.group is not None), None)
        if group is None:
            return
        before = await self._stored(case.actor.id)
        await notifications.dismiss_group(self.network.writes, case.actor.id, group)
        after = await self._stored(case.actor.id)
        shown = {(item.notice.id, item.time) for one in page.groups if one.group == group for item in one.items}
        assert not shown & after
        self.dismissed.update({(case.actor.id, id_): time for id_, time in before - after})

    async def _clear(self, case: Case) -> None:
        before = await self._shown(case.actor.id)
        await notifications.clear(self.network.writes, case.actor.id)
        assert not set(before) & set(await self._shown(case.actor.id))

    async def _stored(self, member: int) -> set[tuple[int, int]]:
        rows = await self.network.store.assoc_range(member, NOTIFIED, Cursor(limit=1_000))
        return {(row.id2, row.time) for row in rows}

    def _fall_out(self, case: Case) -> None:
        """Record that notifications between the two can depend on the time of delivery."""
        self.fallen_out |= {(case.actor.id, case.other.id), (case.other.id, case.actor.id)}

    def _chosen(self, case: Case, by: Member | None = None) -> Post:
        some = [post for post in self.posts if by is None or post.author_id == by.id]
        if not some:
            raise NotFound("there is none yet")
        return some[-1 - case.number % min(4, len(some))]

    # Invariants

    async def _shown(self, member: int) -> list[Shown]:
        """Return all notifications of the member except those of edits, which the model leaves out."""
        wish = feed.NotificationQuery(without=frozenset({Kind.EDIT}))
        page = await feed.page(self.network.reads, member, Cursor(limit=1_000), wish)
        return [(item.notice, item.time) for item in page.items]

    async def _check(self) -> None:
        snapshot = await GraphSnapshot.of(self.network.store)
        for member in self.members:
            shown, expected = await self._shown(member.id), await self._defined(snapshot, member.id)
            assert [time for _, time in shown] == sorted({time for _, time in shown}, reverse=True)
            assert set(shown) <= expected, set(shown) - expected
            sure = {one for one in expected if (member.id, one[0].actor_id) not in self.fallen_out}
            assert sure <= set(shown), sure - set(shown)
            await self._check_pages(member.id)

    async def _defined(self, snapshot: GraphSnapshot, member: int) -> set[Shown]:
        """Return the notifications defined by the graph, minus the dismissed and cleared ones."""
        found: set[Shown] = set()
        own = {post.id for post in snapshot.all(Post) if post.author_id == member}
        for post in snapshot.all(Post):
            if member != post.author_id and any(to.id == member for to in post.mentions):
                found.add((Notice(Kind.MENTION, post.author_id, post.id), self.named[post.id, member]))
        for who, post_id in snapshot.pairs(LIKES):
            if post_id in own:
                found.add((Notice(Kind.LIKE, who, post_id), snapshot.alive[who, LIKES.number, post_id].time))
        for share in snapshot.all(Share):
            if share.post_id in own:
                found.add((Notice(Kind.SHARE, share.author_id, share.post_id), share.id))
        for who, whom in snapshot.pairs(FOLLOWS):
            if whom == member:
                found.add((Notice(Kind.FOLLOW, who), snapshot.alive[who, FOLLOWS.number, whom].time))
        mark = (await marks(self.network.store, member, (CLEARED,))).get(CLEARED)
        cleared = mark.last_read_id if mark else 0
        cut = snapshot.pairs(BLOCKS) | snapshot.pairs(BLOCKED_BY) | snapshot.pairs(MUTES)
        return {
            (notice, time)
            for notice, time in found
            if notice.actor_id != member
            and (member, notice.actor_id) not in cut
            and time > max(cleared, self.dismissed.get((member, notice.id), 0))
        }

    async def _check_pages(self, member: int) -> None:
        """Assert that pages of any size, in both directions and in groups, contain each notification once."""
        reads = self.network.reads
        every = [item.time for item in (await feed.page(reads, member, Cursor(limit=1_000))).items]
        limit = self.dice.random.choice((1, 2, 3, 5))
        down: list[int] = []
        gathered: list[int] = []
        before: int | None = 2**63 - 1
        while before is not None:
            page = await feed.page(reads, member, Cursor(before, limit=limit))
            assert len(page.items) <= limit
            down += [item.time for item in page.items]
            before = page.next
        before = 2**63 - 1
        while before is not None:
            groups = await feed.grouped(reads, member, Cursor(before, limit=limit))
            assert len(groups.groups) <= limit
            assert sorted(i.time for one in groups.groups for i in one.items) == sorted(i.time for i in groups.items)
            gathered += [item.time for item in groups.items]
            before = groups.next
        assert down == gathered == every
        up: list[int] = []
        while items := (
            await feed.page(reads, member, Cursor(after=up[-1] if up else 0, limit=limit, oldest_first=True))
        ).items:
            up += [item.time for item in reversed(items)]
        assert up == every[::-1]
        if every:
            since = self.dice.random.choice(every)
            newer = await feed.page(reads, member, Cursor(after=since, limit=limit))
            assert [item.time for item in newer.items] == [time for time in every if time > since][:limit]
        assert await feed.unread(reads, member, 1_000) == len(every)


async def _tell(seed: int, acts: Sequence[Act]) -> None:
    chosen = configuration.load({}, store="memory://")
    async with open_network(chosen, background=False) as network:
        await Story(network, Dice(seed)).run(acts)


PEOPLE = st.integers(0, len(NAMES) - 1)
ACTS = st.tuples(
    st.sampled_from([verb for verb, weight in VERBS.items() for _ in range(weight)]), PEOPLE, PEOPLE, st.integers(0, 11)
)


@settings(deadline=None, max_examples=examples(30, full=60))
@given(seed=st.integers(0, 2**32), acts=st.lists(ACTS, min_size=20, max_size=70))
def test_notifications_match_the_graph_under_random_actions_and_delivery(seed: int, acts: list[Act]) -> None:
    logging.disable(logging.ERROR)
    try:
        asyncio.run(_tell(seed, acts))
    finally:
        logging.disable(logging.NOTSET)


@in_loop
async def test_like_notification_is_kept_when_like_is_repeated_during_removal() -> None:
    async with open_network(configuration.load({}, store="memory://"), background=False) as network:
        ann, ben = [await members.register(network.writes, name) for name in NAMES[:2]]
        post = await posts.create(network.writes, ann.id, Draft(text="one"))
        notice = Notice(Kind.LIKE, ben.id, post.id)
        await note(network.effects, ann.id, notice, first := network.writes.new_id(1))
        again = network.writes.new_id(1)
        asked = 0

        async def stands() -> int | None:
            """Report the like as undone on the first call; then repeat the like and notify from another worker."""
            nonlocal asked
            asked += 1
            if asked > 1:
                return again
            await note(network.effects, ann.id, notice, again)
            return None

        await _settle(network.effects, ann.id, notice, stands, post)
        (told,) = await network.store.assoc_range(ann.id, NOTIFIED, Cursor(limit=10))
        assert (told.id2, told.time) == (notice.id, again)
        assert first < again
