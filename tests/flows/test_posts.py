"""Posts: create, read, update, delete, and the limits of their content."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal, Visibility
from shoal.commands import posts
from shoal.core.errors import Conflict, Gone, InvalidInput, NotAllowed, NotFound, TooLarge
from shoal.core.ids import milliseconds_of
from shoal.core.model import Post
from shoal.core.places import Place
from shoal.graph import access
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import REVISED, TAG_OF, tag_id
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts

KIB_64 = 64 * 1024


@in_loop
async def test_post_is_read_with_all_fields_as_created() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.update_profile(place_precision="exact")
        made = await ann.create(
            "Low #Tide with @BEN and @nobody",
            visibility="unlisted",
            spoiler="wet feet",
            language="en",
            place=(54.1, -0.2),
            data={"boat": ["Kittiwake", 7], "none": None},
        )
        entry = await ben.read(made)
        post = entry.post
        assert post == made
        assert (post.text, post.spoiler, post.sensitive) == ("Low #Tide with @BEN and @nobody", "wet feet", True)
        assert (post.visibility, post.language) == (Visibility.UNLISTED, "en")
        assert post.tags == ("tide",)
        assert post.mentions == ((ben.id, "ben"),)
        assert post.place == Place(54.1, -0.2)
        assert post.data == {"boat": ["Kittiwake", 7], "none": None}
        assert post.json == '{"boat":["Kittiwake",7],"none":null}'
        assert post.created_at == milliseconds_of(post.id)
        assert (entry.likes, entry.shares, entry.comments, entry.liked) == (0, 0, 0, False)
        assert (entry.author.member.name, entry.author.posts) == ("ann", 1)


@in_loop
async def test_post_deleted_is_removed_from_all_lists_and_counts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        post = await ann.create("hello #tide")
        await ben.share(post)
        await ben.bookmark(post)
        await ben.home()
        await shoal.settle()
        assert await ann.delete(post) == post
        for act in (ben.read(post), ben.like(post), ben.share(post), ben.comment(post, "x"), ann.delete(post)):
            with pytest.raises(NotFound):
                await act
        assert (
            await home_texts(ben) == await home_texts(ann) == texts(await ann.posts()) == texts(await ben.posts()) == []
        )
        await shoal.settle()
        assert (await ann.profile()).posts == (await ben.profile()).posts == 0
        assert await shoal.network.store.assoc_range(tag_id("tide"), TAG_OF, Cursor(limit=5)) == []


@in_loop
async def test_post_edit_or_deletion_by_other_member_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        for act in (ben.delete(post), ben.update(post, "bye")):
            with pytest.raises(NotFound):
                await act
        assert (await ann.read(post)).post == post


@in_loop
async def test_post_edit_keeps_unnamed_fields_and_stores_revision() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("one", spoiler="s", data={"a": 1}, place=(0.0, 2.0), visibility="followers")
        second = await ann.update(post, "two #tide @ben")
        third = await ann.update(post, "three", spoiler="", sensitive=False)
        assert (second.spoiler, second.data, second.place) == ("s", {"a": 1}, (0.0, 2.0))
        assert (second.tags, second.mentions) == (("tide",), ((ben.id, "ben"),))
        assert (third.version, third.text, third.spoiler, third.tags) == (3, "three", "", ())
        assert third.visibility is Visibility.FOLLOWERS
        assert third.edited_at >= second.edited_at > 0
        history = await ann.history(post)
        assert [(old.text, old.spoiler) for old in history] == [("one", "s"), ("two #tide @ben", "s")]
        assert [old.written for old in history] == [post.created_at, second.edited_at]


@in_loop
async def test_post_edit_without_changes_creates_no_revision() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("one #tide", data={"a": [1, 2.5, None]}, place=(0.0, 2.0), language="en")
        assert await ann.update(post, "one #tide") == post
        assert await ann.history(post) == []


@in_loop
async def test_post_edit_with_identical_text_is_no_edit_after_mentioned_member_registers() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("hello @ben")
        await register(shoal, "ben")
        assert await ann.update(post, "hello @ben") == post
        assert await ann.history(post) == []
        again = await ann.update(post, "hello, @ben")
        assert [mention.name for mention in again.mentions] == ["ben"]


@in_loop
async def test_post_history_is_deleted_with_the_post() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("one")
        await ann.update(post, "two")
        (revision,) = await ann.history(post)
        await ann.delete(post)
        await shoal.settle()
        assert await shoal.network.store.assoc_range(post.id, REVISED, Cursor(limit=5)) == []
        assert await shoal.network.store.obj_get([revision.id]) == {}


@in_loop
async def test_post_edits_made_concurrently_are_all_stored_or_refused_with_conflict() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("one")
        edits = [ann.update(post, f"edit {n}") for n in range(10)]
        answers = await asyncio.gather(*edits, return_exceptions=True)
        assert all(not isinstance(answer, BaseException) or isinstance(answer, Conflict) for answer in answers)
        kept = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert len(await ann.history(post)) == len(kept) >= 1


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
@in_loop
async def test_post_creation_with_repeated_idempotency_key_creates_one_post(url: str, tmp_path: Path) -> None:
    async with Shoal.open(url if url == "memory://" else f"sqlite:///{tmp_path}/shoal.db") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        made = await asyncio.gather(*[ann.create("hello", request="k") for _ in range(20)])
        assert len({post.id for post in made}) == 1
        assert await ann.create("hello", request="k") == made[0]
        assert texts(await ann.posts()) == ["hello"]
        assert (await ann.create("hello", request="other")).id != made[0].id
        assert (await ben.create("hello", request="k")).author_id == ben.id
        await shoal.settle()
        assert (await ann.profile()).posts == 2


@pytest.mark.parametrize("visibility", list(Visibility))
@in_loop
async def test_post_visibility_is_accepted_as_enum_or_string(visibility: Visibility) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        assert (await ann.create("x", visibility=visibility)).visibility is visibility
        assert (await ann.create("x", visibility=visibility.value)).visibility is visibility


@pytest.mark.parametrize("wrong", ["", "PUBLIC", "private", "everyone"])
@in_loop
async def test_post_visibility_invalid_is_refused_with_list_of_values(wrong: Any) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("x")
        for act in (ann.create("x", visibility=wrong), ann.comment(post, "x", visibility=wrong)):
            with pytest.raises(InvalidInput, match="public, unlisted, followers, direct") as refusal:
                await act
            assert refusal.value.field == "visibility"
        assert len(texts(await ann.posts())) == 1


@pytest.mark.parametrize("place", [(90, 180), (-90, -180), (0, 0), (54.123456789, -0.2)])
@in_loop
async def test_post_place_with_valid_coordinates_is_stored(place: tuple[float, float]) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.update_profile(place_precision="exact")
        assert (await ann.read(await ann.create("x", place=place))).post.place == place


@pytest.mark.parametrize(
    "place", [(90.1, 0), (-90.1, 0), (0, 180.1), (0, -180.1), (float("nan"), 0), (0, float("inf"))]
)
@in_loop
async def test_post_place_with_invalid_coordinates_is_refused(place: tuple[float, float]) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        with pytest.raises(InvalidInput, match="latitude is -90 to 90") as refusal:
            await ann.create("x", place=place)
        assert refusal.value.field == "place"


@in_loop
async def test_post_app_data_is_limited_to_64_kib() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        largest = "x" * (KIB_64 - 2)
        post = await ann.create("x", data=largest)
        assert (await ann.read(post)).post.data == largest
        for too_large in (largest + "x", "ä" * (KIB_64 // 2)):
            with pytest.raises(TooLarge, match=f"at most {KIB_64} bytes"):
                await ann.create("x", data=too_large)
            with pytest.raises(TooLarge):
                await ann.update(post, "x", data=too_large)


@pytest.mark.parametrize("data", [object(), {1: {2, 3}, "x": object()}, {"f": print}])
@in_loop
async def test_post_app_data_not_serializable_as_json_is_refused(data: Any) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        with pytest.raises(InvalidInput, match="JSON") as refusal:
            await ann.create("x", data=data)
        assert refusal.value.field == "data"


@pytest.mark.parametrize("data", [0, False, "", [], {}])
@in_loop
async def test_post_with_app_data_and_no_text_is_accepted(data: Any) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create(data=data)
        assert post.json
        assert (await ann.read(post)).post.data == data


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
@in_loop
async def test_post_with_blank_text_is_refused(text: str) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("something")
        for act in (ann.create(text), ann.comment(post, text), ann.update(post, text)):
            with pytest.raises(InvalidInput, match="blank"):
                await act


@in_loop
async def test_post_text_spoiler_and_request_key_lengths_are_limited() -> None:
    async with Shoal.open("memory://", max_post_characters=30) as shoal:
        (ann,) = await register(shoal, "ann")
        link = "https://example.org/" + "x" * 50
        assert (await ann.create("x" * 30)).text == "x" * 30
        assert (await ann.create(f"xxxxxx {link}")).text.endswith(link)
        for text in ("x" * 31, f"xxxxxxxx {link}"):
            with pytest.raises(TooLarge, match="the maximum is 30") as refusal:
                await ann.create(text)
            assert refusal.value.field == "text"
        await ann.create("x", spoiler="s" * 500)
        with pytest.raises(TooLarge) as refusal:
            await ann.create("x", spoiler="x" * 501)
        assert refusal.value.field == "spoiler"
        with pytest.raises(InvalidInput, match="at most 256"):
            await ann.create("x", request="k" * 257)


@in_loop
async def test_post_text_is_normalized_and_control_characters_are_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        assert (await ann.create("cafe\u0301\r\nnext")).text == "café\nnext"
        with pytest.raises(InvalidInput, match=r"U\+0000"):
            await ann.create("a\x00b")


@in_loop
async def test_post_deletion_concurrent_with_edit_leaves_no_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edit is committed after the deletion reads the post, and before the deletion is committed."""
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("one #tide")
        own_post = access.own_post

        async def edited_meanwhile(graph: Reader, member_id: int, post_id: int) -> Post:
            monkeypatch.setattr(posts, "own_post", own_post)
            found = await own_post(graph, member_id, post_id)
            await ann.update(post, "two #sea")
            return found

        monkeypatch.setattr(posts, "own_post", edited_meanwhile)
        await ann.delete(post)
        await shoal.settle()
        for tag in ("tide", "sea"):
            assert await shoal.network.store.assoc_range(tag_id(tag), TAG_OF, Cursor(limit=5)) == []


