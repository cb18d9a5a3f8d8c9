"""Delivery of updates to viewers by a hub, with an in-memory channel and an in-memory graph."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
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
from shoal.streaming.connections import Connection, Missed
from shoal.streaming.contract import ChannelMessage, MemoryChannel, Position
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.hub import Hub
from shoal.streaming.subscriptions import CONVERSATIONS, HOME, NOTIFICATIONS, PRESENCE, Everybody, Listed, TagInterest
from tests.async_runner import in_loop, run

ANN, BEN, CYD, DAN = 1 << 10, 2 << 10, 3 << 10, 4 << 10
REEF, SURF = -7, -8
WITH_HISTORY, CAPACITY = 8, 5


class HubFixture:
    """A hub with its channel and graph. While `held` is not set, the reads named in `slow` wait for their answer."""

    def __init__(self, *, length: int = 100, retained: int = WITH_HISTORY) -> None:
        self.channel = MemoryChannel(length)
        self.graph = MemoryGraph()
        ticks = count(EPOCH_MS + 1_000_000, 10_000)
        self.new_id = IdMaker(lambda: next(ticks))
        self.held = asyncio.Event()
        self.held.set()
        self.slow = {"assoc_range", "assoc_get"}
        self.loads = 0
        self.merged: list[int] = []
        """The versions of the tag cloud that the hub reported."""
        self.hub = Hub(
            self.channel, cast("Reader", self), capacity=CAPACITY, retained=retained, on_merge=self.merged.append
        )

    async def assoc_range(self, *args: object) -> object:
        return await self._read("assoc_range", *args)

    async def assoc_get(self, *args: object) -> object:
        return await self._read("assoc_get", *args)

    async def _read(self, name: str, *args: object) -> object:
        """Read immediately; delay the answer of slow reads."""
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
        """Run the event loop until all pending work is done; no task here waits for a clock."""
        for _ in range(50):
            await asyncio.sleep(0)


@asynccontextmanager
async def hub_fixture(**more: int) -> AsyncIterator[HubFixture]:
    fixture = HubFixture(**more)
    yield fixture
    await fixture.hub.close()


async def waiting(connection: Connection) -> list[int | str]:
    """Return the offered items: ids of entries, or `missed` for a gap."""
    connection._wake.set()
    return ["missed" if isinstance(one, Missed) else _entry(one) for one in await connection.take()]


def _entry(heard: PlacedUpdate) -> int:
    assert isinstance(heard.update, updates.OfEntry)
    return heard.update.entry_id


@in_loop
async def test_streaming_hub_viewer_receives_posts_of_followed_authors_tags_and_own_posts_only() -> None:
    async with hub_fixture() as fixture:
        await fixture.follow(BEN, ANN)
        await fixture.follow(BEN, REEF)
        async with fixture.hub.connect(BEN) as ben, fixture.hub.connect(CYD) as cyd:
            mine = await fixture.post(BEN)
            hers = await fixture.post(ANN, SURF)
            tagged = await fixture.post(DAN, SURF, REEF)
            await fixture.post(DAN, SURF)
            await fixture.post(DAN, REEF, visibility=Visibility.UNLISTED)
            assert await waiting(ben) == [mine, hers, tagged]
            assert await waiting(cyd) == []


@in_loop
async def test_streaming_hub_each_stream_type_receives_only_its_updates() -> None:
    async with hub_fixture() as fixture, AsyncExitStack() as stack:
        interests = {
            "home": HOME,
            "notifications": NOTIFICATIONS,
            "conversations": CONVERSATIONS,
            "everybody": Everybody(),
            "tag": TagInterest(REEF),
            "presence": PRESENCE,
        }
        enter = stack.enter_async_context
        listening = {name: await enter(fixture.hub.connect(BEN, to=one)) for name, one in interests.items()}
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
        await fixture.tell(public, tagged, unlisted, direct, notified, talked, filters, *others)
        assert {name: await told(one) for name, one in listening.items()} == {
            "home": [direct, notified, filters],
            "notifications": [notified],
            "conversations": [talked],
            "everybody": [public, tagged],
            "tag": [tagged],
            "presence": [],
        }


@in_loop
async def test_streaming_hub_notification_stream_resumes_from_position() -> None:
    async with hub_fixture() as fixture:
        async with fixture.hub.connect(BEN, to=NOTIFICATIONS) as ben:
            await fixture.tell(updates.NotificationMade(BEN, 1))
            (before,) = await ben.take()
        missed: list[updates.AnyUpdate] = [
            updates.NotificationMade(BEN, 2),
            updates.FiltersChanged(BEN),
            updates.NotificationMade(BEN, 3),
        ]
        await fixture.tell(*missed)
        async with fixture.hub.connect(BEN, before.position, to=NOTIFICATIONS) as ben:
            assert await told(ben) == [missed[0], missed[2]]
        async with fixture.hub.connect(BEN, before.position) as ben:
            assert await told(ben) == missed


@in_loop
async def test_streaming_hub_list_change_reloads_only_that_list() -> None:
    async with hub_fixture() as fixture:
        one, two = fixture.new_id(shard_of(BEN)), fixture.new_id(shard_of(BEN))
        async with (
            fixture.hub.connect(BEN, to=Listed(one)) as first,
            fixture.hub.connect(BEN, to=Listed(two)) as second,
        ):
            await fixture.post(ANN)
            batch = Batch(shard_of(one))
            batch.assoc_add(one, LISTS, ANN, fixture.new_id(batch.shard))
            await fixture.graph.commit(batch)
            before = fixture.loads
            await fixture.tell(updates.ListChanged(one, BEN))
            assert fixture.loads == before + 1
            post = await fixture.post(ANN)
            assert await waiting(first) == [post]
            assert await waiting(second) == []


@in_loop
async def test_streaming_hub_ended_session_or_suspended_member_receives_nothing() -> None:
    async with hub_fixture() as fixture, AsyncExitStack() as stack:
        enter = stack.enter_async_context
        seven, eight = [await enter(fixture.hub.connect(BEN, session=token)) for token in (7, 8)]
        cyd = await enter(fixture.hub.connect(CYD, session=7))
        await fixture.post(BEN)
        await fixture.tell(updates.SessionsEnded(BEN, (7, 9)))
        assert (seven.dismissed, await seven.take()) == (True, [])
        assert (eight.dismissed, cyd.dismissed) == (False, False)
        await fixture.tell(updates.MemberSuspended(BEN))
        assert (eight.dismissed, await eight.take()) == (True, [])
        assert not cyd.dismissed


@in_loop
async def test_streaming_hub_ended_server_key_receives_nothing_for_any_member() -> None:
    async with hub_fixture() as fixture, AsyncExitStack() as stack:
        keys = [await stack.enter_async_context(fixture.hub.connect(viewer, session=7)) for viewer in (0, BEN)]
        other = await stack.enter_async_context(fixture.hub.connect(0, session=8))
        await fixture.tell(updates.SessionsEnded(0, (7,)))
        assert [key.dismissed for key in keys] == [True, True]
        assert not other.dismissed


@in_loop
async def test_streaming_hub_public_updates_cost_home_streams_no_reads() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben, fixture.hub.connect(CYD, to=Everybody()):
        offered: list[object] = []
        ben.offer = offered.append  # type: ignore[assignment,method-assign]
        before = fixture.loads
        for _ in range(3):
            await fixture.post(ANN, REEF)
        assert (offered, fixture.loads) == ([], before)


async def told(connection: Connection) -> list[updates.AnyUpdate]:
    """Return the offered updates."""
    connection._wake.set()
    return [one.update for one in await connection.take() if isinstance(one, PlacedUpdate)]


@in_loop
async def test_streaming_hub_post_matching_several_sources_is_delivered_once() -> None:
    async with hub_fixture() as fixture:
        for source in (ANN, REEF, SURF):
            await fixture.follow(BEN, source)
        async with fixture.hub.connect(BEN) as ben:
            post = await fixture.post(ANN, REEF, SURF)
            assert await waiting(ben) == [post]


@in_loop
async def test_streaming_hub_direct_post_is_delivered_only_to_author_and_mentioned_members() -> None:
    async with hub_fixture() as fixture:
        await fixture.follow(BEN, ANN)
        await fixture.follow(CYD, ANN)
        async with fixture.hub.connect(ANN) as ann, fixture.hub.connect(BEN) as ben, fixture.hub.connect(CYD) as cyd:
            await fixture.tell(updates.PostCreated(9, ANN, Visibility.DIRECT, (REEF,), (BEN,)))
            assert [await waiting(one) for one in (ann, ben, cyd)] == [[9], [9], []]


@in_loop
async def test_streaming_hub_each_connection_of_a_viewer_receives_posts_until_it_is_closed() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as one:
        async with fixture.hub.connect(BEN) as two:
            await fixture.follow(BEN, ANN)
            first = await fixture.post(ANN)
            assert fixture.hub.connected == 2
        second = await fixture.post(ANN)
        assert await waiting(one) == [first, second]
        assert await waiting(two) == [first]
        assert fixture.hub.connected == 1


@in_loop
async def test_streaming_hub_follow_and_unfollow_take_effect_immediately() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben:
        await fixture.post(ANN)
        await fixture.follow(BEN, ANN)
        post = await fixture.post(ANN)
        assert await waiting(ben) == [post]
        await fixture.follow(BEN, ANN, alive=False)
        await fixture.post(ANN)
        assert await waiting(ben) == []


@in_loop
async def test_streaming_hub_post_between_follow_and_its_update_is_delivered() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben:
        await fixture.post(ANN)
        await fixture.follow(BEN, ANN, tell=False)
        post = await fixture.post(ANN)
        assert await waiting(ben) == []
        await fixture.tell(updates.FollowChanged(BEN, ANN))
        assert await waiting(ben) == [post]


@in_loop
async def test_streaming_hub_posts_during_loading_of_follows_are_delivered() -> None:
    async with hub_fixture() as fixture, AsyncExitStack() as stack:
        await fixture.follow(BEN, ANN)
        fixture.held.clear()
        connecting = asyncio.create_task(stack.enter_async_context(fixture.hub.connect(BEN)))
        await fixture.quiet()
        first = await fixture.post(ANN)
        # The list being loaded does not contain this follow yet.
        await fixture.follow(BEN, CYD)
        second = await fixture.post(CYD)
        await fixture.tell(updates.PostCreated(9, DAN, Visibility.DIRECT, (), (BEN,)))
        assert not connecting.done()
        fixture.held.set()
        ben = await connecting
        await fixture.quiet()
        assert sorted(await waiting(ben)) == sorted([first, second, 9])


@in_loop
async def test_streaming_hub_late_follow_list_does_not_undo_later_follow() -> None:
    async with hub_fixture() as fixture, AsyncExitStack() as stack:
        fixture.slow = {"assoc_range"}
        fixture.held.clear()
        connecting = asyncio.create_task(stack.enter_async_context(fixture.hub.connect(BEN)))
        await fixture.quiet()
        await fixture.follow(BEN, CYD)
        fixture.held.set()
        ben = await connecting
        await fixture.quiet()
        post = await fixture.post(CYD)
        assert await waiting(ben) == [post]


@in_loop
async def test_streaming_hub_unfollow_after_follow_wins_despite_slow_reads() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben:
        fixture.held.clear()
        await fixture.follow(BEN, ANN)
        await fixture.follow(BEN, ANN, alive=False)
        fixture.held.set()
        await fixture.quiet()
        await fixture.post(ANN)
        assert await waiting(ben) == []


@in_loop
async def test_streaming_hub_failed_read_of_follow_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.streaming.hub._BACKOFF_SECONDS", 0)
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben:
        failures = iter([True, True, False])
        read = fixture.graph.assoc_get

        async def away(*args: object) -> object:
            if next(failures):
                raise Unavailable("the store is away")
            return await read(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(fixture.graph, "assoc_get", away)
        await fixture.follow(BEN, ANN)
        post = await fixture.post(ANN)
        assert await waiting(ben) == [post]


@in_loop
async def test_streaming_hub_reconnect_delivers_missed_posts_in_order() -> None:
    async with hub_fixture() as fixture:
        await fixture.follow(BEN, ANN)
        async with fixture.hub.connect(BEN) as ben:
            await fixture.post(ANN)
            (before,) = await ben.take()
        missed = [await fixture.post(ANN), await fixture.post(CYD), await fixture.post(ANN)]
        async with fixture.hub.connect(BEN, before.position) as ben:
            after = await fixture.post(ANN)
            assert await waiting(ben) == [missed[0], missed[2], after]


@in_loop
async def test_streaming_hub_reconnect_to_another_process_delivers_missed_posts() -> None:
    async with hub_fixture() as fixture:
        await fixture.follow(BEN, ANN)
        async with fixture.hub.connect(BEN) as ben:
            await fixture.post(ANN)
            (before,) = await ben.take()
        missed = [await fixture.post(ANN) for _ in range(3)]
        another = Hub(fixture.channel, fixture.graph, retained=WITH_HISTORY)
        async with another.connect(BEN, before.position) as ben:
            assert await waiting(ben) == missed
        await another.close()


@pytest.mark.parametrize("position", ["", "x", "nonsense-5"])
@in_loop
async def test_streaming_hub_reconnect_with_expired_or_invalid_position_reports_gap_once(position: str) -> None:
    async with hub_fixture() as fixture:
        await fixture.follow(BEN, ANN)
        async with fixture.hub.connect(BEN) as ben:
            await fixture.post(ANN)
            (before,) = await ben.take()
        for _ in range(WITH_HISTORY + 1):
            await fixture.post(CYD)
        for after in (before.position, Position(position)):
            async with fixture.hub.connect(BEN, after) as ben:
                post = await fixture.post(ANN)
                assert await waiting(ben) == ["missed", post]
                assert await waiting(ben) == []


@in_loop
async def test_streaming_hub_slow_viewer_gets_gap_once_and_does_not_delay_others() -> None:
    async with hub_fixture() as fixture:
        for viewer in (BEN, CYD):
            await fixture.follow(viewer, ANN)
        async with fixture.hub.connect(BEN) as slow, fixture.hub.connect(CYD) as quick:
            posts = []
            for _ in range(CAPACITY * 3 + 2):
                posts.append(await fixture.post(ANN))
                assert await waiting(quick) == posts[-1:]
            # The queue overflowed twice.
            assert await waiting(slow) == ["missed", *posts[-CAPACITY:]]
            assert await waiting(slow) == []


@in_loop
async def test_streaming_hub_reconnect_at_position_of_reported_gap_receives_later_posts() -> None:
    async with hub_fixture() as fixture:
        await fixture.follow(BEN, ANN)
        async with fixture.hub.connect(BEN) as ben:
            for _ in range(CAPACITY + 1):
                await fixture.post(ANN)
            (missed,) = await ben.take()
            assert isinstance(missed, Missed)
            post = await fixture.post(ANN)
        async with fixture.hub.connect(BEN, missed.position) as ben:
            assert await waiting(ben) == [post]


@in_loop
async def test_streaming_hub_gap_in_update_log_is_reported_to_all_and_follows_are_reloaded() -> None:
    async with hub_fixture(length=4) as fixture:
        for viewer in (BEN, CYD):
            await fixture.follow(viewer, ANN)
        async with fixture.hub.connect(BEN) as ben, fixture.hub.connect(CYD) as cyd:
            # More messages in one iteration than the hub can follow, including updates that are lost.
            await fixture.follow(CYD, ANN, alive=False, tell=False)
            await fixture.follow(BEN, DAN, tell=False)
            for told in [updates.FollowChanged(CYD, ANN)] + [updates.ShareCreated(n, ANN) for n in range(1, 20)]:
                await fixture.channel.publish(updates.encode(told))
            await fixture.quiet()
            posts = [await fixture.post(ANN), await fixture.post(DAN)]
            assert await waiting(ben) == ["missed", *posts]
            assert await waiting(cyd) == ["missed"]


@in_loop
async def test_streaming_hub_message_of_another_shoal_version_is_skipped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben:
        await fixture.follow(BEN, ANN)
        for message in (b"", b"\x93\x63\x01\x02", b"\x91\x01"):
            await fixture.channel.publish(message)
        post = await fixture.post(ANN)
        assert await waiting(ben) == [post]
        assert len(caplog.records) == 3


@in_loop
async def test_streaming_hub_without_viewers_reports_tag_cloud_versions_after_it_starts_reading_update_log() -> None:
    async with hub_fixture() as fixture:
        await fixture.tell(updates.TagCloudMerged(1))
        assert fixture.merged == []
        assert not fixture.hub.follow()
        await fixture.quiet()
        assert fixture.hub.follow()
        await fixture.tell(updates.TagCloudMerged(2), updates.TagCloudMerged(3))
        # Version 1 may have been missed.
        assert fixture.merged == [0, 2, 3]


@in_loop
async def test_streaming_hub_reports_that_versions_of_tag_cloud_were_lost_in_gap() -> None:
    async with hub_fixture(length=4) as fixture:
        fixture.hub.follow()
        await fixture.quiet()
        for version in range(20):
            await fixture.channel.publish(updates.encode(updates.TagCloudMerged(version)))
        await fixture.quiet()
        assert fixture.merged == [0, 0]
        await fixture.tell(updates.TagCloudMerged(20))
        assert fixture.merged == [0, 0, 20]


@in_loop
async def test_streaming_hub_reports_that_updates_may_be_missed_while_update_log_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub_fixture() as fixture:
        follow, end, away = fixture.channel.follow, fixture.channel.end, False

        def reach() -> None:
            if away:
                raise Unavailable("the channel is away")

        async def follow_or_fail(after: Position) -> AsyncGenerator[ChannelMessage, None]:
            async with aclosing(follow(after)) as messages:
                async for message in messages:
                    reach()
                    yield message

        async def end_or_fail(back: int = 0) -> Position:
            reach()
            return await end(back)

        monkeypatch.setattr("shoal.streaming.hub._BACKOFF_SECONDS", 0)
        monkeypatch.setattr(fixture.channel, "follow", follow_or_fail)
        monkeypatch.setattr(fixture.channel, "end", end_or_fail)
        fixture.hub.follow()
        await fixture.quiet()
        assert fixture.hub.follow()
        away = True
        await fixture.tell(updates.TagCloudMerged(1))
        assert not fixture.hub.follow()
        away = False
        await fixture.quiet()
        assert fixture.hub.follow()
        assert fixture.merged == [0, 1]


@in_loop
async def test_streaming_hub_updates_for_unconnected_members_cause_no_reads() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN):
        before = fixture.loads
        await fixture.follow(CYD, ANN)
        await fixture.post(ANN)
        assert fixture.loads == before


@in_loop
async def test_streaming_hub_close_disconnects_viewers_and_refuses_new_ones() -> None:
    async with hub_fixture() as fixture, fixture.hub.connect(BEN) as ben:
        await fixture.hub.close()
        assert await ben.take() == []
        assert await ben.take() == []
        with pytest.raises(Unavailable):
            async with fixture.hub.connect(CYD):
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
def test_streaming_hub_delivers_exactly_matching_posts_or_reports_gap(
    acts: list[tuple[str, int, object]],
) -> None:
    """Compare with follow sets. Viewers disconnect and resume after the last entry that they received."""
    run(_told_exactly(acts))


async def _told_exactly(acts: list[tuple[str, int, object]]) -> None:
    async with hub_fixture(retained=6) as fixture:
        follower_set = {member: FollowerSet(fixture, member) for member in MEMBERS}
        for member in MEMBERS:
            await follower_set[member].come()
        for verb, member, what in acts:
            if verb == "post":
                post = await fixture.post(member, *cast("set[int]", what))
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
    """One viewer and the entries that the hub must deliver to them."""

    def __init__(self, fixture: HubFixture, member: int) -> None:
        self.fixture = fixture
        self.member = member
        self.sources = {member}
        self.owed: list[int] = []
        # All posts since the last received entry, with their sources.
        self.since: list[tuple[int, set[int]]] = []
        self.at: Position | None = None
        self.stack = AsyncExitStack()

    async def come(self) -> None:
        self.connection = await self.stack.enter_async_context(self.fixture.hub.connect(self.member, self.at))

    async def leave(self) -> None:
        """Disconnect and lose queued entries; the viewer resumes after the last received entry, with the current sources."""
        await self.stack.aclose()
        self.owed = [] if self.at is None else [post for post, of in self.since if not self.sources.isdisjoint(of)]

    async def change(self, source: int, *, alive: bool) -> None:
        if source == self.member:
            return
        await self.look()
        await self.fixture.follow(self.member, source, alive=alive)
        (self.sources.add if alive else self.sources.discard)(source)

    def expect(self, post: int, sources: set[int]) -> None:
        self.since.append((post, sources))
        if not self.sources.isdisjoint(sources):
            self.owed.append(post)

    async def look(self) -> None:
        self.connection._wake.set()
        found = await self.connection.take()
        if found and isinstance(found[0], Missed):
            assert len(self.owed) > CAPACITY or self.at is not None, "a gap was reported without a missed entry"
            self.owed = self.owed[len(self.owed) - len(found) + 1 :]
        told = [_entry(one) for one in found if isinstance(one, PlacedUpdate)]
        assert told == self.owed
        self.owed = []
        if found:
            self.at = found[-1].position
            self.since = [one for one in self.since if told and one[0] > told[-1]]
