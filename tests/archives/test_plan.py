"""The plan of an archive: its levels and ids, in time and memory that grow with the archive and no faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from shoal.archives.plan import ArchivePlan
from shoal.archives.records import ArchivedPost, ArchiveKind, ArchiveRecord
from shoal.archives.report import ArchiveReport
from shoal.core.ids import EPOCH_MS
from shoal.ops.archives.backdated_slots import Slots
from shoal.ops.transfer.backdated import BackdatedIds, OrderedIds

NOW = 2_000_000_000_000
MANY = 50_000
MOMENTS = [5, 900, 12_424, 86_400_000, 1_072_915_200_000, EPOCH_MS - 1, EPOCH_MS, EPOCH_MS + 1, EPOCH_MS + 10]


class Given:
    """An archive of these records."""

    kind = ArchiveKind.MASTODON
    account = "ann"

    def __init__(self, records: Iterator[ArchiveRecord] | Sequence[ArchiveRecord]) -> None:
        self._records = records

    def records(self) -> Iterator[ArchiveRecord]:
        yield from self._records


def planned(
    folder: Path, records: Iterator[ArchiveRecord] | Sequence[ArchiveRecord]
) -> tuple[ArchivePlan, ArchiveReport]:
    plan = ArchivePlan(folder)
    return plan, plan.fill(Given(records), NOW, lambda _: None)


@given(st.lists(st.tuples(st.sampled_from(MOMENTS), st.integers(0, 3))))
def test_moments_in_order_get_the_ids_that_they_get_in_any_order(moments: list[tuple[int, int]]) -> None:
    ordered, any_order = OrderedIds(7), BackdatedIds()
    for moment, more in sorted(moments):
        last = any_order.take(moment, 7)
        assert ordered.take(moment) == last
        for _ in range(more):
            last = any_order.after(last, 7)
            assert ordered.after() == last


def test_posts_of_one_moment_get_an_id_each(tmp_path: Path) -> None:
    # Stepping over each id that was given would take more than a thousand million steps.
    plan, _ = planned(tmp_path, (ArchivedPost(id=str(n), written=NOW, text="a") for n in range(MANY)))
    slots = Slots(plan, 1, 4)
    assert len({slots.part(position, 0) for position in plan.order}) == MANY


def test_a_thread_of_any_depth_is_divided_into_its_levels(tmp_path: Path) -> None:
    # So would looking through all posts for each level.
    posts = (
        ArchivedPost(id=str(n), written=n + 1, text="a", parent=str(n - 1) if n else "", own_parent=True)
        for n in range(MANY)
    )
    plan, report = planned(tmp_path, posts)
    assert (report.found.posts, report.found.comments) == (1, MANY - 1)
    assert list(plan.levels()) == [[n] for n in range(MANY)]
    assert [plan.answered[n] for n in (0, MANY - 2, MANY - 1)] == [True, True, False]


def test_a_level_is_in_the_order_of_its_dates(tmp_path: Path) -> None:
    told = [("a", 5, ""), ("b", 9, "a"), ("c", 3, ""), ("d", 2, "a"), ("e", 7, "d"), ("f", 4, "b")]
    posts = [ArchivedPost(id=id_, written=at, text=id_, parent=parent) for id_, at, parent in told]
    plan, _ = planned(tmp_path, posts)
    assert [[post.id for post in plan.read(level)] for level in plan.levels()] == [["c", "a"], ["d", "b"], ["f", "e"]]
