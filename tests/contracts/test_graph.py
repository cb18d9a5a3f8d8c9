"""The contract of `graph/contract.py` for objects, keys, associations and counts, tested on every graph."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import Conflict, OutcomeUnknown, StorageFull
from shoal.core.events import Event, InversePending, PostCreated
from shoal.core.ids import EPOCH_MS, milliseconds_of, named, shard_of
from shoal.core.model import (
    Member,
    Post,
)
from shoal.graph.changes import put_on, take_off
from shoal.graph.contract import (
    MAX_TIME,
    Assoc,
    AssocExists,
    AssocOp,
    AssocRow,
    Batch,
    Cursor,
    IdTaken,
    KeyTaken,
    Missing,
    Store,
)
from shoal.graph.postgres import store as postgres_store
from shoal.graph.schema import (
    AGENDA,
    ASSOC_TYPES,
    BLOCKED_BY,
    BLOCKS,
    DUE,
    DUE_ON,
    FOLLOWED_BY,
    FOLLOWS,
    INDEX_OF,
    INDEXED,
    LIKED_BY,
    LIKES,
    NOTES,
    OWNS,
    POSTED,
    SHARES,
    TAG_OF,
    TAGGED,
    AnyNode,
    AssocType,
    Key,
)
from shoal.graph.sqlite import store as sqlite_store
from tests.async_runner import eventually, in_loop, run
from tests.example_counts import examples
from tests.object_factories import KINDS, bare, filled
from tests.stores import (
    ANN,
    BACKENDS,
    BEN,
    CYD,
    POST_OF_BEN,
    Backend,
    add,
    all_counts,
    all_links,
    all_objects,
    begin,
    broken_promises,
    contents,
    end,
    id_on,
    ids_of,
    moment,
    put,
)
from tests.tiers import deep

NODES: list[AnyNode] = [
    make(kind, id_on(7, number)) for number, (kind, make) in enumerate(product(KINDS, (bare, filled)), 1)
]
"""Two of every kind: one with required fields only, and one with a distinct value in every field."""


def ann(version: int = 1, note: str = "") -> Member:
    return Member(id=ANN, version=version, name="ann", note=note)


def key_of(id_: int, name: str = "name") -> Key:
    """A key on the shard of the id."""
    return Key(shard_of(id_), "user_name", name)


async def set_node(graph: Store, node: AnyNode) -> None:
    batch = Batch(shard_of(node.id))
    batch.obj_set(node)
    await graph.commit(batch)


async def delete(graph: Store, id_: int) -> None:
    batch = Batch(shard_of(id_))
    batch.obj_del(Member(id=id_, name="m"))
    await graph.commit(batch)


async def reserve(graph: Store, key: Key, id_: int, *, until: int = 0) -> None:
    batch = Batch(key.shard)
    batch.key_add(key, id_, until=until)
    await graph.commit(batch)


async def give_up(graph: Store, key: Key, id_: int) -> None:
    batch = Batch(key.shard)
    batch.key_del(key, id_)
    await graph.commit(batch)


async def count(graph: Store, id1: int, atype: AssocType) -> int:
    return (await graph.assoc_count([id1], [atype]))[atype].get(id1, 0)


# Objects


@in_loop
async def test_graph_object_of_every_kind_round_trips(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, *NODES)
        assert await graph.obj_get([node.id for node in NODES]) == {node.id: node for node in NODES}


@in_loop
async def test_graph_missing_objects_are_left_out_of_obj_get(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        assert await graph.obj_get([ANN, BEN, CYD, ANN]) == {ANN: ann()}
        assert await graph.obj_get([BEN]) == {}
        assert await graph.obj_get([]) == {}


@in_loop
async def test_graph_obj_get_reads_thousands_of_objects(backend: Backend) -> None:
    async with backend.open() as graph:
        homes = [[Member(id=id_on(s, n), name=f"m{s} {n}") for n in range(32)] for s in range(64)]
        for members in homes:
            await add(graph, *members)
        there = {member.id: member for members in homes for member in members}
        assert await graph.obj_get(list(there)) == there


@in_loop
async def test_graph_obj_add_with_existing_id_is_refused(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        with pytest.raises(IdTaken):
            await add(graph, ann(note="another"))
        assert await graph.obj_get([ANN]) == {ANN: ann()}


@in_loop
async def test_graph_obj_add_of_same_id_concurrently_succeeds_once(backend: Backend) -> None:
    async with backend.open() as graph:
        answers = await asyncio.gather(*[add(graph, ann(note=str(n))) for n in range(30)], return_exceptions=True)
        assert [type(answer) for answer in answers].count(IdTaken) == 29
        assert answers.count(None) == 1


@in_loop
async def test_graph_obj_set_replaces_previous_version(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        for version in range(2, 6):
            await set_node(graph, ann(version, f"v{version}"))
        assert await graph.obj_get([ANN]) == {ANN: ann(5, "v5")}


@pytest.mark.parametrize("version", [2, 9, *deep(3, 5)])
@in_loop
async def test_graph_obj_set_with_stale_or_skipped_version_raises_conflict(backend: Backend, version: int) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        await set_node(graph, ann(2))
        await set_node(graph, ann(3))
        with pytest.raises(Conflict):
            await set_node(graph, ann(version, "lost"))
        assert await graph.obj_get([ANN]) == {ANN: ann(3)}


@in_loop
async def test_graph_obj_set_of_missing_object_raises_conflict(backend: Backend) -> None:
    async with backend.open() as graph:
        with pytest.raises(Conflict):
            await set_node(graph, ann(2))
        await add(graph, ann())
        await delete(graph, ANN)
        with pytest.raises(Conflict):
            await set_node(graph, ann(2))
        assert await graph.obj_get([ANN]) == {}


@in_loop
async def test_graph_obj_set_of_same_version_concurrently_succeeds_once(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        changes = [set_node(graph, ann(2, str(n))) for n in range(30)]
        answers = await asyncio.gather(*changes, return_exceptions=True)
        stored = (await graph.obj_get([ANN]))[ANN]
        assert isinstance(stored, Member)
        assert [n for n, answer in enumerate(answers) if answer is None] == [int(stored.note)]


@in_loop
async def test_graph_obj_del_is_idempotent(backend: Backend) -> None:
    async with backend.open() as graph:
        await delete(graph, ANN)
        await add(graph, ann())
        await delete(graph, ANN)
        await delete(graph, ANN)
        assert await graph.obj_get([ANN]) == {}
        await add(graph, ann(note="again"))
        assert await graph.obj_get([ANN]) == {ANN: ann(note="again")}


# Fresh ids


async def add_ticket(graph: Store, ticket: int, id_: int) -> None:
    batch = Batch(shard_of(ticket))
    put_on(batch, ticket, EPOCH_MS + 5_000, id_)
    await graph.commit(batch)


@in_loop
async def test_graph_batch_with_new_id_that_already_has_association_raises_id_taken(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        await add_ticket(graph, ANN, ANN)
        with pytest.raises(IdTaken) as refused:
            await add_ticket(graph, ANN, BEN)
        assert refused.value.id == ANN
        assert [(one.id2, one.data) for one in await graph.assoc_range(AGENDA, DUE, Cursor())] == [
            (ANN, ANN.to_bytes(8))
        ]


@in_loop
async def test_graph_batch_with_new_id_that_had_deleted_association_raises_id_taken(backend: Backend) -> None:
    async with backend.open() as graph:
        await add_ticket(graph, ANN, ANN)
        batch = Batch(shard_of(ANN))
        take_off(batch, ANN, moment(1))
        await graph.commit(batch)
        with pytest.raises(IdTaken):
            await add_ticket(graph, ANN, BEN)
        assert await graph.assoc_range(AGENDA, DUE, Cursor()) == []


@in_loop
async def test_graph_concurrent_batches_with_equal_new_id_succeed_once(backend: Backend) -> None:
    async with backend.open() as graph:
        adding = [add_ticket(graph, ANN, id_on(0, n)) for n in range(1, 21)]
        answers = await asyncio.gather(*adding, return_exceptions=True)
        assert [type(answer) for answer in answers].count(IdTaken) == 19
        (due,) = await graph.assoc_range(AGENDA, DUE, Cursor())
        assert due.data == id_on(0, answers.index(None) + 1).to_bytes(8)


@in_loop
async def test_graph_batch_with_new_id_that_already_owns_key_raises_key_taken(backend: Backend) -> None:
    async def use(graph: Store) -> None:
        batch = Batch(shard_of(ANN))
        batch.key_add(key_of(ANN, "challenge"), ANN)
        batch.fresh.add(ANN)
        await graph.commit(batch)

    async with backend.open() as graph:
        await use(graph)
        with pytest.raises(KeyTaken):
            await use(graph)
        # An owner that is not fresh may reserve its key again.
        await reserve(graph, key_of(ANN, "challenge"), ANN)


# Keys


@in_loop
async def test_graph_key_get_returns_owners(backend: Backend) -> None:
    async with backend.open() as graph:
        keys = {key_of(id_, f"name {id_}"): id_ for id_ in (ANN, BEN, CYD)}
        for key, id_ in keys.items():
            await reserve(graph, key, id_)
        other_space = Key(shard_of(ANN), "email", f"name {ANN}")
        assert await graph.key_get([*keys, key_of(ANN, "nobody"), other_space]) == keys
        assert await graph.key_get([]) == {}


@in_loop
async def test_graph_key_get_reads_a_thousand_keys(backend: Backend) -> None:
    async with backend.open() as graph:
        keys: dict[Key, int] = {}
        for batch in [Batch(shard) for shard in range(0, 8192, 164)]:
            for n in range(20):
                key = Key(batch.shard, "import", f"record {batch.shard} {n}")
                keys[key] = batch.shard * 20 + n + 1
                batch.key_add(key, keys[key])
            await graph.commit(batch)
        assert len(keys) == 1_000
        assert await graph.key_get(list(keys)) == keys


@in_loop
async def test_graph_key_add_of_taken_key_raises_key_taken_with_owner_id(backend: Backend) -> None:
    async with backend.open() as graph:
        await reserve(graph, key_of(ANN), ANN)
        with pytest.raises(KeyTaken, match=r"^the user name is taken$") as refusal:
            await reserve(graph, key_of(ANN), BEN)
        assert (refusal.value.id, refusal.value.key) == (ANN, key_of(ANN))
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): ANN}


@in_loop
async def test_graph_key_add_by_same_owner_is_idempotent(backend: Backend) -> None:
    async with backend.open() as graph:
        await reserve(graph, key_of(ANN), ANN)
        await reserve(graph, key_of(ANN), ANN)
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): ANN}


@in_loop
async def test_graph_key_is_released_by_its_owner_only(backend: Backend) -> None:
    async with backend.open() as graph:
        await give_up(graph, key_of(ANN), ANN)
        await reserve(graph, key_of(ANN), ANN)
        await give_up(graph, key_of(ANN), BEN)
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): ANN}
        await give_up(graph, key_of(ANN), ANN)
        assert await graph.key_get([key_of(ANN)]) == {}
        await reserve(graph, key_of(ANN), BEN)
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): BEN}


@in_loop
async def test_graph_key_add_concurrently_succeeds_once(backend: Backend) -> None:
    async with backend.open() as graph:
        takers = [reserve(graph, key_of(ANN), n) for n in range(1, 31)]
        answers = await asyncio.gather(*takers, return_exceptions=True)
        assert answers.count(None) == 1
        winner = answers.index(None) + 1
        assert {answer.id for answer in answers if isinstance(answer, KeyTaken)} == {winner}
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): winner}


@in_loop
async def test_graph_expired_key_can_be_claimed_by_other_owner(backend: Backend) -> None:
    async with backend.open() as graph:
        await reserve(graph, key_of(ANN), ANN, until=time.time_ns() // 1_000_000 - 1)
        assert await graph.key_get([key_of(ANN)]) == {}
        await reserve(graph, key_of(ANN), BEN)
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): BEN}


@in_loop
async def test_graph_key_is_held_until_its_expiry(backend: Backend) -> None:
    async with backend.open() as graph:
        await reserve(graph, key_of(ANN), ANN, until=time.time_ns() // 1_000_000 + 3_600_000)
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): ANN}
        with pytest.raises(KeyTaken):
            await reserve(graph, key_of(ANN), BEN)


# Preconditions and atomicity of batches


@in_loop
async def test_graph_batch_with_missing_expected_object_is_refused(backend: Backend) -> None:
    async with backend.open() as graph:
        batch = Batch(shard_of(ANN))
        batch.expect(ANN)
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
        with pytest.raises(Missing):
            await graph.commit(batch)
        await add(graph, ann())
        await graph.commit(batch)
        await delete(graph, ANN)
        with pytest.raises(Missing):
            await graph.commit(batch)


@in_loop
async def test_graph_assoc_add_with_must_be_new_of_existing_association_raises_assoc_exists(backend: Backend) -> None:
    def follow(time: int, name: str) -> Batch:
        batch = Batch(shard_of(ANN))
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(time), must_be_new=True)
        batch.key_add(key_of(ANN, name), ANN)
        return batch

    async with backend.open() as graph:
        await graph.commit(follow(1, "first"))
        with pytest.raises(AssocExists):
            await graph.commit(follow(2, "second"))
        assert await graph.key_get([key_of(ANN, "first"), key_of(ANN, "second")]) == {key_of(ANN, "first"): ANN}
        assert [one.time for one in await graph.assoc_range(ANN, FOLLOWS, Cursor())] == [moment(1)]
        await end(graph, ANN, FOLLOWS, BEN, moment(3))
        answers = await asyncio.gather(
            *[graph.commit(follow(4 + n, "third")) for n in range(3)], return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["AssocExists", "AssocExists", "NoneType"]
        assert (await graph.assoc_count((BEN,), (FOLLOWED_BY,)))[FOLLOWED_BY] == {BEN: 1}


@in_loop
async def test_graph_batch_is_not_stored_before_its_precondition_completes(backend: Backend) -> None:
    store = await backend.open_store(backend.owners[shard_of(ANN)])
    try:
        for number, commit in enumerate((store.commit, store.commit_owing), 1):
            batch = Batch(shard_of(ANN))
            (batch.obj_add if number == 1 else batch.obj_set)(ann(number))
            batch.after = ready = asyncio.get_running_loop().create_future()
            committing = asyncio.ensure_future(commit(batch))
            await asyncio.sleep(0.05)
            assert [node.version for node in (await store.obj_get([ANN])).values()] == [number - 1][: number - 1]
            ready.set_result(None)
            await committing
            assert (await store.obj_get([ANN]))[ANN].version == number
        batch = Batch(shard_of(ANN))
        batch.obj_set(ann(3))
        batch.after = asyncio.get_running_loop().create_future()
        batch.after.set_exception(StorageFull("no room for the mark"))
        with pytest.raises(StorageFull):
            await store.commit(batch)
        assert (await store.obj_get([ANN]))[ANN].version == 2
    finally:
        await store.close()


@in_loop
async def test_graph_permanent_key_stays_permanent_after_temporary_reservation(backend: Backend) -> None:
    key, past = key_of(ANN, "mine"), 1
    async with backend.open() as graph:
        await reserve(graph, key, ANN)
        await reserve(graph, key, ANN, until=past)
        with pytest.raises(KeyTaken):
            await reserve(graph, key, CYD)
        # A temporary reservation becomes permanent.
        other = key_of(ANN, "for a while")
        await reserve(graph, other, ANN, until=past)
        await reserve(graph, other, ANN)
        with pytest.raises(KeyTaken):
            await reserve(graph, other, CYD)


def _taken_id(batch: Batch) -> None:
    batch.obj_add(ann())


def _stale_version(batch: Batch) -> None:
    batch.obj_set(ann(7))


def _taken_key(batch: Batch) -> None:
    batch.key_add(key_of(ANN, "taken"), CYD)


def _missing(batch: Batch) -> None:
    batch.expect(id_on(0, 99))


OBSTACLES = [_taken_id, _stale_version, _taken_key, _missing]


@pytest.mark.parametrize("obstacle", OBSTACLES)
@in_loop
async def test_graph_failed_batch_leaves_no_changes(backend: Backend, obstacle: Callable[[Batch], None]) -> None:
    async with backend.open() as graph:
        await add(graph, ann())
        await reserve(graph, key_of(ANN, "taken"), ANN)
        await begin(graph, ANN, FOLLOWS, CYD, moment(1))
        await begin(graph, ANN, POSTED, id_on(0, 7), moment(1))
        before = await contents(graph)
        batch = Batch(shard_of(ANN))
        batch.obj_add(Post(id=id_on(0, 5), author_id=ANN))
        batch.key_add(key_of(ANN, "free"), ANN)
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(2))
        batch.assoc_del(ANN, FOLLOWS, CYD, moment(2))
        batch.key_del(key_of(ANN, "taken"), ANN)
        batch.emit(PostCreated(post_id=id_on(0, 5), author_id=ANN))
        obstacle(batch)
        with pytest.raises(Conflict):
            await graph.commit(batch)
        assert await contents(graph) == before
        assert await graph.key_get([key_of(ANN, "free"), key_of(ANN, "taken")]) == {key_of(ANN, "taken"): ANN}
        assert await graph.claim(10, 60) == []


@in_loop
async def test_graph_batch_with_lost_reply_is_stored_completely_and_caches_are_invalidated(
    backend: Backend,
) -> None:
    async with backend.open(forgetful=True) as graph:
        await add(graph, ann())
        await begin(graph, ANN, FOLLOWS, CYD, moment(1))
        assert await graph.obj_get([ANN]) == {ANN: ann()}
        assert ids_of(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5))) == [CYD]
        assert await graph.assoc_count([ANN], [FOLLOWS]) == {FOLLOWS: {ANN: 1}}
        batch = Batch(shard_of(ANN))
        batch.obj_set(ann(2, "changed"))
        batch.key_add(key_of(ANN, "free"), ANN)
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(2))
        batch.assoc_del(ANN, FOLLOWS, CYD, moment(2))
        batch.emit(PostCreated(post_id=1, author_id=ANN))
        backend.forgetful[backend.owners[0]].losses = 1
        with pytest.raises(OutcomeUnknown):
            await graph.commit(batch)
        assert await graph.obj_get([ANN]) == {ANN: ann(2, "changed")}
        assert await graph.key_get([key_of(ANN, "free")]) == {key_of(ANN, "free"): ANN}
        assert ids_of(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5))) == [BEN]
        assert await graph.assoc_get(ANN, [FOLLOWS], [BEN, CYD]) == {FOLLOWS: {BEN: Assoc(BEN, moment(2), b"")}}
        with pytest.raises(Conflict):
            await graph.commit(batch)
        events: list[Event] = []

        async def settled() -> list[str]:
            for job in await graph.claim(10, 60):
                events.append(job.event)
                if isinstance(job.event, InversePending):
                    await put(graph, AssocOp(*job.event.op, plain=True))
            return await broken_promises(graph)

        # The inverse in a different store is still pending; some stores leave it to the committing process for a few seconds.
        whole: list[str] = []
        await eventually(settled, whole)
        assert [event for event in events if isinstance(event, PostCreated)] == batch.events


@in_loop
async def test_graph_failed_batch_does_not_affect_concurrent_batches(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, ann())

        async def post(n: int) -> None:
            batch = Batch(shard_of(ANN))
            batch.obj_add(Post(id=id_on(0, 100 + n), author_id=ANN))
            batch.assoc_add(ANN, POSTED, id_on(0, 100 + n), moment(n))
            batch.assoc_add(ANN, LIKES, id_on(40, 100 + n), moment(n))
            batch.emit(PostCreated(post_id=id_on(0, 100 + n), author_id=ANN))
            if n % 3 == 0:
                batch.obj_add(ann())
            await graph.commit(batch)

        answers = await asyncio.gather(*[post(n) for n in range(300)], return_exceptions=True)
        good = [n for n in range(300) if n % 3]
        assert [n for n, answer in enumerate(answers) if answer is None] == good
        assert {type(answers[n]) for n in range(300) if n % 3 == 0} == {IdTaken}
        page = await graph.assoc_range(ANN, POSTED, Cursor(limit=1000))
        assert ids_of(page) == [id_on(0, 100 + n) for n in reversed(good)]
        assert [node.id for node in await all_objects(graph)] == [ANN, *[id_on(0, 100 + n) for n in good]]
        assert await count(graph, ANN, LIKES) == len(good)
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_concurrent_batches_are_applied_in_order(backend: Backend) -> None:
    async with backend.open() as graph:
        steps = [add(graph, ann()), *[set_node(graph, ann(version)) for version in range(2, 40)], delete(graph, ANN)]
        steps += [add(graph, ann(note="again")), reserve(graph, key_of(ANN), ANN), give_up(graph, key_of(ANN), ANN)]
        steps += [reserve(graph, key_of(ANN), BEN)]
        await asyncio.gather(*steps)
        assert await graph.obj_get([ANN]) == {ANN: ann(note="again")}
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): BEN}


@in_loop
async def test_graph_close_completes_pending_commits(durable: Backend) -> None:
    async with durable.open() as graph:
        commits = [asyncio.create_task(begin(graph, ANN, POSTED, n, moment(n))) for n in range(1, 201)]
        await asyncio.sleep(0)
    await asyncio.gather(*commits)
    async with durable.open() as graph:
        assert await count(graph, ANN, POSTED) == 200


# Lists


@in_loop
async def test_graph_assoc_range_is_sorted_newest_first(backend: Backend) -> None:
    async with backend.open() as graph:
        for n in (3, 1, 4, 5, 2):
            await begin(graph, ANN, POSTED, 100 + n, moment(n), b"data %d" % n)
        page = await graph.assoc_range(ANN, POSTED, Cursor(limit=10))
        assert page == [Assoc(100 + n, moment(n), b"data %d" % n) for n in (5, 4, 3, 2, 1)]
        assert await graph.assoc_range(ANN, POSTED, Cursor(limit=10, oldest_first=True)) == page[::-1]


@in_loop
async def test_graph_assoc_range_before_and_after_are_exclusive(backend: Backend) -> None:
    async with backend.open() as graph:
        for n in range(1, 8):
            await begin(graph, ANN, POSTED, n, moment(n))

        async def page(before: int, after: int, *, limit: int = 10, oldest_first: bool = False) -> list[int]:
            given = await graph.assoc_range(
                ANN, POSTED, Cursor(before=moment(before), after=moment(after), limit=limit, oldest_first=oldest_first)
            )
            return ids_of(given)

        assert await page(6, 2) == [5, 4, 3]
        assert await page(6, 2, limit=2) == [5, 4]
        assert await page(6, 2, limit=2, oldest_first=True) == [3, 4]
        assert await page(3, 2) == []
        assert await page(2, 6) == []
        assert await page(8, 0, limit=0) == []
        assert ids_of(await graph.assoc_range(ANN, POSTED, Cursor(after=moment(6), limit=5))) == [7]
        assert ids_of(await graph.assoc_range(ANN, POSTED, Cursor(before=moment(2), limit=5))) == [1]
        assert await graph.assoc_range(BEN, POSTED, Cursor(limit=5)) == []


@pytest.mark.parametrize("limit", [1, 7, *deep(2, 3, 50)])
@in_loop
async def test_graph_assoc_range_pages_form_complete_list(backend: Backend, limit: int) -> None:
    async with backend.open() as graph:
        numbers = random.Random(limit).sample(range(1000), 23)
        await asyncio.gather(*[begin(graph, ANN, FOLLOWS, id_on(n % 64, n), moment(n)) for n in numbers])
        down: list[Assoc] = []
        while page := await graph.assoc_range(
            ANN, FOLLOWS, Cursor(before=down[-1].time if down else MAX_TIME, limit=limit)
        ):
            down += page
        up: list[Assoc] = []
        while page := await graph.assoc_range(
            ANN, FOLLOWS, Cursor(after=up[-1].time if up else -1, limit=limit, oldest_first=True)
        ):
            up += page
        assert [entry.time for entry in down] == [moment(n) for n in sorted(numbers, reverse=True)]
        assert up == down[::-1]


@pytest.mark.parametrize("lists", [3, 120])
@in_loop
async def test_graph_assoc_ranges_matches_individual_assoc_range_calls(backend: Backend, lists: int) -> None:
    async with backend.open() as graph:
        dice = random.Random(lists)
        owners = [id_on(n % 64, n) for n in range(lists)]
        entries = [(owner, dice.randrange(1, 9999), n) for n, owner in enumerate(dice.choices(owners, k=lists * 5))]
        for part, act in ((entries, Batch.assoc_add), (entries[::7], Batch.assoc_del)):
            batches = {owner: Batch(shard_of(owner)) for owner in owners}
            for owner, id2, n in part:
                act(batches[owner], owner, POSTED, id2, moment(n))
            await asyncio.gather(*[graph.commit(batch) for batch in batches.values() if batch.assocs])
        ended = {(owner, id2) for owner, id2, _ in entries[::7]}
        times = {(owner, id2): moment(n) for owner, id2, n in entries if (owner, id2) not in ended}
        half = moment(lists * 2)
        for limit, before, after in (
            (1, MAX_TIME, -1),
            (3, MAX_TIME, -1),
            (3, half, -1),
            (50, MAX_TIME, half),
            (0, half, -1),
        ):
            there = sorted((time, id2, owner) for (owner, id2), time in times.items() if after < time < before)
            for oldest_first in (False, True):
                at = Cursor(before, after, limit, oldest_first)
                order = there if oldest_first else there[::-1]
                pages = {owner: [id2 for _, id2, one in order if one == owner][:limit] for owner in owners}
                at_once = await graph.assoc_ranges([*owners, CYD + 1], POSTED, at)
                assert {owner: ids_of(page) for owner, page in at_once.items()} == {o: p for o, p in pages.items() if p}
                for owner in owners[:20]:
                    assert await graph.assoc_range(owner, POSTED, at) == at_once.get(owner, [])


@in_loop
async def test_graph_assoc_ranges_with_duplicate_ids_returns_each_list_once(backend: Backend) -> None:
    async with backend.open() as graph:
        for n in (1, 2, 3):
            await begin(graph, ANN, POSTED, n, moment(n))
        pages = await graph.assoc_ranges([ANN, BEN, ANN], POSTED, Cursor(limit=2))
        assert {id1: ids_of(page) for id1, page in pages.items()} == {ANN: [3, 2]}
        assert await graph.assoc_ranges([], POSTED, Cursor(limit=2)) == {}


@in_loop
async def test_graph_assoc_get_returns_existing_associations_per_type(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1), b"x")
        await begin(graph, ANN, LIKES, POST_OF_BEN, moment(2))
        await begin(graph, ANN, FOLLOWS, CYD, moment(3))
        await end(graph, ANN, FOLLOWS, CYD, moment(4))
        ends = [BEN, CYD, POST_OF_BEN, BEN]
        assert await graph.assoc_get(ANN, [FOLLOWS, LIKES, SHARES], ends) == {
            FOLLOWS: {BEN: Assoc(BEN, moment(1), b"x")},
            LIKES: {POST_OF_BEN: Assoc(POST_OF_BEN, moment(2), b"")},
            SHARES: {},
        }
        assert await graph.assoc_get(ANN, [FOLLOWS], []) == {FOLLOWS: {}}
        assert await graph.assoc_get(CYD, [FOLLOWS], ends) == {FOLLOWS: {}}


@in_loop
async def test_graph_association_added_again_moves_to_new_time(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1), b"first")
        await begin(graph, ANN, FOLLOWS, CYD, moment(2))
        await begin(graph, ANN, FOLLOWS, BEN, moment(3), b"second")
        page = await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=10))
        assert page == [Assoc(BEN, moment(3), b"second"), Assoc(CYD, moment(2), b"")]
        assert await graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=10)) == [Assoc(ANN, moment(3), b"second")]


# Counts


@in_loop
async def test_graph_counts_change_only_when_association_changes(backend: Backend) -> None:
    async with backend.open() as graph:
        counted: list[tuple[int, int]] = []
        for n, act in enumerate((end, begin, begin, end, end, begin)):
            await act(graph, ANN, FOLLOWS, BEN, moment(n))
            counted.append((await count(graph, ANN, FOLLOWS), await count(graph, BEN, FOLLOWED_BY)))
        assert counted == [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)]


@in_loop
async def test_graph_list_of_type_without_count_is_readable_and_its_count_is_omitted(backend: Backend) -> None:
    async with backend.open() as graph:
        assert await graph.assoc_range(AGENDA, DUE, Cursor(limit=5)) == []
        tickets = [id_on(shard, shard) for shard in (3, 40, 4_000, 8_000)]
        for at, ticket in enumerate(tickets):
            put_on(batch := Batch(shard_of(ticket)), ticket, milliseconds_of(moment(0)) + at, ANN)
            await graph.commit(batch)
            assert len(await graph.assoc_range(AGENDA, DUE, Cursor(limit=5, oldest_first=True))) == at + 1
        assert ids_of(await graph.assoc_range(AGENDA, DUE, Cursor(limit=3))) == tickets[:0:-1]
        assert (
            ids_of((await graph.assoc_ranges([AGENDA], DUE, Cursor(limit=2, oldest_first=True)))[AGENDA]) == tickets[:2]
        )
        assert (await graph.assoc_get(AGENDA, [DUE], tickets[:2]))[DUE].keys() == set(tickets[:2])
        assert await graph.assoc_count([AGENDA, *tickets], [DUE, DUE_ON]) == {DUE: {}, DUE_ON: {}}
        take_off(batch := Batch(shard_of(tickets[0])), tickets[0], moment(0))
        await graph.commit(batch)
        assert ids_of(await graph.assoc_range(AGENDA, DUE, Cursor(limit=5, oldest_first=True))) == tickets[1:]
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_concurrent_adds_of_same_association_count_once(backend: Backend) -> None:
    async with backend.open() as graph:
        await asyncio.gather(*[begin(graph, ANN, FOLLOWS, BEN, moment(n)) for n in range(50)])
        assert (await count(graph, ANN, FOLLOWS), await count(graph, BEN, FOLLOWED_BY)) == (1, 1)
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_assoc_count_of_several_lists_and_types_omits_zeros(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await begin(graph, ANN, FOLLOWS, CYD, moment(2))
        await begin(graph, CYD, FOLLOWS, BEN, moment(3))
        await begin(graph, CYD, LIKES, POST_OF_BEN, moment(4))
        await end(graph, CYD, LIKES, POST_OF_BEN, moment(5))
        assert await graph.assoc_count([ANN, BEN, CYD, ANN], [FOLLOWS, FOLLOWED_BY, LIKES]) == {
            FOLLOWS: {ANN: 2, CYD: 1},
            FOLLOWED_BY: {BEN: 2, CYD: 1},
            LIKES: {},
        }
        assert await graph.assoc_count([], [FOLLOWS]) == {FOLLOWS: {}}


@in_loop
async def test_graph_aggregate_like_count_is_kept_at_author(backend: Backend) -> None:
    async with backend.open() as graph:
        posts = [id_on(40, n) for n in range(1, 4)]
        for post in posts:
            await begin(graph, ANN, LIKES, post, moment(1), aggregate_id=BEN)
        await begin(graph, CYD, LIKES, posts[0], moment(2), aggregate_id=BEN)
        await begin(graph, CYD, LIKES, posts[0], moment(3), aggregate_id=BEN)
        assert await count(graph, BEN, LIKED_BY) == 4
        await end(graph, ANN, LIKES, posts[0], moment(4), aggregate_id=BEN)
        await end(graph, ANN, LIKES, posts[0], moment(5), aggregate_id=BEN)
        assert await graph.assoc_count([BEN, *posts], [LIKED_BY]) == {
            LIKED_BY: {BEN: 3, posts[0]: 1, posts[1]: 1, posts[2]: 1}
        }
        assert await graph.assoc_range(BEN, LIKED_BY, Cursor(limit=5)) == []


@in_loop
async def test_graph_aggregate_count_is_kept_only_for_types_that_declare_it(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1), aggregate_id=BEN)
        assert await all_counts(graph) == [(ANN, FOLLOWS.number, 1), (BEN, FOLLOWED_BY.number, 1)]


@in_loop
async def test_graph_count_set_overwrites_counts(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, CYD, FOLLOWS, BEN, moment(1))
        await graph.count_set(CYD, FOLLOWS.number, 7)
        await graph.count_set(ANN, FOLLOWS.number, 3)
        await graph.count_set(BEN, FOLLOWED_BY.number, 0)
        assert await graph.assoc_count([ANN, CYD], [FOLLOWS]) == {FOLLOWS: {ANN: 3, CYD: 7}}
        assert await count(graph, BEN, FOLLOWED_BY) == 0


# Inverses


@in_loop
async def test_graph_every_association_has_inverse_with_same_time(backend: Backend) -> None:
    async with backend.open() as graph:
        for atype in [atype for atype in ASSOC_TYPES.values() if atype.inverse]:
            inverse = ASSOC_TYPES[atype.inverse]
            assert ASSOC_TYPES[inverse.inverse] is atype
            await begin(graph, CYD, atype, ANN, moment(1), b"data")
            assert await graph.assoc_range(ANN, inverse, Cursor(limit=5)) == [Assoc(CYD, moment(1), b"data")], atype
            await end(graph, CYD, atype, ANN, moment(2))
            assert await graph.assoc_range(ANN, inverse, Cursor(limit=5)) == [], atype
            assert await all_counts(graph) == [], atype
        assert {row.time for row in await all_links(graph)} == {moment(2)}


@in_loop
async def test_graph_association_list_of_tag_contains_tagged_posts(backend: Backend) -> None:
    async with backend.open() as graph:
        tags = [named("tag", f"tag{n}") for n in range(20)]
        for n, tag in enumerate(tags):
            await begin(graph, POST_OF_BEN, TAGGED, tag, moment(n))
        assert await graph.assoc_ranges(tags, TAG_OF, Cursor(limit=3)) == {
            tag: [Assoc(POST_OF_BEN, moment(n), b"")] for n, tag in enumerate(tags)
        }
        assert await broken_promises(graph) == []


# Time


@in_loop
async def test_graph_change_with_earlier_clock_overrides_previous_change_of_same_member(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(100))
        await end(graph, ANN, FOLLOWS, BEN, moment(50))
        assert await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5)) == []
        await begin(graph, ANN, FOLLOWS, BEN, moment(1), b"again")
        expected = moment(100) + 2
        assert await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5)) == [Assoc(BEN, expected, b"again")]
        assert await graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=5)) == [Assoc(ANN, expected, b"again")]


@in_loop
async def test_graph_batch_with_several_changes_of_one_association_applies_the_last(backend: Backend) -> None:
    async with backend.open() as graph:
        batch = Batch(shard_of(ANN))
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
        batch.assoc_del(ANN, FOLLOWS, BEN, moment(1))
        batch.assoc_add(ANN, FOLLOWS, CYD, moment(1))
        batch.assoc_del(ANN, FOLLOWS, CYD, moment(1))
        batch.assoc_add(ANN, FOLLOWS, CYD, moment(1))
        await graph.commit(batch)
        assert ids_of(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5))) == [CYD]
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_inverse_operation_does_not_replace_row_with_later_time(backend: Backend) -> None:
    async with backend.open() as graph:
        op = AssocOp(BEN, BLOCKED_BY.number, ANN, moment(5), alive=True, data=b"5", plain=True)
        await put(graph, op)
        await put(graph, op._replace(time=moment(4), alive=False))
        await put(graph, op._replace(alive=False))
        assert await graph.assoc_range(BEN, BLOCKED_BY, Cursor(limit=5)) == [Assoc(ANN, moment(5), b"5")]
        await put(graph, op._replace(time=moment(6), alive=False))
        await put(graph, op)
        assert await graph.assoc_range(BEN, BLOCKED_BY, Cursor(limit=5)) == []
        assert await count(graph, BEN, BLOCKED_BY) == 0


@in_loop
async def test_graph_association_writes_with_equal_times_are_resolved_by_greater_data(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, BLOCKS, BEN, moment(5), b"2")
        await begin(graph, ANN, BLOCKS, BEN, moment(5), b"3")
        assert await graph.assoc_range(ANN, BLOCKS, Cursor(limit=5)) == [Assoc(BEN, moment(5), b"3")]
        assert await graph.assoc_range(BEN, BLOCKED_BY, Cursor(limit=5)) == [Assoc(ANN, moment(5), b"3")]
        await put(graph, AssocOp(BEN, BLOCKED_BY.number, ANN, moment(5), alive=False, data=b"1", plain=True))
        assert await count(graph, BEN, BLOCKED_BY) == 1
        await put(graph, AssocOp(BEN, BLOCKED_BY.number, ANN, moment(5), alive=False, data=b"4", plain=True))
        assert await count(graph, BEN, BLOCKED_BY) == 0


@in_loop
async def test_graph_outdated_write_of_versioned_association_has_no_effect(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, INDEXED, BEN, moment(5), b"2")
        for data in (b"1", b"2"):
            await end(graph, ANN, INDEXED, BEN, moment(5), data)
        await begin(graph, ANN, INDEXED, BEN, moment(5), b"1")
        assert await graph.assoc_range(ANN, INDEXED, Cursor(limit=5)) == [Assoc(BEN, moment(5), b"2")]
        assert await graph.assoc_range(BEN, INDEX_OF, Cursor(limit=5)) == [Assoc(ANN, moment(5), b"2")]
        await end(graph, ANN, INDEXED, BEN, moment(5), b"4")
        await begin(graph, ANN, INDEXED, BEN, moment(5), b"3")
        assert await graph.assoc_range(BEN, INDEX_OF, Cursor(limit=5)) == []
        await begin(graph, ANN, INDEXED, BEN, moment(5), b"5")
        assert await graph.assoc_range(BEN, INDEX_OF, Cursor(limit=5)) == [Assoc(ANN, moment(5), b"5")]


@in_loop
async def test_graph_member_write_with_equal_time_and_lesser_data_is_stored_at_later_time(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, BLOCKS, BEN, moment(5), b"2")
        await begin(graph, ANN, BLOCKS, BEN, moment(5), b"1")
        assert await graph.assoc_range(ANN, BLOCKS, Cursor(limit=5)) == [Assoc(BEN, moment(5) + 1, b"1")]
        batch = Batch(shard_of(ANN))
        batch.assoc_del(ANN, BLOCKS, BEN, moment(5) + 1, b"9")
        await graph.commit(batch)
        assert {(row.time, row.alive, row.data) for row in await all_links(graph)} == {(moment(5) + 1, False, b"9")}


@in_loop
async def test_graph_inverse_operation_creates_no_further_inverse(backend: Backend) -> None:
    async with backend.open() as graph:
        await put(graph, AssocOp(BEN, FOLLOWED_BY.number, ANN, moment(5), alive=True, plain=True))
        assert [row[:3] for row in await all_links(graph)] == [(BEN, FOLLOWED_BY.number, ANN)]
        assert await graph.backlog() == 0


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[AssocOp], list[AssocOp]]:
    """Operations with distinct data, some with equal times, in two random orders with repeats."""
    triples = [(POST_OF_BEN, LIKED_BY.number, ANN), (POST_OF_BEN, LIKED_BY.number, CYD), (BEN, BLOCKED_BY.number, ANN)]
    parts = draw(
        st.lists(st.tuples(st.sampled_from(triples), st.integers(0, 5), st.booleans()), min_size=1, max_size=8)
    )
    ops = [
        AssocOp(*triple, time=moment(time), alive=alive, data=b"%d" % n, aggregate_id=BEN, plain=True)
        for n, (triple, time, alive) in enumerate(parts)
    ]
    again = draw(st.lists(st.sampled_from(ops), max_size=8))
    return draw(st.permutations(ops + again)), draw(st.permutations(ops + again + again))


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=examples(10, full=25))
@given(orders=histories())
def test_graph_inverse_operations_converge_in_any_order_and_with_repeats(
    name: str, orders: tuple[list[AssocOp], list[AssocOp]]
) -> None:
    async def after(ops: Sequence[AssocOp]) -> tuple[object, ...]:
        with TemporaryDirectory() as folder:
            async with Backend(name, Path(folder)).open() as graph:
                for op in ops:
                    await put(graph, op)
                return await contents(graph)

    first, second = (run(after(order)) for order in orders)
    assert first == second


# Scans and sweeping


@in_loop
async def test_graph_tombstone_is_kept_until_swept(backend: Backend) -> None:
    async with backend.open() as graph:
        for id2 in (BEN, CYD):
            await begin(graph, ANN, BLOCKS, id2, moment(1))
        await end(graph, ANN, BLOCKS, BEN, moment(5))
        await end(graph, ANN, BLOCKS, CYD, moment(9))
        await begin(graph, ANN, POSTED, id_on(0, 1), moment(2))
        assert len(await all_links(graph)) == 5
        assert await graph.sweep(moment(5), 0) == 0
        assert await graph.sweep(moment(9), 0) == 2
        assert await all_links(graph) == [
            AssocRow(ANN, BLOCKS.number, CYD, moment(9), alive=False, data=b""),
            AssocRow(ANN, POSTED.number, id_on(0, 1), moment(2), alive=True, data=b""),
            AssocRow(CYD, BLOCKED_BY.number, ANN, moment(9), alive=False, data=b""),
        ]
        assert await graph.sweep(MAX_TIME, 0) == 2
        assert await all_counts(graph) == [(ANN, POSTED.number, 1)]


@in_loop
async def test_graph_association_can_be_added_after_its_tombstone_was_swept(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, BLOCKS, BEN, moment(5))
        await end(graph, ANN, BLOCKS, BEN, moment(6))
        await graph.sweep(moment(7), 0)
        await begin(graph, ANN, BLOCKS, BEN, moment(8))
        assert await count(graph, BEN, BLOCKED_BY) == 1
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_sweep_deletes_expired_keys(backend: Backend) -> None:
    async with backend.open() as graph:
        future = time.time_ns() // 1_000_000 + 3_600_000
        for id_, until in ((ANN, 0), (BEN, future), (CYD, future + 5)):
            await reserve(graph, key_of(id_, str(id_)), id_, until=until)
        assert await graph.sweep(0, future - 1) == 0
        assert await graph.sweep(0, future) == 1
        keys = [key_of(id_, str(id_)) for id_ in (ANN, BEN, CYD)]
        assert set(await graph.key_get(keys)) == {keys[0], keys[2]}


@in_loop
async def test_graph_sweep_of_several_pages_deletes_every_old_row(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_SWEEP_ROWS", 3)
    monkeypatch.setattr(postgres_store, "_SWEEP_PAGE", 3)
    posts = [id_on(0, n) for n in range(1, 8)]
    async with backend.open() as graph:
        for n, post in enumerate(posts):
            begun, ended = Batch(shard_of(ANN)), Batch(shard_of(ANN))
            for atype, other in ((POSTED, post), (NOTES, post), (FOLLOWS, post), (TAGGED, -post)):
                begun.assoc_add(ANN, atype, other, moment(1))
                # Three of them share one time, so a page boundary falls between rows with equal times.
                ended.assoc_del(ANN, atype, other, moment(2 + n // 3))
            begun.key_add(key_of(ANN, f"a{n}"), ANN, until=1_000 + n // 3)
            await graph.commit(begun)
            await graph.commit(ended)
        kept = {FOLLOWS.number, FOLLOWED_BY.number, TAGGED.number, TAG_OF.number}
        assert await graph.sweep(moment(2), 999) == 0
        assert await graph.sweep(moment(4), 1_001) == 2 * 6 + 6
        left = [row for row in await all_links(graph) if row.atype not in kept]
        assert [(row.atype, row.id2, row.time) for row in left] == [
            (POSTED.number, posts[6], moment(4)),
            (NOTES.number, posts[6], moment(4)),
        ]
        assert await graph.sweep(MAX_TIME, 1_002) == 2 + 1
        assert {row.atype for row in await all_links(graph)} == kept
        assert await graph.sweep_history(MAX_TIME) == 2 * 7
        assert {row.atype for row in await all_links(graph)} == {TAGGED.number, TAG_OF.number}


@in_loop
async def test_graph_sweep_keeps_readded_association_and_extended_key(backend: Backend) -> None:
    async with backend.open() as graph:
        future = time.time_ns() // 1_000_000 + 3_600_000
        await begin(graph, ANN, BLOCKS, BEN, moment(1))
        await end(graph, ANN, BLOCKS, BEN, moment(2))
        await begin(graph, ANN, BLOCKS, BEN, moment(3))
        for until in (1, future):
            await reserve(graph, key_of(ANN), ANN, until=until)
        assert await graph.sweep(MAX_TIME, future - 1) == 0
        assert await graph.key_get([key_of(ANN)]) == {key_of(ANN): ANN}
        await end(graph, ANN, BLOCKS, BEN, moment(4))
        assert await graph.sweep(moment(4), 0) == 0
        assert await graph.sweep(MAX_TIME, future) == 3


@pytest.mark.parametrize("page", [3, 1000, *deep(1, 2, 7)])
@in_loop
async def test_graph_scans_are_complete_and_sorted_for_any_page_size(backend: Backend, page: int) -> None:
    async with backend.open() as graph:
        dice = random.Random(page)
        ids = [id_on(dice.randrange(64), n) for n in range(12)]
        await asyncio.gather(*[add(graph, Member(id=id_, name="m")) for id_ in ids])
        links = {
            (dice.choice(ids), dice.choice([FOLLOWS, OWNS]), dice.choice([*ids, named("tag", "x")])) for _ in range(30)
        }
        await asyncio.gather(*[begin(graph, *link, moment(n)) for n, link in enumerate(links)])
        ended = sorted(links, key=lambda link: link[0] + link[2])[:5]
        await asyncio.gather(*[end(graph, *link, moment(100)) for link in ended])

        objects = [node.id for node in await all_objects(graph, page)]
        assert objects == sorted(ids)
        triples = {(id1, atype.number, id2) for id1, atype, id2 in links}
        inverses = {(id2, atype.inverse, id1) for id1, atype, id2 in links if atype.inverse}
        rows = await all_links(graph, page)
        assert [row[:3] for row in rows] == sorted(triples | inverses)
        assert sum(not row.alive for row in rows) == sum(1 + bool(atype.inverse) for _, atype, _ in ended)
        counts = await all_counts(graph, page)
        assert counts == sorted(counts)
        assert await broken_promises(graph) == []
