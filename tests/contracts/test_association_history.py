"""The contract of `graph/contract.py` for types with a history, on every graph: both sides record every start and end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.ids import shard_of
from shoal.graph.contract import MAX_TIME, Assoc, AssocOp, Batch, Cursor, Store
from shoal.graph.payloads.follows import (
    MOST_PERIODS,
    FollowSpan,
    FollowTerms,
    beginning,
    encode,
    encode_moments,
    moments_until,
    periods,
)
from shoal.graph.schema import (
    ASSOC_TYPES,
    BLOCKS,
    FOLLOW_TIMES,
    FOLLOWED_BY,
    FOLLOWER_TIMES,
    FOLLOWS,
    LIKES,
    POSTED,
    AssocType,
)
from tests.async_runner import in_loop, run
from tests.example_counts import examples
from tests.stores import ANN, BACKENDS, BEN, CYD, Backend, all_links, begin, broken_promises, end, id_on, moment, put

ENDS = ((ANN, FOLLOWS, BEN), (BEN, FOLLOWED_BY, ANN))
"""Both sides of Ann's follow of Ben. With several stores, they are in different ones."""


async def told(graph: Store, id1: int, atype: AssocType, id2: int) -> set[int]:
    """All moments recorded at one end."""
    alive = (await graph.assoc_get(id1, [atype], [id2]))[atype]
    ended = await graph.assoc_ended(id1, [atype, ASSOC_TYPES[atype.history]], [id2])
    known = {beginning(row.time, row.data) for row in alive.values()}
    return known.union(*(moments_until(row.time, row.data) for found in ended.values() for row in found.values()))


async def at_both_ends(graph: Store) -> set[int]:
    one, other = [await told(graph, *ends) for ends in ENDS]
    assert one == other
    return one


def moments(*told: int) -> set[int]:
    """Moments of a history by their numbers: an end is negative."""
    return {moment(n) if n > 0 else -moment(-n) for n in told}


@in_loop
async def test_graph_follow_history_is_recorded_for_follower_and_followed_member(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        assert await at_both_ends(graph) == moments(1)
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        assert await at_both_ends(graph) == moments(1, -2)
        await begin(graph, ANN, FOLLOWS, BEN, moment(3))
        await end(graph, BEN, FOLLOWED_BY, ANN, moment(4))
        await begin(graph, ANN, FOLLOWS, BEN, moment(5))
        assert await at_both_ends(graph) == moments(1, -2, 3, -4, 5)
        assert await broken_promises(graph) == []


@in_loop
async def test_graph_range_returns_active_follow_without_its_history_data(backend: Backend) -> None:
    async with backend.open() as graph:
        for n in range(1, 8, 2):
            await begin(graph, ANN, FOLLOWS, BEN, moment(n))
            assert await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5)) == [Assoc(BEN, moment(n), b"")]
            assert await graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=5)) == [Assoc(ANN, moment(n), b"")]
            await end(graph, ANN, FOLLOWS, BEN, moment(n + 1))
        for atype in (FOLLOW_TIMES, FOLLOWER_TIMES):
            assert (await graph.assoc_get(ANN, [atype], [BEN])) == {atype: {}}
            assert await graph.assoc_range(BEN, atype, Cursor(limit=5)) == []


@in_loop
async def test_graph_unfollow_replaces_both_rows_of_follow_by_tombstones(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        assert len(await all_links(graph)) == 2
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        assert [(row.alive, row.data) for row in await all_links(graph)] == [
            (False, encode_moments(moments(1, -2)))
        ] * 2


@in_loop
async def test_graph_follow_history_keeps_newest_periods_up_to_limit(backend: Backend) -> None:
    async with backend.open() as graph:
        for n in range(1, 2 * MOST_PERIODS + 20, 2):
            await begin(graph, ANN, FOLLOWS, BEN, moment(n))
            await end(graph, ANN, FOLLOWS, BEN, moment(n + 1))
        last = 2 * MOST_PERIODS + 20
        known = periods(await at_both_ends(graph))
        assert known == [FollowSpan(moment(n - 1), moment(n)) for n in range(last, last - 2 * MOST_PERIODS, -2)]
        assert sum(len(row.data) for row in await all_links(graph)) <= 2 * 2 * 2 * MOST_PERIODS * 8


@in_loop
async def test_graph_follow_with_changed_options_starts_no_new_period(backend: Backend) -> None:
    changed = encode(FollowTerms(shares=False, since=moment(1)))
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await begin(graph, ANN, FOLLOWS, BEN, moment(1), changed)
        assert await at_both_ends(graph) == moments(1)
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        # From a device that does not know of the unfollow: the follow starts again.
        await begin(graph, ANN, FOLLOWS, BEN, moment(1), changed)
        assert await at_both_ends(graph) == {*moments(1, -2), moment(2) + 1}
        (row,) = await graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=5))
        assert row.data == encode(FollowTerms(shares=False))


