"""Armed moderation rules decide about content before it is public; rules that are off cost nothing."""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from PIL import Image

from shoal import Handle, Shoal
from shoal.admin.archives.importer import import_archive
from shoal.admin.archives.records import Omission
from shoal.commands import media, posts, scheduled_posts
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.errors import Held, Rejected
from shoal.core.ids import shard_of
from shoal.core.model import Media, MediaKind, Post, ScheduledPost
from shoal.core.moderation_rules import Conditions, RuleDraft
from shoal.core.photo_details import PhotoDetails
from shoal.core.publishing import HeldKind
from shoal.graph.access import get_object
from shoal.graph.contract import Batch, Store
from shoal.scheduler import Agenda
from tests.archives import factories
from tests.async_runner import in_loop
from tests.flows.members import register, texts
from tests.flows.simulation.faults import Between
from tests.flows.test_bulk_moderation import chart


def square(seed: int) -> bytes:
    """Return a square picture, of which an avatar is not a part only."""
    made = io.BytesIO()
    Image.open(io.BytesIO(chart(seed))).resize((64, 64)).save(made, "PNG")
    return made.getvalue()


async def arm(
    shoal: Shoal, *, kinds: tuple[HeldKind, ...] = ("post", "edit"), reason: str = "", **conditions: Any
) -> None:
    """Create a rule, which rejects if it has a reason, and arm it."""
    draft = RuleDraft(
        name="Rule",
        conditions=Conditions(**conditions),
        kinds=kinds,
        action="reject" if reason else "hold",
        reason=reason,
    )
    rule = await shoal.moderation_rules.create(draft)
    await shoal.moderation_rules.dry_run([rule.id])
    await shoal.moderation_rules.set_state(rule.id, "armed")
    # Each check reads the rules again, as in a process that has been idle. After five seconds, the background task would read
    # them instead, perhaps too late for the next check.
    await shoal.network.rules.stop()
    shoal.network.rules._watched = False
    shoal.network.rules._every = 0.0


async def as_sound(shoal: Shoal, id_: int) -> None:
    """Turn a picture into a sound, whose thumbnail can be replaced."""
    stored = await get_object(shoal.network.store, Media, id_)
    batch = Batch(shard_of(id_))
    batch.obj_set(msgspec.structs.replace(stored, kind=MediaKind.AUDIO, version=stored.version + 1))
    await shoal.network.writes.graph.commit(batch)


@in_loop
async def test_armed_rules_hold_and_reject_posts_before_they_are_public() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        assert not await shoal.network.writes.checks.in_force()
        await arm(shoal, words=("my boat",))
        await arm(shoal, domains=("casino.example",), reason="No casinos")
        assert await shoal.network.writes.checks.in_force()
        with pytest.raises(Held):
            await ann.create("Buy MY BOAT")
        with pytest.raises(Rejected, match="No casinos"):
            await ann.create("https://www.casino.example/")
        await ann.create("hello")
        assert texts(await ben.public()) == ["hello"]
        for rule in await shoal.moderation_rules.all():
            await shoal.moderation_rules.set_state(rule.id, "off")
        await shoal.network.rules.look()
        assert not shoal.network.writes.checks
        await ann.create("Buy my boat")


@in_loop
async def test_rules_are_in_force_when_a_network_is_opened(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    async with Shoal.open(url) as shoal:
        await register(shoal, "ann")
        await arm(shoal, words=("boat",))
    async with Shoal.open(url) as shoal:
        assert shoal.network.writes.checks
        with pytest.raises(Held):
            await (await shoal.member("ann")).create("my boat")


async def camera(shoal: Shoal, ann: Handle, text: str) -> dict[str, Any]:
    details = PhotoDetails(camera="Leica", lens=text)
    return {"media": [await media.upload(shoal.network.writes, ann.id, chart(1), details=details)]}


async def described(_shoal: Shoal, ann: Handle, text: str) -> dict[str, Any]:
    return {"media": [await ann.upload(chart(1), description=text)]}


PARTS: dict[str, Any] = {
    "text": lambda text: {"text": f"See {text}"},
    "content warning": lambda text: {"spoiler": text},
    "poll": lambda text: {"poll": PollDraft(options=("yes", text), seconds=3_600)},
    "data": lambda text: {"data": {"blocks": [1, {"caption": text}]}},
    "name in data": lambda text: {"data": {text: None}},
    "description": described,
    "camera": camera,
}


async def values(part: str, shoal: Shoal, ann: Handle, text: str) -> dict[str, Any]:
    made = PARTS[part](shoal, ann, text) if part in {"description", "camera"} else PARTS[part](text)
    return {"text": "hello", **(made if isinstance(made, dict) else await made)}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("rule", "text"),
    [({"words": ("my boat",)}, "buy My Boat"), ({"domains": ("casino.example",)}, "https://casino.example")],
    ids=["word", "domain"],
)
@in_loop
async def test_armed_rule_sees_every_text_of_posts_comments_and_edits(
    part: str, rule: dict[str, Any], text: str
) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("hello")
        await arm(shoal, reason="no", **rule)
        wrong = await values(part, shoal, ann, text)
        for publish in (ann.create(**wrong), ann.comment(post, **wrong), ann.update(post, **wrong)):
            with pytest.raises(Rejected, match="no"):
                await publish
        fine = await values(part, shoal, ann, "boat, mine")
        await ann.create(**fine)
        await ann.update(post, **fine)


