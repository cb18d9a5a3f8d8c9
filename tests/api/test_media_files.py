"""A media file is served while a visible post or profile uses it and its owner is not suspended."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import httpx
import pytest

from shoal import Shoal
from shoal.commands import members, moderation, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Media
from shoal.graph.contract import Batch, Reader
from shoal.graph.schema import file_key
from shoal.mastodon_api.media_files import ShownFiles
from tests.api.in_memory_network import Counting, NetworkFixture, picture
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.stores import Clock


async def shown(check: Awaitable[None]) -> bool:
    try:
        await check
    except NotFound:
        return False
    return True


@in_loop
async def test_media_file_is_served_until_its_post_is_deleted_and_again_when_reposted() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        clock = Clock()
        files = ShownFiles(shoal.network.store, clock=clock)
        made, other = await ann.upload(picture()), await ann.upload(picture())
        keys = (made.key, made.preview_key, other.key)
        # Unattached uploads are served so that the author can preview them.
        assert [await shown(files.check(key)) for key in keys] == [True, True, True]
        post = await ann.create("look", media=[made, other])
        await posts.update(shoal.network.writes, ann.id, post.id, Draft(text="look", media=[made.id]))
        await shoal.settle()
        clock.now += 31
        # The edit history still shows media that an edit removed.
        assert (await ann.history(post))[0].media == (made.id, other.id)
        assert [await shown(files.check(key)) for key in keys] == [True, True, True]
        await ann.delete(post)
        await shoal.settle()
        assert await shown(files.check(made.key))
        clock.now += 31
        assert [await shown(files.check(key)) for key in keys] == [False, False, False]
        await ann.create("again", media=[made])
        assert [await shown(files.check(key)) for key in keys] == [True, True, False]


@in_loop
async def test_media_files_of_suspended_account_are_hidden_until_restored() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        clock = Clock()
        files = ShownFiles(shoal.network.store, clock=clock)
        made = await ann.upload(picture())
        await ann.create("look", media=[made])
        first = await ann.update_profile(avatar=picture(), header=picture())
        member = await ann.update_profile(avatar=picture())
        keys = (made.key, member.avatar, member.header)
        assert [await shown(files.check(key)) for key in keys] == [True, True, True]
        assert not await shown(files.check(first.avatar))
        await shoal.suspend(ann.id)
        clock.now += 31
        assert [await shown(files.check(key)) for key in keys] == [False, False, False]
        await shoal.restore(ann.id)
        assert [await shown(files.check(key)) for key in keys] == [True, True, True]


@in_loop
async def test_media_file_of_hidden_posts_is_served_after_reveal() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        clock = Clock()
        files = ShownFiles(shoal.network.store, clock=clock)
        made = await ann.upload(picture())
        posted = [await ann.create(text, media=[made]) for text in ("look", "again")]
        for post, still in zip(posted, (True, False), strict=True):
            await shoal.hide(post)
            clock.now += 31
            assert await shown(files.check(made.key)) is still
        await shoal.reveal(posted[0])
        assert await shown(files.check(made.key))


@in_loop
async def test_media_file_visibility_check_takes_at_most_four_reads_and_is_cached() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await ann.upload(picture())
        await ann.create("look", media=[made])
        member = await ann.update_profile(avatar=picture())
        for key, reads in ((made.key, 4), (member.avatar, 2)):
            graph = Counting(shoal.network.store)
            files = ShownFiles(cast("Reader", graph))
            for _ in range(2):
                await files.check(key)
                assert len(graph.reads) == reads


@in_loop
async def test_media_file_visibility_check_finds_media_object_by_file_key() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await ann.upload(picture())
        writes = shoal.network.writes
        batch = Batch(shard_of(ann.id))
        older = Media(id=writes.new_id(batch.shard), owner_id=ann.id, key=made.key, let_go=True, unused_since=1)
        batch.obj_add(older)
        batch.key_add(file_key(shard_of(made.id), made.id), older.id)
        await writes.graph.commit(batch)
        assert not await shown(ShownFiles(shoal.network.store).check(made.key))


@in_loop
async def test_media_file_of_unknown_member_is_not_served() -> None:
    async with Shoal.open("memory://") as shoal:
        files = ShownFiles(shoal.network.store)
        for key in ("1/2/3/ann/7-0a1b2c3d.jpg", "ann/avatar-1.jpg", "7-1.jpg"):
            assert not await shown(files.check(key))


def test_media_endpoint_returns_404_for_files_of_deleted_post_or_suspended_account(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    made = shoal.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture(), "image/png")})
    kept = shoal.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture(), "image/png")})
    posted = shoal.json("POST", "/api/v1/statuses", ann, json={"media_ids": [made["id"]]})
    shoal.json("POST", "/api/v1/statuses", ann, json={"media_ids": [kept["id"]]})
    shoal.json("DELETE", f"/api/v1/statuses/{posted['id']}", ann)
    shoal.settle()
    answers = [shoal.ask(method, httpx.URL(it["url"]).path) for method in ("GET", "HEAD") for it in (made, kept)]
    assert [answer.status_code for answer in answers] == [404, 200, 404, 200]
    shoal.run(members.update_profile(shoal.writes, ann.member.id, ProfileChange(avatar=picture())))
    avatar = shoal.json("GET", f"/api/v1/accounts/{ann.member.id}")["avatar"]
    shoal.run(moderation.suspend(shoal.writes, ann.member.id))
    assert shoal.ask("GET", httpx.URL(avatar).path).status_code == 404


@pytest.mark.parametrize("key", ["7-1.jpg", "a/../b/7-1.jpg", "99999999999999999999-1.jpg", "-1-1.jpg"])
def test_media_endpoint_with_malformed_key_returns_404(shoal: NetworkFixture, key: str) -> None:
    assert shoal.ask("GET", f"/media/{key}").status_code == 404
