"""Notifications: recipients, exclusions and removal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import pytest

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import notifications as verbs
from shoal.commands import reactions, relationships
from shoal.consumers import notifications as telling
from shoal.consumers.context import Effects
from shoal.consumers.notifications import tell_of_like
from shoal.consumers.table import TABLE
from shoal.core.events import FollowChanged, LikeChanged, PostCreated, ShareCreated
from shoal.core.ids import EPOCH_MS, milliseconds_of
from shoal.core.model import Role, Visibility
from shoal.graph.contract import Cursor, Graph
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import NOTIFIED, WATCHES
from shoal.queries import notifications
from shoal.queries.notifications import NotificationQuery
from shoal.streaming.updates import NotificationMade, decode
from tests.async_runner import eventually, in_loop
from tests.flows.members import register
from tests.flows.notifications.notification_helpers import (
    a_poll,
    a_report,
    all_of,
    ask_to_follow,
    heard,
    mute_thread,
    noted,
    promote,
    refuse,
    relate,
    repeat_everything,
    watch,
)
from tests.flows.simulation.faults import Between

# Every kind


@in_loop
async def test_notifications_of_likes_shares_follows_and_mentions_are_listed_newest_first() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("low tide")
        await ben.like(post)
        share = await cyd.share(post)
        await ben.follow(ann)
        answer = await cyd.comment(post, "@ann where?")
        assert await heard(shoal, ann) == ["cyd mention", "ben follow", "cyd share", "ben like"]
        mention, _, shared, like = await noted(shoal, ann)
        assert (mention.time, shared.time) == (answer.id, share.id)
        assert mention.entry is not None
        assert mention.entry.post == answer
        assert like.entry is not None
        assert like.entry.post.id == post.id
        assert like.entry.share is None
        assert await heard(shoal, ben) == await heard(shoal, cyd) == []


@in_loop
async def test_post_notifications_of_watched_member_exclude_replies_to_others() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await watch(shoal, ann, ben)
        post = await ben.create("one")
        thread = await ben.comment(post, "two")
        await ben.comment(await cyd.create("a question"), "an answer")
        named = await ben.create("three, @ann")
        await ben.create("psst @cyd", visibility="direct")
        private = await ben.create("for my followers", visibility="followers")
        assert await heard(shoal, ann) == ["ben post", "ben mention", "ben post", "ben post"]
        assert [item.time for item in await noted(shoal, ann)] == [private.id, named.id, thread.id, post.id]
        await ann.unfollow(ben)
        await ben.create("to nobody who watches")
        assert (await noted(shoal, ann))[0].time == named.id


@in_loop
async def test_follow_notification_is_not_repeated_when_follow_options_change() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        (told,) = await noted(shoal, ann)
        await watch(shoal, ben, ann)
        assert [item.time for item in await noted(shoal, ann)] == [told.time]
        await verbs.dismiss(shoal.network.writes, ann.id, told.time)
        await relationships.follow(shoal.network.writes, ben.id, ann.id, relationships.FollowOptions(shares=False))
        assert await heard(shoal, ann) == []
        await ben.unfollow(ann)
        await ben.follow(ann)
        assert await heard(shoal, ann) == ["ben follow"]


@in_loop
async def test_edit_notification_is_sent_to_sharers_for_each_edit() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("low tide")
        await ben.share(post)
        await ann.share(post)
        assert await heard(shoal, ben) == []
        await ann.update(post, "high tide")
        (first,) = await noted(shoal, ben)
        assert first.notice.kind is Kind.EDIT
        assert first.entry is not None
        assert first.entry.post.text == "high tide"
        await ann.update(post, "ebb")
        (second,) = await noted(shoal, ben)
        assert second.time > first.time
        assert await heard(shoal, ann) == ["ben share"]


@in_loop
async def test_mention_notification_for_name_added_by_edit_has_time_of_edit() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("with @ben")
        await cyd.share(post)
        await ann.update(post, "with @ben and @cyd")
        (revision,) = await ann.history(post)
        (mention,) = await noted(shoal, cyd)
        assert (mention.notice.kind, mention.time) == (Kind.MENTION, revision.id)
        assert [item.time for item in await noted(shoal, ben)] == [post.id]
        await ann.update(post, "alone")
        assert [item.notice.kind for item in await noted(shoal, cyd)] == [Kind.EDIT]
        assert await heard(shoal, ben) == []


@in_loop
async def test_follow_request_notification_is_removed_on_withdrawal_or_rejection() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ask_to_follow(shoal, ben, ann)
        await ask_to_follow(shoal, cyd, ann)
        assert await heard(shoal, ann) == ["cyd request", "ben request"]
        await ask_to_follow(shoal, ben, ann, end=True)
        assert await heard(shoal, ann) == ["cyd request"]
        await refuse(shoal, ann, cyd)
        assert await heard(shoal, ann) == []


@in_loop
async def test_poll_end_notification_is_sent_to_author_and_voters() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        over = EPOCH_MS + 10_000
        posts = [await a_poll(shoal, ann, [ben], over) for _ in range(2)]
        assert await heard(shoal, ann) == await heard(shoal, ben) == ["ann poll", "ann poll"]
        assert await heard(shoal, cyd) == []
        found = await noted(shoal, ben)
        assert len({item.time for item in found}) == 2
        assert {milliseconds_of(item.time) for item in found} == {over}
        assert {item.notice.about for item in found} == {post.id for post in posts}


@in_loop
async def test_admin_notifications_of_signups_and_reports_are_shown_to_current_staff_only() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await promote(shoal, ann, Role.MODERATOR)
        ben = await shoal.register("ben", "correct horse", email="ben@shoal.test")
        cyd = await shoal.register("cyd", "correct horse", email="cyd@shoal.test")
        report = await a_report(shoal, ben, cyd)
        assert await heard(shoal, ann) == ["ben report", "cyd registration", "ben registration"]
        told = (await noted(shoal, ann))[0]
        assert told.report == report
        assert told.target is not None
        assert told.target.member.name == "cyd"
        assert await heard(shoal, ben) == await heard(shoal, cyd) == []
        await promote(shoal, ann, Role.NONE)
        assert await heard(shoal, ann) == []


# Exclusions


@in_loop
async def test_notifications_of_own_actions_are_not_created() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("I, @ann")
        await ann.like(post)
        await ann.share(post)
        await relate(shoal, ann.id, WATCHES, ann.id)
        await ann.create("again")
        assert await heard(shoal, ann) == []


Falling = Callable[[Shoal, Handle, Handle], Awaitable[object]]
FALLINGS: dict[str, Falling] = {
    "blocks": lambda _, ann, ben: ann.block(ben),
    "is blocked by": lambda _, ann, ben: ben.block(ann),
    "mutes": lambda _, ann, ben: ann.mute(ben),
    "sees suspended": lambda shoal, _, ben: shoal.suspend(ben),
}
BACK: dict[str, Falling] = {
    "blocks": lambda _, ann, ben: ann.unblock(ben),
    "is blocked by": lambda _, ann, ben: ben.unblock(ann),
    "mutes": lambda _, ann, ben: ann.unmute(ben),
    "sees suspended": lambda shoal, _, ben: shoal.restore(ben),
}


@pytest.mark.parametrize("how", FALLINGS)
@in_loop
async def test_notifications_of_blocked_muted_or_suspended_member_are_hidden(how: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("low tide")
        await ben.like(post)
        await ben.share(post)
        await ben.follow(ann)
        mention = await ben.create("@ann")
        assert len(await noted(shoal, ann)) == 4
        await FALLINGS[how](shoal, ann, ben)
        assert await heard(shoal, ann) == []
        with pytest.raises(Exception, match="Record not found"):
            await notifications.one(shoal.network.reads, ann.id, mention.id)


@pytest.mark.parametrize("how", ["blocks", "is blocked by", "mutes"])
@in_loop
async def test_notifications_of_actions_during_block_or_mute_are_never_shown(how: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await FALLINGS[how](shoal, ann, ben)
        await ben.create("@ann")
        await shoal.settle()
        await BACK[how](shoal, ann, ben)
        assert await heard(shoal, ann) == []
        await ben.create("@ann, again")
        assert await heard(shoal, ann) == ["ben mention"]


@in_loop
async def test_notifications_of_muted_thread_are_not_created() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("low tide")
        await mute_thread(shoal, ann, root)
        await ben.like(root)
        await ben.share(root)
        answer = await ben.comment(root, "@ann where?")
        await ben.comment(answer, "@ann when?")
        await ben.create("@ann, by the way")
        assert await heard(shoal, ann) == ["ben mention"]


@in_loop
async def test_share_notification_of_followers_only_share_requires_follow() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.follow(cyd)
        post = await ann.create("low tide")
        for who in (ben, cyd):
            await share_for_followers(shoal, who, post.id)
        assert await heard(shoal, ann) == ["cyd share"]
        await ann.unfollow(cyd)
        assert await heard(shoal, ann) == []


async def share_for_followers(shoal: Shoal, who: Handle, post_id: int) -> None:
    """Share a post with visibility `followers`."""
    await reactions.share(shoal.network.writes, who.id, post_id, Visibility.FOLLOWERS)


@in_loop
async def test_notifications_of_hidden_and_deleted_posts_are_not_listed() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        hidden, deleted = await ben.create("@ann one"), await ben.create("@ann two")
        assert await heard(shoal, ann) == ["ben mention", "ben mention"]
        await shoal.hide(hidden)
        await ben.delete(deleted)
        assert await heard(shoal, ann) == []
        await shoal.reveal(hidden)
        assert await heard(shoal, ann) == ["ben mention"]


# Removal and restoration


@in_loop
async def test_notifications_of_undone_actions_are_removed_and_created_again_on_repeat() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("low tide")
        await ben.like(post)
        await ben.share(post)
        await ben.follow(ann)
        await cyd.like(post)
        await shoal.settle()
        await ben.unlike(post)
        await ben.unshare(post)
        await ben.unfollow(ann)
        assert await heard(shoal, ann) == ["cyd like"]
        await ben.like(post)
        await ben.share(post)
        await ben.follow(ann)
        assert await heard(shoal, ann) == ["ben follow", "ben share", "ben like", "cyd like"]


@in_loop
async def test_notifications_about_deleted_post_are_deleted_from_store() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("low tide @ben")
        await ben.like(post)
        await ben.share(post)
        await shoal.settle()
        await ann.delete(post)
        assert await heard(shoal, ann) == await heard(shoal, ben) == []
        for who in (ann, ben):
            assert await shoal.network.store.assoc_range(who.id, NOTIFIED, Cursor(limit=10)) == []


@in_loop
async def test_notification_dismissed_is_restored_by_new_action_only() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("low tide")
        await ben.like(post)
        share = await ben.share(post)
        await ben.follow(ann)
        mention = await ben.create("@ann")
        events = [
            LikeChanged(member_id=ben.id, post_id=post.id, author_id=ann.id),
            ShareCreated(share_id=share.id, author_id=ben.id),
            FollowChanged(follower_id=ben.id, source_id=ann.id),
            PostCreated(post_id=mention.id, author_id=ben.id, mention_ids=(ann.id,)),
        ]
        for item in await noted(shoal, ann):
            await verbs.dismiss(shoal.network.writes, ann.id, item.time)
        await repeat_everything(shoal.network, events, TABLE)
        assert await heard(shoal, ann) == []
        await ben.unlike(post)
        await ben.like(post)
        assert await heard(shoal, ann) == ["ben like"]
        await verbs.clear(shoal.network.writes, ann.id)
        await repeat_everything(shoal.network, events, TABLE)
        assert await heard(shoal, ann) == []
        await ben.create("@ann, again")
        assert await heard(shoal, ann) == ["ben mention"]


@in_loop
async def test_notification_page_with_hidden_posts_is_still_filled() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        seen = [await ben.create(f"@ann {n}") for n in range(3)]
        for n in range(40):
            await shoal.hide(await ben.create(f"@ann gone {n}"))
        await shoal.settle()
        page = await notifications.page(shoal.network.reads, ann.id, Cursor(limit=2))
        assert [item.time for item in page.items] == [seen[2].id, seen[1].id]
        assert page.next is not None


@in_loop
async def test_notification_kind_filter_finds_entry_behind_many_others() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        for n in range(30):
            await ben.create(f"@ann {n}")
        (found,) = await noted(shoal, ann, NotificationQuery(frozenset({Kind.FOLLOW})))
        assert found.actor.member.id == ben.id
        assert await noted(shoal, ann, NotificationQuery(actor_id=ann.id)) == []


# Streams and consistency checks


@in_loop
async def test_notification_event_is_published_to_stream() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        channel = shoal.network.effects.channel
        position = await channel.end()
        post = await ben.create("@ann")
        await shoal.settle()
        told = []
        async with aclosing(channel.follow(position)) as messages:
            async for message in messages:
                told.append(decode(message.message))
                if isinstance(told[-1], NotificationMade):
                    break
        assert told[-1] == NotificationMade(ann.id, post.id)
        assert (await notifications.one(shoal.network.reads, ann.id, post.id)).notice.kind is Kind.MENTION


@in_loop
async def test_shoal_check_finds_no_errors_after_notifications_are_cleared_and_posts_deleted() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("@ben psst", visibility="direct")
        await ben.like(root)
        await ben.comment(root, "@ann yes?", visibility="direct")
        await verbs.clear(shoal.network.writes, ann.id)
        await shoal.settle()
        await ann.delete(root)
        await ben.create("@ann still there?")
        assert await all_of(shoal.network, ann.id) is not None
        report = await check(shoal.network, sample=None)
        assert report.clean, report


@in_loop
async def test_notification_of_like_undone_during_delivery_is_not_created() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("low tide")
        await ben.like(post)
        (like,) = await noted(shoal, ann)
        commits: list[str] = []

        async def meanwhile(name: str) -> None:
            """Undo the like and deliver its events just before the notification is written."""
            commits.append(name)
            if commits.count("commit") == 1 and name == "commit":
                await ben.unlike(post)
                await shoal.settle()
                # Remove every trace of the first notification.
                await forgotten(shoal, ann.id)

        async def nothing(_name: str) -> None: ...

        graph = cast("Graph", Between(shoal.network.store, meanwhile, nothing))
        event = LikeChanged(member_id=ben.id, post_id=post.id, author_id=ann.id)
        told = await tell_of_like(replace(shoal.network.effects, graph=graph), event, 0)
        assert isinstance(told, asyncio.Future)
        await told
        assert await heard(shoal, ann) == []
        await ben.like(post)
        assert [item.notice for item in await noted(shoal, ann)] == [like.notice]


async def forgotten(shoal: Shoal, member: int) -> None:
    """Sweep the store, and assert that no notification is left."""
    await shoal.network.store.sweep(2**63 - 1, 0)
    assert await shoal.network.store.assoc_range(member, NOTIFIED, Cursor(limit=1)) == []


@in_loop
async def test_notification_writes_do_not_delay_home_timeline_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting: list[int] = []
    go = asyncio.Event()

    async def held_up(effects: Effects, member_id: int, *more: Any) -> None:
        waiting.append(member_id)
        await go.wait()
        await note(effects, member_id, *more)

    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await shoal.settle()
        await ben.home()
        note = telling.note
        monkeypatch.setattr(telling, "note", held_up)
        post = await ann.create("hello @cyd")
        await ben.like(post)

        async def both() -> list[int]:
            return sorted(waiting)

        await eventually(both, answer=sorted([ann.id, cyd.id]))
        page = await shoal.network.timelines.read(ben.id, Cursor(limit=1))
        assert page is not None
        assert page.ids == [post.id]
        go.set()
        await shoal.settle()
        assert [item.notice.kind for item in await noted(shoal, ann)] == [Kind.LIKE, Kind.FOLLOW]
        assert [item.notice.kind for item in await noted(shoal, cyd)] == [Kind.MENTION]
