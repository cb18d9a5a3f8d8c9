"""Batch resolution without a database: its decisions, the rows that it reads, and refusals without effect."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import Conflict
from shoal.core.events import InverseOp, InversePending, PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.core.placement import source_of
from shoal.graph.contract import AssocOp, Batch, Changed, Frozen, IdTaken, KeyTaken, Missing
from shoal.graph.payloads.follows import encode_moments
from shoal.graph.resolve import Known, Resolution, StoredAssoc, Touched, decide
from shoal.graph.schema import (
    BLOCKS,
    FOLLOW_TIMES,
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    LIKES,
    MUTES,
    POSTED,
    PUBLISHED,
    Key,
    public_list,
)
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, moment

NOW = 1_000
TYPES = [FOLLOWS, LIKES, POSTED]


def everywhere(_shard: int) -> bool:
    return True


def first_half(shard: int) -> bool:
    return source_of(shard) < 32


def state(known: Known) -> tuple[object, ...]:
    return deepcopy((known.versions, known.links, known.keys))


def written(changes: Resolution) -> tuple[object, ...]:
    return deepcopy((changes.objects, changes.links, changes.keys, changes.counts, changes.events))


def key(name: str) -> Key:
    return Key(shard_of(ANN), "user_name", name)


def known_world() -> Known:
    known = Known()
    known.versions.update({ANN: 3, ANN + 1: 1})
    known.links[ANN, FOLLOWS.number, BEN] = StoredAssoc(moment(5), alive=True, data=b"")
    known.links[ANN, FOLLOWS.number, CYD] = StoredAssoc(moment(5), alive=False, data=b"")
    known.links[ANN, FOLLOW_TIMES.number, CYD] = StoredAssoc(moment(2), False, encode_moments((moment(1), -moment(2))))
    known.links[ANN, BLOCKS.number, BEN] = StoredAssoc(moment(5), alive=True, data=b"")
    known.links[ANN, BLOCKS.number, CYD] = StoredAssoc(moment(5), alive=False, data=b"")
    known.keys.update({("user_name", "a"): (ANN, 0), ("user_name", "b"): (BEN, 0), ("user_name", "c"): (BEN, NOW)})
    return known


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Draw an arbitrary batch on the shard of Ann."""
    batch = Batch(shard_of(ANN))
    ids = st.sampled_from([ANN, ANN + 1, ANN + 2])
    for id_, version in draw(st.lists(st.tuples(ids, st.integers(0, 4)), max_size=2)):
        if version == 0:
            batch.obj_del(id_)
        elif version == 1:
            batch.obj_add(Member(id=id_, name="m"))
        else:
            batch.obj_set(Member(id=id_, name="m", version=version))
    ends = st.tuples(st.sampled_from(TYPES), st.sampled_from([ANN, BEN, CYD]), st.integers(0, 9), st.booleans())
    for atype, id2, time, alive in draw(st.lists(ends, max_size=5)):
        (batch.assoc_add if alive else batch.assoc_del)(ANN, atype, id2, moment(time), aggregate_id=BEN)
    for name, owner, alive in draw(st.lists(st.tuples(st.sampled_from("abcd"), ids, st.booleans()), max_size=3)):
        (batch.key_add if alive else batch.key_del)(key(name), owner)
    for id_ in draw(st.lists(ids, max_size=1)):
        batch.expect(id_)
    batch.emit(PostCreated(post_id=1, author_id=ANN))
    return batch


@given(st.lists(batches(), min_size=1, max_size=4))
def test_graph_batch_refused_has_no_effect_on_later_batches_of_commit_group(group: list[Batch]) -> None:
    known, changes = known_world(), Resolution()
    for batch in group:
        before = state(known), written(changes)
        try:
            decide(batch, known, changes, owns=everywhere, now=NOW)
        except Conflict:
            assert (state(known), written(changes)) == before
        else:
            assert len(changes.events) == len(before[1][4]) + 1  # type: ignore[arg-type]


