"""Lists of posts by kind and by indexed property: filters, pages, costs, changes of posts and of the index, check and repair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.consumers.kinds import index_all
from shoal.core.errors import InvalidInput, NotFound, Unfit
from shoal.core.events import KindChanged
from shoal.core.kinds import KindDraft
from shoal.core.model import Post
from shoal.core.places import disk
from shoal.graph.contract import Batch, Cursor
from shoal.graph.kinds import index_post
from shoal.graph.schema import INDEX_OF, INDEXED, index_id
from shoal.queries.kinds import posts_page
from tests.async_runner import in_loop
from tests.engines import dynamodb, postgres
from tests.example_counts import examples
from tests.flows.query_counts import calls
from tests.tiers import deep

RECIPE = KindDraft(
    name="recipe",
    schema={
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "cuisine": {"type": "string"},
            "minutes": {"type": "number"},
            "vegan": {"type": "boolean"},
            "served": {"type": "string"},
            "place": {"type": "object"},
        },
        "additionalProperties": False,
    },
    title="title",
    index={"cuisine": "string", "minutes": "number", "vegan": "boolean", "served": "time", "place": "geo"},
    pairs=(("cuisine", "minutes"), ("vegan", "place")),
)
PARIS, ROME = {"latitude": 48.85, "longitude": 2.35}, {"latitude": 41.9, "longitude": 12.5}


@asynccontextmanager
async def kitchen(
    url: str | dict[str, str] = "memory://", declaration: KindDraft = RECIPE
) -> AsyncIterator[tuple[Shoal, Handle]]:
    async with Shoal.open(url) as shoal:
        await shoal.kinds.declare(declaration)
        yield shoal, await shoal.register("ann")


async def cook(ann: Handle, **data: Any) -> int:
    return (await ann.create(kind="recipe", data=data)).id


async def ids(someone: Any, where: dict[str, Any] | None = None, **options: Any) -> list[int]:
    return [entry.id for entry in (await someone.posts_of_kind("recipe", where or {}, **options)).entries]


ENGINES = ["sqlite", "postgres", "dynamodb", *deep("memory", "three sqlite")]


async def store_url(engine: str, folder: Path) -> str | dict[str, str]:
    match engine:
        case "sqlite":
            return f"sqlite:///{folder}/shoal.db"
        case "three sqlite":
            return {sources: f"sqlite:///{folder}/{sources}.db" for sources in ("0-20", "21-40", "41-63")}
        case "postgres":
            return await postgres.database(asyncio.current_task())
        case "dynamodb":
            return dynamodb.new_table()
    return "memory://"


@in_loop
async def test_posts_are_filtered_by_each_type_of_property() -> None:
    async with kitchen() as (shoal, ann):
        curry = await cook(ann, cuisine="thai", minutes=20, vegan=True, served="2026-01-31", place=PARIS)
        pasta = await cook(ann, cuisine="italian", minutes=10.5, vegan=False, served="2026-02-01T12:00:00Z", place=ROME)
        bread = await cook(ann, minutes=240)
        await ann.create("No recipe")
        await shoal.settle()
        assert await ids(ann) == [bread, pasta, curry]
        for where, expected in (
            ({"cuisine": "thai"}, [curry]),
            ({"cuisine": ["thai", "italian", "greek"]}, [pasta, curry]),
            ({"cuisine": "greek"}, []),
            ({"minutes": 20}, [curry]),
            ({"minutes": [20, 240]}, [bread, curry]),
            ({"minutes": (10, 30)}, [pasta, curry]),
            ({"minutes": (None, 20)}, [pasta, curry]),
            ({"minutes": (20.1, None)}, [bread]),
            ({"minutes": "10..20"}, [pasta, curry]),
            ({"vegan": True}, [curry]),
            ({"served": ("2026-02-01", None)}, [pasta]),
            ({"served": "2026-01-31"}, [curry]),
            ({"place": disk(48.8, 2.3, 20)}, [curry]),
            ({"place": "41.9,12.5,1"}, [pasta]),
            ({"cuisine": "thai", "minutes": (0, 60)}, [curry]),
            ({"minutes": (11, 60), "cuisine": "italian"}, []),
            ({"vegan": False, "place": disk(41.9, 12.5, 50)}, [pasta]),
        ):
            assert await ids(shoal.visitor, where) == expected, where
            assert await ids(ann, where, author=ann) == expected, where
        assert (await check(shoal.network)).clean


@in_loop
async def test_filters_that_no_list_covers_are_refused() -> None:
    async with kitchen() as (_, ann):
        for where, message in (
            ({"title": "Soup"}, "filter: 'title' has no index of the kind recipe \\(indexed: cuisine, minutes, vegan"),
            ({"cuisine": "thai", "vegan": True}, "cuisine and vegan are no declared pair of the kind recipe"),
            ({"cuisine": "thai", "vegan": True, "minutes": 5}, "at most two properties"),
            ({"minutes": "soon"}, "minutes must be a number"),
        ):
            with pytest.raises(InvalidInput, match=message):
                await ids(ann, where)
        with pytest.raises(NotFound):
            await ann.posts_of_kind("run")
        with pytest.raises(InvalidInput, match="limit"):
            await ids(ann, limit=0)


@in_loop
async def test_lists_follow_edits_narrowing_and_deletion() -> None:
    async with kitchen() as (shoal, ann):
        post, other = await cook(ann, cuisine="thai", minutes=20), await cook(ann, cuisine="thai", minutes=20)
        ben = await shoal.register("ben")
        await ann.update(post, data={"cuisine": "greek", "minutes": 19})
        await shoal.settle()
        assert await ids(ben, {"cuisine": "thai"}) == [other]
        assert await ids(ben, {"cuisine": "greek", "minutes": (19, 19)}) == [post]
        await ann.update(post, data={"cuisine": "thai", "minutes": 20})
        await shoal.settle()
        assert await ids(ben, {"cuisine": "thai"}) == [other, post]
        await ann.update(post, visibility="followers")
        await shoal.settle()
        assert await ids(ben, {"cuisine": "thai"}) == await ids(ben, author=ann) == [other]
        assert await ids(ann, {"cuisine": "thai"}, author=ann) == [other, post]
        await ann.delete(post)
        await ann.delete(other)
        await shoal.settle()
        assert await ids(ann) == await ids(ann, author=ann) == []
        assert await shoal.network.store.assoc_range(post, INDEXED, Cursor()) == []
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize("engine", ENGINES)
@in_loop
async def test_pages_of_filtered_posts_are_complete_on_every_store(engine: str, tmp_path: Path) -> None:
    async with kitchen(await store_url(engine, tmp_path)) as (shoal, ann):
        made = [await cook(ann, cuisine="thai" if n % 3 else "greek", minutes=n) for n in range(30)]
        await shoal.settle()
        for where, expected in (
            ({}, made),
            ({"cuisine": "thai"}, [id_ for n, id_ in enumerate(made) if n % 3]),
            ({"minutes": (5, 21)}, made[5:22]),
            ({"cuisine": "thai", "minutes": (5, 21)}, [id_ for n, id_ in enumerate(made) if n % 3 and 5 <= n <= 21]),
        ):
            found: list[int] = []
            before = None
            while True:
                page = await shoal.visitor.posts_of_kind("recipe", where, before, 7)
                found += [entry.id for entry in page.entries]
                before = page.next
                if before is None:
                    break
            assert found == sorted(expected, reverse=True), where
            newer = await ids(shoal.visitor, where, after=min(expected), oldest_first=True, limit=3)
            assert newer == sorted(expected)[3:0:-1]
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize("engine", ["sqlite", *deep("memory", "postgres", "dynamodb")])
@in_loop
async def test_cost_of_a_filtered_page_is_independent_of_the_number_of_posts(engine: str, tmp_path: Path) -> None:
    counted = []
    for size in (45, 150):
        (tmp_path / str(size)).mkdir()
        async with kitchen(await store_url(engine, tmp_path / str(size))) as (shoal, ann):
            for n in range(size):
                await cook(ann, cuisine="thai" if n % 2 else "greek", minutes=n % 40)
            await shoal.settle()
            kind = await shoal.kinds.get("recipe")
            costs = []
            for where in ({}, {"cuisine": "thai"}, {"minutes": (10, 30)}, {"cuisine": "thai", "minutes": (10, 30)}):
                filters = kind.filters(where)

                async def read(reads: Any, filters: Any = filters, kind: Any = kind) -> object:
                    return await posts_page(reads, None, kind, filters, Cursor(limit=10))

                costs.append(await calls(shoal.network, read))
            counted.append(costs)
    assert counted[0] == counted[1]
    assert all(cost["assoc_ranges"] <= 3 and cost.total() <= 9 for cost in counted[0])


@in_loop
async def test_added_path_is_read_when_all_posts_are_indexed() -> None:
    before = replace_draft(index={"cuisine": "string"}, pairs=())
    async with kitchen(declaration=before) as (shoal, ann):
        made = [await cook(ann, cuisine="thai", minutes=n) for n in range(120)]
        await shoal.settle()
        with pytest.raises(InvalidInput, match="'minutes' has no index"):
            await ids(ann, {"minutes": 5})
        kind = await shoal.kinds.declare(replace_draft(index={"cuisine": "string", "minutes": "number"}))
        assert (kind.schema_version, kind.building) == (2, ("minutes", "cuisine and minutes"))
        for where in ({"minutes": 5}, {"cuisine": "thai", "minutes": 5}):
            with pytest.raises(Unfit, match="is being built"):
                kind.lists(kind.filters(where))
        assert kind.lists(kind.filters({"cuisine": "thai"}))
        await shoal.settle()
        assert (await shoal.kinds.get("recipe")).building == ()
        assert await ids(ann, {"minutes": 5}) == await ids(ann, {"cuisine": "thai", "minutes": 5}) == [made[5]]
        assert (await check(shoal.network)).clean
        # Without the path, the lists lose their entries.
        await shoal.kinds.declare(before)
        await shoal.settle()
        assert (await check(shoal.network)).clean
        await shoal.kinds.declare(replace_draft(index={"cuisine": "string", "minutes": "number"}))
        await shoal.kinds.declare(replace_draft(index={"cuisine": "string", "minutes": "number"}, title=""))
        await shoal.settle()
        assert (await shoal.kinds.get("recipe")).building == ()
        assert await ids(ann, {"minutes": 5}) == [made[5]]


def replace_draft(**values: Any) -> KindDraft:
    given = {name: getattr(RECIPE, name) for name in RECIPE.__struct_fields__}
    return KindDraft(**{**given, "pairs": (("cuisine", "minutes"),), **values})


@in_loop
async def test_changed_type_of_an_indexed_path_is_refused() -> None:
    async with kitchen() as (shoal, _):
        with pytest.raises(Unfit, match=r"index: the type of served was changed \(from time to string\)"):
            await shoal.kinds.declare(replace_draft(index={**RECIPE.index, "served": "string"}))


LATER = (1).to_bytes(4) * 3
"""The data of an entry that is a little later than that of a new post."""


@in_loop
async def test_check_finds_and_repairs_missing_and_stale_entries() -> None:
    async with kitchen() as (shoal, ann):
        post, other = await cook(ann, cuisine="thai"), await cook(ann, cuisine="greek")
        await shoal.settle()
        store = shoal.network.store
        (thai,) = {entry.id2 for entry in await store.assoc_range(post, INDEXED, Cursor())} - await lists_of(
            shoal, other
        )
        batch = Batch(0)
        batch.assoc_del(post, INDEXED, thai, post, LATER)
        batch.assoc_add(other, INDEXED, thai, other, LATER)
        batch.assoc_add(other, INDEXED, index_id("outdated"), other, LATER)
        await store.commit(batch)
        report = await check(shoal.network)
        assert report["kinds"].found == 3
        assert (await check(shoal.network, repair=True)).repaired == 3
        assert (await check(shoal.network)).clean
        assert await ids(ann, {"cuisine": "thai"}) == [post]
        assert [e.time for e in await store.assoc_range(thai, INDEX_OF, Cursor())] == [post]
        # Repaired entries follow later edits.
        await ann.update(other, data={"cuisine": "thai"})
        await ann.update(post, data={"cuisine": "greek"})
        await shoal.settle()
        assert await ids(ann, {"cuisine": "thai"}) == [other]
        assert (await check(shoal.network)).clean


async def lists_of(shoal: Shoal, post: int) -> set[int]:
    return {entry.id2 for entry in await shoal.network.store.assoc_range(post, INDEXED, Cursor(limit=100))}


@in_loop
async def test_concurrent_indexing_of_changing_posts_converges() -> None:
    async with kitchen() as (shoal, ann):
        posts = [await cook(ann, cuisine="thai", minutes=1) for _ in range(3)]
        for n in range(8):
            await asyncio.gather(
                *(ann.update(post, data={"cuisine": "greek" if n % 2 else "thai", "minutes": n}) for post in posts),
                *(index_post(shoal.network.effects.graph, post) for post in posts * 3),
            )
        await ann.delete(posts[0])
        await asyncio.gather(*(index_post(shoal.network.effects.graph, post) for post in posts * 2))
        await shoal.settle()
        assert (await check(shoal.network)).clean
        assert await ids(ann, {"cuisine": "greek", "minutes": (7, 7)}) == posts[:0:-1]


_data = st.fixed_dictionaries(
    {},
    optional={
        "cuisine": st.sampled_from(["thai", "greek"]),
        "minutes": st.integers(-5, 5) | st.sampled_from([0.5, 1e6]),
        "vegan": st.booleans(),
    },
)
_where = st.one_of(
    st.fixed_dictionaries({"cuisine": st.sampled_from(["thai", ["thai", "greek"]])}),
    st.fixed_dictionaries({"minutes": st.tuples(st.integers(-6, 3), st.integers(-3, 6) | st.none())}),
    st.fixed_dictionaries({"cuisine": st.just("thai"), "minutes": st.tuples(st.integers(-6, 3), st.none())}),
)


@settings(max_examples=examples(15, full=60), deadline=None)
@given(
    st.lists(_data, max_size=6), st.lists(st.tuples(st.integers(0, 5), _data), max_size=4), st.lists(_where, max_size=4)
)
def test_filtered_posts_equal_a_scan_of_all_posts(
    made: list[dict[str, Any]], edits: list[tuple[int, dict[str, Any]]], queries: list[dict[str, Any]]
) -> None:
    @in_loop
    async def scene() -> None:
        async with kitchen() as (shoal, ann):
            posts = [await cook(ann, **data) for data in made]
            for at, data in edits:
                if at < len(posts):
                    await ann.update(posts[at], data=data)
            await shoal.settle()
            kind = await shoal.kinds.get("recipe")
            nodes = await shoal.network.store.obj_get(posts)
            for where in queries:
                filters = kind.filters(where)
                expected = [
                    id_
                    for id_ in reversed(posts)
                    if isinstance(node := nodes[id_], Post)
                    and all(each.admits(node.data.get(each.path)) for each in filters)
                ]
                assert await ids(ann, where) == expected

    scene()


@pytest.mark.parametrize("engine", ["sqlite", "three sqlite"])
@in_loop
async def test_posts_written_during_the_indexing_of_a_new_path_are_indexed(engine: str, tmp_path: Path) -> None:
    former = replace_draft(index={"cuisine": "string"}, pairs=())
    async with kitchen(await store_url(engine, tmp_path), former) as (shoal, ann):
        others = [ann, *[await shoal.register(f"cook{n}") for n in range(4)]]
        made = [await cook(others[n % 5], cuisine="thai", minutes=n % 7) for n in range(60)]

        async def write(n: int) -> None:
            who = others[n % 5]
            if n % 3 == 0:
                await cook(who, cuisine="thai", minutes=n % 7)
            elif n % 3 == 1:
                await who.update(made[n], data={"cuisine": "greek", "minutes": n % 5})
            else:
                await who.delete(made[n])

        await asyncio.gather(
            *map(write, range(20)), shoal.kinds.declare(replace_draft(pairs=())), *map(write, range(20, 40))
        )
        await shoal.settle()
        assert (await shoal.kinds.get("recipe")).building == ()
        report = await check(shoal.network)
        assert report.clean, [line.examples for line in report.invariants if line.found]
        posts = [entry.post for entry in (await ann.posts_of_kind("recipe", limit=200)).entries]
        assert len(posts) == 61
        assert await ids(ann, {"minutes": 3}, limit=200) == [post.id for post in posts if post.data["minutes"] == 3]


@in_loop
async def test_indexing_of_a_kind_resumes_after_the_last_finished_page() -> None:
    async with kitchen() as (shoal, ann):
        made = [await cook(ann, minutes=n) for n in range(70)]
        await shoal.settle()
        kind = await shoal.kinds.get("recipe")
        event = KindChanged(kind_id=kind.id, schema_version=kind.schema_version)
        seen: list[int] = []

        async def note(_graph: object, post_id: int) -> None:
            seen.append(post_id)

        with patch("shoal.consumers.kinds.index_post", note):
            mark = await index_all(shoal.network.effects, event, 0)
            assert (mark, sorted(seen)) == (made[49], made[:50])
            assert await index_all(shoal.network.effects, event, made[49]) is None
            assert sorted(seen) == made
            outdated = KindChanged(kind_id=kind.id, schema_version=kind.schema_version - 1)
            assert await index_all(shoal.network.effects, outdated, 0) is None
            assert len(seen) == 70
