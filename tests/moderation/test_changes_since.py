"""Content is published as it was checked: a change during a check or before an approval is checked too, or refused."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from shoal import Shoal
from shoal.commands import media, members, posts, scheduled_posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.errors import Held, NotFound, Rejected, Unfit
from shoal.core.ids import shard_of
from shoal.core.model import Media, MediaKind
from shoal.core.photo_details import PhotoDetails
from shoal.graph.access import get_object
from shoal.graph.contract import Batch, Graph
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop
from tests.media.clips import tone
from tests.moderation.test_held_content import hold, is_clean, scene, texts


class InterruptedGraph:
    """A graph that runs `before` ahead of the next commit."""

    def __init__(self, graph: Graph, before: Callable[[], Awaitable[object]]) -> None:
        self._graph = graph
        self._before: Callable[[], Awaitable[object]] | None = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        before, self._before = self._before, None
        if before is not None:
            await before()
        await self._graph.commit(batch)


async def file_of(shoal: Shoal, id_: int) -> Media:
    return await get_object(shoal.network.store, Media, id_)


async def as_sound(shoal: Shoal, id_: int) -> None:
    """Turn a picture into a sound, whose thumbnail can be replaced."""
    stored = await file_of(shoal, id_)
    batch = Batch(shard_of(id_))
    batch.obj_set(msgspec.structs.replace(stored, kind=MediaKind.AUDIO, version=stored.version + 1))
    await shoal.network.writes.graph.commit(batch)


@pytest.mark.parametrize("kind", ["post", "edit"])
@in_loop
async def test_approval_after_a_file_was_described_again_is_refused(kind: str, tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        file = await ann.upload(picture(), description="a boat")
        if kind == "post":
            held = await hold(ann, "hold this", media=[file])
        else:
            post = await ann.create("old")
            with pytest.raises(Held) as raised:
                await ann.update(post, "hold this", media=[file])
            held = raised.value.held_id
        await ann.describe(file, description="anything")
        with pytest.raises(Unfit, match="The files have been changed since"):
            await shoal.moderation.approve_held(held)
        assert "hold this" not in await texts(shoal, ann)
        await ann.describe(file, description="a boat")
        await shoal.moderation.approve_held(held)
        assert await texts(shoal, ann) == ["hold this"]
        assert await is_clean(shoal)


@in_loop
async def test_approval_after_a_thumbnail_was_replaced_is_refused(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        file = await ann.upload(picture())
        await as_sound(shoal, file.id)
        held = await hold(ann, "hold this", media=[file])
        await ann.describe(file, thumbnail=picture(color="red"))
        with pytest.raises(Unfit, match="The files have been changed since"):
            await shoal.moderation.approve_held(held)


@pytest.mark.parametrize("kind", ["post", "edit"])
@in_loop
async def test_description_replaced_during_a_check_is_checked_before_it_is_public(kind: str, tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        post = await ann.create("old")
        file = await ann.upload(picture(), description="a boat")
        checks.seen.clear()
        checks.during = lambda: ann.describe(file, description="hold this")
        with pytest.raises(Held):
            await (ann.create("new", media=[file]) if kind == "post" else ann.update(post, "new", media=[file]))
        assert [candidate.text for candidate in checks.seen] == ["new\na boat", "new\nhold this"]
        assert await texts(shoal, ann) == ["old"]


@in_loop
async def test_file_changed_in_another_way_during_a_check_is_not_checked_again(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        file = await ann.upload(picture())
        checks.seen.clear()
        checks.during = lambda: ann.describe(file, focus=(0.5, 0.5))
        await ann.create("new", media=[file])
        assert len(checks.seen) == 1
        assert (await file_of(shoal, file.id)).focus == (0.5, 0.5)


@in_loop
async def test_description_of_a_file_that_a_post_attaches_at_the_same_time_is_checked(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        file = await ann.upload(picture(), description="a boat")
        graph = InterruptedGraph(shoal.network.writes.graph, lambda: ann.create("new", media=[file]))
        writes = replace(shoal.network.writes, graph=cast("Graph", graph))
        with pytest.raises(Held):
            await media.describe(writes, ann.id, file.id, description="hold this")
        assert (await file_of(shoal, file.id)).description == "a boat"


@in_loop
async def test_held_description_cannot_replace_a_later_one(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        file = await ann.upload(picture(), description="a boat")
        await ann.create("new", media=[file])
        with pytest.raises(Held) as raised:
            await ann.describe(file, description="hold this")
        await ann.describe(file, description="two boats")
        with pytest.raises(Unfit, match="The description has been changed since"):
            await shoal.moderation.approve_held(raised.value.held_id)
        assert (await file_of(shoal, file.id)).description == "two boats"


@in_loop
async def test_data_of_a_post_is_checked_and_stored_for_moderators(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        await hold(ann, "fine", data={"title": "hold this"})
        assert (checks.seen[-1].text, checks.seen[-1].data) == ("fine", '{"title":"hold this"}')
        (item,) = (await shoal.moderation.held()).items
        assert item.data == '{"title":"hold this"}'


@in_loop
async def test_camera_and_lens_of_an_upload_are_checked(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        details = PhotoDetails(camera="Leica", lens="hold this")
        file = await media.upload(shoal.network.writes, ann.id, picture(), description="a boat", details=details)
        assert checks.seen[-1].text.split("\n") == ["a boat", "Leica", "hold this"]
        assert file.held


@in_loop
async def test_thumbnail_of_an_upload_is_checked(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (_shoal, checks, ann):
        sound, cover = tone(), picture()
        digests = [hashlib.sha256(file).hexdigest() for file in (sound, cover)]
        checks.held_files.add(digests[1])
        file = await ann.upload(sound, thumbnail=cover)
        assert [facts.sha256 for facts in checks.seen[-1].media] == digests
        assert file.held


@pytest.mark.parametrize("attached", [False, True])
@in_loop
async def test_held_thumbnail_is_refused_in_a_post_and_holds_unattached_media(attached: bool, tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        file = await ann.upload(picture())
        await as_sound(shoal, file.id)
        if attached:
            await ann.create("new", media=[file])
        cover = picture(color="red")
        checks.held_files.add(hashlib.sha256(cover).hexdigest())
        before = await file_of(shoal, file.id)
        if attached:
            with pytest.raises(Rejected, match="does not allow this"):
                await ann.describe(file, thumbnail=cover, description="two boats")
            assert await file_of(shoal, file.id) == before
        else:
            assert (await ann.describe(file, thumbnail=cover)).held
            await hold(ann, "new", media=[file])


@in_loop
async def test_held_profile_cannot_replace_a_later_one(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        with pytest.raises(Held) as raised:
            await ann.update_profile(note="hold this", display_name="")
        await ann.update_profile(display_name="Ann", note="newer")
        with pytest.raises(Unfit, match="The profile has been changed since"):
            await shoal.moderation.approve_held(raised.value.held_id)
        assert (await ann.profile()).member.note == "newer"


@in_loop
async def test_held_profile_is_approved_after_a_change_of_other_values(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        with pytest.raises(Held) as raised:
            await ann.update_profile(note="hold this", display_name="")
        await ann.update_profile(display_name="Ann")
        await shoal.moderation.approve_held(raised.value.held_id)
        shown = (await ann.profile()).member
        assert (shown.note, shown.display_name) == ("hold this", "Ann")


@in_loop
async def test_held_profile_leaves_out_earlier_held_values_that_the_profile_has_replaced(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        with pytest.raises(Held):
            await ann.update_profile(note="hold this")
        await ann.update_profile(note="newer")
        with pytest.raises(Held) as raised:
            await ann.update_profile(display_name="hold Ann")
        await shoal.moderation.approve_held(raised.value.held_id)
        shown = (await ann.profile()).member
        assert (shown.note, shown.display_name) == ("newer", "hold Ann")


@in_loop
async def test_held_profile_leaves_out_values_that_are_rejected_at_the_same_time(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        with pytest.raises(Held) as raised:
            await ann.update_profile(note="hold this", avatar=picture())
        first = raised.value.held_id
        graph = InterruptedGraph(shoal.network.writes.graph, lambda: shoal.moderation.reject_held(first))
        writes = replace(shoal.network.writes, graph=cast("Graph", graph))
        with pytest.raises(Held):
            await members.update_profile(writes, ann.id, ProfileChange(display_name="hold Ann"))
        (item,) = (await shoal.moderation.held()).items
        assert (item.text, item.files) == ("hold Ann", ())
        assert await is_clean(shoal)


@in_loop
async def test_approval_of_an_edit_does_not_replace_an_edit_made_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        post = await ann.create("old")
        with pytest.raises(Held) as raised:
            await ann.update(post, "hold new")
        original = posts.update

        async def update(*arguments: Any, **values: Any) -> object:
            monkeypatch.setattr(posts, "update", original)
            await original(shoal.network.writes, ann.id, post.id, Draft(text="newest"))
            return await original(*arguments, **values)

        monkeypatch.setattr(posts, "update", update)
        with pytest.raises(Unfit, match="has been edited since"):
            await shoal.moderation.approve_held(raised.value.held_id)
        assert await texts(shoal, ann) == ["newest"]


@in_loop
async def test_post_whose_file_is_deleted_during_the_check_is_not_held(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        file = await ann.upload(picture())
        checks.during = lambda: scheduled_posts.discard_media(shoal.network.writes, ann.id, file.id)
        with pytest.raises(NotFound):
            await ann.create("hold this", media=[file])
        assert not (await shoal.moderation.held()).items


@in_loop
async def test_approval_for_a_suspended_author_names_the_author_to_the_moderator(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        held = await hold(ann)
        await shoal.moderation.suspend(ann)
        with pytest.raises(Unfit, match="The account of the author was suspended"):
            await shoal.moderation.approve_held(held)