@given(st.lists(batches(), min_size=1, max_size=4))
def test_commit_group_reads_only_rows_declared_by_its_batches(group: list[Batch]) -> None:
    whole, changes, changes_of_part = known_world(), Resolution(), Resolution()
    touched = Touched(group, first_half)
    part = Known()
    part.versions.update({id_: whole.versions[id_] for id_ in touched.ids & whole.versions.keys()})
    part.links.update({triple: whole.links[triple] for triple in touched.links & whole.links.keys()})
    part.keys.update({name: whole.keys[name] for name in touched.keys & whole.keys.keys()})
    for batch in group:
        assert _outcome(batch, part, changes_of_part) == _outcome(batch, whole, changes)
    assert written(changes) == written(changes_of_part)


def _outcome(batch: Batch, known: Known, changes: Resolution) -> object:
    try:
        return decide(batch, known, changes, owns=first_half, now=NOW)
    except Conflict as refusal:
        return type(refusal), str(refusal)


@given(st.lists(batches(), min_size=1, max_size=6))
def test_association_counts_change_by_created_minus_deleted(group: list[Batch]) -> None:
    known, changes = known_world(), Resolution()
    before = {triple: link.alive for triple, link in known.links.items()}
    for batch in group:
        _try(batch, known, changes)
    moved: dict[tuple[int, int], int] = {}
    for (id1, atype, id2), link in known.links.items():
        by = link.alive - before.get((id1, atype, id2), False)
        moved[id1, atype] = moved.get((id1, atype), 0) + by
        if atype == LIKED_BY.number:
            moved[BEN, atype] = moved.get((BEN, atype), 0) + by
    assert {pair: by for pair, by in changes.counts.items() if by} == {pair: by for pair, by in moved.items() if by}


def _try(batch: Batch, known: Known, changes: Resolution) -> None:
    with suppress(Conflict):
        decide(batch, known, changes, owns=everywhere, now=NOW)


def test_commit_group_later_batches_see_changes_of_earlier_ones() -> None:
    known, changes = Known(), Resolution()
    first, second = Batch(shard_of(ANN)), Batch(shard_of(ANN))
    first.obj_add(Member(id=ANN, name="ann"))
    first.key_add(key("ann"), ANN)
    first.assoc_add(ANN, FOLLOWS, BEN, moment(9))
    second.expect(ANN)
    second.assoc_del(ANN, FOLLOWS, BEN, moment(1))
    for batch in (first, second):
        decide(batch, known, changes, owns=everywhere, now=NOW)
    assert changes.links[ANN, FOLLOWS.number, BEN][:2] == (moment(9) + 1, False)
    assert not any(changes.counts.values())
    taken = Batch(shard_of(ANN))
    taken.key_add(key("ann"), BEN)
    with pytest.raises(KeyTaken):
        decide(taken, known, changes, owns=everywhere, now=NOW)


def test_cross_store_inverse_of_association_older_than_stored_one_gets_later_time() -> None:
    known, changes = known_world(), Resolution()
    batch = Batch(shard_of(ANN))
    batch.assoc_add(ANN, FOLLOWS, CYD, moment(1), b"data")
    batch.assoc_add(ANN, LIKES, POST_OF_BEN, moment(2), aggregate_id=BEN)
    batch.emit(PostCreated(post_id=1, author_id=ANN))
    pending_inverses = decide(batch, known, changes, owns=first_half, now=NOW)
    assert pending_inverses == [
        InverseOp(CYD, FOLLOWED_BY.number, ANN, moment(5) + 1, alive=True, data=b"data", aggregate_id=0),
        InverseOp(POST_OF_BEN, LIKED_BY.number, ANN, moment(2), alive=True, data=b"", aggregate_id=BEN),
    ]
    assert changes.events == [
        PostCreated(post_id=1, author_id=ANN),
        *[InversePending(op=op) for op in pending_inverses],
    ]
    assert {triple[0] for triple in changes.links} == {ANN}


