"""Content that a check holds is public after its approval, exactly once, and never before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import held_content, posts, scheduled_posts
from shoal.commands.posts import Draft
from shoal.core.audit import AuditVerb
from shoal.core.errors import Gone, Held, InvalidInput, NotFound, OutcomeUnknown, Rejected, Unfit
from shoal.core.model import Media, ScheduledPost, Visibility
from shoal.core.publishing import Candidate, Decision, HeldContent
from shoal.graph.contract import Batch, Graph, find_object
from shoal.scheduler import Agenda
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop
from tests.moderation.checks import STORES, WordCheck, network


@asynccontextmanager
async def scene(store: str, folder: Path) -> AsyncIterator[tuple[Shoal, WordCheck, Handle]]:
    checks = WordCheck()
    async with network(store, folder, checks) as shoal:
        yield shoal, checks, await shoal.register("ann")


async def hold(who: Handle, text: str = "hold this", **more: object) -> int:
    with pytest.raises(Held) as raised:
        await who.create(text, **more)  # type: ignore[arg-type]  # arguments of a post
    return raised.value.held_id


async def texts(shoal: Shoal, who: Handle) -> list[str]:
    await shoal.settle()
    return [entry.post.text for entry in (await shoal.visitor.posts_by(who)).entries]


async def is_clean(shoal: Shoal) -> bool:
    await shoal.settle()
    report = await check(shoal.network)
    assert report.clean, [str(example) for invariant in report.invariants for example in invariant.examples]
    return True


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_held_post_is_public_once_after_two_concurrent_approvals(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, _, ann):
        held = await hold(ann, "hold #tide", request="once")
        assert await texts(shoal, ann) == []
        assert [item.id for item in (await shoal.moderation.held()).items] == [held]
        published = set(await asyncio.gather(*(shoal.moderation.approve_held(held) for _ in range(4))))
        assert len(published) == 1
        assert await texts(shoal, ann) == ["hold #tide"]
        assert await shoal.moderation.approve_held(held) in published
        # A repeated request of the author returns the published post.
        assert (await ann.create("hold #tide", request="once")).id in published
        assert not (await shoal.moderation.held()).items
        assert not (await ann.held.page()).items
        assert await is_clean(shoal)


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_held_post_approved_and_rejected_at_once_has_one_outcome(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, _, ann):
        for _attempt in range(5):
            held = await hold(ann)
            approval, refusal = await asyncio.gather(
                shoal.moderation.approve_held(held),
                shoal.moderation.reject_held(held, "off topic"),
                return_exceptions=True,
            )
            stored = await find_object(shoal.network.store, HeldContent, held)
            assert isinstance(approval, Unfit) is (stored is not None)
            assert isinstance(refusal, Unfit) is (stored is None)
        assert await is_clean(shoal)


@in_loop
async def test_rejected_post_stays_with_its_author_with_the_reason(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        held = await hold(ann, request="again")
        await shoal.moderation.reject_held(held, "off topic")
        await shoal.moderation.reject_held(held, "another reason")
        (own,) = (await ann.held.page()).items
        assert (own.refusal, own.text) == ("off topic", "hold this")
        with pytest.raises(Rejected, match="off topic"):
            await ann.create("hold this", request="again")
        with pytest.raises(Unfit, match="rejected already"):
            await shoal.moderation.approve_held(held)
        await ann.held.withdraw(held)
        assert not (await ann.held.page()).items
        with pytest.raises(Gone):
            await ann.create("hold this", request="again")
        assert await is_clean(shoal)


@in_loop
async def test_post_rejected_by_the_check_is_not_stored(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        with pytest.raises(Rejected, match="no such words here"):
            await ann.create("reject this")
        assert not (await ann.held.page()).items
        assert await texts(shoal, ann) == []


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_held_content_has_the_id_of_its_candidate(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, checks, ann):
        file = await ann.upload(picture())
        assert checks.seen[-1].id == 0
        post = await ann.create("a boat", media=[file])
        acts: list[Awaitable[object]] = [
            ann.create("hold this"),
            ann.update(post, "hold one"),
            ann.update(post, "hold two"),
            ann.update_profile(note="hold new"),
            ann.update_profile(display_name="hold new"),
            ann.describe(file, description="hold new"),
        ]
        for act in acts:
            with pytest.raises(Held) as raised:
                await act
            assert raised.value.held_id == checks.seen[-1].id
        assert len((await shoal.moderation.held()).items) == 4
        assert len({candidate.id for candidate in checks.seen}) == len(checks.seen)
        await shoal.moderation.approve_held(checks.seen[2].id)
        assert "hold this" in await texts(shoal, ann)
        assert await is_clean(shoal)


@in_loop
async def test_post_held_for_its_upload_has_the_id_of_its_candidate(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        checks.holds_uploads = True
        held = await hold(ann, "a boat", media=[await ann.upload(picture())])
        assert held == checks.seen[-1].id
        await shoal.moderation.approve_held(held)
        assert await texts(shoal, ann) == ["a boat"]


async def _failing(_candidate: Candidate) -> Decision:
    raise ValueError


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/shoal.db"])
@in_loop
async def test_content_that_is_public_without_a_check_is_in_the_audit_log(url: str, tmp_path: Path) -> None:
    async with Shoal.open(url.format(tmp_path), moderation=_failing) as shoal:
        ann = await shoal.register("ann")
        file = await ann.upload(picture(), description="old")
        post = await ann.create("a boat", media=[file])
        await ann.update(post, "two boats")
        await ann.update(post, "two boats", visibility="unlisted")
        await ann.describe(file, description="new")
        await ann.update_profile(note="new")
        await ann.update_profile(bot=True)
        found = await shoal.moderation.audit_log(verbs=[AuditVerb.CONTENT_UNCHECKED])
        entries = [one.entry for one in found.entries][::-1]
        assert [(entry.details["content"], entry.kind.value) for entry in entries] == [
            ("media", "member"),
            ("post", "post"),
            ("edit", "post"),
            ("media", "member"),
            ("profile", "member"),
        ]
        assert {entry.target_id for entry in entries} == {post.id, ann.id}
        assert not any(entry.address or entry.actor_id for entry in entries)


@in_loop
async def test_check_sees_the_facts_of_a_post(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        ben = await shoal.register("ben")
        await ann.create("first")
        file = await ann.upload(picture(), description="a boat")
        await ann.create(
            "Hello @ben see https://example.org/a #Tide", media=[file], visibility="followers", spoiler="boats"
        )
        candidate = checks.seen[-1]
        assert (candidate.kind, candidate.member_id, candidate.member_name) == ("post", ann.id, "ann")
        assert (candidate.member_posts, candidate.recent_posts) == (1, 1)
        assert abs(candidate.member_created_at - time.time()) < 3_600
        assert candidate.text.split("\n") == ["boats", "Hello @ben see https://example.org/a #Tide", "a boat"]
        assert (candidate.links, candidate.tags) == (("https://example.org/a",), ("tide",))
        assert (candidate.mentions, candidate.visibility) == (("ben",), "followers")
        assert [(facts.id, facts.kind) for facts in candidate.media] == [(file.id, "image")]
        assert ben.name == "ben"


@pytest.mark.parametrize("direct", [False, True])
@in_loop
async def test_direct_post_is_checked_only_if_the_setting_says_so(direct: bool, tmp_path: Path) -> None:
    checks = WordCheck()
    async with Shoal.open("memory://", moderation=checks, moderation_direct=direct) as shoal:
        ann, _ben = await shoal.register("ann"), await shoal.register("ben")
        if direct:
            await hold(ann, "hold @ben", visibility="direct")
        else:
            await ann.create("hold @ben", visibility="direct")
        assert len(checks.seen) == direct


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_held_edit_keeps_the_public_version_until_approval(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, _, ann):
        post = await ann.create("old")
        with pytest.raises(Held) as raised:
            await ann.update(post, "hold new", visibility="unlisted")
        assert await texts(shoal, ann) == ["old"]
        assert (await ann.read(post)).post.visibility is Visibility.UNLISTED
        assert await shoal.moderation.approve_held(raised.value.held_id) == post.id
        assert await texts(shoal, ann) == ["hold new"]
        assert [revision.text for revision in await ann.history(post)] == ["old"]
        assert await is_clean(shoal)


@in_loop
async def test_held_edit_cannot_replace_a_later_edit(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        post = await ann.create("old")
        with pytest.raises(Held) as raised:
            await ann.update(post, "hold new")
        await ann.update(post, "newest")
        with pytest.raises(Unfit, match="has been edited since"):
            await shoal.moderation.approve_held(raised.value.held_id)
        assert await texts(shoal, ann) == ["newest"]


@in_loop
async def test_second_held_edit_replaces_the_first(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        post = await ann.create("old")
        for text in ("hold one", "hold two"):
            with pytest.raises(Held):
                await ann.update(post, text)
        (item,) = (await shoal.moderation.held()).items
        assert item.text == "hold two"
        assert await is_clean(shoal)


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_held_profile_keeps_the_old_texts_and_pictures_until_approval(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, _, ann):
        await ann.update_profile(note="old")
        with pytest.raises(Held):
            await ann.update_profile(note="hold new", avatar=picture(), bot=True)
        before = await ann.profile()
        assert (before.member.note, before.member.avatar, before.member.bot) == ("old", "", True)
        with pytest.raises(Held) as raised:
            await ann.update_profile(display_name="hold Ann")
        assert await is_clean(shoal)
        await shoal.moderation.approve_held(raised.value.held_id)
        after = (await ann.profile()).member
        assert (after.note, after.display_name) == ("hold new", "hold Ann")
        assert (await shoal.network.media.read(after.avatar))[0]
        assert not (await shoal.moderation.held()).items
        assert await is_clean(shoal)


@in_loop
async def test_rejected_profile_deletes_its_picture_but_no_picture_in_use(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        used = (await ann.update_profile(avatar=picture())).avatar
        with pytest.raises(Held) as raised:
            await ann.update_profile(note="hold", avatar=picture(), header=picture(color="red"))
        (item,) = (await shoal.moderation.held()).items
        await shoal.moderation.reject_held(raised.value.held_id)
        await shoal.settle()
        assert (await shoal.network.media.read(used))[0]
        with pytest.raises(NotFound):
            await shoal.network.media.read(next(key for key in item.files if key != used))


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_post_with_held_upload_is_held_and_its_approval_releases_the_upload(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, checks, ann):
        checks.holds_uploads = True
        file = await ann.upload(picture())
        assert file.held
        held = await hold(ann, "a boat", media=[file])
        # Media of held posts are not deleted as unused.
        tomorrow = Agenda(shoal.network.writes, clock=lambda: time.time_ns() // 1_000_000 + 2 * 86_400_000)
        await tomorrow.once()
        await shoal.moderation.approve_held(held)
        stored = await find_object(shoal.network.store, Media, file.id)
        assert stored is not None
        assert not stored.held
        assert await texts(shoal, ann) == ["a boat"]


@in_loop
async def test_description_of_public_media_is_held_until_approval(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        file = await ann.upload(picture(), description="old")
        await ann.create("a boat", media=[file])
        with pytest.raises(Held) as raised:
            await ann.describe(file, description="hold new")
        stored = await find_object(shoal.network.store, Media, file.id)
        assert stored is not None
        assert stored.description == "old"
        await shoal.moderation.approve_held(raised.value.held_id)
        stored = await find_object(shoal.network.store, Media, file.id)
        assert stored is not None
        assert stored.description == "hold new"
        assert await is_clean(shoal)


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_scheduled_post_is_held_at_its_time_and_published_once(store: str, tmp_path: Path) -> None:
    async with scene(store, tmp_path) as (shoal, _, ann):
        writes, now = shoal.network.writes, time.time_ns() // 1_000_000
        draft = Draft(text="hold this")
        made = await scheduled_posts.schedule(writes, ann.id, draft, now + 600_000, request="plan")
        assert isinstance(made, ScheduledPost)
        later = Agenda(writes, clock=lambda: time.time_ns() // 1_000_000 + 700_000)
        assert await later.once() == 1
        assert await later.once() == 0
        (item,) = (await shoal.moderation.held()).items
        published = await shoal.moderation.approve_held(item)
        assert await texts(shoal, ann) == ["hold this"]
        repeated = await scheduled_posts.schedule(writes, ann.id, draft, now + 600_000, request="plan")
        assert repeated.id == published
        assert await is_clean(shoal)


@in_loop
async def test_held_content_limit_refuses_further_posts_but_makes_room_from_rejected(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        limited = replace(
            shoal.network.writes,
            limits=type(shoal.network.writes.limits)(held=2),
        )

        async def one() -> int:
            with pytest.raises(Held) as raised:
                await posts.create(limited, ann.id, Draft(text="hold"))
            return raised.value.held_id

        first, _second = await one(), await one()
        with pytest.raises(Unfit, match="2 posts and changes"):
            await posts.create(limited, ann.id, Draft(text="hold"))
        await shoal.moderation.reject_held(first)
        third = await one()
        assert (await ann.held.page()).items[0].id == third
        assert len((await ann.held.page()).items) == 2
        assert await is_clean(shoal)


@in_loop
async def test_approval_of_a_comment_on_a_deleted_post_says_why_it_fails(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        ben = await shoal.register("ben")
        post = await ben.create("a question")
        with pytest.raises(Held) as raised:
            await ann.comment(post, "hold answer")
        await ben.delete(post)
        with pytest.raises(Unfit, match="this needs no longer exists: reject it"):
            await shoal.moderation.approve_held(raised.value.held_id)
        await shoal.moderation.reject_held(raised.value.held_id)


@in_loop
async def test_account_deletion_deletes_held_content(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        held = await hold(ann)
        await shoal.delete_member(ann)
        await Agenda(shoal.network.writes).once()
        await shoal.settle()
        assert await find_object(shoal.network.store, HeldContent, held) is None
        assert not (await shoal.moderation.held()).items
        assert await is_clean(shoal)


@in_loop
async def test_held_content_of_another_member_cannot_be_withdrawn(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        held = await hold(ann)
        ben = await shoal.register("ben")
        with pytest.raises(NotFound):
            await ben.held.withdraw(held)
        assert not (await ben.held.page()).items


@in_loop
async def test_product_profile_and_imported_post_of_operator_are_not_checked(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, checks, ann):
        await posts.create(shoal.network.writes.trusted(), ann.id, Draft(text="hold"), record="import:1")
        assert not checks.seen
        with pytest.raises(Rejected, match="Imports do not wait"):
            await posts.create(shoal.network.writes, ann.id, Draft(text="hold"), record="import:2")


@in_loop
async def test_reason_of_a_rejection_has_a_maximum(tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        held = await hold(ann)
        with pytest.raises(InvalidInput, match="reason has 501 characters"):
            await held_content.reject(shoal.network.writes, held, "x" * 501)
        assert len((await shoal.moderation.held()).items) == 1


class LosingGraph:
    """A graph that fails the next commit of a publication, before or after it is stored."""

    def __init__(self, graph: Graph, *, stored: bool) -> None:
        self._graph = graph
        self._stored = stored
        self.failures = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        if self.failures and self._stored:
            await self._graph.commit(batch)
        if self.failures:
            self.failures -= 1
            raise OutcomeUnknown("the process died")
        await self._graph.commit(batch)


@pytest.mark.parametrize("kind", ["post", "edit", "profile"])
@pytest.mark.parametrize("stored", [False, True])
@in_loop
async def test_approval_that_dies_at_its_commit_can_be_repeated(kind: str, stored: bool, tmp_path: Path) -> None:
    async with scene("memory", tmp_path) as (shoal, _, ann):
        post = await ann.create("old")
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "post": lambda: ann.create("hold new"),
            "edit": lambda: ann.update(post, "hold new"),
            "profile": lambda: ann.update_profile(note="hold new"),
        }
        with pytest.raises(Held) as raised:
            await acts[kind]()
        graph = LosingGraph(shoal.network.writes.graph, stored=stored)
        dying = replace(shoal.network.writes, graph=cast("Graph", graph))
        with pytest.raises(OutcomeUnknown):
            await held_content.approve(dying, raised.value.held_id)
        waiting = {item.id for item in (await shoal.moderation.held()).items}
        assert waiting == (set() if stored else {raised.value.held_id})
        first = await shoal.moderation.approve_held(raised.value.held_id)
        assert await shoal.moderation.approve_held(raised.value.held_id) == first
        shown = {"post": ["hold new", "old"], "edit": ["hold new"], "profile": ["old"]}
        assert await texts(shoal, ann) == shown[kind]
        assert await is_clean(shoal)
