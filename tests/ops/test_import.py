"""Imports: accepted formats, reasons of refused records, and resumption after a kill at any moment."""

from __future__ import annotations

import gzip
import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.imports.files import BEST_CONNECTED, Sources, in_directory
from shoal.admin.imports.records import (
    DAYS,
    BackdatedIds,
    PostRecord,
    Summary,
    cut,
    moment_of,
    ticks_of,
    worded,
)
from shoal.admin.imports.run import import_all
from shoal.core.errors import InvalidInput, StorageFull
from shoal.core.ids import EPOCH_MS, milliseconds_of, shard_of
from shoal.core.model import DAY_MS, Post
from shoal.core.text import text_length
from shoal.graph.contract import Batch
from tests.async_runner import in_loop

COUNTS = {
    "members": "SELECT count(*) FROM key WHERE space = 'user_name'",
    "follows": "SELECT sum(time) FROM association WHERE alive = -1 AND atype = 1",
    "posts": "SELECT sum(time) FROM association WHERE alive = -1 AND atype = 13",
    "photos": "SELECT sum(time) FROM association WHERE alive = -1 AND atype = 19",
}


def counts(store: Path) -> dict[str, int]:
    """Return the number of entries of each kind in a store file."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return {kind: connection.execute(statement).fetchone()[0] or 0 for kind, statement in COUNTS.items()}


def lay_out(folder: Path, *, people: int = 12, posts: int = 40) -> Path:
    """Write a small network in the layout of the real data: a ring of friends with the first connected to all others."""
    for name in ("graph", "posts", "photos"):
        (folder / name).mkdir(parents=True)
    names = ["id,name,ml_target", *(f"{n},Per-son{n},0" for n in range(people))]
    (folder / "graph" / "nodes.csv").write_text("\n".join(names))
    edges = [f"0,{n}" for n in range(1, people)] + [f"{n},{n + 1}" for n in range(1, people - 1)]
    (folder / "graph" / "edges.csv").write_text("\n".join(["id_1,id_2", *edges]))
    rows = [
        {
            "id": 100 + n,
            "user_id": 7_000 + n * n % 5,
            "created_at": f"2015-03-{1 + n % 28:02}T{n // 60 % 24:02}:{n % 60:02}:00+02:00",
            "name": f"Wave {n}",
            "description": "Cold & clear.",
            "tags": ["sea", "low tide", "Sea"],
        }
        for n in range(posts)
    ]
    with gzip.open(folder / "posts" / "all.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    for color in ("teal", "navy"):
        Image.new("RGB", (40, 30), color).save(folder / "photos" / f"{color}.jpg")
    return folder


async def imported(store: Path, sources: Sources) -> Summary:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        return await import_all(shoal.network, sources, Summary())


@in_loop
async def test_import_directory_is_imported_completely_and_reimport_adds_nothing(tmp_path: Path) -> None:
    sources, store = in_directory(lay_out(tmp_path / "data")), tmp_path / "shoal.db"
    first = await imported(store, sources)
    expected = {"members": 12, "follows": 42, "posts": 40, "photos": 40}
    assert counts(store) == expected
    assert {kind: first[kind].taken for kind in expected} == expected
    again = await imported(store, sources)
    assert {kind: again[kind].there for kind in expected} == expected
    assert {kind: again[kind].taken for kind in expected} == dict.fromkeys(expected, 0)
    assert counts(store) == expected


@in_loop
async def test_imported_network_passes_check_and_home_timeline_is_ordered(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    await imported(store, in_directory(lay_out(tmp_path / "data")))
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        assert (await check(shoal.network)).clean
        first = await shoal.member("per_son0")
        profile = await first.profile()
        assert (profile.followers, profile.following) == (11, 11)
        assert profile.member.display_name == "Per-son0"
        page = await first.home(limit=40)
        assert [entry.post.created_at for entry in page.entries] == sorted(
            (entry.post.created_at for entry in page.entries), reverse=True
        )
        newest = page.entries[0].post
        assert newest.text == "Wave 27\n\nCold & clear.\n\n#sea"
        assert newest.tags == ("sea",)
        assert newest.media
        authors = [entry.author.member for entry in page.entries]
        posts = zip(authors, page.entries, strict=True)
        assert all(author.created_at <= entry.post.created_at for author, entry in posts)


@in_loop
async def test_import_author_with_most_posts_is_mapped_to_best_connected_member(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    await imported(store, in_directory(lay_out(tmp_path / "data")))
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        posts = [(await (await shoal.member(f"per_son{n}")).profile()).posts for n in range(12)]
    assert posts[0] == max(posts)
    assert sum(posts) == 40


@in_loop
async def test_imported_follows_keep_file_order(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    await imported(store, in_directory(lay_out(tmp_path / "data")))
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        found = await (await shoal.member("per_son0")).following(limit=20)
    assert [profile.member.name for profile in found.profiles] == [f"per_son{n}" for n in range(11, 0, -1)]


@in_loop
async def test_imported_follows_keep_file_dates(tmp_path: Path) -> None:
    follows = tmp_path / "f.csv"
    rows = [
        "ann,ben,2025-03-01T10:00:00Z",
        "ann,cyd,2024-02-01",
        "ann,dan,2019-07-01T00:00:00Z",
        "ann,eve,",
        # Within one second: the file order decides.
        *(f"ann,{name},2025-06-01T10:00:00Z" for name in ("fay", "gus", "hal")),
        "ben,ann,2199-01-01",
        "cyd,ann,yesterday",
    ]
    follows.write_text("\n".join(["from,to,since", *rows]) + "\n")
    async with Shoal.open("memory://") as shoal:
        names = ("ann", "ben", "cyd", "dan", "eve", "fay", "gus", "hal")
        ann, ben, cyd, dan, eve, *_ = [await shoal.register(name) for name in names]
        await import_all(shoal.network, Sources(follows=follows), Summary())
        summary = await import_all(shoal.network, Sources(follows=follows), Summary())
        assert (summary["follows"].there, summary["follows"].refusals) == (7, 2)
        assert set(summary["follows"].refused) == {
            "date is in the future",
            "the time 'yesterday' is neither ISO 8601 nor a number",
        }
        page = await ann.following()
        assert [profile.member.name for profile in page.profiles] == [
            *("hal", "gus", "fay", "ben", "cyd"),
            # Older than the id epoch, and without a date.
            *("dan", "eve"),
        ]
        told = [(await ann.relationship_history(other)).following[0].since for other in (ben, cyd, dan, eve)]
        assert told == [1_740_823_200_000, 1_706_745_600_000, None, None]


@in_loop
async def test_imported_follows_of_one_day_keep_order_of_long_file(tmp_path: Path) -> None:
    follows = tmp_path / "f.csv"
    names = ("eve", "ben", "hal", "cyd", "gus")
    # Enough rows to wrap the ticks of a millisecond around.
    rows = [*["nobody,ann,2025-03-01"] * 1_022, *(f"ann,{name},2025-03-01" for name in names)]
    follows.write_text("\n".join(["from,to,since", *rows]) + "\n")
    async with Shoal.open("memory://") as shoal:
        ann, *_ = [await shoal.register(name) for name in ("ann", *names)]
        await import_all(shoal.network, Sources(follows=follows), Summary())
        page = await ann.following()
        assert [profile.member.name for profile in page.profiles] == [*names[::-1]]


@in_loop
async def test_imported_photos_are_decoded_once_and_each_post_gets_its_own_media(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    await imported(store, in_directory(lay_out(tmp_path / "data", posts=6)))
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        page = await (await shoal.member("per_son0")).home(limit=40)
        media = [picture for entry in page.entries for picture in entry.media]
        assert len({picture.id for picture in media}) == len({picture.key for picture in media}) == 6
        assert len({picture.blurhash for picture in media}) == 2
        for picture in media:
            data, _ = await shoal.network.media.read(picture.key)
            assert Image.open(BytesIO(data)).size == (40, 30)


def test_import_killed_repeatedly_resumes_and_completes(tmp_path: Path) -> None:
    folder, store = lay_out(tmp_path / "data", people=300, posts=1_500), tmp_path / "shoal.db"
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", "import", str(folder)]
    command += ["--photos-newest", "60"]
    expected = {"members": 300, "follows": 1_194, "posts": 1_500, "photos": 60}
    for kind in ("members", "follows", "photos", "posts"):
        _kill_once_there_are_more(held(command, 750 if kind == "posts" else 0), store, kind)
        there = _counts_so_far(store)
        assert there != expected, f"the import finished before it was killed during the {kind}"
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=300)
    assert counts(store) == expected
    subprocess.run([*command[:5], "check"], stdout=subprocess.DEVNULL, check=True, timeout=300)


def held(command: list[str], posts: int) -> list[str]:
    """Return a command for an import that waits after this number of posts, so that it does not finish before it is killed."""
    return [*command[:2], "tests.ops.held_import", str(posts), *command[3:]]


def _kill_once_there_are_more(command: list[str], store: Path, kind: str) -> None:
    before = _counts_so_far(store)[kind]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while _counts_so_far(store)[kind] == before:
        assert child.poll() is None, f"the import ended before it imported {kind}"
        assert time.monotonic() < until, f"the import has not imported {kind}"
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait(60)


def _counts_so_far(store: Path) -> dict[str, int]:
    try:
        return counts(store)
    except sqlite3.OperationalError:
        return dict.fromkeys(COUNTS, 0)


@in_loop
async def test_import_invalid_records_are_refused_with_reasons(tmp_path: Path) -> None:
    members, follows, posts = tmp_path / "m.csv", tmp_path / "f.csv", tmp_path / "p.jsonl"
    members.write_text("id,name\n1,ann\n2,Ann\n3,no such name!\n4,admin\n5,ben\n6\n")
    follows.write_text("follower,followee\n1,5\n1,5\n1,1\n1,99\nben,4\n")
    rows = [
        {"id": 1, "author": 1, "created_at": "2020-01-01", "text": "Taken"},
        {"id": 2, "author": 1, "created_at": "2999-01-01", "text": "From the future"},
        {"id": 3, "author": 1, "created_at": "soon", "text": "When?"},
        {"id": 4, "author": 77, "created_at": 1_600_000_000, "text": "Whose?"},
        {"id": 6, "author": 1, "text": "Never"},
        {"id": 5, "author": "ben", "created_at": 1_600_000_000, "text": " "},
        {"id": 1, "author": 1, "created_at": "2020-01-02", "text": "Twice"},
    ]
    posts.write_text("\n".join([*map(json.dumps, rows), "{", "[]"]))
    with (tmp_path / "refused.jsonl").open("wb") as refused:
        summary = Summary(refused)
        async with Shoal.open("memory://") as shoal:
            await import_all(shoal.network, Sources(members=members, follows=follows, posts=posts), summary)
            assert (await shoal.member("admin")).name == "admin"
            assert (await check(shoal.network)).clean
    assert (summary["members"].taken, summary["members"].refusals) == (3, 3)
    assert (summary["follows"].taken, summary["follows"].there, summary["follows"].refusals) == (2, 1, 2)
    assert (summary["posts"].taken, summary["posts"].refusals) == (1, 8)
    assert "created_at is missing" in summary["posts"].refused
    lines = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert len(lines) == 13
    assert {"kind": "posts", "record": "2", "reason": "its time is in the future"} in lines
    assert {"kind": "follows", "record": "1 -> 99", "reason": "the followee is not a member"} in lines
    assert {"kind": "members", "record": "ann", "reason": "an earlier record has this name"} in lines


@in_loop
async def test_import_refused_photo_is_refused_again_on_reimport(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "data", posts=6)
    (folder / "photos" / "navy.jpg").write_text("no picture")
    for _ in range(2):
        aggregate_id = (await imported(tmp_path / "shoal.db", in_directory(folder)))["photos"]
        assert (aggregate_id.taken + aggregate_id.there, aggregate_id.refusals) == (3, 3)


@in_loop
async def test_import_member_with_taken_username_is_refused(tmp_path: Path) -> None:
    members = tmp_path / "m.csv"
    members.write_text("id,name\n1,ann\n")
    async with Shoal.open("memory://") as shoal:
        await shoal.register("ann")
        summary = await import_all(shoal.network, Sources(members=members), Summary())
    assert list(summary["members"].refused) == ["Username has already been taken"]


@in_loop
async def test_import_follows_and_posts_of_existing_members_are_accepted(tmp_path: Path) -> None:
    follows, posts = tmp_path / "f.csv", tmp_path / "p.csv"
    follows.write_text("from,to\nben,ann\nann,ghost\n")
    posts.write_text("id,username,date,text\n1,ann,2024-05-01T10:00:00Z,Hello\n")
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        assert (await ben.home()).entries == []
        summary = await import_all(shoal.network, Sources(follows=follows, posts=posts), Summary())
        entry = (await ben.home()).entries[0]
    assert summary["follows"].refusals == 1
    assert (entry.post.author_id, milliseconds_of(entry.post.id)) == (ann.id, entry.post.created_at)
    assert shard_of(entry.post.id) == shard_of(ann.id)


@in_loop
async def test_import_follow_between_blocked_members_is_refused(tmp_path: Path) -> None:
    follows = tmp_path / "f.csv"
    follows.write_text("from,to\nben,ann\n")
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        await ann.block(ben)
        summary = await import_all(shoal.network, Sources(follows=follows), Summary())
        assert (await ben.profile()).following == 0
    assert list(summary["follows"].refused) == ["one of them has blocked the other"]


@in_loop
async def test_import_invalid_photo_file_is_refused_and_its_post_is_imported(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "data", posts=4)
    (folder / "photos" / "teal.jpg").write_bytes(b"no picture")
    summary = await imported(tmp_path / "shoal.db", in_directory(folder))
    assert (summary["posts"].taken, summary["photos"].taken, summary["photos"].refusals) == (4, 2, 2)


@in_loop
async def test_import_with_full_store_retries_then_aborts_without_refusing_records(tmp_path: Path) -> None:
    summary, tried = Summary(), 0
    async with Shoal.open("memory://") as shoal:
        commit = shoal.network.store.commit

        async def full(batch: Batch) -> None:
            nonlocal tried
            if any(isinstance(op.node, Post) for op in batch.objects):
                tried += 1
                raise StorageFull("the disk is full")
            await commit(batch)

        shoal.network.store.commit = full  # type: ignore[method-assign]
        found = in_directory(lay_out(tmp_path / "data", posts=3))
        sources = msgspec.structs.replace(found, photos=None, patience=1.5)
        with pytest.raises(StorageFull):
            await import_all(shoal.network, sources, summary)
    assert tried > 3, "the commit was not retried"
    assert summary["posts"].refusals == 0


@in_loop
async def test_import_column_mapping_is_applied_and_unknown_column_is_refused(tmp_path: Path) -> None:
    members = tmp_path / "m.csv"
    members.write_text("nr,handle\n1,ann\n")
    async with Shoal.open("memory://") as shoal:
        for columns, complaint in (
            ({}, "no column for name"),
            ({"members.name": "nick"}, "no column 'nick'; columns are nr, handle"),
            ({"members.nick": "handle"}, "no field 'members.nick'"),
        ):
            with pytest.raises(InvalidInput, match=complaint):
                await import_all(shoal.network, Sources(members=members, columns=columns), Summary())
        await import_all(shoal.network, Sources(members=members, columns={"members.name": "handle"}), Summary())
        assert (await shoal.member("ann")).name == "ann"


def test_import_directory_without_known_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="name the files"):
        in_directory(tmp_path)
    with pytest.raises(InvalidInput, match="is not a directory"):
        in_directory(tmp_path / "nowhere")


def test_import_directory_with_real_layout_maps_authors_to_best_connected_members(tmp_path: Path) -> None:
    sources = in_directory(lay_out(tmp_path / "data"))
    assert (sources.mutual, sources.authors, sources.photos_newest) == (True, BEST_CONNECTED, 500)


@given(st.lists(st.integers(-(10**12), EPOCH_MS - 1), min_size=2, max_size=50))
def test_import_ids_for_times_before_epoch_keep_order_within_first_ten_days(moments: list[int]) -> None:
    ticks = [ticks_of(moment) for moment in sorted(moments)]
    assert ticks == sorted(ticks)
    assert ticks[0] >= 0
    assert ticks[-1] < DAYS * DAY_MS << 10


@given(st.integers(1_072_915_200, EPOCH_MS // 1000 - 2))
def test_import_ids_for_times_one_second_apart_since_2004_differ_by_over_a_millisecond(second: int) -> None:
    assert ticks_of(second * 1000 + 1000) - ticks_of(second * 1000) > 1 << 10


@given(st.lists(st.sampled_from([0, 5, EPOCH_MS, EPOCH_MS + 1]), max_size=40), st.integers(0, 8191))
def test_import_ids_for_past_times_are_unique_and_on_their_shard(moments: list[int], shard: int) -> None:
    maker = BackdatedIds()
    ids = [maker.take(moment, shard) for moment in moments]
    ids += [maker.after(id_, shard) for id_ in ids]
    assert len(set(ids)) == len(ids)
    assert {shard_of(id_) for id_ in ids} <= {shard}


@given(st.text("ab \n.:/htps", max_size=200), st.integers(30, 60))
def test_import_text_truncation_respects_limit_and_keeps_short_text(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert text_length(short) <= limit
    assert short == text if text_length(text) <= limit else short.endswith("…")


def test_import_text_truncation_cuts_at_word_and_keeps_tags() -> None:
    record = PostRecord("1", "a", 0, "Title", "many words and more", ("sea", "low tide", "#dawn"), False, "")
    wording = worded(record, 26)
    assert wording.text == "Title\n\nmany…\n\n#sea #dawn"
    assert wording.cut
    assert [name for name, _ in wording.refused_tags] == ["low tide"]
    assert worded(record, 5_000).text == "Title\n\nmany words and more\n\n#sea #dawn"


def test_import_text_control_characters_are_removed() -> None:
    wording = worded(PostRecord("1", "a", 0, "One\rtwo", "\x00three\x1b", (), False, ""), 100)
    assert (wording.text, wording.cleaned, wording.cut) == ("One\ntwo\n\nthree", True, False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2011-11-23T14:20:40-05:00", 1_322_076_040_000),
        ("2011-11-23T19:20:40", 1_322_076_040_000),
        (1_322_076_040, 1_322_076_040_000),
        ("1322076040.5", 1_322_076_040_500),
        (1_322_076_040_000, 1_322_076_040_000),
    ],
)
def test_import_timestamp_in_common_format_is_parsed(value: object, expected: int) -> None:
    assert moment_of(value) == expected


@pytest.mark.parametrize("value", ["soon", "", None, "nan", float("inf"), [1]])
def test_import_timestamp_in_unknown_format_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        moment_of(value)


@in_loop
async def test_import_follows_beyond_follow_limit_are_accepted(tmp_path: Path) -> None:
    follows = tmp_path / "f.csv"
    follows.write_text("from,to\nann,ben\nann,cat\nann,dan\n")
    async with Shoal.open("memory://", max_follows=1) as shoal:
        people = [await shoal.register(name) for name in ("ann", "ben", "cat", "dan", "eve")]
        summary = await import_all(shoal.network, Sources(follows=follows), Summary())
        assert (summary["follows"].taken, summary["follows"].refusals) == (3, 0)
        with pytest.raises(InvalidInput, match="at most 1"):
            await people[0].follow(people[4])