@in_loop
async def test_armed_rule_sees_the_end_of_long_data() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await arm(shoal, words=("my boat",), reason="no")
        nested: Any = "my boat"
        for _ in range(500):
            nested = [nested]
        for data in (["word " * 10_000, "my boat"], nested):
            with pytest.raises(Rejected):
                await ann.create("hello", data=data)


@in_loop
async def test_armed_rule_on_posts_and_edits_sees_new_descriptions_of_published_files() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await arm(shoal, words=("my boat",))
        file = await ann.upload(chart(1), description="a picture")
        await ann.describe(file, description="buy my boat")  # not public yet
        await ann.describe(file, description="a picture")
        await ann.create("hello", media=[file])
        with pytest.raises(Held):
            await ann.describe(file, description="buy my boat")
        assert (await get_object(shoal.network.store, Media, file.id)).description == "a picture"


@pytest.mark.parametrize(("direct", "public"), [(False, False), (True, False), (False, True)])
@in_loop
async def test_armed_rule_sees_descriptions_of_files_in_direct_posts_only_if_a_setting_or_another_post_says_so(
    direct: bool, public: bool
) -> None:
    async with Shoal.open("memory://", moderation_direct=direct) as shoal:
        ann, _ = await register(shoal, "ann", "ben")
        await shoal.hide(await ann.create("look", media=[await ann.upload(chart(1))]))
        await arm(shoal, words=("my boat",), reason="no")
        await arm(shoal, like_removed="same", reason="no")
        sound = await ann.upload(chart(3))
        await as_sound(shoal, sound.id)
        if public:
            await ann.create("hello", media=[sound])
        await ann.create("@ben hello", media=[sound], visibility="direct")
        for change in ({"description": "my boat"}, {"thumbnail": chart(1)}):
            with pytest.raises(Rejected) if direct or public else nullcontext():
                await ann.describe(sound, **change)


@in_loop
async def test_armed_rule_on_posts_and_edits_sees_new_thumbnails_of_published_files() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await shoal.hide(await ann.create("look", media=[await ann.upload(chart(1))]))
        await arm(shoal, like_removed="same", reason="Not this picture")
        sound = await ann.upload(chart(3))
        await as_sound(shoal, sound.id)
        await ann.create("listen", media=[sound])
        before = await get_object(shoal.network.store, Media, sound.id)
        with pytest.raises(Rejected, match="Not this picture"):
            await ann.describe(sound, thumbnail=chart(1))
        assert await get_object(shoal.network.store, Media, sound.id) == before
        await ann.describe(sound, thumbnail=chart(2))


@in_loop
async def test_armed_rule_on_uploads_sees_the_picture_and_its_texts() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await shoal.hide(await ann.create("look", media=[await ann.upload(chart(1))]))
        await arm(shoal, kinds=("media",), like_removed="same", reason="no")
        await arm(shoal, kinds=("media",), words=("boat",), reason="no")
        with pytest.raises(Rejected):
            await ann.upload(chart(1))
        with pytest.raises(Rejected):
            await ann.upload(chart(3), description="a boat")
        await ann.create("boat", media=[await ann.upload(chart(3))])


