"""Archive plan: levels and ids, in time and memory linear in the size of the archive."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.admin.archives.entries import MAX_ENTRIES, opened
from shoal.admin.archives.importer import Slots
from shoal.admin.archives.plan import MOST_PHOTOS, ArchivePlan, DamagedPlan
from shoal.admin.archives.reader import reader_of
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    ArchiveReport,
    Omission,
    SkippedRecord,
)
from shoal.admin.imports.records import BackdatedIds, OrderedIds
from shoal.core.errors import TooLarge
from shoal.core.ids import EPOCH_MS

NOW = 2_000_000_000_000
MANY = 50_000
MEBIBYTE = 1 << 20
MOMENTS = [5, 900, 12_424, 86_400_000, 1_072_915_200_000, EPOCH_MS - 1, EPOCH_MS, EPOCH_MS + 1, EPOCH_MS + 10]


class Given:
    """An archive reader that yields the given records."""

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
def test_archive_import_ids_of_sorted_times_match_generator_for_unsorted_times(moments: list[tuple[int, int]]) -> None:
    ordered, any_order = OrderedIds(7), BackdatedIds()
    for moment, more in sorted(moments):
        last = any_order.take(moment, 7)
        assert ordered.take(moment) == last
        for _ in range(more):
            last = any_order.after(last, 7)
            assert ordered.after() == last


def test_archive_import_plan_posts_with_equal_timestamps_get_unique_ids(tmp_path: Path) -> None:
    # A linear scan over assigned ids would take more than a billion steps.
    plan, _ = planned(tmp_path, (ArchivedPost(id=str(n), written=NOW, text="a") for n in range(MANY)))
    slots = Slots(plan, 1, 4)
    assert len({slots.part(position, 0) for position in plan.order}) == MANY


def test_archive_import_plan_deep_thread_is_divided_into_levels(tmp_path: Path) -> None:
    # A scan of all posts for each level would take as many steps.
    posts = (
        ArchivedPost(id=str(n), written=n + 1, text="a", parent=str(n - 1) if n else "", own_parent=True)
        for n in range(MANY)
    )
    plan, report = planned(tmp_path, posts)
    assert (report.found.posts, report.found.comments) == (1, MANY - 1)
    assert list(plan.levels()) == [[n] for n in range(MANY)]
    assert [plan.answered[n] for n in (0, MANY - 2, MANY - 1)] == [True, True, False]


def test_archive_import_plan_orders_posts_of_equal_reply_depth_by_date(tmp_path: Path) -> None:
    told = [("a", 5, ""), ("b", 9, "a"), ("c", 3, ""), ("d", 2, "a"), ("e", 7, "d"), ("f", 4, "b")]
    posts = [ArchivedPost(id=id_, written=at, text=id_, parent=parent) for id_, at, parent in told]
    plan, _ = planned(tmp_path, posts)
    assert [[post.id for post in plan.read(level)] for level in plan.levels()] == [["c", "a"], ["d", "b"], ["f", "e"]]


def test_archive_import_plan_with_megabyte_ids_uses_bounded_memory(tmp_path: Path) -> None:
    def records() -> Iterator[ArchiveRecord]:
        for n in range(100):
            yield SkippedRecord("posts", f"{n}" * MEBIBYTE, Omission.BOOST)
            yield ArchivedPost(id=f"{n}" * MEBIBYTE, written=NOW, text="a")
            yield ArchivedPost(id=f"{n}", written=NOW, text="a", parent="b" * MEBIBYTE, own_parent=True)

    tracemalloc.start()
    plan, report = planned(tmp_path, records())
    assert tracemalloc.get_traced_memory()[1] < 16 * MEBIBYTE
    tracemalloc.stop()
    assert (len(plan), [(one.reason, one.count) for one in report.omitted]) == (
        0,
        [(Omission.BOOST, 100), (Omission.MALFORMED, 200)],
    )


def test_archive_import_plan_photo_descriptions_of_post_are_limited_in_total_length(tmp_path: Path) -> None:
    photos = tuple(ArchivedPhoto(f"{n}.jpg", "a" * 200_000) for n in range(MOST_PHOTOS))
    plan, _ = planned(tmp_path, [ArchivedPost(id="1", written=NOW, photos=photos)])
    (post,) = plan.read([0])
    assert [len(photo.description) for photo in post.photos] == [100] * MOST_PHOTOS


def _saved(folder: Path) -> Path:
    """Save a plan of two posts, and return its file."""
    posts = [ArchivedPost(id="1", written=NOW, text="One"), ArchivedPost(id="2", written=NOW, text="Two", parent="1")]
    plan, _ = planned(folder, posts)
    plan.save()
    assert len(ArchivePlan.load(folder)) == 2
    return folder / "plan"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (0, struct.pack("3q", 0, 5, 1 << 40)),
        (0, struct.pack("3q", 0, 5, 4)),
        (0, struct.pack("2q", 0, 5)),
        (2, struct.pack("2i", -1, 2)),
        (2, struct.pack("i", -1)),
        (4, struct.pack("2i", 0, 9)),
        (4, struct.pack("2i", 0, -1)),
        (4, struct.pack("2i", 0, 0)),
        (5, struct.pack("2i", 0, 0)),
        (6, struct.pack("2H", 65_535, 65_535)),
        (7, b""),
        (9, dict.fromkeys(range(10001), "ann")),
    ],
)
def test_archive_import_plan_file_with_inconsistent_parts_is_refused(tmp_path: Path, field: int, value: object) -> None:
    path = _saved(tmp_path)
    parts = msgspec.msgpack.decode(path.read_bytes())
    parts[field] = value
    path.write_bytes(msgspec.msgpack.encode(parts))
    with pytest.raises(DamagedPlan, match="inconsistent"):
        ArchivePlan.load(tmp_path)


@pytest.mark.parametrize("name", ["plan", "posts"])
def test_archive_import_plan_file_that_is_pipe_or_symlink_is_refused(tmp_path: Path, name: str) -> None:
    _saved(tmp_path)
    path = tmp_path / name
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(OSError, match="symbolic links"):
        ArchivePlan.load(tmp_path).read([0])
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamagedPlan, match="not a regular file"):
        ArchivePlan.load(tmp_path).read([0])


def test_archive_import_plan_file_with_mismatched_post_date_is_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    parts = msgspec.msgpack.decode(path.read_bytes())
    parts[1] = struct.pack("2q", NOW - 1, NOW)
    path.write_bytes(msgspec.msgpack.encode(parts))
    with pytest.raises(DamagedPlan, match="differs"):
        ArchivePlan.load(tmp_path).read([0])


def test_archive_import_plan_file_above_size_limit_is_refused(tmp_path: Path) -> None:
    os.truncate(_saved(tmp_path), 1 << 40)
    with pytest.raises(DamagedPlan, match="bytes"):
        ArchivePlan.load(tmp_path)


def test_archive_import_plan_reply_to_skipped_post_with_long_id_is_omitted(tmp_path: Path) -> None:
    id_ = "a" * 2_000
    plan, report = planned(
        tmp_path,
        [
            SkippedRecord("posts", id_, Omission.DIRECT),
            ArchivedPost(id="b", written=1, text="b", parent=id_, own_parent=True),
        ],
    )
    assert (list(plan.order), report.omitted[1].reason) == ([], Omission.THREAD)


def test_archive_import_plan_photos_are_limited_per_post_and_archive(tmp_path: Path) -> None:
    sizes = [70_000, *[1_100] * 149]
    posts = [
        ArchivedPost(id=str(n), written=n + 1, text="a", photos=(ArchivedPhoto("1.jpg"),) * size)
        for n, size in enumerate(sizes)
    ]
    plan, report = planned(tmp_path, posts)
    assert [plan.photos[n] for n in (0, 99, 100, 149)] == [MOST_PHOTOS, MOST_PHOTOS, 0, 0]
    assert (report.found.photos, report.omitted[0].reason) == (MAX_ENTRIES, Omission.TOO_MANY)
    assert report.found.photos + report.omitted[0].count == sum(sizes)


def test_archive_export_with_too_many_media_descriptions_is_refused(tmp_path: Path) -> None:
    def read(medium: str) -> None:
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("profile.json", '{"id": "1", "name": "ann", "joined": "2024-05-01"}')
            with archive.open("media.json", "w") as file:
                file.write(b"[")
                for n in range(101_000):
                    file.write((medium % n).encode())
                file.write(b"{}]")
        with opened(path, tmp_path) as found:
            list(reader_of(found, tmp_path).records())

    with pytest.raises(TooLarge, match="100000 files"):
        read('{"file": "%d"},')
    with pytest.raises(TooLarge, match=r"media\.json has more than"):
        read('{"file": "%d", "description": "' + "a" * 1_000 + '"},')
