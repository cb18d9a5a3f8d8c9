"""Media attachments of posts."""

from __future__ import annotations

import asyncio
import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import media, members, posts, scheduled_posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.commands.scheduled_posts import discard_media
from shoal.core.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    ShoalError,
    Unfit,
)
from shoal.core.ids import shard_of
from shoal.core.model import Media, ScheduledPost
from shoal.core.placement import media_path
from shoal.graph.access import own_object
from shoal.graph.contract import AssocOp, Batch, Cursor, Graph
from shoal.graph.schema import ATTACHED
from shoal.queries import posts as post_queries
from shoal.queries.posts import MemberFeedQuery
from shoal.scheduler import Agenda
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts


def picture(size: tuple[int, int] = (64, 48)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(file, "PNG")
    return file.getvalue()


@in_loop
async def test_media_attachment_is_uploaded_posted_shown_to_followers_and_deleted(tmp_path: Path) -> None:
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        stored = [await ann.upload(picture(), description=f"picture {n}") for n in range(2)]
        post = await ann.create("look", media=[*stored, stored[0]])
        bare = await ann.create(media=[stored[1].id])
        plain = await ann.create("only words")
        await shoal.settle()
        entries = (await ben.home()).entries
        assert [entry.post.id for entry in entries] == [plain.id, bare.id, post.id]
        assert [shown.id for shown in entries[2].media] == [made.id for made in stored]
        assert [shown.description for shown in entries[2].media] == ["picture 0", "picture 1"]
        assert stored[0].key.startswith(f"{media_path('ann')}/")
        assert (stored[0].width, stored[0].height) == (64, 48)
        found = await shoal.network.media.read(stored[0].key)
        assert Image.open(io.BytesIO(found[0])).size == (64, 48)
        assert (await ann.profile()).posts == 3
        page = await post_queries.authored_page(
            shoal.network.reads, ben.id, ann.id, Cursor(), MemberFeedQuery(only_media=True)
        )
        assert [entry.post.id for entry in page.entries] == [bare.id, post.id]

        with pytest.raises(NotAllowed):
            await ben.create("not mine", media=[stored[0]])
        with pytest.raises(InvalidInput, match=r"up to 10 photos \(got 11\)") as refusal:
            await ann.create("x", media=[stored[0]] * 11)
        assert refusal.value.field == "media_ids"

        await ann.delete(post)
        await discard_media(shoal.network.writes, ann.id, stored[0].id)
        await shoal.settle()
        with pytest.raises(NotFound):
            await shoal.network.media.read(stored[0].key)
        with pytest.raises(NotFound):
            await discard_media(shoal.network.writes, ben.id, stored[1].id)


@in_loop
async def test_media_deletion_is_refused_while_attached_to_post_or_revision() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        before, after, both = [await ann.upload(picture()) for _ in range(3)]
        writes = shoal.network.writes
        post = await ann.create("look", media=[before, both])
        await posts.update(writes, ann.id, post.id, Draft(text="look", media=[after.id, both.id]))
        assert await attached_to(shoal, before, after, both) == [[post.id]] * 3
        for made in (before, after, both):
            with pytest.raises(Unfit):
                await discard_media(writes, ann.id, made.id)
        assert (await check(shoal.network)).clean
        await ann.delete(post)
        await discard_media(writes, ann.id, after.id)
        await shoal.settle()
        assert await attached_to(shoal, before, after, both) == [[], [], []]
        assert (await check(shoal.network)).clean
        with pytest.raises(NotFound):
            await ann.create("gone", media=[after])
        again = await ann.create("again", media=[before])
        assert [made.id for made in (await ann.read(again)).media] == [before.id]


@in_loop
async def test_media_deletion_is_refused_while_attached_to_scheduled_post() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await ann.upload(picture())
        writes, in_a_day = shoal.network.writes, int(time.time() * 1000) + 86_400_000
        plan = await scheduled_posts.schedule(writes, ann.id, Draft(text="soon", media=[made.id]), in_a_day)
        with pytest.raises(Unfit, match="scheduled status"):
            await discard_media(writes, ann.id, made.id)
        await scheduled_posts.cancel(writes, ann.id, plan.id)
        await discard_media(writes, ann.id, made.id)
        assert (await check(shoal.network)).clean


@in_loop
async def test_media_scheduled_and_deleted_concurrently_is_either_scheduled_or_deleted() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        writes, in_a_day = shoal.network.writes, int(time.time() * 1000) + 86_400_000
        for _ in range(20):
            made = await ann.upload(picture())
            draft = Draft(text="soon", media=[made.id])
            planned, deleted = await asyncio.gather(
                scheduled_posts.schedule(writes, ann.id, draft, in_a_day),
                discard_media(writes, ann.id, made.id),
                return_exceptions=True,
            )
            assert isinstance(planned, NotFound if deleted is None else ScheduledPost), planned
            assert deleted is None or isinstance(deleted, Unfit), deleted


@in_loop
async def test_shoal_check_repairs_missing_and_stale_media_attachments() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        before, after = await ann.upload(picture()), await ann.upload(picture())
        post = await ann.create("look", media=[before])
        await posts.update(shoal.network.writes, ann.id, post.id, Draft(text="look", media=[after.id]))
        gone = await ann.create("gone")
        await ann.delete(gone)
        await shoal.settle()
        assert (await check(shoal.network)).clean
        batch = Batch(shard_of(ann.id))
        for made in (before, after):
            batch.put(AssocOp(made.id, ATTACHED.number, post.id, 2**62, alive=False, plain=True))
        batch.put(AssocOp(before.id, ATTACHED.number, gone.id, gone.id, alive=True, plain=True))
        await shoal.network.store.commit(batch)
        assert sum(one.found for one in (await check(shoal.network)).invariants) == 3
        await check(shoal.network, repair=True)
        assert (await check(shoal.network)).clean
        assert await attached_to(shoal, before, after) == [[post.id]] * 2


async def attached_to(shoal: Shoal, *media: Media) -> list[list[int]]:
    """Return the posts that each of the media is attached to."""
    found = [await shoal.network.store.assoc_range(made.id, ATTACHED, Cursor(limit=10)) for made in media]
    return [[assoc.id2 for assoc in put] for put in found]


@in_loop
async def test_media_upload_of_non_image_is_refused_and_stores_nothing() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for nonsense in (b"", b"hello", b"\x89PNG\r\n\x1a\n" + b"\x00" * 40):
            with pytest.raises(ShoalError):
                await ann.upload(nonsense)
        assert len(await shoal.network.store.obj_scan(-(2**63), 100)) == 2
        assert texts(await ann.posts()) == await home_texts(ann) == []


@in_loop
async def test_media_description_length_and_focus_range_are_validated() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        stored = await ann.upload(picture(), description="d" * 1_500)
        writes = shoal.network.writes
        with pytest.raises(InvalidInput) as refusal:
            await ann.upload(picture(), description="d" * 1_501)
        assert refusal.value.field == "description"
        described = await media.describe(writes, ann.id, stored.id, description="a boat", focus=(0.5, -1))
        assert (described.description, described.focus, described.version) == ("a boat", (0.5, -1.0), 2)
        for focus in ((1.1, 0.0), (0.0, float("nan"))):
            with pytest.raises(InvalidInput, match="from -1 to 1"):
                await media.describe(writes, ann.id, stored.id, focus=focus)
        with pytest.raises(NotFound):
            await media.describe(writes, ben.id, stored.id, description="mine")
        post = await ann.create("look", media=[stored])
        (shown,) = (await ben.read(post)).media
        assert (shown.id, shown.description, shown.focus) == (described.id, "a boat", (0.5, -1.0))


@in_loop
async def test_media_description_and_focus_updated_concurrently_are_both_kept(tmp_path: Path) -> None:
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as shoal:
        (ann,) = await register(shoal, "ann")
        stored = await ann.upload(picture())
        writes = shoal.network.writes
        await asyncio.gather(
            media.describe(writes, ann.id, stored.id, description="a boat"),
            media.describe(writes, ann.id, stored.id, focus=(0.5, -1)),
        )
        held = await own_object(writes.graph, Media, ann.id, stored.id)
        assert (held.description, held.focus, held.version) == ("a boat", (0.5, -1.0), 3)


@in_loop
async def test_avatar_replaced_is_deleted_from_storage() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        first = (await ann.update_profile(avatar=picture())).avatar
        assert first.startswith(f"{media_path('ann')}/avatar-")
        second = (await ann.update_profile(avatar=picture((90, 90)), note="new face")).avatar
        assert second != first
        await shoal.settle()
        await shoal.network.media.read(second)
        with pytest.raises(NotFound):
            await shoal.network.media.read(first)


async def files_of(shoal: Shoal) -> set[str]:
    """Return the keys of all stored files."""
    lists = [shoal.network.media._store.files(media_path(name)) for name in ("ann", "ben")]
    return {file.key for pages in lists async for page in pages for file in page}


async def sweep(shoal: Shoal, hours: float) -> int:
    """Run the agenda `hours` later, with all consequences, and return the number of completed items."""
    later = time.time_ns() // 1_000_000 + int(hours * 3_600_000)
    done = await Agenda(shoal.network.writes, clock=lambda: later).once()
    await shoal.settle()
    return done


async def there(shoal: Shoal, *media: Media) -> list[bool]:
    """Return which of the media are stored, with all their files."""
    found, files = await shoal.network.store.obj_get([made.id for made in media]), await files_of(shoal)
    held = [made.id in found for made in media]
    assert [{made.key, made.preview_key} <= files for made in media] == held
    return held


@in_loop
async def test_media_never_posted_is_deleted_after_a_day_and_media_removed_by_edit_with_the_post() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        never, before, after, planned = [await ann.upload(picture((20 + n, 20))) for n in range(4)]
        post = await ann.create("look", media=[before])
        await posts.update(shoal.network.writes, ann.id, post.id, Draft(text="look", media=[after.id]))
        in_a_week = time.time_ns() // 1_000_000 + 7 * 86_400_000
        await scheduled_posts.schedule(shoal.network.writes, ann.id, Draft(text="soon", media=[planned.id]), in_a_week)
        assert await sweep(shoal, 23) == 0
        assert await sweep(shoal, 24.5) == 4
        assert await there(shoal, never, before, after, planned) == [False, True, True, True]
        await ann.delete(post)
        await shoal.settle()
        assert await sweep(shoal, 25) == 2
        assert await there(shoal, before, after, planned) == [False, False, True]
        assert await sweep(shoal, 7 * 24 + 1) == 2
        assert [len(entry.media) for entry in (await ann.posts()).entries] == [1]
        assert (await check(shoal.network)).clean


@in_loop
async def test_media_of_deleted_post_can_be_reposted_within_a_day() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made, other = await ann.upload(picture()), await ann.upload(picture((20, 20)))
        first = await ann.create("a tpyo", media=[made, other])
        await sweep(shoal, 25)
        await ann.delete(first)
        await shoal.settle()
        again = await ann.create("a typo", media=[made])
        assert await sweep(shoal, 23) == 0
        assert await sweep(shoal, 25) == 2
        assert await there(shoal, made, other) == [True, False]
        assert [shown.id for shown in (await ann.read(again)).media] == [made.id]


@in_loop
async def test_avatar_uploads_concurrent_leave_one_file() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        writes = shoal.network.writes
        for _ in range(3):
            both = [
                members.update_profile(writes, ann.id, ProfileChange(avatar=picture(), header=picture()))
                for _ in range(2)
            ]
            await asyncio.gather(*both)
        await members.remove_picture(writes, ann.id, "header")
        await shoal.settle()
        assert await files_of(shoal) == {(await ann.profile()).member.avatar}


class _Refusing:
    """A graph with slow commits that counts the commits refused with a conflict."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.overtaken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        await asyncio.sleep(0.002)
        try:
            await self._graph.commit(batch)
        except Conflict:
            self.overtaken += 1
            raise


@in_loop
async def test_media_uploads_concurrent_for_one_member_are_serialized_without_conflicts() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        graph = _Refusing(shoal.network.writes.graph)
        writes = replace(shoal.network.writes, graph=cast("Graph", graph))
        made = await asyncio.gather(*[media.upload(writes, ann.id, picture()) for _ in range(24)])
        assert (await ann.profile()).member.media_bytes == sum(each.stored for each in made) > 0
        assert graph.overtaken == 0


@in_loop
async def test_upload_quota_holds_for_concurrent_uploads() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        size = (await ann.upload(picture())).stored
        assert size == (await ann.profile()).member.media_bytes > 0
    async with Shoal.open("memory://", max_member_bytes=3 * size) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        made = await asyncio.gather(*[ann.upload(picture()) for _ in range(6)], return_exceptions=True)
        kept = [media for media in made if isinstance(media, Media)]
        refused = [str(error) for error in made if isinstance(error, Unfit)]
        assert (len(kept), len(refused)) == (3, 3)
        assert refused[0].startswith(f"Your media use {3 * size} bytes of your {3 * size} bytes of storage")
        assert len(await files_of(shoal)) == 6
        await ben.upload(picture())
        await discard_media(shoal.network.writes, ann.id, kept[0].id)
        await ann.upload(picture())
        with pytest.raises(Unfit):
            await ann.upload(picture())
        assert (await ann.profile()).member.media_bytes == 3 * size