@in_loop
async def test_posts_edits_and_likes_persist_after_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        post = await ann.create("hello", data={"a": 1}, place=(1, 2), request="k")
        await ann.update(post, "hello again")
        await ben.like(post)
    async with Shoal.open(url) as shoal:
        ann, ben = await shoal.member("ann"), await shoal.member("ben")
        entry = await ben.read(post.id)
        assert (entry.post.text, entry.likes, entry.liked) == ("hello again", 1, True)
        assert [old.text for old in await ann.history(post)] == ["hello"]
        assert (await ann.create("hello", request="k")).id == post.id
        assert await home_texts(ben) == ["hello again"]


@in_loop
async def test_post_with_unknown_media_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("no picture")
        for picture in (12345, post.id):
            with pytest.raises(NotFound):
                await ben.create("x", media=[picture])
        with pytest.raises(NotAllowed):
            await ann.follow(ann)


@in_loop
async def test_post_creation_with_idempotency_key_of_deleted_post_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        await ann.delete(await ann.create("once", request="k"))
        with pytest.raises(Gone, match="was deleted"):
            await ann.create("once", request="k")


@in_loop
async def test_post_tags_are_limited_to_one_hundred() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        post = await ann.create(" ".join(f"#t{number}x" for number in range(150)))
        assert len(post.tags) == 100
