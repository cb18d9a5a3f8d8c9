"""Bulk actions change exactly the previewed posts, survive interruptions, and are undone exactly."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from PIL import Image

from shoal import Handle, Shoal
from shoal.admin.bulk_moderation import preview
from shoal.admin.consistency.check import check
from shoal.app.network import Network, open_network
from shoal.commands import bulk_moderation, posts
from shoal.consumers import bulk_moderation as consumer
from shoal.core.audit import AuditVerb
from shoal.core.bulk_moderation import MAX_ACTIONS, PREVIEW_MS, BulkAction, BulkQuery, BulkState, Verb
from shoal.core.errors import Gone, InvalidInput, NotFound, Unavailable, Unfit
from shoal.core.events import BulkActionDue
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.model import Post, Visibility
from shoal.graph.contract import Batch, Cursor, Graph
from shoal.graph.payloads.moderation import removed_pictures
from shoal.graph.schema import BULK_CHANGED
from shoal.queries import bulk_moderation as queries
from shoal.settings import build
from tests.async_runner import in_loop
from tests.flows.members import register, texts
from tests.flows.shared_network import SharedDatabases

STORES = ("memory", "sqlite", "two sqlite", "two postgres")
"""The last one is in the second tier (`tests/tiers.py`)."""


@asynccontextmanager
async def opened(store: str, folder: Path, *, background: bool = True) -> AsyncIterator[Shoal]:
    """Open an empty network in one store, or in two shards."""
    urls: dict[str, str | dict[str, str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{folder}/shoal.db",
        "two sqlite": {"0-31": f"sqlite:///{folder}/one.db", "32-63": f"sqlite:///{folder}/two.db"},
    }
    databases = SharedDatabases()
    settings = await databases.settings() if "postgres" in store else build(store=urls[store], media="memory://")
    async with open_network(settings, background=background) as network:
        yield Shoal(network)


async def posted(who: Handle, *all_: str, **options: Any) -> list[Post]:
    return [await who.create(text, **options) for text in all_]


async def reread(shoal: Shoal, all_: Sequence[Post]) -> list[Post]:
    await shoal.settle()
    found = await shoal.network.store.obj_get([post.id for post in all_])
    return [node for post in all_ if isinstance(node := found.get(post.id), Post)]


async def applied(shoal: Shoal, query: BulkQuery, verb: Verb = "hide") -> BulkAction:
    preview = await shoal.bulk_moderation.preview(query, verb)
    await shoal.bulk_moderation.apply(preview.action.id)
    await shoal.settle()
    return (await shoal.bulk_moderation.show(preview.action.id)).action


async def assert_consistent(shoal: Shoal) -> None:
    await shoal.settle()
    report = await check(shoal.network)
    assert report.clean, report


@pytest.mark.parametrize("store", [*STORES[:-1], "postgres"])
@in_loop
async def test_bulk_hide_changes_only_matching_posts_and_undo_restores_them(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        spam = [*await posted(ann, "Buy SPAM #now", "spam!"), *await posted(ben, "more spam", visibility="unlisted")]
        others = [*await posted(ann, "spammer", "ham"), *await posted(ben, "spam for friends", visibility="followers")]
        preview = await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")
        assert set(preview.action.post_ids) == {post.id for post in spam}
        assert {(each.post_id, each.author_name) for each in preview.examples} == {
            *((post.id, "ann") for post in spam[:2]),
            (spam[2].id, "ben"),
        }
        assert not any(post.hidden for post in await reread(shoal, spam))
        others += await posted(ann, "spam after the preview")
        await shoal.bulk_moderation.apply(preview.action.id, "wave of spam")
        assert all(post.hidden for post in await reread(shoal, spam))
        assert not any(post.hidden for post in await reread(shoal, others))
        assert "Buy SPAM #now" not in texts(await ben.public())
        shown = (await shoal.bulk_moderation.show(preview.action.id)).action
        assert (shown.state, shown.changed, shown.reason) == (BulkState.APPLIED, 3, "wave of spam")
        await assert_consistent(shoal)
        await shoal.bulk_moderation.undo(preview.action.id)
        assert not any(post.hidden for post in await reread(shoal, spam))
        shown = (await shoal.bulk_moderation.show(preview.action.id)).action
        assert (shown.state, shown.changed) == (BulkState.UNDONE, 0)
        assert "Buy SPAM #now" in texts(await ben.public())
        await assert_consistent(shoal)


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_bulk_action_has_one_audit_entry_and_undo_another(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        (ann,) = await register(shoal, "ann")
        await posted(ann, "spam 1", "spam 2")
        action = await applied(shoal, BulkQuery(words=("spam",)))
        await shoal.bulk_moderation.apply(action.id)
        await shoal.bulk_moderation.undo(action.id)
        await shoal.bulk_moderation.undo(action.id)
        await shoal.settle()
        entries = (await shoal.moderation.audit_log()).entries
        found = [(each.entry.verb, each.entry.target_id, each.entry.details) for each in entries]
        details = {"action": "hide", "posts": 2}
        assert found == [
            (AuditVerb.POSTS_RESTORED, action.id, details),
            (AuditVerb.POSTS_CHANGED, action.id, details),
        ]


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_undo_leaves_posts_that_were_hidden_or_changed_otherwise(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        (ann,) = await register(shoal, "ann")
        before, revealed, again, edited, deleted, plain = await posted(ann, *(f"spam {n}" for n in range(6)))
        await shoal.hide(before)
        action = await applied(shoal, BulkQuery(words=("spam",)))
        assert before.id not in action.post_ids
        await shoal.reveal(revealed)
        await shoal.hide(revealed)
        await shoal.hide(again)
        (entry, *_) = (await shoal.moderation.audit_log()).entries
        assert (entry.entry.verb, entry.entry.target_id) == (AuditVerb.POST_HIDDEN, again.id)
        await ann.update(edited, "spam, edited")
        await ann.delete(deleted)
        await shoal.bulk_moderation.undo(action.id)
        all_ = (before, revealed, again, edited, deleted, plain)
        found = {post.id: bool(post.hidden) for post in await reread(shoal, all_)}
        assert found == {before.id: True, revealed.id: True, again.id: True, edited.id: False, plain.id: False}
        await assert_consistent(shoal)


@pytest.mark.parametrize(("verb", "field"), [("mark_sensitive", "sensitive"), ("keep_from_trends", "untrendable")])
@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_bulk_action_on_a_field_sets_it_and_undo_resets_it(
    verb: Verb, field: str, store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path) as shoal:
        (ann,) = await register(shoal, "ann")
        first, second = await posted(ann, "a #spam", "another #spam")
        (own,) = await posted(ann, "a #spam too", sensitive=True)
        action = await applied(shoal, BulkQuery(tag="spam"), verb)
        expected = {first.id, second.id} if verb == "mark_sensitive" else {first.id, second.id, own.id}
        assert set(action.post_ids) == expected
        assert all(getattr(post, field) for post in await reread(shoal, (first, second)))
        await shoal.bulk_moderation.undo(action.id)
        after = await reread(shoal, (first, second, own))
        assert [getattr(post, field) for post in after] == [False, False, verb == "mark_sensitive"]
        await assert_consistent(shoal)


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_bulk_query_selects_by_member_tag_domain_and_time(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        tagged, linked = await posted(ann, "the #reef", "see https://a.evil.example/x")
        (other,) = await posted(ben, "the #reef")

        async def select(**values: Any) -> set[int]:
            return set((await shoal.bulk_moderation.preview(BulkQuery(**values), "hide")).action.post_ids)

        assert await select(member_id=ann.id) == {tagged.id, linked.id}
        assert await select(tag="Reef") == {tagged.id, other.id}
        assert await select(member_id=ann.id, tag="reef") == {tagged.id}
        assert await select(domains=("evil.example",)) == {linked.id}
        assert await select(tag="reef", since=other.created_at) == {other.id}
        assert await select(tag="reef", until=other.created_at) == {tagged.id}
        assert await select(words=("reef",), since=other.created_at) == {other.id}
        with pytest.raises(InvalidInput, match="at least one of"):
            await select(since=1)
        with pytest.raises(InvalidInput, match="before until"):
            await select(tag="reef", since=2, until=2)
        with pytest.raises(NotFound):
            await select(media_id=12345)


@pytest.mark.parametrize("by", ["all", "member", "limit of pages"])
@in_loop
async def test_bulk_queries_until_the_time_that_the_last_one_reached_select_all_posts(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        monkeypatch.setattr(queries, "MAX_POSTS", 100 if by == "limit of pages" else 3)
        monkeypatch.setattr(queries, "_PAGE", 4)
        monkeypatch.setattr(queries, "_MOST_PAGES", 2 if by == "limit of pages" else 40)
        # Several posts are of one millisecond, and the number of posts is a multiple of the size of a page.
        ids = [compose(EPOCH_MS + 1_000 + n // 4, shard_of(ann.id), n % 4) for n in range(16)]
        for id_ in ids:
            await posts.create(shoal.network.writes, ann.id, posts.Draft(text="spam"), id_=id_)
        query, found, rounds = BulkQuery(words=("spam",), member_id=0 if by == "all" else ann.id), set[int](), 0
        while True:
            action = (await shoal.bulk_moderation.preview(query, "hide")).action
            assert not found.intersection(action.post_ids)
            found.update(action.post_ids)
            await shoal.bulk_moderation.apply(action.id)
            await shoal.settle()
            if not action.reached:
                break
            query = msgspec.structs.replace(query, until=action.reached)
            rounds += 1
            assert rounds < 10
        assert found == set(ids)


def chart(seed: int) -> bytes:
    """Return a picture with distinct areas of color."""
    picture = Image.new("RGB", (64, 48))
    for x in range(64):
        for y in range(48):
            picture.putpixel((x, y), ((x * 4 * seed) % 256, (y * 5) % 256, ((x // 16 + y // 16 + seed) % 2) * 255))
    made = io.BytesIO()
    picture.save(made, "PNG")
    return made.getvalue()


class Dying:
    """A graph that fails after a number of commits, as a killed process does."""

    def __init__(self, graph: Graph, commits: int) -> None:
        self._graph, self.left = graph, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        if not self.left:
            raise Unavailable("killed")
        self.left -= 1
        await self._graph.commit(batch)


async def carry_out(network: Network, action_id: int, deaths: Sequence[int]) -> None:
    """Run the consumer to its end; it dies after each of these numbers of commits, and is then repeated from its last mark."""
    mark: int | None = 0
    pending = list(deaths)
    event = BulkActionDue(action_id=action_id)
    while mark is not None:
        graph = network.effects.graph
        effects = replace(network.effects, graph=cast("Graph", Dying(graph, pending.pop(0))) if pending else graph)
        try:
            mark = await consumer.carry_out(effects, event, mark)
        except (Unavailable, ExceptionGroup):
            continue


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("deaths", [[0], [1], [30, 7, 0, 25], [49, 1, 49, 1], [50, 50, 20]])
@in_loop
async def test_bulk_action_and_undo_killed_anywhere_change_each_post_once(
    deaths: list[int], store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path, background=False) as shoal:
        network, authors = shoal.network, await register(shoal, *(f"member{n}" for n in range(6)))
        made = [
            await posts.create(network.writes, authors[n % 6].id, posts.Draft(text=f"spam {n}", sensitive=n % 10 == 0))
            for n in range(120)
        ]
        action = (await preview(network.store, network.writes, BulkQuery(words=("spam",)), "mark_sensitive")).action
        assert len(action.post_ids) == 108
        await bulk_moderation.apply(network.writes, action.id)
        await carry_out(network, action.id, deaths)
        after = await network.store.obj_get([post.id for post in made])
        changed = [node for post in made if isinstance(node := after[post.id], Post)]
        assert all(node.sensitive for node in changed)
        assert {node.version - post.version for node, post in zip(changed, made, strict=True)} == {0, 1}
        (stored,) = await bulk_moderation.stored(network.store)
        assert (stored.state, stored.changed) == (BulkState.APPLIED, 108)
        await bulk_moderation.undo(network.writes, action.id)
        await carry_out(network, action.id, deaths)
        restored = await network.store.obj_get([post.id for post in made])
        assert [(node.id, node.sensitive) for node in restored.values() if isinstance(node, Post)] == [
            (id_, post.sensitive) for id_ in restored for post in made if post.id == id_
        ]
        assert not await network.store.assoc_range(made[1].id, BULK_CHANGED, Cursor())
        (stored,) = await bulk_moderation.stored(network.store)
        assert (stored.state, stored.changed) == (BulkState.UNDONE, 0)


class Late:
    """A graph whose first commit waits for `before`, as that of a worker that lost its lease."""

    def __init__(self, graph: Graph, before: Callable[[], Awaitable[object]]) -> None:
        self._graph, self._before = graph, [before]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        if self._before:
            await self._before.pop()()
        await self._graph.commit(batch)


@pytest.mark.parametrize("store", STORES[:-1])
@in_loop
async def test_late_worker_does_not_apply_an_action_that_was_undone_since(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, background=False) as shoal:
        network, (ann,) = shoal.network, await register(shoal, "ann")
        (post,) = await posted(ann, "spam")
        action = (await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")).action

        async def undone_by_other_worker() -> None:
            await carry_out(network, action.id, ())
            await bulk_moderation.undo(network.writes, action.id)
            await carry_out(network, action.id, ())

        await bulk_moderation.apply(network.writes, action.id)
        late = cast("Graph", Late(network.effects.graph, undone_by_other_worker))
        assert (
            await consumer.carry_out(replace(network.effects, graph=late), BulkActionDue(action_id=action.id), 0)
            is None
        )
        after = await network.store.obj_get([post.id])
        assert [node.hidden for node in after.values() if isinstance(node, Post)] == [0]
        assert not await network.store.assoc_range(post.id, BULK_CHANGED, Cursor())
        (stored,) = await bulk_moderation.stored(network.store)
        assert (stored.state, stored.changed) == (BulkState.UNDONE, 0)


@in_loop
async def test_bulk_action_refuses_steps_in_the_wrong_state(tmp_path: Path) -> None:
    async with opened("memory", tmp_path, background=False) as shoal:
        network = shoal.network
        action = await bulk_moderation.create(network.writes, BulkQuery(words=("spam",)).checked(), "hide", [1])
        with pytest.raises(Unfit, match="apply it first"):
            await bulk_moderation.undo(network.writes, action.id)
        await bulk_moderation.apply(network.writes, action.id)
        with pytest.raises(Unfit, match="being applied"):
            await bulk_moderation.undo(network.writes, action.id)
        with pytest.raises(InvalidInput, match="at most 1000 posts"):
            await bulk_moderation.create(network.writes, action.query, "hide", range(1, 1_002))


@in_loop
async def test_old_preview_cannot_be_applied_and_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await posted(ann, "spam")
        old = (await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")).action
        monkeypatch.setattr(bulk_moderation, "PREVIEW_MS", -1_000 * PREVIEW_MS)
        with pytest.raises(Gone, match="older than a day"):
            await shoal.bulk_moderation.apply(old.id)
        monkeypatch.undo()
        monkeypatch.setattr(bulk_moderation, "MAX_ACTIONS", 1)
        new = (await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")).action
        assert [action.id for action in await shoal.bulk_moderation.all()] == [new.id]
        await shoal.settle()
        with pytest.raises(NotFound):
            await shoal.bulk_moderation.show(old.id)
        await assert_consistent(shoal)
        assert MAX_ACTIONS == 100


@in_loop
async def test_bulk_action_that_can_be_undone_is_not_deleted_for_previews(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_moderation, "MAX_ACTIONS", 3)
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        spam = await posted(ann, "spam")
        action = await applied(shoal, BulkQuery(words=("spam",)))
        previews = [(await shoal.bulk_moderation.preview(BulkQuery(words=("ham",)), "hide")).action for _ in range(5)]
        stored = [each.id for each in await shoal.bulk_moderation.all()]
        assert stored == [previews[4].id, previews[3].id, action.id]
        await shoal.bulk_moderation.undo(action.id)
        assert not any(post.hidden for post in await reread(shoal, spam))
        for word in ("eggs", "toast", "beans"):
            await applied(shoal, BulkQuery(words=(word,)))
        # Undone actions are deleted before applied ones, and of these the oldest.
        assert action.id not in [each.id for each in await shoal.bulk_moderation.all()]
        last = await applied(shoal, BulkQuery(words=("tea",)))
        stored = [each.id for each in await shoal.bulk_moderation.all()]
        assert (len(stored), stored[0]) == (3, last.id)
        await assert_consistent(shoal)


@in_loop
async def test_bulk_preview_shows_all_posts_in_pages_of_twenty() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await posted(ann, *[f"spam {number}" for number in range(45)])
        page = await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")
        found = [[each.post_id for each in page.examples]]
        while page.next:
            page = await shoal.bulk_moderation.show(page.action.id, before=page.next)
            found.append([each.post_id for each in page.examples])
        assert [len(ids) for ids in found] == [20, 20, 5]
        assert [id_ for ids in found for id_ in ids] == [post.id for post in reversed(made)]


@in_loop
async def test_bulk_action_shows_no_text_of_a_post_that_is_private_since() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        first, second = await posted(ann, "spam one", "spam two")
        preview = await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")
        await posts.update(
            shoal.network.writes, ann.id, second.id, posts.Draft(text="secret"), visibility=Visibility.DIRECT
        )
        shown = await shoal.bulk_moderation.show(preview.action.id)
        assert [(each.post_id, each.text) for each in shown.examples] == [(first.id, "spam one")]


@in_loop
async def test_bulk_selection_beyond_its_time_covers_the_posts_that_it_read() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await posted(ann, *(f"spam {n}" for n in range(4)))
        query = BulkQuery(member_id=ann.id)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(queries, "_PAGE", 2)
            found = await queries.select(shoal.network.store, query, "hide", seconds=0)
        assert found.post_ids == [made[3].id, made[2].id]
        assert found.reached > 0


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_pictures_of_hidden_posts_are_listed_as_removed_until_the_post_is_revealed(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        one = await ann.upload(chart(1))
        post = await ann.create("look", media=[one])
        again = await ben.create("look too", media=[await ben.upload(chart(1))])
        await shoal.hide(post)
        assert await removed_pictures(shoal.network.store) == [one.blurhash]
        preview = await shoal.bulk_moderation.preview(BulkQuery(media_id=one.id), "hide")
        assert preview.action.post_ids == (again.id,)
        await shoal.bulk_moderation.apply(preview.action.id)
        await shoal.settle()
        assert await removed_pictures(shoal.network.store) == [one.blurhash] * 2
        await shoal.bulk_moderation.undo(preview.action.id)
        await shoal.settle()
        await shoal.reveal(post)
        assert await removed_pictures(shoal.network.store) == []
        await shoal.hide(post)
        await ann.delete(post)
        assert await removed_pictures(shoal.network.store) == [one.blurhash]
        await assert_consistent(shoal)


def test_bulk_query_that_is_too_large_is_refused() -> None:
    letter = "e" + "\u0335" * 6
    words = tuple(f"{n} " + letter * 90 for n in range(200))
    with pytest.raises(InvalidInput, match="at most 200000 bytes") as refused:
        BulkQuery(words=words).checked()
    assert refused.value.field == "words"
    assert BulkQuery(words=words[:100]).checked().words == words[:100]


def test_bulk_action_is_a_stored_object_with_its_query() -> None:
    query = BulkQuery(words=(" Spam  now ",), tag="#Reef", member_id=3).checked()
    assert (query.words, query.tag) == (("Spam now",), "reef")
