"""Albums: ordered photos from a member's own posts, visible to viewers of the posts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.core.errors import Gone, InvalidInput, NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Album, Media, Post
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import COLLECTED_IN, COLLECTS, OWNS
from tests.async_runner import in_loop
from tests.example_counts import examples
from tests.flows.members import register


async def posted(who: Handle, photos: int = 1, **more: str) -> Post:
    """Return a new post with `photos` photos."""
    return await who.create("low tide", media=[await photo(who) for _ in range(photos)], **more)  # type: ignore[arg-type]


async def photo(who: Handle) -> int:
    """Store a photo of a member as an upload does, and return the id of the photo."""
    writes = who._writes
    id_ = writes.new_id(shard_of(who.id))
    batch = Batch(shard_of(who.id))
    batch.obj_add(Media(id=id_, owner_id=who.id, key=f"{id_}.jpg", preview_key=f"{id_}-s.jpg", width=4, height=3))
    batch.assoc_add(who.id, OWNS, id_, id_)
    await writes.graph.commit(batch)
    return id_


async def order(viewer: Handle, album: Album) -> list[int]:
    return [one.media.id for one in (await viewer.album(album)).photos]


@in_loop
async def test_album_photos_keep_the_order_set_by_owner() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        album = await ann.albums.create("Tides", "A year of low water")
        first, second = await posted(ann, 2), await posted(ann, 2)
        await ann.albums.put_in(album, first)
        await ann.albums.put_in(album, second, [second.media[1]])
        await ann.albums.put_in(album, first)
        assert await order(ben, album) == [*first.media, second.media[1]]
        await ann.albums.arrange(album, second.media[1], first.media[1])
        assert await order(ben, album) == [second.media[1], first.media[1], first.media[0]]
        await ann.albums.put_in(album, second)
        assert await order(ben, album) == [second.media[1], first.media[1], first.media[0], second.media[0]]
        await ann.albums.take_out(album, first.media[1], 5)
        assert await order(ben, album) == [second.media[1], first.media[0], second.media[0]]
        part = await ben.album(album, offset=1, limit=1)
        assert ([one.entry.post.id for one in part.photos], part.total, part.next) == ([first.id], 3, 2)
        assert (part.owner.member.id, part.album.title) == (ann.id, "Tides")


@in_loop
async def test_album_is_visible_only_with_a_visible_photo() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cat = await register(shoal, "ann", "ben", "cat")
        await ben.follow(ann)
        both, quiet, empty = [await ann.albums.create(title) for title in ("both", "quiet", "empty")]
        for_all, for_followers = await posted(ann), await posted(ann, visibility="followers")
        await ann.albums.put_in(both, for_followers)
        await ann.albums.put_in(both, for_all)
        await ann.albums.put_in(quiet, for_followers)

        async def seen(viewer: Handle) -> dict[str, int]:
            return {one.album.title: one.photos for one in (await viewer.albums_of(ann)).covers}

        assert await seen(ann) == {"empty": 0, "quiet": 1, "both": 2}
        assert await seen(ben) == {"quiet": 1, "both": 2}
        assert await seen(cat) == {"both": 1}
        assert await order(cat, both) == list(for_all.media)
        assert (await ann.album(empty)).photos == []
        for album in (quiet, empty):
            with pytest.raises(NotFound):
                await cat.album(album)
            with pytest.raises(NotFound):
                await shoal.visitor.album(album)
        await ann.block(cat)
        assert await seen(cat) == {}
        with pytest.raises(NotFound):
            await cat.album(both)
        await shoal.moderation.suspend(ann)
        with pytest.raises(Gone):
            await ben.album(both)


@in_loop
async def test_album_list_is_paginated_with_preview_photos() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        plain, covered = await posted(ann, 3), await posted(ann, spoiler="spiders")
        made = [await ann.albums.create(f"{n}") for n in range(5)]
        for album in made:
            await ann.albums.put_in(album, covered)
            await ann.albums.put_in(album, plain)
        page = await ann.albums_of(ann, limit=3)
        assert [one.album.title for one in page.covers] == ["4", "3", "2"]
        assert [media.id for media in page.covers[0].first] == list(plain.media)
        rest = await ann.albums_of(ann, page.next, limit=3)
        assert ([one.album.title for one in rest.covers], rest.next) == (["1", "0"], None)
        alone = await ann.albums.create("alone")
        await ann.albums.put_in(alone, covered)
        assert (await ann.albums_of(ann, limit=1)).covers[0].covered


@in_loop
async def test_album_changes_with_invalid_input_or_by_other_members_are_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        album = await ann.albums.create("Tides")
        post, theirs, other = await posted(ann), await posted(ben), await posted(ann)
        for title in ("", "   ", "x" * 101):
            with pytest.raises(InvalidInput):
                await ann.albums.create(title)
        with pytest.raises(InvalidInput):
            await ann.albums.update(album, description="x" * 1_001)
        for refused in (await ann.create("words"), await posted(ann, visibility="direct")):
            with pytest.raises(InvalidInput):
                await ann.albums.put_in(album, refused)
        with pytest.raises(NotFound):
            await ann.albums.put_in(album, theirs)
        with pytest.raises(NotFound):
            await ann.albums.put_in(album, post, [other.media[0]])
        for verb in (ben.albums.put_in(album, theirs), ben.albums.take_out(album, 1), ben.albums.delete(album)):
            with pytest.raises(NotFound):
                await verb
        with pytest.raises(NotFound):
            await ben.albums.update(album, title="Mine")
        with pytest.raises(NotFound):
            await ben.albums.arrange(album, 1)
        changed = await ann.albums.update(album, title="Low tides", description="")
        assert (changed.title, await ann.albums.all()) == ("Low tides", [changed])


@in_loop
async def test_album_photos_are_removed_with_their_post_and_with_the_album() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        kept, gone = await ann.albums.create("kept"), await ann.albums.create("gone")
        post, doomed = await posted(ann, 2), await posted(ann, 2)
        for album in (kept, gone):
            await ann.albums.put_in(album, post)
            await ann.albums.put_in(album, doomed)
        await ann.delete(doomed)
        await ann.albums.delete(gone)
        await shoal.settle()
        assert await order(ann, kept) == list(post.media)
        graph = shoal.network.store
        assert not await graph.assoc_range(gone.id, COLLECTS, Cursor())
        assert not any([await graph.assoc_range(id_, COLLECTED_IN, Cursor()) for id_ in doomed.media])
        report = await check(shoal.network)
        assert not [one for one in report.invariants if one.found and one.name != "files"]
        # A photo that an edit removes is hidden, and is shown again when an edit restores it.
        await ann.update(post, "low tide", media=[post.media[0]])
        assert await order(ann, kept) == [post.media[0]]
        await ann.update(post, "low tide", media=list(post.media))
        assert await order(ann, kept) == list(post.media)


@in_loop
async def test_album_and_photo_limits_are_enforced() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        limits = shoal.network.writes.limits
        assert (limits.albums, limits.album_photos) == (100, 200)
        album = await ann.albums.create("first")
        for n in range(1, limits.albums):
            await ann.albums.create(f"{n}")
        with pytest.raises(InvalidInput, match="at most 100 albums"):
            await ann.albums.create("one more")
        post = await posted(ann, 4)
        for _ in range(49):
            await ann.albums.put_in(album, await posted(ann, 4))
        await ann.albums.put_in(album, post)
        with pytest.raises(InvalidInput, match="at most 200 photos"):
            await ann.albums.put_in(album, await posted(ann))
        assert (await ann.album(album)).total == 200


@settings(max_examples=examples(20))
@given(moves=st.lists(st.lists(st.integers(0, 5), max_size=7), max_size=6))
@in_loop
async def test_album_arrangement_puts_named_photos_first_and_keeps_order_of_the_rest(moves: list[list[int]]) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        album = await ann.albums.create("Tides")
        posts = [await posted(ann, 3), await posted(ann, 3)]
        for post in posts:
            await ann.albums.put_in(album, post)
        expected = [id_ for post in posts for id_ in post.media]
        named = list(expected)
        for move in moves:
            first = list(dict.fromkeys(named[at] for at in move))
            await ann.albums.arrange(album, *first)
            expected = [*first, *(id_ for id_ in expected if id_ not in first)]
            assert await order(ann, album) == expected
