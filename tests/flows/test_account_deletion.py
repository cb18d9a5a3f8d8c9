"""Account deletion: the member is hidden immediately, can return within days, and is then deleted with all data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.commands import account_deletions, moderation, sessions
from shoal.commands.polls import PollDraft
from shoal.core.errors import (
    Gone,
    InvalidInput,
    Leaving,
    NotAllowed,
    NotFound,
    Taken,
    Unauthenticated,
    Unavailable,
)
from shoal.core.model import RECEIPT_DAYS, AccountDeletion, Member, Role
from shoal.graph.contract import Batch, Cursor, Graph
from shoal.graph.schema import AGENDA, ASSOC_TYPES, COLLECTS, DUE
from shoal.scheduler import Agenda
from tests.async_runner import in_loop
from tests.engines import dynamodb, postgres
from tests.stores import all_objects
from tests.tiers import deep

DAY = 86_400_000
PASSWORD = "a long password"
EMOJI = "🌊🐟⚓🦀🐚🚤🌅⛵"


def agenda(shoal: Shoal, days: float) -> Agenda:
    """Return an agenda with its clock moved forward by `days`."""
    return Agenda(shoal.network.writes, clock=lambda: time.time_ns() // 1_000_000 + int(days * DAY))


async def worked_off(shoal: Shoal, days: float = 31) -> None:
    """Run all agenda items due after `days`, and their consequences."""
    for _ in range(50):
        await agenda(shoal, days).once()
        await shoal.settle()


def a_photo() -> bytes:
    made = BytesIO()
    Image.new("RGB", (64, 48), (90, 120, 150)).save(made, "PNG")
    return made.getvalue()


@asynccontextmanager
async def a_full_life(url: str = "memory://", **settings: Any) -> AsyncIterator[tuple[Shoal, Handle, Handle]]:
    """Yield a network, Ann with data of every kind, and Ben, who interacts with Ann and stays."""
    settings |= {"media": "memory://", "tags": "memory://", "search": "memory://", "invitations": "members"}
    async with Shoal.open(url, **settings) as shoal:
        ann = await shoal.register("ann", password=PASSWORD, email="ann@example.org")
        ben = await shoal.register("ben", password=PASSWORD)
        cyd = await shoal.register("cyd")
        await ann.update_profile(
            note="Hello", fields=[("Elsewhere", "@ann@mastodon.social")], avatar=a_photo(), findable_by_email=True
        )
        await ben.follow(ann)
        await ann.follow(ben)
        await ann.follow(cyd)
        await ann.follow_tag("tide")
        photo = await ann.upload(a_photo(), description="the sea")
        first = await ann.create("A photo #tide", media=[photo])
        await ann.albums.put_in(await ann.albums.create("The sea"), first)
        await ann.pin(first)
        await ann.create("@ben only you", visibility=Visibility.DIRECT)
        await ann.create("for friends", visibility=Visibility.FOLLOWERS)
        await ann.create("Which?", poll=PollDraft(options=("a", "b"), seconds=600))
        theirs = await ben.create("Ben's post #tide")
        voted = await ben.create("And here?", poll=PollDraft(options=("a", "b"), seconds=600, multiple=True))
        await ann.comment(theirs, "a comment")
        await ben.comment(first, "an answer")
        await ann.like(theirs)
        await ann.share(theirs)
        await ann.bookmark(theirs)
        await ann.react(theirs, "🌊")
        await ann.vote(voted.poll_id, 0, 1)
        await ben.like(first)
        await ben.share(first)
        await ben.bookmark(first)
        await ben.react(first, "🌊")
        await ann.lists.put_on(await ann.lists.create("Friends"), ben)
        await ben.lists.put_on(await ben.lists.create("Mine"), ann)
        await ann.feeds.create("Everything", {"sources": [{"from": "everybody"}]})
        shared = await ben.feeds.create("Shared", {"sources": [{"from": "everybody"}]}, shared=True)
        await ann.feeds.follow(shared)
        await ann.mute(cyd)
        await ann.note(ben, "nice")
        await ann.pick_interests("tide")
        await ann.mark_seen(theirs)
        await ann.upload(a_photo())
        await ann.invite(3, follow=True)
        await shoal.external_ids.link(ann, "https://shop.example", "42")
        await ann.home()
        await ben.home()
        await shoal.settle()
        yield shoal, ann, ben


@in_loop
async def test_account_deletion_removes_all_data_and_keeps_counts_exact() -> None:
    async with a_full_life() as (shoal, ann, ben):
        told = await ann.leave(PASSWORD)
        await worked_off(shoal)
        receipt = await shoal.receipt(told.receipt)
        assert receipt.done_at >= receipt.begun_at > 0
        assert {name: n for name, n in receipt.counts.items() if n} == {
            "posts": 5,
            "shares": 1,
            "followers": 1,
            "follows": 2,
            "likes": 1,
            "bookmarks": 1,
            "reactions": 1,
            "votes": 1,
            # The unattached upload was deleted after a day.
            "media": 1,
            "albums": 1,
            "lists": 1,
            "feeds": 1,
            "invitations": 1,
            "mutes": 1,
            "notes": 1,
            "tags": 1,
            "notifications": receipt.counts["notifications"],
            "conversations": 1,
            "bytes": receipt.counts["bytes"],
        }
        assert receipt.counts["bytes"] > 0
        await nothing_of(shoal, ann.id)
        await sound(shoal)
        # Ben keeps his data, and no data mentions Ann.
        entries = (await ben.home()).entries
        assert [entry.post.text for entry in entries] == ["an answer", "And here?", "Ben's post #tide"]
        about = {entry.post.text: entry for entry in entries}["Ben's post #tide"]
        assert (about.likes, about.shares, about.comments) == (0, 0, 0)
        profile = await ben.profile_of(ben.id)
        assert (profile.followers, profile.following) == (0, 0)
        told_of = (await ben.notifications.page()).items
        assert [one.notice.actor_id for one in told_of if one.notice.actor_id != ben.id] == []


async def sound(shoal: Shoal) -> None:
    """Assert that all invariants hold."""
    report = await check(shoal.network)
    assert {line.name: line.examples for line in report.invariants if line.found} == {}


async def nothing_of(shoal: Shoal, member: int) -> None:
    """Assert that the member has no object and no association at either end, and is not found."""
    graph: Graph = shoal.network.store
    assert member not in await graph.obj_get((member,))
    for atype in ASSOC_TYPES.values():
        assert await graph.assoc_range(member, atype, Cursor(limit=5)) == [], atype
    names = ("member_id", "author_id", "owner_id", "post_author_id")
    left = [
        node for node in await all_objects(shoal.network.store) if member in [getattr(node, name, 0) for name in names]
    ]
    assert [type(node) for node in left] == [AccountDeletion]
    assert await shoal.visitor.search_members("ann") == []
    with pytest.raises(NotFound):
        await shoal.visitor.profile_of(member)


@in_loop
async def test_account_deletion_hides_member_immediately_and_cancellation_restores_all_data() -> None:
    async with a_full_life() as (shoal, ann, ben):
        before = await seen_of(ann, ben)
        await ann.leave(PASSWORD)
        await shoal.settle()
        with pytest.raises(Gone):
            await ben.profile_of(ann.id)
        assert all(entry.author.member.id != ann.id for entry in (await ben.home()).entries)
        with pytest.raises(Leaving):
            await shoal.log_in("ann", PASSWORD)
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", "another password")
        with pytest.raises(Unauthenticated):
            await shoal.come_back("ann", "another password")
        await worked_off(shoal, days=29)
        back = await shoal.come_back("ann@example.org", PASSWORD)
        await shoal.settle()
        assert await seen_of(ann, ben) == before
        assert (await shoal.log_in("ann", PASSWORD)).id == back.id
        await worked_off(shoal, days=40)
        await sound(shoal)
        assert (await ben.profile_of(ann.id)).member.id == ann.id


async def seen_of(ann: Handle, ben: Handle) -> tuple[object, ...]:
    """Return Ben's view: the counts on Ann's profile, and his home timeline."""
    profile = await ben.profile_of(ann.id)
    home = [entry.id for entry in (await ben.home()).entries]
    return profile.followers, profile.following, profile.posts, profile.member.note, home


@in_loop
async def test_account_deletion_with_wrong_password_deletes_nothing() -> None:
    async with a_full_life() as (shoal, ann, _):
        with pytest.raises(InvalidInput, match="password"):
            await ann.leave("another password")
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.id
        with pytest.raises(NotAllowed, match="not scheduled for deletion"):
            await shoal.come_back("ann", PASSWORD)


@in_loop
async def test_account_deletion_in_progress_cannot_be_cancelled_and_reserves_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_full_life() as (shoal, ann, _):
        await ann.leave(PASSWORD)
        monkeypatch.setattr(account_deletions, "_PAGES_AT_ONCE", 1)
        await agenda(shoal, 31).once()
        assert ann.id in await shoal.network.store.obj_get((ann.id,))
        with pytest.raises(NotAllowed, match="is being deleted"):
            await shoal.come_back("ann", PASSWORD)
        with pytest.raises(NotAllowed, match="is being deleted"):
            await shoal.delete_member("ann")
        await worked_off(shoal)
        with pytest.raises(Unauthenticated):
            await shoal.come_back("ann", PASSWORD)
        with pytest.raises(Taken):
            await shoal.register("ann")
        # The email address is free again.
        assert (await shoal.register("anne", email="ann@example.org")).name == "anne"


@in_loop
async def test_account_deletion_receipt_is_readable_by_its_code_and_expires_after_a_year() -> None:
    async with a_full_life() as (shoal, ann, _):
        told = await ann.leave(PASSWORD)
        waiting = await shoal.receipt(told.receipt)
        assert (waiting.name, waiting.counts, waiting.done_at) == ("ann", {}, 0)
        assert waiting.at - waiting.asked_at == 30 * DAY
        with pytest.raises(NotFound):
            await shoal.receipt(told.receipt.swapcase())
        with pytest.raises(NotFound):
            await shoal.receipt("")
        await worked_off(shoal)
        assert (await shoal.receipt(told.receipt)).done_at
        await worked_off(shoal, days=RECEIPT_DAYS + 1)
        with pytest.raises(NotFound):
            await shoal.receipt(told.receipt)
        assert await shoal.network.store.assoc_range(AGENDA, DUE, Cursor(limit=9)) == []


@in_loop
async def test_account_deletion_of_suspended_member_cannot_be_cancelled_until_enabled() -> None:
    async with a_full_life() as (shoal, ann, _):
        await moderation.set_role(shoal.network.writes, ann.id, Role.MODERATOR)
        await ann.leave(PASSWORD)
        await moderation.suspend(shoal.network.writes, ann.id)
        with pytest.raises(NotAllowed, match="disabled"):
            await shoal.come_back("ann", PASSWORD)
        with pytest.raises(NotAllowed, match="only they"):
            await moderation.restore(shoal.network.writes, ann.id)
        await moderation.enable(shoal.network.writes, ann.id)
        back = await shoal.come_back("ann", PASSWORD)
        node = (await shoal.network.store.obj_get((back.id,)))[back.id]
        assert isinstance(node, Member)
        assert (node.role, node.suspended) == (Role.NONE, False)


@in_loop
async def test_account_deletion_by_operator_can_be_immediate_rescheduled_or_cancelled() -> None:
    async with a_full_life() as (shoal, ann, _):
        first = await ann.leave(PASSWORD)
        second = await shoal.delete_member(ann.id, days=3)
        assert second.deletion.asked_at == first.deletion.asked_at
        with pytest.raises(NotFound):
            await shoal.receipt(first.receipt)
        assert (await shoal.keep_member("ann")).id == ann.id
        await worked_off(shoal, days=60)
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.id
        await moderation.suspend(shoal.network.writes, ann.id)
        await shoal.delete_member("ann")
        with pytest.raises(NotAllowed):
            await shoal.come_back("ann", PASSWORD)
        await worked_off(shoal, days=0.01)
        assert ann.id not in await shoal.network.store.obj_get((ann.id,))


class _Dying:
    """A graph that is unavailable from its n-th commit on."""

    def __init__(self, graph: Graph, commits: int) -> None:
        self._graph = graph
        self._left = commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unavailable("the store is away")
        await self._graph.commit(batch)


@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5, 8, 12, 18, 24, 30, 36])
@in_loop
async def test_account_deletion_interrupted_is_resumed_by_concurrent_workers(commits: int) -> None:
    async with a_full_life() as (shoal, ann, _):
        told = await shoal.delete_member(ann)
        writes = replace(shoal.network.writes, graph=cast("Graph", _Dying(shoal.network.writes.graph, commits)))
        await Agenda(writes, clock=lambda: time.time_ns() // 1_000_000 + 1_000).once()
        await asyncio.gather(*[agenda(shoal, 0.01).once() for _ in range(3)])
        await worked_off(shoal, days=0.02)
        await nothing_of(shoal, ann.id)
        await sound(shoal)
        assert (await shoal.receipt(told.receipt)).counts["posts"] == 5


class _Owner:
    """The owner of the databases."""


@pytest.mark.parametrize("store", ["sqlite", "postgres", *deep("dynamodb")])
@in_loop
async def test_account_deletion_removes_all_data_on_every_store(store: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    if store == "postgres":
        url = await postgres.database(_Owner())
    elif store == "dynamodb":
        url = dynamodb.new_table()
    async with a_full_life(url) as (shoal, ann, _):
        album = await ann.albums.create("Many")
        for n in range(15):
            photos = [await ann.upload(a_photo()) for _ in range(4)]
            await ann.albums.put_in(album, await ann.create(f"photos {n}", media=photos))
        await shoal.delete_member(ann)
        await worked_off(shoal, days=1)
        await nothing_of(shoal, ann.id)
        await sound(shoal)


@in_loop
async def test_account_deletion_of_large_account_fits_dynamodb_transactions() -> None:
    where: dict[str, Any] = {"media": "memory://", "tags": "memory://", "search": "memory://"}
    async with Shoal.open(dynamodb.new_table(), event_log="on", **where) as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        for n in range(3):
            post = await ben.create(f"post {n}")
            for emoji in EMOJI:
                await ann.react(post, emoji)
        for n in range(20):
            other = await shoal.register(f"other_{n}")
            await other.block(ann)
            await ann.note(other, "hm")
        album = await ann.albums.create("Many")
        for n in range(5):
            photos = [await ann.upload(a_photo()) for _ in range(4)]
            await ann.albums.put_in(album, await ann.create(f"photos {n}", media=photos))
        await ann.albums.delete(album)
        await shoal.settle()
        assert (await shoal.network.store.assoc_range(album.id, COLLECTS, Cursor(limit=9))) == []
        node = (await shoal.network.store.obj_get((ann.id,)))[ann.id]
        assert isinstance(node, Member)
        for _ in range(20):
            await sessions.begin(shoal.network.writes, node)
        await shoal.delete_member(ann)
        await worked_off(shoal, days=1)
        await nothing_of(shoal, ann.id)
        await sound(shoal)
