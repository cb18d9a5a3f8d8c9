"""Posts of kinds: declaration, checks of data on create and edit, and all ways on which a post is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.admin.archives.importer import import_archive
from shoal.admin.consistency.check import check
from shoal.commands import kinds, posts
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.core.audit import AuditVerb
from shoal.core.bulk_moderation import BulkQuery
from shoal.core.errors import Held, InvalidInput, NotFound, Unfit
from shoal.core.ids import IdMaker, now_ms
from shoal.core.kinds import MAX_KINDS, KindDraft
from shoal.core.model import Presentation
from shoal.core.moderation_rules import Conditions, RuleDraft
from shoal.graph.kinds import all_kinds
from tests.async_runner import in_loop, run
from tests.stores import Backend

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "minutes": {"type": "integer", "maximum": 1440},
        "source": {"type": "string", "format": "uri"},
    },
    "required": ["title"],
    "additionalProperties": False,
}
RECIPE = KindDraft(name="recipe", schema=SCHEMA, title="title", link="source")
WIDER = KindDraft(
    name="recipe",
    schema=SCHEMA | {"properties": SCHEMA["properties"] | {"servings": {"type": "integer"}}},
    title="title",
)
SOUP = {"title": "Soup", "minutes": 20, "source": "https://example.org/soup"}


@in_loop
async def test_kind_is_declared_changed_and_listed_with_audit_entries() -> None:
    async with Shoal.open("memory://") as shoal:
        first = await shoal.kinds.declare(RECIPE)
        assert (first.name, first.schema_version, first.draft) == ("recipe", 1, RECIPE)
        assert await shoal.kinds.declare(RECIPE) == first
        second = await shoal.kinds.declare(WIDER)
        assert (second.schema_version, second.draft) == (2, WIDER)
        with pytest.raises(Unfit, match=r"data\.servings: the property was removed"):
            await shoal.kinds.declare(RECIPE)
        await shoal.kinds.declare(KindDraft(name="listing", schema={"type": "object"}))
        assert [kind.name for kind in await shoal.kinds.all()] == ["listing", "recipe"]
        assert await shoal.kinds.get("recipe") == second
        with pytest.raises(NotFound, match="there is no kind 'run'"):
            await shoal.kinds.get("run")
        entries = [each.entry for each in (await shoal.moderation.audit_log()).entries]
        assert [(each.verb, each.target_name, each.details["version"]) for each in entries] == [
            (AuditVerb.KIND_DECLARED, "listing", 1),
            (AuditVerb.KIND_DECLARED, "recipe", 2),
            (AuditVerb.KIND_DECLARED, "recipe", 1),
        ]


@in_loop
async def test_kinds_beyond_the_maximum_are_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        for number in range(MAX_KINDS):
            await shoal.kinds.declare(KindDraft(name=f"kind{number}", schema={"type": "object"}))
        with pytest.raises(Unfit, match="there are 100 kinds already"):
            await shoal.kinds.declare(RECIPE)
        await shoal.kinds.declare(KindDraft(name="kind7", schema={"type": "object"}, title=""))


def test_kinds_are_stored_on_every_store(backend: Backend) -> None:
    async def opened() -> None:
        async with backend.open() as store:
            writes = Writes(store, IdMaker(), media=None)  # type: ignore[arg-type]  # kinds need no media
            await asyncio.gather(*(kinds.declare(writes, RECIPE) for _ in range(4)))
            assert (await kinds.declare(writes, WIDER)).schema_version == 2
            assert [(kind.name, kind.draft) for kind in await all_kinds(store)] == [("recipe", WIDER)]

    run(opened())


@in_loop
async def test_post_of_kind_is_checked_when_created_and_edited() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        with pytest.raises(InvalidInput, match="kind: there is no kind 'recipe'"):
            await ann.create("Soup", kind="recipe", data=SOUP)
        await shoal.kinds.declare(RECIPE)
        for data, message in (
            ({"title": "Soup", "minutes": 2000}, r"data.minutes: must be at most 1440 \(got 2000\)"),
            (None, r"data: must be an object \(got null\)"),
        ):
            with pytest.raises(InvalidInput, match=message):
                await ann.create("Soup", kind="recipe", data=data)
        post = await ann.create(kind="recipe", data=SOUP)
        assert (post.kind, post.kind_version, post.data) == ("recipe", 1, SOUP)
        assert post.presentation == Presentation(title="Soup", link="https://example.org/soup")
        with pytest.raises(InvalidInput, match=r"data\.title: is required"):
            await ann.update(post, data={})
        with pytest.raises(InvalidInput, match=r"data: must be an object \(got null\)"):
            await ann.update(post, "text", data=None)
        assert (await ann.read(post)).post == post
        await shoal.kinds.declare(WIDER)
        assert (await ann.update(post, "Nice")).kind_version == 1
        edited = await ann.update(post, data={"title": "Stew", "servings": 4})
        assert (edited.kind, edited.kind_version, edited.presentation) == ("recipe", 2, Presentation(title="Stew"))
        assert len((await ann.posts()).entries) == 1
        assert (await check(shoal.network)).clean


@in_loop
async def test_kind_of_a_post_cannot_be_changed() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(RECIPE)
        ann = await shoal.register("ann")
        recipe, plain = await ann.create(kind="recipe", data=SOUP), await ann.create("Hello")
        writes = shoal.network.writes
        for post, found in ((recipe, "recipe"), (plain, "none")):
            with pytest.raises(InvalidInput, match=rf"kind: cannot be changed \(the post has the kind {found}\)"):
                await posts.update(writes, ann.id, post.id, Draft(text="x", kind="listing", data=post.data))
        edited = await posts.update(writes, ann.id, recipe.id, Draft(text="x", kind="recipe", data=SOUP))
        assert edited.kind == "recipe"


@in_loop
async def test_scheduled_and_held_posts_keep_their_kind() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(RECIPE)
        ann = await shoal.register("ann")
        soon = now_ms() + 400_000
        with pytest.raises(InvalidInput, match=r"data\.title: is required"):
            await ann.scheduled.create(at=soon, kind="recipe", data={})
        await ann.scheduled.create(at=soon, kind="recipe", data=SOUP)
        rule = await shoal.moderation_rules.create(RuleDraft(name="Soup", conditions=Conditions(words=("soup",))))
        await shoal.moderation_rules.dry_run([rule.id])
        await shoal.moderation_rules.set_state(rule.id, "armed")
        await shoal.network.rules.read()
        with pytest.raises(Held) as held:
            await ann.create(kind="recipe", data=SOUP)
        await shoal.moderation.approve_held(held.value.held_id)
        (entry,) = (await ann.posts()).entries
        assert (entry.post.kind, entry.post.data) == ("recipe", SOUP)


@in_loop
async def test_filters_of_members_and_bulk_queries_of_moderators_find_texts_and_links_of_data() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(RECIPE)
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        post = await ann.create(kind="recipe", data=SOUP)
        await ben.filters.create("No soup", contexts=["public"], keywords=["soup"])
        await shoal.settle()
        (entry,) = (await ben.posts_of_kind("recipe")).entries
        assert [each.filter.title for each in entry.filtered] == ["No soup"]
        other = await ann.create("Other", data={"note": ["from https://spam.example/x"]})
        for query, found in (
            (BulkQuery(words=("soup",)), post),
            (BulkQuery(domains=("example.org",)), post),
            (BulkQuery(words=("from",)), other),
            (BulkQuery(domains=("spam.example",)), other),
        ):
            preview = await shoal.bulk_moderation.preview(query, "hide")
            assert list(preview.action.post_ids) == [found.id]
            assert preview.examples[0].text.startswith("Soup" if found is post else "Other")


@in_loop
async def test_export_of_a_member_is_imported_with_kinds_that_exist(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(RECIPE)
        ann = await shoal.register("ann")
        await ann.create("One", kind="recipe", data=SOUP)
        await ann.export(tmp_path / "ann.zip")
    for known in (True, False):
        async with Shoal.open("memory://") as other:
            if known:
                await other.kinds.declare(RECIPE)
            copy = await other.register("copy")
            await import_archive(other.network, copy.id, tmp_path / "ann.zip", dry_run=False)
            await other.settle()
            (entry,) = (await copy.posts()).entries
            assert (entry.post.kind, entry.post.data) == ("recipe" if known else "", SOUP)


@in_loop
async def test_search_finds_posts_of_a_kind_and_their_titles() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(RECIPE)
        ann = await shoal.register("ann")
        soup = await ann.create(kind="recipe", data=SOUP)
        other = await ann.create("Soup is nice")
        stew = await ann.create("Nice", kind="recipe", data={"title": "Stew"})
        await shoal.settle()

        async def ids(query: str) -> list[int]:
            return [entry.id for entry in await ann.search_posts(query)]

        assert await ids("kind:recipe") == [stew.id, soup.id]
        assert await ids("soup kind:recipe") == await ids("has:link") == [soup.id]
        assert await ids("nice -kind:recipe") == [other.id]
        assert await ids("kind:run") == await ids("kind:Ré") == []
        await ann.update(stew, data={"title": "Pie"})
        await shoal.settle()
        assert (await ids("stew"), await ids("pie")) == ([], [stew.id])
