"""The contract of `graph/bulk.py`, on every graph that supports bulk loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shoal.admin.database_imports.merging import merged
from shoal.core.credentials import Login
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.graph.bulk import KeyRow, Loading, LoadPart, Occupied, grouped
from shoal.graph.contract import Batch, Cursor, IdTaken
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, encode_node, import_key, user_name_key
from tests.async_runner import in_loop
from tests.stores import BACKENDS, Backend, contents, started

NAMES = ("ann", "ben", "cyd", "dee", "eve")
IDS = {name: compose(EPOCH_MS + at, place(name).shard) for at, name in enumerate(NAMES, 1)}
FOLLOWING = [("ann", "ben"), ("ann", "cyd"), ("eve", "ben"), ("ben", "ann"), ("dee", "eve")]


def takes_parts(graph: object) -> Loading:
    if not (isinstance(graph, Loading) and graph.loads):
        pytest.skip("the graph does not support bulk loads")
    return graph


def people() -> LoadPart:
    nodes = [node for name in NAMES for node in pair(name)]
    keys = [KeyRow(space, name, IDS[name], 0) for name in NAMES for space in ("user_name", "import")]
    return LoadPart(sorted((node.id, node.version, encode_node(node)) for node in nodes), sorted(keys))


def pair(name: str) -> tuple[Member, Login]:
    return Member(id=IDS[name], name=name, login_id=IDS[name] + 1), Login(id=IDS[name] + 1, member_id=IDS[name])


def lists() -> LoadPart:
    ends = [(a, FOLLOWS, b, 7 + at) for at, (a, b) in enumerate(FOLLOWING)]
    ends += [(b, FOLLOWED_BY, a, 7 + at) for at, (a, b) in enumerate(FOLLOWING)]
    links = np.array(sorted((IDS[a], atype.number, IDS[b], time) for a, atype, b, time in ends), np.int64)
    pairs, lengths = np.unique(links[:, :2], axis=0, return_counts=True)
    return LoadPart(links=links, counts=np.column_stack((pairs, lengths)))


def commits() -> list[Batch]:
    made = []
    for name in NAMES:
        batch = Batch(shard_of(IDS[name]))
        for node in pair(name):
            batch.obj_add(node)
        batch.key_add(user_name_key(name), IDS[name])
        batch.key_add(import_key(batch.shard, name), IDS[name])
        made.append(batch)
    for at, (follower, followee) in enumerate(FOLLOWING):
        batch = Batch(shard_of(IDS[follower]))
        batch.assoc_add(IDS[follower], FOLLOWS, IDS[followee], 7 + at)
        made.append(batch)
    return made


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_graph_bulk_load_gives_same_contents_as_commits(name: str, tmp_path: Path) -> None:
    started(name)
    (tmp_path / "other").mkdir()
    async with Backend(name, tmp_path).open() as graph:
        store = takes_parts(graph)
        await store.load(people())
        await store.load(lists())
        found = await contents(graph)
    async with Backend(name, tmp_path / "other").open() as graph:
        for batch in commits():
            await graph.commit(batch)
        assert found == await contents(graph)


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_graph_bulk_load_with_existing_row_is_refused_completely(name: str, tmp_path: Path) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        store = takes_parts(graph)
        await store.load(people())
        await store.load(lists())
        before = await contents(graph)
        # On a separate data source, so that with several stores only one of them refuses.
        new = Member(id=IDS["ann"] + (1 << 40), name="new")
        taken = KeyRow("user_name", "ann", IDS["ann"], 0)
        for part in (
            LoadPart([(new.id, 1, encode_node(new)), (IDS["ann"], 1, encode_node(pair("ann")[0]))]),
            LoadPart([(new.id, 1, encode_node(new))], [taken]),
            LoadPart(links=np.array([(new.id - (1 << 40), FOLLOWS.number, IDS["cyd"], 99)], np.int64)),
            LoadPart(counts=np.array([(IDS["ann"], FOLLOWS.number, 2)], np.int64)),
        ):
            with pytest.raises(Occupied):
                await store.load(part)
            assert await contents(graph) == before


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_graph_bulk_load_invalidates_cached_reads(name: str, tmp_path: Path) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        store = takes_parts(graph)
        ann = IDS["ann"]
        assert await graph.obj_get((ann,)) == {}
        assert await graph.assoc_count((ann,), (FOLLOWS,)) == {FOLLOWS: {}}
        await store.load(people())
        await store.load(lists())
        assert set(await graph.obj_get((ann,))) == {ann}
        assert await graph.assoc_count((ann,), (FOLLOWS,)) == {FOLLOWS: {ann: 2}}
        assert set((await graph.assoc_get(ann, (FOLLOWS,), list(IDS.values())))[FOLLOWS]) == {IDS["ben"], IDS["cyd"]}


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_graph_merged_commit_gives_same_contents_as_separate_commits_and_no_stale_reads(
    name: str, tmp_path: Path
) -> None:
    started(name)
    (tmp_path / "other").mkdir()
    async with Backend(name, tmp_path).open() as graph:
        store = takes_parts(graph)
        ids = list(IDS.values())
        await graph.obj_get(ids)
        assert await graph.assoc_count(ids, (FOLLOWS, FOLLOWED_BY)) == {FOLLOWS: {}, FOLLOWED_BY: {}}
        for half in (commits()[: len(NAMES)], commits()[len(NAMES) :]):
            for batches in grouped(half, lambda batch: store.store_of(batch.shard)).values():
                await graph.commit(merged(batches))
        assert set(await graph.obj_get(ids)) == set(ids)
        ann, ben = IDS["ann"], IDS["ben"]
        assert (await graph.assoc_count(ids, (FOLLOWED_BY,)))[FOLLOWED_BY][ben] == 2
        assert [assoc.id2 for assoc in await graph.assoc_range(ann, FOLLOWS, Cursor())] == [IDS["cyd"], ben]
        found = await contents(graph)
    async with Backend(name, tmp_path / "other").open() as graph:
        for batch in commits():
            await graph.commit(batch)
        assert found == await contents(graph)


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_graph_merged_commit_with_an_existing_object_stores_nothing(name: str, tmp_path: Path) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        store = takes_parts(graph)
        first, *others = commits()
        await graph.commit(first)
        before = await contents(graph)
        same_store = [batch for batch in others if store.store_of(batch.shard) == store.store_of(first.shard)]
        with pytest.raises(IdTaken):
            await graph.commit(merged([*same_store, commits()[0]]))
        assert await contents(graph) == before
