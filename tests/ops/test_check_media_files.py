"""`shoal check` compares media objects with their files in both directions, and a repair makes them consistent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.core.ids import shard_of
from shoal.core.media_files import files_of, sizes_of, with_copies
from shoal.core.model import Media, MediaState, Member, Node
from shoal.core.placement import media_path
from shoal.graph.changes import take_off
from shoal.graph.contract import Batch
from shoal.library import Handle
from tests.async_runner import in_loop
from tests.flows.media.test_media_posts import files_of as stored_files
from tests.flows.media.test_media_posts import picture, sweep
from tests.flows.members import register


class MediaNetwork(NamedTuple):
    """Ann has a post with a picture, an unused upload, and an avatar."""

    shoal: Shoal
    ann: Handle
    shown: int
    waiting: int

    async def media(self, id_: int) -> Media:
        node = (await self.shoal.network.store.obj_get([id_]))[id_]
        assert isinstance(node, Media)
        return node

    async def member(self) -> Member:
        return (await self.ann.profile()).member

    async def put(self, node: Node) -> None:
        """Store another version directly, without the service layer."""
        batch = Batch(shard_of(node.id))
        batch.obj_set(replace(node, version=node.version + 1))
        await self.shoal.network.store.commit(batch)

    async def remove(self, key: str) -> None:
        await self.shoal.network.media._store.delete([key])

    async def checked(self, *, repair: bool = False) -> list[str]:
        report = await check(self.shoal.network, repair=repair, young=-1.0)
        assert not any(line.found for line in report.invariants if line.name != "files")
        return report["files"].examples


@asynccontextmanager
async def media_network(url: str = "memory://") -> AsyncIterator[MediaNetwork]:
    async with Shoal.open(url) as shoal:
        (ann,) = await register(shoal, "ann")
        shown, waiting = await ann.upload(picture((500, 400))), await ann.upload(picture((9, 9)))
        await ann.create("look", media=[shown])
        await ann.update_profile(avatar=picture(), header=picture())
        await shoal.settle()
        yield MediaNetwork(shoal, ann, shown.id, waiting.id)


async def an_orphan(media_network: MediaNetwork) -> str:
    key = f"{media_path('ann')}/avatar-0a1b2c3d.jpg"
    await media_network.shoal.network.media._store.put(key, b"face", "image/jpeg")
    return f"the file {key} belongs to no media object"


async def a_lost_picture(media_network: MediaNetwork) -> str:
    await media_network.remove((await media_network.media(media_network.shown)).key)
    return f"a file of media {media_network.shown} is missing"


async def a_lost_preview(media_network: MediaNetwork) -> str:
    await media_network.remove((await media_network.media(media_network.waiting)).preview_key)
    return f"a file of media {media_network.waiting} is missing"


async def a_lost_size(media_network: MediaNetwork) -> str:
    await media_network.remove(sizes_of((await media_network.media(media_network.shown)).preview_key)[320])
    return f"media {media_network.shown} has files of other sizes than it says"


async def a_lost_face(media_network: MediaNetwork) -> str:
    await media_network.remove((await media_network.member()).avatar)
    return "a file of @ann is missing"


async def media_that_forgot_to_wait(media_network: MediaNetwork) -> str:
    media = await media_network.media(media_network.waiting)
    await media_network.put(replace(media, unused_since=0))
    return f"media {media_network.waiting} is in no post, and does not know it"


async def media_that_wait_in_a_post(media_network: MediaNetwork) -> str:
    await media_network.put(replace(await media_network.media(media_network.shown), unused_since=5, let_go=True))
    return f"media {media_network.shown} is in a post, and does not know it"


async def a_look_that_is_not_planned(media_network: MediaNetwork) -> str:
    media = await media_network.media(media_network.waiting)
    batch = Batch(shard_of(media.id))
    take_off(batch, media.ticket_id, media_network.shoal.network.writes.new_id(batch.shard))
    await media_network.shoal.network.store.commit(batch)
    return f"media {media_network.waiting} is in no post and has no ticket for its deletion"


async def a_wrong_sum(media_network: MediaNetwork) -> str:
    member = await media_network.member()
    await media_network.put(replace(member, media_bytes=member.media_bytes + 7))
    return f"the media of @ann have {member.media_bytes} bytes, but the count says {member.media_bytes + 7}"


DAMAGES = [
    an_orphan,
    a_lost_picture,
    a_lost_preview,
    a_lost_size,
    a_lost_face,
    media_that_forgot_to_wait,
    media_that_wait_in_a_post,
    a_look_that_is_not_planned,
    a_wrong_sum,
]


@pytest.mark.parametrize("damage", DAMAGES)
@in_loop
async def test_shoal_check_media_file_damage_is_reported_and_repaired(
    damage: Callable[[MediaNetwork], Awaitable[str]],
) -> None:
    async with media_network() as small:
        assert await small.checked() == []
        said = await damage(small)
        assert said in await small.checked()
        await small.checked(repair=True)
        assert await small.checked() == []
        shown = await small.media(small.shown)
        assert (shown.unused_since, shown.let_go) == (0, False)
        assert shown.state is (MediaState.FAILED if damage is a_lost_picture else MediaState.READY)
        # The unused upload expires and is deleted.
        await sweep(small.shoal, 25)
        assert await small.checked() == []
        member = await small.member()
        lost = {"a_lost_picture": shown.key, "a_lost_size": sizes_of(shown.preview_key)[320]}
        kept = {*with_copies(member.avatar, member.header), *files_of(shown)} - {lost.get(damage.__name__, "")}
        assert await stored_files(small.shoal) == kept


@in_loop
async def test_shoal_check_media_without_stored_sizes_is_reported_and_repaired(tmp_path: Path) -> None:
    async with media_network(f"sqlite:///{tmp_path}/shoal.db") as small:
        media = await small.media(small.shown)
        await small.put(replace(media, file_bytes=0, preview_bytes=0))
        assert len(await small.checked()) == 2
        await small.checked(repair=True)
        assert await small.checked() == []
        mended = await small.media(small.shown)
        assert (mended.file_bytes, mended.preview_bytes) == (media.file_bytes, media.preview_bytes)


@in_loop
async def test_shoal_check_repair_keeps_recent_media_files_and_files_of_other_programs() -> None:
    async with media_network() as small:
        key = f"{media_path('ann')}/7-0a1b2c3d.jpg"
        for name in (key, "backup/of/something.tar"):
            await small.shoal.network.media._store.put(name, b"x", "image/jpeg")
        assert (await check(small.shoal.network, repair=True)).clean
        assert key in await stored_files(small.shoal)
        assert await small.checked() == [f"the file {key} belongs to no media object"]
        assert {*files_of(await small.media(small.shown))} <= await stored_files(small.shoal)
