"""Resources of a member through the library: lists, filters, notifications, conversations, scheduled posts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from shoal import Shoal
from shoal.core.model import ScheduledPost
from shoal.errors import InvalidInput, NotFound, Taken
from shoal.graph.payloads.notifications import Kind
from shoal.queries.streaming import Arrived, Conversed, News, Notified, OfViewer
from tests.async_runner import eventually, in_loop
from tests.library.network_fixtures import listeners, opened, stores
from tests.media.photos import taken

T = TypeVar("T")


@stores
@in_loop
async def test_library_lists_have_members_and_a_timeline(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob, cyd = [await shoal.register(name) for name in ("ann", "bob", "cyd")]
        await ann.follow(bob)
        birds = await ann.lists.create("Birds", replies="none", exclusive=True)
        await ann.lists.put_on(birds, "bob")
        with pytest.raises(Taken):
            await ann.lists.put_on(birds, bob)
        with pytest.raises(NotFound):
            await ann.lists.put_on(birds, cyd)
        post = await bob.create("A heron")
        await shoal.settle()
        assert [entry.post for entry in (await ann.lists.timeline(birds)).entries] == [post]
        assert (await ann.home()).entries == []
        assert [one.member.name for one in (await ann.lists.members(birds)).profiles] == ["bob"]
        assert await ann.lists.containing(bob) == [birds]
        changed = await ann.lists.update(birds, title="Herons")
        assert (changed.title, changed.replies, changed.exclusive) == ("Herons", "none", True)
        await ann.lists.take_off(birds, bob)
        assert (await ann.lists.members(birds)).profiles == []
        with pytest.raises(NotFound):
            await bob.lists.get(birds)
        await ann.lists.delete(birds)
        assert await ann.lists.all() == []


@stores
@in_loop
async def test_library_filters_mark_matching_posts(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob = [await shoal.register(name) for name in ("ann", "bob")]
        post = await bob.create("Spoilers of the finale")
        other = await bob.create("A heron")
        made = await ann.filters.create("TV", contexts=["account", "thread"], keywords=["finale"], action="hide")
        assert [len(entry.filtered) for entry in (await ann.posts_by(bob)).entries] == [0, 1]
        assert [match.keywords for match in (await ann.read(post)).filtered] == [("finale",)]
        word = await ann.filters.add_keyword(made, "heron", whole_word=False)
        assert await ann.filters.keyword(word.id) == word
        assert (await ann.read(other)).filtered
        changed = await ann.filters.change_keyword(word.id, keyword="osprey")
        assert (changed.id, changed.keyword, changed.whole_word) == (word.id, "osprey", False)
        assert not (await ann.read(other)).filtered
        held = await ann.filters.add_post(made, other)
        assert await ann.filters.post(held.id) == held
        assert (await ann.read(other)).filtered
        await ann.filters.remove_post(held.id)
        assert len((await ann.filters.remove_keyword(word.id)).keywords) == 1
        assert (await ann.filters.update(made, title="Series", seconds=60)).title == "Series"
        with pytest.raises(NotFound):
            await bob.filters.get(made)
        await ann.filters.delete(made)
        assert await ann.filters.all() == []
        assert not (await ann.read(post)).filtered


@stores
@in_loop
async def test_library_notifications_are_listed_grouped_counted_and_dismissed(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob, cyd = [await shoal.register(name) for name in ("ann", "bob", "cyd")]
        post = await ann.create("A heron")
        await bob.like(post)
        await cyd.like(post)
        await bob.comment(post, "@ann lucky")
        await shoal.settle()
        page = await ann.notifications.page()
        assert [(one.notice.kind, one.actor.member.name) for one in page.items] == [
            (Kind.MENTION, "bob"),
            (Kind.LIKE, "cyd"),
            (Kind.LIKE, "bob"),
        ]
        assert [one.notice.kind for one in (await ann.notifications.page(kinds=["like"], actor=cyd)).items] == ["like"]
        assert [one.notice.kind for one in (await ann.notifications.page(without=["like"])).items] == ["mention"]
        assert (await ann.notifications.unread(), await ann.notifications.unread_groups()) == (3, 2)
        groups = (await ann.notifications.grouped()).groups
        assert [len(group.items) for group in groups] == [1, 2]
        assert groups[1].group is not None
        assert len(await ann.notifications.group(groups[1].group)) == 2
        await ann.notifications.mark_read(notifications=page.items[1].time)
        assert await ann.notifications.unread() == 1
        assert (await ann.notifications.marks())["notifications"].last_read_id == page.items[1].time
        await ann.notifications.dismiss_group(groups[1].group)
        assert [one.notice.kind for one in (await ann.notifications.page()).items] == ["mention"]
        await ann.notifications.dismiss(page.items[0])
        with pytest.raises(NotFound):
            await ann.notifications.get(page.items[0])
        await ann.notifications.change_policy(not_following="filter")
        await cyd.follow(ann)
        await shoal.settle()
        assert (await ann.notifications.policy()).not_following == "filter"
        assert await ann.notifications.held_back() == (1, 1)
        assert [one.sender.member.name for one in (await ann.notifications.requests()).items] == ["cyd"]
        assert (await ann.notifications.request(cyd)).count == 1
        await ann.notifications.accept("cyd")
        assert [one.notice.kind for one in (await ann.notifications.page()).items] == ["follow"]
        await ann.notifications.clear()
        assert (await ann.notifications.page()).items == []


@stores
@in_loop
async def test_library_conversations_are_read_and_removed(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob = [await shoal.register(name) for name in ("ann", "bob")]
        post = await bob.create("@ann psst", visibility="direct")
        await shoal.settle()
        (talk,) = (await ann.conversations.page()).items
        assert (talk.root_id, talk.unread, talk.last.post) == (post.id, True, post)
        await ann.conversations.mark_read(talk)
        assert not (await ann.conversations.get(talk)).unread
        await ann.conversations.mark_unread(talk.root_id)
        assert (await ann.conversations.get(talk)).unread
        await ann.conversations.remove(talk)
        assert (await ann.conversations.page()).items == []


@stores
@in_loop
async def test_library_scheduled_posts_are_rescheduled_and_cancelled(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann = await shoal.register("ann")
        at = datetime.now(UTC) + timedelta(hours=1)
        made = await ann.scheduled.create("Good morning", at=at, visibility="unlisted", request="morning")
        assert isinstance(made, ScheduledPost)
        assert made.at == int(at.timestamp() * 1000)
        assert await ann.scheduled.create("Good morning", at=at, request="morning") == made
        later = await ann.scheduled.put_off(made, made.at + 60_000)
        assert (await ann.scheduled.get(made)).at == later.at == made.at + 60_000
        assert [one.id for one in (await ann.scheduled.page()).posts] == [made.id]
        with pytest.raises(InvalidInput, match="time zone") as refusal:
            await ann.scheduled.create("x", at=datetime(2030, 1, 1))  # noqa: DTZ001  # that is what is refused
        assert refusal.value.field == "at"
        with pytest.raises(InvalidInput):
            await ann.scheduled.create("x", at=datetime.now(UTC))
        await ann.scheduled.cancel(made)
        with pytest.raises(NotFound):
            await ann.scheduled.get(made)


@stores
@in_loop
async def test_library_streams_deliver_list_tag_and_notification_events(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob = [await shoal.register(name) for name in ("ann", "bob")]
        await ann.follow(bob)
        birds = await ann.lists.create("Birds")
        await ann.lists.put_on(birds, bob)
        await shoal.settle()
        feed = await ann.feeds.create("Herons", {"sources": [{"from": "tag", "tag": "heron"}]})
        streams = (ann.live_list(birds), ann.live_public(), ann.live_tag("heron"), ann.live_feed(feed))
        heard = [asyncio.create_task(_first(stream, Arrived)) for stream in streams]
        noticed = asyncio.create_task(_first(ann.live_notifications(), Notified))
        spoken = asyncio.create_task(_first(ann.live_conversations(), Conversed))
        async with asyncio.timeout(60):
            await eventually(partial(_connected, shoal), 6)
            post = await bob.create("@ann a #heron")
            assert [news.entry.post for news in await asyncio.gather(*heard)] == [post] * 4
            assert (await ann.notifications.get((await noticed).time)).notice.kind is Kind.MENTION
            secret = await bob.create("@ann psst", visibility="direct")
            assert (await ann.conversations.get((await spoken).root_id)).root_id == secret.id


async def _connected(shoal: Shoal) -> int:
    return listeners(shoal)


async def _first(stream: AsyncGenerator[News | OfViewer, None], kind: type[T]) -> T:
    async with aclosing(stream):
        async for one in stream:
            if isinstance(one, kind):
                return one
    raise AssertionError("the stream ended")


@stores
@in_loop
async def test_library_photo_details_license_and_downloads_default_to_profile_and_can_be_set_per_post(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path) as shoal:
        ann = await shoal.register("ann")
        quiet = await ann.upload(taken())
        assert (quiet.details is not None, quiet.shown_details) == (True, None)
        assert (await ann.describe(quiet, shows_details=True)).shown_details == quiet.details
        await ann.update_profile(shows_photo_details=True, default_license="CC-BY-4.0", allows_downloads=True)
        post = await ann.create(media=[await ann.upload(taken())])
        assert (post.license, post.downloads) == ("CC-BY-4.0", True)
        assert (await shoal.visitor.read(post)).media[0].shown_details == quiet.details
        assert (await ann.update(post, "reworded")).license == "CC-BY-4.0"
        assert (await ann.update(post, license="CC0-1.0", downloads=False)).license == "CC0-1.0"
        assert (await ann.create("words")).license == "all-rights-reserved"
        for wrong in (ann.create("x", license="MIT"), ann.update_profile(default_license="MIT")):  # type: ignore[arg-type]
            with pytest.raises(InvalidInput, match="all-rights-reserved, CC-BY"):
                await wrong
