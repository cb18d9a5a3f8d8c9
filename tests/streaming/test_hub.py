"""Which viewers are told of what, by a hub on a channel in memory and a graph in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.core.errors import Unavailable
from shoal.core.ids import EPOCH_MS, IdMaker, shard_of
from shoal.core.model import Visibility
from shoal.graph.contract import Batch, Reader
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import LISTS, following
from shoal.streaming import updates
from shoal.streaming.contract import MemoryChannel, Position
from shoal.streaming.hub import Connection, Hub, Missed, PlacedUpdate
from shoal.streaming.subscriptions import CONVERSATIONS, HOME, NOTIFICATIONS, PRESENCE, Everybody, Listed, TagInterest
from tests.running import in_loop, run

ANN, BEN, CYD, DAN = 1 << 10, 2 << 10, 3 << 10, 4 << 10
REEF, SURF = -7, -8
REMEMBERED, ROOM = 8, 5


class World:
    """A hub, and what it listens to. While `held` is not set, whoever reads what is `slow` has to wait for the answer."""

    def __init__(self, *, length: int = 100, remembered: int = REMEMBERED) -> None:
        self.channel = MemoryChannel(length)
        self.graph = MemoryGraph()
        ticks = count(EPOCH_MS + 1_000_000, 10_000)
        self.new_id = IdMaker(lambda: next(ticks))
        self.held = asyncio.Event()
        self.held.set()
        self.slow = {"assoc_range", "assoc_get"}
        self.loads = 0
        self.hub = Hub(self.channel, cast("Reader", self), room=ROOM, remembered=remembered)

    async def assoc_range(self, *args: object) -> object:
        return await self._read("assoc_range", *args)

    async def assoc_get(self, *args: object) -> object:
        return await self._read("assoc_get", *args)

    async def _read(self, name: str, *args: object) -> object:
        """Read at once; delay the answer of reads that are made slow."""
        self.loads += 1
        answer = await getattr(self.graph, name)(*args)
        if name in self.slow:
            await self.held.wait()
        return answer

    async def follow(self, member: int, source: int, *, alive: bool = True, tell: bool = True) -> None:
        batch = Batch(shard_of(member))
        change = batch.assoc_add if alive else batch.assoc_del
        change(member, following(source), source, self.new_id(batch.shard))
        await self.graph.commit(batch)
        if tell:
            await self.tell(updates.FollowChanged(member, source))

    async def tell(self, *told: updates.AnyUpdate) -> None:
        for update in told:
            await self.channel.publish(updates.encode(update))
        await self.quiet()

    async def post(self, author: int, *tags: int, visibility: Visibility = Visibility.PUBLIC) -> int:
        id_ = self.new_id(shard_of(author))
        await self.tell(updates.PostCreated(id_, author, visibility, tags))
        return id_

    async def quiet(self) -> None:
        """Everything that can happen now has happened: nothing here waits for a clock."""
        for _ in range(50):
            await asyncio.sleep(0)


@asynccontextmanager
async def a_world(**more: int) -> AsyncIterator[World]:
    world = World(**more)
    yield world
    await world.hub.close()


async def waiting(connection: Connection) -> list[int | str]:
    """Return what has been offered: ids of entries, or that something was missed."""
    connection._wake.set()
    return ["missed" if isinstance(one, Missed) else _entry(one) for one in await connection.take()]


def _entry(heard: PlacedUpdate) -> int:
    assert isinstance(heard.update, updates.OfEntry)
    return heard.update.entry_id


@in_loop
async def test_a_viewer_is_told_of_those_they_follow_of_their_tags_and_of_themselves_and_of_nobody_else() -> None:
    async with a_world() as world:
        await world.follow(BEN, ANN)
        await world.follow(BEN, REEF)
        async with world.hub.connect(BEN) as ben, world.hub.connect(CYD) as cyd:
            mine = await world.post(BEN)
            hers = await world.post(ANN, SURF)
            tagged = await world.post(DAN, SURF, REEF)
            await world.post(DAN, SURF)
            await world.post(DAN, REEF, visibility=Visibility.UNLISTED)
            assert await waiting(ben) == [mine, hers, tagged]
            assert await waiting(cyd) == []


@in_loop
async def test_each_interest_hears_what_is_its_own() -> None:
    async with a_world() as world, AsyncExitStack() as stack:
        interests = {
            "home": HOME,
            "notifications": NOTIFICATIONS,
            "conversations": CONVERSATIONS,
            "everybody": Everybody(),
            "tag": TagInterest(REEF),
            "presence": PRESENCE,
        }
        enter = stack.enter_async_context
        listening = {name: await enter(world.hub.connect(BEN, to=one)) for name, one in interests.items()}
        public = updates.PostCreated(1, ANN, Visibility.PUBLIC)
        tagged = updates.PostCreated(2, ANN, Visibility.PUBLIC, (REEF,))
        unlisted = updates.PostCreated(3, ANN, Visibility.UNLISTED, (REEF,))
        direct = updates.PostCreated(4, ANN, Visibility.DIRECT, (REEF,), (BEN,))
        notified, talked, filters = (
            updates.NotificationMade(BEN, 5),
            updates.ConversationChanged(BEN, 6),
            updates.FiltersChanged(BEN),
        )
        others = (updates.NotificationMade(CYD, 5), updates.ConversationChanged(CYD, 6), updates.FiltersChanged(CYD))
        await world.tell(public, tagged, unlisted, direct, notified, talked, filters, *others)
        assert {name: await told(one) for name, one in listening.items()} == {
            "home": [direct, notified, filters],
            "notifications": [notified],
            "conversations": [talked],
            "everybody": [public, tagged],
            "tag": [tagged],
            "presence": [],
        }


@in_loop
async def test_an_interest_without_sources_goes_on_where_it_was_too() -> None:
    async with a_world() as world:
        async with world.hub.connect(BEN, to=NOTIFICATIONS) as ben:
            await world.tell(updates.NotificationMade(BEN, 1))
            (before,) = await ben.take()
        missed: list[updates.AnyUpdate] = [
            updates.NotificationMade(BEN, 2),
            updates.FiltersChanged(BEN),
            updates.NotificationMade(BEN, 3),
        ]
        await world.tell(*missed)
        async with world.hub.connect(BEN, before.position, to=NOTIFICATIONS) as ben:
            assert await told(ben) == [missed[0], missed[2]]
        async with world.hub.connect(BEN, before.position) as ben:
            assert await told(ben) == missed


@in_loop
async def test_a_list_that_changed_is_read_again_by_those_who_listen_to_it() -> None:
    async with a_world() as world:
        one, two = world.new_id(shard_of(BEN)), world.new_id(shard_of(BEN))
        async with world.hub.connect(BEN, to=Listed(one)) as first, world.hub.connect(BEN, to=Listed(two)) as second:
            await world.post(ANN)
            batch = Batch(shard_of(one))
            batch.assoc_add(one, LISTS, ANN, world.new_id(batch.shard))
            await world.graph.commit(batch)
            before = world.loads
            await world.tell(updates.ListChanged(one, BEN))
            assert world.loads == before + 1
            post = await world.post(ANN)
            assert await waiting(first) == [post]
            assert await waiting(second) == []


@in_loop
async def test_who_may_not_listen_any_more_hears_nothing_not_even_what_waits() -> None:
    async with a_world() as world, AsyncExitStack() as stack:
        enter = stack.enter_async_context
        seven, eight = [await enter(world.hub.connect(BEN, session=token)) for token in (7, 8)]
        cyd = await enter(world.hub.connect(CYD, session=7))
        await world.post(BEN)
        await world.tell(updates.SessionsEnded(BEN, (7, 9)))
        assert (seven.dismissed, await seven.take()) == (True, [])
        assert (eight.dismissed, cyd.dismissed) == (False, False)
        await world.tell(updates.MemberSuspended(BEN))
        assert (eight.dismissed, await eight.take()) == (True, [])
        assert not cyd.dismissed


@in_loop
async def test_what_everybody_hears_costs_those_nothing_who_hear_of_something_else() -> None:
    async with a_world() as world, world.hub.connect(BEN) as ben, world.hub.connect(CYD, to=Everybody()):
        offered: list[object] = []
        ben.offer = offered.append  # type: ignore[assignment,method-assign]
        before = world.loads
        for _ in range(3):
            await world.post(ANN, REEF)
        assert (offered, world.loads) == ([], before)


async def told(connection: Connection) -> list[updates.AnyUpdate]:
    """The updates that have been offered."""
    connection._wake.set()
    return [one.update for one in await connection.take() if isinstance(one, PlacedUpdate)]


@in_loop
async def test_whom_two_sources_bring_the_same_is_told_once() -> None:
    async with a_world() as world:
        for source in (ANN, REEF, SURF):
            await world.follow(BEN, source)
        async with world.hub.connect(BEN) as ben:
            post = await world.post(ANN, REEF, SURF)
            assert await waiting(ben) == [post]


@in_loop
async def test_what_is_direct_is_told_to_those_it_names() -> None:
    async with a_world() as world:
        await world.follow(BEN, ANN)
        await world.follow(CYD, ANN)
        async with world.hub.connect(ANN) as ann, world.hub.connect(BEN) as ben, world.hub.connect(CYD) as cyd:
            await world.tell(updates.PostCreated(9, ANN, Visibility.DIRECT, (REEF,), (BEN,)))
            assert [await waiting(one) for one in (ann, ben, cyd)] == [[9], [9], []]


@in_loop
async def test_all_connections_of_a_viewer_are_told_until_they_go() -> None:
    async with a_world() as world, world.hub.connect(BEN) as one:
        async with world.hub.connect(BEN) as two:
            await world.follow(BEN, ANN)
            first = await world.post(ANN)
            assert world.hub.connected == 2
        second = await world.post(ANN)
        assert await waiting(one) == [first, second]
        assert await waiting(two) == [first]
        assert world.hub.connected == 1


@in_loop
async def test_a_follow_and_its_end_hold_from_the_moment_they_are_told() -> None:
    async with a_world() as world, world.hub.connect(BEN) as ben:
        await world.post(ANN)
        await world.follow(BEN, ANN)
        post = await world.post(ANN)
        assert await waiting(ben) == [post]
        await world.follow(BEN, ANN, alive=False)
        await world.post(ANN)
        assert await waiting(ben) == []


@in_loop
async def test_what_is_posted_after_a_follow_and_told_before_it_is_not_missed() -> None:
    async with a_world() as world, world.hub.connect(BEN) as ben:
        await world.post(ANN)
        await world.follow(BEN, ANN, tell=False)
        post = await world.post(ANN)
        assert await waiting(ben) == []
        await world.tell(updates.FollowChanged(BEN, ANN))
        assert await waiting(ben) == [post]


@in_loop
async def test_what_is_told_while_follows_are_loaded_is_not_missed() -> None:
    async with a_world() as world, AsyncExitStack() as stack:
        await world.follow(BEN, ANN)
        world.held.clear()
        connecting = asyncio.create_task(stack.enter_async_context(world.hub.connect(BEN)))
        await world.quiet()
        first = await world.post(ANN)
        # The list that is on its way does not have it yet.
        await world.follow(BEN, CYD)
        second = await world.post(CYD)
        await world.tell(updates.PostCreated(9, DAN, Visibility.DIRECT, (), (BEN,)))
        assert not connecting.done()
        world.held.set()
        ben = await connecting
        await world.quiet()
        assert sorted(await waiting(ben)) == sorted([first, second, 9])


@in_loop
async def test_a_list_of_follows_that_arrives_late_undoes_no_change() -> None:
    async with a_world() as world, AsyncExitStack() as stack:
        world.slow = {"assoc_range"}
        world.held.clear()
        connecting = asyncio.create_task(stack.enter_async_context(world.hub.connect(BEN)))
        await world.quiet()
        await world.follow(BEN, CYD)
        world.held.set()
        ben = await connecting
        await world.quiet()
        post = await world.post(CYD)
        assert await waiting(ben) == [post]


@in_loop
async def test_of_two_changes_the_later_one_counts_however_long_it_takes_to_read_them() -> None:
    async with a_world() as world, world.hub.connect(BEN) as ben:
        world.held.clear()
        await world.follow(BEN, ANN)
        await world.follow(BEN, ANN, alive=False)
        world.held.set()
        await world.quiet()
        await world.post(ANN)
        assert await waiting(ben) == []


@in_loop
async def test_follows_that_cannot_be_read_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.streaming.hub._REST_SECONDS", 0)
    async with a_world() as world, world.hub.connect(BEN) as ben:
        failures = iter([True, True, False])
        read = world.graph.assoc_get

        async def away(*args: object) -> object:
            if next(failures):
                raise Unavailable("the store is away")
            return await read(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(world.graph, "assoc_get", away)
        await world.follow(BEN, ANN)
        post = await world.post(ANN)
        assert await waiting(ben) == [post]


@in_loop
async def test_whoever_comes_back_is_told_what_they_missed_in_its_order() -> None:
    async with a_world() as world:
        await world.follow(BEN, ANN)
        async with world.hub.connect(BEN) as ben:
            await world.post(ANN)
            (before,) = await ben.take()
        missed = [await world.post(ANN), await world.post(CYD), await world.post(ANN)]
        async with world.hub.connect(BEN, before.position) as ben:
            after = await world.post(ANN)
            assert await waiting(ben) == [missed[0], missed[2], after]


@in_loop
async def test_whoever_comes_back_to_another_process_is_told_the_same() -> None:
    async with a_world() as world:
        await world.follow(BEN, ANN)
        async with world.hub.connect(BEN) as ben:
            await world.post(ANN)
            (before,) = await ben.take()
        missed = [await world.post(ANN) for _ in range(3)]
        another = Hub(world.channel, world.graph, remembered=REMEMBERED)
        async with another.connect(BEN, before.position) as ben:
            assert await waiting(ben) == missed
        await another.close()


@pytest.mark.parametrize("position", ["", "x", "nonsense-5"])
@in_loop
async def test_whoever_was_away_too_long_is_told_so_once(position: str) -> None:
    async with a_world() as world:
        await world.follow(BEN, ANN)
        async with world.hub.connect(BEN) as ben:
            await world.post(ANN)
            (before,) = await ben.take()
        for _ in range(REMEMBERED + 1):
            await world.post(CYD)
        for after in (before.position, Position(position)):
            async with world.hub.connect(BEN, after) as ben:
                post = await world.post(ANN)
                assert await waiting(ben) == ["missed", post]
                assert await waiting(ben) == []


@in_loop
async def test_whoever_is_too_slow_is_told_so_once_and_holds_up_nobody() -> None:
    async with a_world() as world:
        for viewer in (BEN, CYD):
            await world.follow(viewer, ANN)
        async with world.hub.connect(BEN) as slow, world.hub.connect(CYD) as quick:
            posts = []
            for _ in range(ROOM * 3 + 2):
                posts.append(await world.post(ANN))
                assert await waiting(quick) == posts[-1:]
            # Twice there was no room for one more.
            assert await waiting(slow) == ["missed", *posts[-ROOM:]]
            assert await waiting(slow) == []


@in_loop
async def test_whoever_was_told_of_a_miss_goes_on_from_there() -> None:
    async with a_world() as world:
        await world.follow(BEN, ANN)
        async with world.hub.connect(BEN) as ben:
            for _ in range(ROOM + 1):
                await world.post(ANN)
            (missed,) = await ben.take()
            assert isinstance(missed, Missed)
            post = await world.post(ANN)
        async with world.hub.connect(BEN, missed.position) as ben:
            assert await waiting(ben) == [post]


@in_loop
async def test_after_a_gap_all_are_told_and_what_they_follow_is_right_again() -> None:
    async with a_world(length=4) as world:
        for viewer in (BEN, CYD):
            await world.follow(viewer, ANN)
        async with world.hub.connect(BEN) as ben, world.hub.connect(CYD) as cyd:
            # So much in one turn that the hub cannot follow; among it what nobody will ever hear.
            await world.follow(CYD, ANN, alive=False, tell=False)
            await world.follow(BEN, DAN, tell=False)
            for told in [updates.FollowChanged(CYD, ANN)] + [updates.ShareCreated(n, ANN) for n in range(1, 20)]:
                await world.channel.publish(updates.encode(told))
            await world.quiet()
            posts = [await world.post(ANN), await world.post(DAN)]
            assert await waiting(ben) == ["missed", *posts]
            assert await waiting(cyd) == ["missed"]


@in_loop
async def test_a_message_of_another_version_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async with a_world() as world, world.hub.connect(BEN) as ben:
        await world.follow(BEN, ANN)
        for message in (b"", b"\x93\x63\x01\x02", b"\x91\x01"):
            await world.channel.publish(message)
        post = await world.post(ANN)
        assert await waiting(ben) == [post]
        assert len(caplog.records) == 3


@in_loop
async def test_nobody_is_asked_about_for_those_who_are_not_connected() -> None:
    async with a_world() as world, world.hub.connect(BEN):
        before = world.loads
        await world.follow(CYD, ANN)
        await world.post(ANN)
        assert world.loads == before


@in_loop
async def test_when_it_closes_connections_end_and_none_begins() -> None:
    async with a_world() as world, world.hub.connect(BEN) as ben:
        await world.hub.close()
        assert await ben.take() == []
        assert await ben.take() == []
        with pytest.raises(Unavailable):
            async with world.hub.connect(CYD):
                pass


MEMBERS = (ANN, BEN, CYD)
ACTS = st.one_of(
    st.tuples(st.just("post"), st.sampled_from(MEMBERS), st.sets(st.sampled_from([REEF, SURF]))),
    st.tuples(st.just("follow"), st.sampled_from(MEMBERS), st.sampled_from([*MEMBERS, REEF, SURF])),
    st.tuples(st.just("unfollow"), st.sampled_from(MEMBERS), st.sampled_from([*MEMBERS, REEF, SURF])),
    st.tuples(st.just("leave"), st.sampled_from(MEMBERS), st.none()),
    st.tuples(st.just("look"), st.sampled_from(MEMBERS), st.none()),
)


@example(acts=[("post", BEN, set()), ("post", ANN, set()), ("follow", BEN, ANN), ("leave", BEN, None)])
@given(acts=st.lists(ACTS, max_size=40))
def test_every_viewer_is_told_exactly_what_their_sources_bring_or_that_they_missed_something(
    acts: list[tuple[str, int, object]],
) -> None:
    """Against follows in sets. Viewers go and come back after the last that they saw."""
    run(_told_exactly(acts))


async def _told_exactly(acts: list[tuple[str, int, object]]) -> None:
    async with a_world(remembered=6) as world:
        follower_set = {member: FollowerSet(world, member) for member in MEMBERS}
        for member in MEMBERS:
            await follower_set[member].come()
        for verb, member, what in acts:
            if verb == "post":
                post = await world.post(member, *cast("set[int]", what))
                for viewer in follower_set.values():
                    viewer.expect(post, {member, *cast("set[int]", what)})
            elif verb in ("follow", "unfollow"):
                await follower_set[member].change(cast("int", what), alive=verb == "follow")
            elif verb == "leave":
                await follower_set[member].leave()
                await follower_set[member].come()
            else:
                await follower_set[member].look()
        for viewer in follower_set.values():
            await viewer.look()
            await viewer.leave()


class FollowerSet:
    """One viewer, and what they must be told; None for what they may be told they missed."""

    def __init__(self, world: World, member: int) -> None:
        self.world = world
        self.member = member
        self.sources = {member}
        self.owed: list[int] = []
        # All that was posted since the last that they saw, with its sources.
        self.since: list[tuple[int, set[int]]] = []
        self.at: Position | None = None
        self.stack = AsyncExitStack()

    async def come(self) -> None:
        self.connection = await self.stack.enter_async_context(self.world.hub.connect(self.member, self.at))

    async def leave(self) -> None:
        """Disconnect, losing what waits; the listener comes back after the last entry seen, with the sources of now."""
        await self.stack.aclose()
        self.owed = [] if self.at is None else [post for post, of in self.since if not self.sources.isdisjoint(of)]

    async def change(self, source: int, *, alive: bool) -> None:
        if source == self.member:
            return
        await self.look()
        await self.world.follow(self.member, source, alive=alive)
        (self.sources.add if alive else self.sources.discard)(source)

    def expect(self, post: int, sources: set[int]) -> None:
        self.since.append((post, sources))
        if not self.sources.isdisjoint(sources):
            self.owed.append(post)

    async def look(self) -> None:
        self.connection._wake.set()
        found = await self.connection.take()
        if found and isinstance(found[0], Missed):
            assert len(self.owed) > ROOM or self.at is not None, "nothing was missed"
            self.owed = self.owed[len(self.owed) - len(found) + 1 :]
        told = [_entry(one) for one in found if isinstance(one, PlacedUpdate)]
        assert told == self.owed
        self.owed = []
        if found:
            self.at = found[-1].position
            self.since = [one for one in self.since if told and one[0] > told[-1]]
