"""The nearby timeline: it contains exactly the visible posts within a disk, on every store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands.scheduled_posts import draft_of
from shoal.core.errors import InvalidInput
from shoal.core.ids import shard_of
from shoal.core.model import Post, ScheduledPost
from shoal.core.places import Disk, Place, PlacePrecision, disk, rounded
from shoal.graph.contract import AssocOp, Batch, Cursor
from shoal.graph.schema import CELL_OF, PLACED_IN, cell_id
from shoal.queries import public_timelines
from shoal.queries.context import Reads
from tests.async_runner import in_loop, run
from tests.engines import dynamodb, postgres
from tests.example_counts import examples
from tests.flows.members import register, texts
from tests.flows.query_counts import calls, statements

HARBOUR, TOWER, ABROAD = Place(54.1, -0.2), Place(54.13, -0.2), Place(47.38, 8.54)
"""The tower is 3.3 km north of the harbour."""
POLE, ISLAND = Place(90.0, 0.0), Place(-16.8, 180.0)


@pytest.fixture(params=["memory", "two stores", "sqlite", "postgres", "dynamodb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """An empty network on each kind of store."""
    if request.param == "two stores":
        # Posts are in one store, cells in both.
        return {"0-31": "memory://one", "32-63": "memory://two"}
    if request.param == "postgres":
        return run(postgres.database(request))
    if request.param == "dynamodb":
        return dynamodb.new_table()
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'shoal.db'}"


async def around(shoal: Shoal, place: Place, radius_km: float = 10.0, viewer: Handle | None = None) -> list[str]:
    """Return the texts of all posts in a disk, read by pages of two."""
    found: list[str] = []
    at, before = viewer or shoal.visitor, None
    while True:
        page = await at.nearby(*place, radius_km, before=before, limit=2)
        found += texts(page)
        if page.next is None:
            return found
        assert len(page.entries) == 2
        before = page.next


async def links(shoal: Shoal, post: Post) -> int:
    """Count the cells of a post, and check that the lists of the cells match."""
    listed = await shoal.network.store.assoc_range(post.id, PLACED_IN, Cursor())
    cells = [entry.id2 for entry in listed]
    held = await shoal.network.store.assoc_ranges(cells, CELL_OF, Cursor()) if cells else {}
    assert sum(entry.id2 == post.id for page in held.values() for entry in page) == len(cells)
    return len(cells)


@in_loop
async def test_nearby_timeline_reflects_created_edited_and_deleted_posts_on_every_backend(
    url: str | dict[str, str],
) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        for who in (ann, ben):
            await who.update_profile(place_precision="exact")
        moved = await ann.create("at the harbour", place=HARBOUR)
        gone = await ben.create("up the tower", place=TOWER)
        await ann.create("abroad", place=ABROAD)
        await ann.create("nowhere")
        for kind in ("unlisted", "followers", "direct"):
            assert await links(shoal, await ann.create(kind, visibility=kind, place=HARBOUR)) == 0
        await ben.comment(moved, "beside you", place=HARBOUR)
        await shoal.settle()
        assert await around(shoal, HARBOUR) == ["beside you", "up the tower", "at the harbour"]
        assert await around(shoal, HARBOUR, 3.2) == ["beside you", "at the harbour"]
        assert await around(shoal, HARBOUR, 0.1) == ["beside you", "at the harbour"]
        everything = ["beside you", "abroad", "up the tower", "at the harbour"]
        assert await around(shoal, Place(50.7, 4.2), 500) == everything
        assert await around(shoal, Place(50.7, 4.2), 400) == []
        assert (await links(shoal, moved), await links(shoal, gone)) == (3, 3)
        await ann.update(moved, "gone abroad", place=ABROAD)
        await ben.delete(gone)
        await shoal.settle()
        assert await around(shoal, HARBOUR) == ["beside you"]
        assert await around(shoal, ABROAD) == ["abroad", "gone abroad"]
        assert (await links(shoal, moved), await links(shoal, gone)) == (3, 0)
        await ann.update(moved, "back", place=HARBOUR)
        assert await around(shoal, HARBOUR) == ["beside you", "back"]
        await ann.update(moved, "silent", place=None)
        assert await around(shoal, HARBOUR) == ["beside you"]
        assert await links(shoal, moved) == 0
        await ann.update(moved, "once more", place=HARBOUR)
        assert await around(shoal, HARBOUR) == ["beside you", "once more"]
        assert (await check(shoal.network)).clean


@in_loop
async def test_nearby_timeline_excludes_muted_blocked_hidden_and_suspended() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("here", place=HARBOUR)
        await ben.create("here too", place=HARBOUR)
        await cyd.mute(ben)
        assert await around(shoal, HARBOUR, viewer=cyd) == ["here"]
        await ann.block(cyd)
        assert await around(shoal, HARBOUR, viewer=cyd) == []
        await shoal.hide(post)
        assert await around(shoal, HARBOUR) == ["here too"]
        await shoal.reveal(post)
        assert await around(shoal, HARBOUR) == ["here too", "here"]
        await shoal.suspend(ann)
        await shoal.settle()
        assert await around(shoal, HARBOUR) == ["here too"]


@in_loop
async def test_nearby_timeline_includes_posts_across_poles_and_date_line() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.update_profile(place_precision="exact")
        for longitude in (0.0, 90.0, 180.0, -123.4):
            await ann.create(f"pole {longitude:g}", place=(89.99, longitude))
        await ann.create("east of the line", place=(-16.8, -179.96))
        await ann.create("west of the line", place=(-16.8, 179.96))
        for radius in (5, 50, 500):
            assert len(await around(shoal, POLE, radius)) == 4
            assert await around(shoal, ISLAND, radius) == ["west of the line", "east of the line"]
        assert len(await around(shoal, Place(89.95, 45.0), 10)) == 4
        assert await around(shoal, Place(-90.0, 0.0), 500) == []


@in_loop
async def test_nearby_timeline_pages_in_both_directions_neither_repeat_nor_skip() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.update_profile(place_precision="exact")
        made = [await ann.create(str(n), place=(54.1 + n % 5 / 50, -0.2)) for n in range(30)]
        inside = [post for n, post in enumerate(made) if n % 5 < 3]
        newest = [post.text for post in reversed(inside)]
        assert await around(shoal, HARBOUR, 5.0) == newest
        upwards: list[str] = []
        after = 0
        while page := (await shoal.visitor.nearby(*HARBOUR, 5.0, after=after, limit=4, oldest_first=True)).entries:
            upwards += texts(page[::-1])
            after = page[0].id
        assert upwards == newest[::-1]
        since = await shoal.visitor.nearby(*HARBOUR, 5.0, after=inside[3].id, limit=3)
        assert texts(since) == newest[:3]
        before = await shoal.visitor.nearby(*HARBOUR, 5.0, before=inside[3].id, limit=9)
        assert (texts(before), before.next) == (["2", "1", "0"], None)


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@in_loop
async def test_nearby_timeline_read_count_is_independent_of_post_count(backend: str, tmp_path: Path) -> None:
    costs = []
    for number in (1, 40, 200):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{number}.db"
        async with Shoal.open(url) as shoal:
            ann, ben = await register(shoal, "ann", "ben")
            for n in range(number):
                await ann.create(str(n), place=(54.1 + n % 7 / 100, -0.2 + n % 3 / 100))

            async def read(reads: Reads) -> None:
                page = await public_timelines.nearby_page(reads, ben.id, disk(54.13, -0.19, 10), Cursor(limit=40))  # noqa: B023
                assert len(page.entries) == min(number, 40)  # noqa: B023

            costs.append((await calls(shoal.network, read)).total())
            if backend == "sqlite":
                assert await statements(shoal.network, read) <= 10
    # A source that fills the page alone is read a second time.
    assert max(costs) <= min(costs) + 1
    assert max(costs) <= 9


@in_loop
async def test_post_without_location_writes_no_location_rows() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        rows = []
        for place in (None, HARBOUR):
            before = await _rows(shoal)
            await ann.create("a post", place=place)
            rows.append(await _rows(shoal) - before)
        # A post in three cells has three associations and their inverses.
        assert rows[1] - rows[0] == 6


async def _rows(shoal: Shoal) -> int:
    return len(await shoal.network.store.assoc_scan((-(2**63), -(2**15), -(2**63)), 10_000))


@pytest.mark.parametrize("precision", list(PlacePrecision))
@in_loop
async def test_post_location_is_stored_with_precision_chosen_by_author(precision: PlacePrecision) -> None:
    exact = Place(54.123456, -0.198765)
    expected = rounded(exact, precision)
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        first = await ann.create("first", place=exact)
        assert first.place == Place(54.12, -0.204749)
        profile = await ann.update_profile(place_precision=precision.value)
        assert profile.place_precision is precision
        # Existing posts keep their place, also if an edit repeats it.
        assert (await ann.update(first, "first again", place=first.place)).place == first.place
        assert (await ann.update(first, "another", place=exact)).place == expected
        post = await ann.create("second", place=exact)
        plan = await ann.scheduled.create("third", at=_in_an_hour(), place=exact)
        assert isinstance(plan, ScheduledPost)
        await shoal.settle()
        assert (post.place, draft_of(plan).place) == (expected, expected)
        if precision is not PlacePrecision.EXACT:
            nodes = await shoal.network.store.obj_scan(-(2**63), 1_000)
            assert not any(str(digits) in repr(nodes) for digits in exact)
        near = await shoal.visitor.nearby(*(expected or exact), 0.1)
        assert texts(near) == ([] if expected is None else ["second", "another"])


def _in_an_hour() -> int:
    return time.time_ns() // 1_000_000 + 3_600_000


@in_loop
async def test_nearby_timeline_invalid_precision_area_or_limit_is_rejected() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        with pytest.raises(InvalidInput, match="100m, 1km, 10km"):
            await ann.update_profile(place_precision="1 km")  # type: ignore[arg-type]
        for wrong in ((91, 0, 1), (0, 181, 1), (0, 0, 0), (0, 0, 501)):
            with pytest.raises(InvalidInput):
                await ann.nearby(*wrong)
        with pytest.raises(InvalidInput):
            await ann.nearby(0, 0, limit=0)


@in_loop
async def test_consistency_check_repairs_location_cells_of_posts(
    url: str | dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Shoal.open(url) as shoal:
        (ann,) = await register(shoal, "ann")
        with monkeypatch.context() as older:
            # Older versions have no cells for posts with a place.
            older.setattr("shoal.commands.posts.move_between_cells", lambda *_: None)
            lost = await ann.create("lost", place=HARBOUR)
            unlisted = await ann.create("unlisted", place=HARBOUR, visibility="unlisted")
        kept = await ann.create("kept", place=HARBOUR)
        elsewhere = cell_id("elsewhere")
        for post in (kept, unlisted):
            for id1, atype, id2 in ((elsewhere, CELL_OF, post.id), (post.id, PLACED_IN, elsewhere)):
                batch = Batch(shard_of(id1))
                batch.put(AssocOp(id1, atype.number, id2, post.id, alive=True, data=(1).to_bytes(4), plain=True))
                await shoal.network.store.commit(batch)
        assert await around(shoal, HARBOUR) == ["kept"]
        report = await check(shoal.network)
        assert {line.name: line.found for line in report.invariants if line.found} == {"lists": 5}
        await check(shoal.network, repair=True)
        assert (await check(shoal.network)).clean
        assert await around(shoal, HARBOUR) == ["kept", "lost"]
        assert [await links(shoal, post) for post in (lost, kept, unlisted)] == [3, 3, 0]
        # Repaired cells follow later edits and deletions.
        await ann.update(lost, "found", place=TOWER)
        await ann.delete(kept)
        assert await around(shoal, TOWER, 1) == ["found"]
        assert [await links(shoal, post) for post in (lost, kept)] == [3, 0]
        assert (await check(shoal.network)).clean


class _Spot(NamedTuple):
    place: Place
    public: bool
    fate: str


SPOTS = st.builds(
    _Spot,
    st.builds(
        Place,
        st.sampled_from((0.0, 54.1, 89.99, -89.9)).flatmap(lambda at: st.floats(max(-90, at - 2), min(90, at + 2))),
        st.sampled_from((0.0, -0.2, 180.0)).flatmap(lambda at: st.floats(max(-180, at - 3), min(180, at + 3)))
        | st.floats(-180, -177),
    ),
    st.sampled_from((True, True, True, False)),
    st.sampled_from(("stays", "stays", "stays", "moves", "goes", "hides")),
)
DISKS = st.builds(
    Disk, st.sampled_from((0.0, 54.0, 90.0, -90.0)), st.sampled_from((0.0, -0.2, 180.0)), st.floats(0.1, 500)
)


@given(st.lists(SPOTS, max_size=12), st.lists(DISKS, min_size=1, max_size=4))
@settings(max_examples=examples(12, full=25), deadline=None)
def test_nearby_timeline_equals_visible_posts_within_radius(spots: Sequence[_Spot], disks: Sequence[Disk]) -> None:
    run(_compare(spots, disks))


async def _compare(spots: Sequence[_Spot], disks: Sequence[Disk]) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.update_profile(place_precision="exact")
        there: dict[str, Place] = {}
        for n, spot in enumerate(spots):
            post = await ann.create(str(n), place=spot.place, visibility="public" if spot.public else "unlisted")
            if spot.public and spot.fate in ("stays", "moves"):
                there[str(n)] = spot.place
            if spot.fate == "moves":
                await ann.update(post, str(n), place=spots[0].place)
                if spot.public:
                    there[str(n)] = spots[0].place
            elif spot.fate == "goes":
                await ann.delete(post)
            elif spot.fate == "hides":
                await shoal.hide(post)
        for each in disks:
            expected = [text for text, place in reversed(there.items()) if each.has(place)]
            assert await around(shoal, Place(each.latitude, each.longitude), each.radius_km) == expected
        assert (await check(shoal.network)).clean