@in_loop
async def test_graph_follow_history_with_clock_skew_keeps_order_of_changes(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(5))
        await end(graph, ANN, FOLLOWS, BEN, moment(3))
        await begin(graph, ANN, FOLLOWS, BEN, moment(5) + 1)
        assert await at_both_ends(graph) == {moment(5), -moment(5) - 1, moment(5) + 2}


@in_loop
async def test_graph_unfollow_marked_as_silent_is_not_recorded_in_history(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(5))
        op = AssocOp(BEN, FOLLOWED_BY.number, ANN, moment(5) + 1, alive=False, plain=True, silent=True)
        await put(graph, op)
        assert await told(graph, *ENDS[1]) == moments(5)
        await put(graph, op._replace(time=moment(9), silent=False))
        assert await told(graph, *ENDS[1]) == moments(5, -9)


@in_loop
async def test_graph_follow_history_of_tombstone_without_data_contains_only_end_time(backend: Backend) -> None:
    async with backend.open() as graph:
        # A tombstone of an older version has no data.
        for id1, atype, id2 in ((ANN, FOLLOWS, BEN), (BEN, FOLLOWED_BY, ANN)):
            await put(graph, AssocOp(id1, atype.number, id2, moment(4), alive=False, plain=True, silent=True))
        assert await at_both_ends(graph) == moments(-4)
        await begin(graph, ANN, FOLLOWS, BEN, moment(6))
        assert periods(await at_both_ends(graph)) == [FollowSpan(moment(6), 0), FollowSpan(0, moment(4))]


@in_loop
async def test_graph_assoc_ended_range_is_sorted_by_end_time(backend: Backend) -> None:
    async with backend.open() as graph:
        fans = [id_on(source, n) for source in (0, 30, 63) for n in range(20, 24)]
        for n, fan in enumerate(fans):
            await begin(graph, fan, FOLLOWS, BEN, moment(n + 1))
            await end(graph, fan, FOLLOWS, BEN, moment(100 + n))
        await begin(graph, fans[3], FOLLOWS, BEN, moment(300))

        async def ended(atype: AssocType, at: Cursor) -> list[int]:
            return [row.time for row in await graph.assoc_ended_range(BEN, atype, at)]

        left = [moment(100 + n) for n in range(len(fans)) if n != 3]
        assert await ended(FOLLOWED_BY, Cursor(limit=50)) == left[::-1]
        assert await ended(FOLLOWED_BY, Cursor(limit=4, oldest_first=True)) == left[:4]
        part = Cursor(before=moment(108), after=moment(102), limit=50)
        assert await ended(FOLLOWED_BY, part) == [one for one in left[::-1] if moment(102) < one < moment(108)]
        assert await ended(FOLLOWER_TIMES, Cursor(limit=5)) == [moment(103)]
        (row,) = await graph.assoc_ended_range(BEN, FOLLOWER_TIMES, Cursor(limit=5))
        assert row == Assoc(fans[3], moment(103), encode_moments(moments(4, -103)))
        assert await graph.assoc_ended_range(CYD, FOLLOWED_BY, Cursor(limit=5)) == []


@in_loop
async def test_graph_assoc_ended_returns_tombstones_grouped_by_type_and_id(backend: Backend) -> None:
    async with backend.open() as graph:
        # Lists of posts are sorted by id, and some stores use a different layout for them.
        for atype in (FOLLOWS, BLOCKS, LIKES, POSTED):
            await begin(graph, ANN, atype, BEN, moment(1))
            await end(graph, ANN, atype, BEN, moment(2))
        for atype in (FOLLOWS, POSTED):
            await begin(graph, ANN, atype, CYD, moment(3))
        found = await graph.assoc_ended(ANN, [FOLLOWS, BLOCKS, POSTED], [BEN, CYD])
        assert {atype: {id2: row.time for id2, row in rows.items()} for atype, rows in found.items()} == {
            FOLLOWS: {BEN: moment(2)},
            BLOCKS: {BEN: moment(2)},
            POSTED: {BEN: moment(2)},
        }
        assert await graph.assoc_ended(ANN, [FOLLOWS], []) == {FOLLOWS: {}}