def test_public_post_list_change_for_another_store_becomes_pending_without_local_change() -> None:
    known, changes = Known(), Resolution()
    batch = Batch(shard_of(ANN))
    public = public_list(shard_of(CYD))
    batch.assoc_add(public, PUBLISHED, 7, 7, b"data")
    batch.assoc_del(public, PUBLISHED, 8, moment(9))
    batch.assoc_add(public_list(shard_of(ANN)), PUBLISHED, 7, 7)
    assert (public, PUBLISHED.number, 7) not in Touched([batch], first_half).links
    pending = decide(batch, known, changes, owns=first_half, now=NOW)
    assert pending == [
        InverseOp(public, PUBLISHED.number, 7, 7, alive=True, data=b"data", aggregate_id=0),
        InverseOp(public, PUBLISHED.number, 8, moment(9), alive=False, data=b"", aggregate_id=0),
    ]
    assert changes.events == [InversePending(op=op) for op in pending]
    assert set(changes.links) == {(public_list(shard_of(ANN)), PUBLISHED.number, 7)}


@pytest.mark.parametrize(
    "op",
    [
        AssocOp(ANN, MUTES.number, BEN, moment(9), alive=True),
        AssocOp(CYD, FOLLOWS.number, ANN, moment(9), alive=True),
        AssocOp(CYD, LIKED_BY.number, ANN, moment(9), alive=True, plain=True),
    ],
    ids=["acting shard", "association with inverse", "pending inverse"],
)
def test_graph_batch_whose_shard_has_moved_to_another_store_is_refused_without_effect(op: AssocOp) -> None:
    known, changes = known_world(), Resolution()
    batch = Batch(shard_of(ANN) if op.id1 == CYD else shard_of(CYD))
    batch.put(op)
    before = state(known), written(changes)
    with pytest.raises(Frozen):
        decide(batch, known, changes, owns=first_half, now=NOW)
    assert (state(known), written(changes)) == before


def test_association_delete_of_inactive_association_has_no_pending_inverse() -> None:
    known, changes = known_world(), Resolution()
    batch = Batch(shard_of(ANN))
    batch.assoc_del(ANN, FOLLOWS, CYD, moment(9))
    batch.assoc_del(ANN, LIKES, POST_OF_BEN, moment(9))
    assert decide(batch, known, changes, owns=first_half, now=NOW) == []
    assert written(changes) == written(Resolution())


def test_association_inverse_operation_keeps_its_time_and_creates_no_further_inverse() -> None:
    known, changes = known_world(), Resolution()
    batch = Batch(shard_of(ANN))
    batch.put(AssocOp(ANN, BLOCKS.number, BEN, moment(4), alive=False, plain=True))
    batch.put(AssocOp(ANN, BLOCKS.number, CYD, moment(6), alive=True, plain=True))
    assert decide(batch, known, changes, owns=first_half, now=NOW) == []
    assert changes.links == {(ANN, BLOCKS.number, CYD): StoredAssoc(moment(6), alive=True, data=b"")}
    assert changes.counts == {(ANN, BLOCKS.number): 1}


@pytest.mark.parametrize(("name", "owner", "taken"), [("a", ANN, False), ("b", ANN, True), ("c", ANN, False)])
def test_graph_batch_key_claim_is_refused_while_another_owner_holds_it(name: str, owner: int, taken: bool) -> None:
    known, changes = known_world(), Resolution()
    batch = Batch(shard_of(ANN))
    batch.key_add(key(name), owner)
    if taken:
        with pytest.raises(KeyTaken):
            decide(batch, known, changes, owns=everywhere, now=NOW)
    else:
        decide(batch, known, changes, owns=everywhere, now=NOW)
        assert changes.keys == {("user_name", name): (ANN, 0)}


def test_graph_batch_refusals_raise_specific_conflict_types() -> None:
    taken, stale, missing = (Batch(shard_of(ANN)) for _ in range(3))
    taken.obj_add(Member(id=ANN, name="ann"))
    stale.obj_set(Member(id=ANN, name="ann", version=3))
    missing.expect(ANN + 9)
    for batch, kind in ((taken, IdTaken), (stale, Changed), (missing, Missing)):
        with pytest.raises(kind) as refusal:
            decide(batch, known_world(), Resolution(), owns=everywhere, now=NOW)
        assert refusal.type is kind