@pytest.mark.parametrize(
    "change",
    [
        {"display_name": "Buy my boat"},
        {"note": "my boat"},
        {"fields": [("My boat", "x")]},
        {"fields": [("x", "my boat")]},
        {"avatar": square(1)},
    ],
    ids=["name", "note", "name of a field", "field", "avatar"],
)
@in_loop
async def test_armed_rule_on_profiles_sees_texts_and_pictures(change: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await shoal.hide(await ann.create("look", media=[await ann.upload(square(1))]))
        await arm(shoal, kinds=("profile",), words=("my boat",), reason="no")
        await arm(shoal, kinds=("profile",), like_removed="similar", reason="no")
        with pytest.raises(Rejected):
            await ann.update_profile(**change)
        await ann.update_profile(display_name="Ann", avatar=square(3))
        await ann.create("my boat")


@in_loop
async def test_armed_rule_on_pictures_holds_look_alike_of_removed_picture() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("look", media=[await ann.upload(chart(1))])
        await shoal.hide(post)
        await arm(shoal, like_removed="same")
        with pytest.raises(Held):
            await ben.create("look", media=[await ben.upload(chart(1))])
        await ben.create("look", media=[await ben.upload(chart(3))])


@in_loop
async def test_armed_rule_on_bursts_holds_the_next_post_but_no_edit_of_the_last() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await arm(shoal, more_posts_than=3)
        written = [await ann.create(f"post {n}") for n in range(3)]
        await ann.update(written[-1], "post, edited")
        with pytest.raises(Held):
            await ann.create("post 4")


@in_loop
async def test_armed_rule_on_bursts_counts_concurrent_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await arm(shoal, more_posts_than=3, reason="slowly")
        made = await asyncio.gather(*(ann.create(f"post {n}") for n in range(10)), return_exceptions=True)
        assert Counter(type(each) for each in made) == {Post: 3, Rejected: 7}


@in_loop
async def test_armed_rule_holds_scheduled_post_at_its_time() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        writes, now = shoal.network.writes, time.time_ns() // 1_000_000
        planned = await scheduled_posts.schedule(writes, ann.id, Draft(text="my boat"), now + 600_000)
        assert isinstance(planned, ScheduledPost)
        await arm(shoal, words=("my boat",))
        assert await Agenda(writes, clock=lambda: time.time_ns() // 1_000_000 + 700_000).once() == 1
        assert texts(await ann.public()) == []
        assert [item.rule for item in (await shoal.moderation.held()).items] == ["Rule"]


@pytest.mark.parametrize("reason", ["", "no"], ids=["hold", "reject"])
@in_loop
async def test_armed_rule_leaves_posts_out_of_archive_imports(reason: str, tmp_path: Path) -> None:
    async with Shoal.open("memory://", base_url="https://shoal.example") as shoal:
        (ann,) = await register(shoal, "ann")
        await arm(shoal, words=("my boat",), reason=reason)
        activities = [factories.note(1, "<p>Buy <b>my</b> boat</p>"), factories.note(2, "<p>Low tide</p>")]
        archive = factories.zipped(tmp_path / "a.zip", factories.mastodon_files(activities))
        report = await import_archive(shoal.network, ann.id, archive, dry_run=False)
        await shoal.settle()
        assert [(one.kind, one.reason, one.count) for one in report.omitted] == [("posts", Omission.REFUSED, 1)]
        assert texts(await ann.posts_by(ann.id)) == ["Low tide"]


@in_loop
async def test_post_reads_no_more_without_rules_and_two_lists_with_them() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        counted: Counter[str] = Counter()

        async def count(name: str) -> None:
            counted[name] += 1

        async def nothing(_name: str) -> None: ...

        writes = replace(shoal.network.writes, graph=cast("Store", Between(shoal.network.store, count, nothing)))

        async def reads(*, checked: bool) -> Counter[str]:
            counted.clear()
            await posts.create(writes if checked else writes.trusted(), ann.id, Draft(text="hello"))
            return Counter(counted)

        unchecked = await reads(checked=False)
        assert await reads(checked=True) == unchecked
        rule = await shoal.moderation_rules.create(RuleDraft(name="Boats", conditions=Conditions(words=("boat",))))
        await shoal.network.rules.look()
        assert await reads(checked=True) == unchecked
        await shoal.moderation_rules.set_state(rule.id, "dry_run")
        await shoal.network.rules.look()
        assert await reads(checked=True) - unchecked == {"assoc_range": 1, "assoc_count": 1}