@in_loop
async def test_graph_sweep_history_deletes_only_follow_histories_that_ended_before_given_time(backend: Backend) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        await begin(graph, ANN, FOLLOWS, CYD, moment(1))
        await end(graph, ANN, FOLLOWS, CYD, moment(8))
        await begin(graph, CYD, FOLLOWS, BEN, moment(1))
        await end(graph, CYD, FOLLOWS, BEN, moment(2))
        await begin(graph, CYD, FOLLOWS, BEN, moment(3))
        await begin(graph, ANN, BLOCKS, BEN, moment(1))
        await end(graph, ANN, BLOCKS, BEN, moment(2))
        assert await graph.sweep_history(moment(2)) == 0
        # Two rows each: Ann's follow of Ben, and the history rows of Cyd's follow of Ben.
        assert await graph.sweep_history(moment(5)) == 4
        assert await at_both_ends(graph) == set()
        assert await told(graph, CYD, FOLLOWS, BEN) == await told(graph, BEN, FOLLOWED_BY, CYD) == moments(3)
        assert await told(graph, ANN, FOLLOWS, CYD) == moments(1, -8)
        assert await graph.assoc_ended_range(BEN, FOLLOWED_BY, Cursor(limit=5)) == []
        assert await graph.assoc_ended_range(BEN, FOLLOWER_TIMES, Cursor(limit=5)) == []
        # `sweep` does not delete histories.
        assert await graph.sweep(MAX_TIME, 0) == 2
        assert await told(graph, ANN, FOLLOWS, CYD) == moments(1, -8)
        assert await graph.sweep_history(MAX_TIME) == 2
        assert await broken_promises(graph) == []


acts = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=8, unique_by=lambda act: act[0])


@st.composite
def orders(draw: st.DrawFn) -> tuple[Sequence[tuple[int, bool]], Sequence[tuple[int, bool]]]:
    """Follow and unfollow operations between two members, in two random orders with repeats."""
    told = draw(acts)
    again = draw(st.lists(st.sampled_from(told), max_size=6))
    return draw(st.permutations(told + again)), draw(st.permutations(told + again + again))


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=examples(6))
@given(both=orders())
def test_graph_follow_history_converges_in_any_order_and_with_repeats(
    name: str, both: tuple[Sequence[tuple[int, bool]], Sequence[tuple[int, bool]]]
) -> None:
    async def after(order: Collection[tuple[int, bool]]) -> tuple[object, ...]:
        with TemporaryDirectory() as folder:
            async with Backend(name, Path(folder)).open() as graph:
                for n, alive in order:
                    await put(graph, AssocOp(BEN, FOLLOWED_BY.number, ANN, moment(n), alive=alive, plain=True))
                alive_now = await graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=2))
                return await told(graph, *ENDS[1]), alive_now

    first, second = (run(after(order)) for order in both)
    assert first == second
    assert first[0] == {moment(n) if alive else -moment(n) for n, alive in both[0]}


@in_loop
async def test_graph_follow_history_after_concurrent_changes_is_equal_for_follower_and_followed_member(
    backend: Backend,
) -> None:
    async with backend.open() as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        # Ben removes the follow while Ann renews it: both commit independently, and the inverses cross.
        for shard, op in (
            (ANN, AssocOp(ANN, FOLLOWS.number, BEN, moment(2), alive=False)),
            (ANN, AssocOp(ANN, FOLLOWS.number, BEN, moment(3), alive=True)),
            (BEN, AssocOp(BEN, FOLLOWED_BY.number, ANN, moment(4), alive=False)),
        ):
            batch = Batch(shard_of(shard))
            batch.put(op._replace(plain=True))
            await graph.commit(batch)
        for op in (
            AssocOp(ANN, FOLLOWS.number, BEN, moment(4), alive=False, plain=True),
            AssocOp(BEN, FOLLOWED_BY.number, ANN, moment(3), alive=True, plain=True),
            AssocOp(BEN, FOLLOWED_BY.number, ANN, moment(2), alive=False, plain=True),
        ):
            await put(graph, op)
        assert periods(await at_both_ends(graph)) == [
            FollowSpan(moment(3), moment(4)),
            FollowSpan(moment(1), moment(2)),
        ]
