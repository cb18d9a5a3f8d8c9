"""Bulk imports: equality with the commands, resumption after a kill, refusal on a network that is not empty."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.imports.files import Sources, in_directory
from shoal.admin.imports.follows import follow_blocks
from shoal.admin.imports.members import References
from shoal.admin.imports.records import TICKS, Summary
from shoal.admin.imports.run import import_all
from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput
from shoal.core.model import Member
from shoal.graph.bulk import LoadPart
from shoal.graph.schema import NOTIFIED, TOKEN_USE_START, decode_node
from tests.async_runner import in_loop
from tests.ops.test_import import counts, held, lay_out

Tables = dict[str, list[Any]]


async def imported(store: Path, sources: Sources) -> Summary:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        summary = await import_all(shoal.network, sources, Summary())
        report = await check(shoal.network)
        assert report.clean, report
        return summary


def tables(store: Path) -> Tables:
    """Return all rows of a store. Time-based ids are replaced by a description of their object."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        nodes = [decode_node(data) for (data,) in connection.execute("SELECT data FROM object")]
        people = {node.id: f"member {node.name}" for node in nodes if isinstance(node, Member)}
        logins = {node.id: f"login of {people[node.member_id]}" for node in nodes if isinstance(node, Login)}
        told = {**people, **logins}
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found: Tables = {"object": sorted(repr(_told(msgspec.to_builtins(node), told)) for node in nodes)}
        for name in set(names) - {"object"}:
            rows = connection.execute(f"SELECT * FROM {name}")  # noqa: S608  # names of our own
            found[name] = sorted(repr(_told(_plain(name, row), told)) for row in rows)
        return found


def _plain(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Normalize a row: decode notification data and omit the time of the first opening."""
    if table == "association" and row[1] == TOKEN_USE_START.number:
        return (*row[:3], "first opened", *row[4:])
    if table == "association" and row[1] == NOTIFIED.number and row[5]:
        return (*row[:2], "notice", *row[3:5], msgspec.msgpack.decode(row[5]))
    return row


def _told(value: Any, told: dict[int, str]) -> Any:
    if isinstance(value, dict):
        return {key: _told(part, told) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_told(part, told) for part in value]
    return told.get(value, value) if isinstance(value, int) else value


def awkward(folder: Path) -> Sources:
    """Write files with records of each kind that the import refuses or changes, and with posts that mention members."""
    members, follows, posts = folder / "m.csv", folder / "f.csv", folder / "p.jsonl"
    people = [f"{n},Per-son{n},Person {n},note {n},{2010 + n % 9}-01-01" for n in range(40)]
    people += ["40,per_son7,,,", "41,no such name!,,,", "42,ad-min,,bad \x01 note,", "43"]
    members.write_text("\n".join(["id,name,display_name,note,created_at", *people]))
    pairs = [f"{a},{b}" for a in range(40) for b in range(40) if a * b % 7 == 3 or b == 5]
    pairs += ["3,5", "1,99", "per-son9,11", "2", "", "98,99", '"1","2"', "4,2,1"]
    follows.write_text("\n".join(["follower,followee", *pairs, "7,8"]))
    rows: list[dict[str, Any]] = [
        {
            "id": n,
            "author": n % 13,
            "created_at": f"20{10 + n % 12}-03-01T10:{n % 60:02}:00Z",
            "text": f"Hello {n} @per_son{n % 5}" if n % 10 == 0 else f"Hello {n}",
            "tags": ["sea", f"t{n % 4}"] if n % 3 else [],
            "sensitive": n % 5 == 0,
        }
        for n in range(150)
    ]
    rows += [{**rows[3], "id": 999, "text": " "}, {**rows[3], "id": 998, "author": 77}, {**rows[3], "text": "twice"}]
    posts.write_text("\n".join([*map(json.dumps, rows), "{"]))
    return Sources(members=members, follows=follows, posts=posts)


def dated(folder: Path) -> Sources:
    """Write mutual follows with dates: before the id epoch, recent, in one second, future, invalid, missing, duplicate."""
    members, follows = folder / "m.csv", folder / "f.csv"
    members.write_text("\n".join(["id,name", *(f"{n},person{n}" for n in range(1_300)), "1300,no such name!"]))
    pairs = [f"0,{n},2025-06-01" for n in range(1, 1_301)]
    dates = ("2019-07-01T00:00:00Z", "2024-02-01T03:00:00Z", "", "1750000000", "2199-01-01", "yesterday")
    pairs += [f"{n % 40},{n % 31},{dates[n % len(dates)]}" for n in range(2_000)]
    follows.write_text("\n".join(["follower,followee,since", *pairs, "5,0", "999,1,2018-01-01"]))
    return Sources(members=members, follows=follows, mutual=True)


def replaced(sources: Sources, **changes: Any) -> Sources:
    return msgspec.structs.replace(sources, **changes)


@in_loop
@pytest.mark.parametrize("kind", ["directory", "awkward", "dated"])
async def test_bulk_import_tables_equal_those_of_import_through_services(tmp_path: Path, kind: str) -> None:
    # A bulk import and an import one by one both store pictures through the media library, under random names.
    folder = lay_out(tmp_path / "data")
    made = {"directory": lambda: replaced(in_directory(folder), photos=None), "awkward": lambda: awkward(tmp_path)}
    sources = made.get(kind, lambda: dated(tmp_path))()
    one, other = tmp_path / "bulk.db", tmp_path / "services.db"
    in_bulk = await imported(one, sources)
    by_services = await imported(other, replaced(sources, bulk=False))
    assert (in_bulk.way, by_services.way) == ("in bulk: the network is empty", "one by one: as asked")
    assert in_bulk.counts == by_services.counts
    assert in_bulk.notes == by_services.notes
    found, wanted = tables(one), tables(other)
    # A remaining row would be an unprocessed event.
    assert found.pop("outbox") == wanted.pop("outbox") == []
    assert found == wanted


@in_loop
async def test_bulk_import_updates_search_index_and_tag_cloud(tmp_path: Path) -> None:
    await imported(tmp_path / "shoal.db", awkward(tmp_path))
    async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as shoal:
        ann = await shoal.member("per_son1")
        found = await ann.search("person 12")
        assert "per_son12" in [profile.member.name for profile in found.members]
        assert {tag.name for tag in await shoal.network.effects.search.index.tags("t", 9)} == {"t0", "t1", "t2", "t3"}


@in_loop
async def test_bulk_import_into_non_empty_network_is_refused_and_falls_back_to_one_by_one(tmp_path: Path) -> None:
    sources, store = awkward(tmp_path), tmp_path / "shoal.db"
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        await shoal.register("somebody")
        with pytest.raises(InvalidInput, match="cannot run in bulk: the network is not empty"):
            await import_all(shoal.network, replaced(sources, bulk=True), Summary())
    summary = await imported(store, sources)
    assert summary.way == "one by one: the network is not empty"
    assert (await imported(store, sources)).counts["members"].there == summary.counts["members"].taken


@in_loop
async def test_import_without_bulk_support_or_members_file_runs_one_by_one(tmp_path: Path) -> None:
    sources = awkward(tmp_path)
    async with Shoal.open("memory://") as shoal:
        summary = await import_all(shoal.network, sources, Summary())
        assert summary.way == "one by one: this kind of store does not support bulk import"
    async with Shoal.open(f"sqlite:///{tmp_path / 'other.db'}") as shoal:
        summary = await import_all(shoal.network, replaced(sources, members=None), Summary())
        assert summary.way == "one by one: no file of members is given"


def test_bulk_import_killed_midway_resumes_and_refuses_other_commands(tmp_path: Path) -> None:
    folder, store = lay_out(tmp_path / "data", people=900, posts=1_500), tmp_path / "shoal.db"
    whole = tmp_path / "whole.db"
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", "import", str(folder)]
    command += ["--photos-newest", "0"]
    for kind in ("members", "follows", "posts"):
        _kill_once(held(command, 750 if kind == "posts" else 0), store, kind)
    other = subprocess.run([*command, "--mutual", "--authors", "match"], capture_output=True, text=True, check=False)
    assert "a bulk import of other files into this store is unfinished" in other.stderr
    again = subprocess.run([*command, "--one-by-one"], capture_output=True, text=True, check=False)
    assert "omit --one-by-one to resume it" in again.stderr
    served = subprocess.run([*command[:5], "serve", "--port", "0"], capture_output=True, text=True, check=False)
    assert "a bulk import into this store is unfinished" in served.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "imported in bulk, resumed" in done.stdout
    subprocess.run([*command[:5], "check"], stdout=subprocess.DEVNULL, check=True, timeout=300)
    subprocess.run([*command[:4], f"sqlite:///{whole}", *command[5:]], stdout=subprocess.DEVNULL, check=True)
    assert tables(store) == tables(whole)


def _kill_once(command: list[str], store: Path, kind: str) -> None:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < until:
        try:
            if counts(store)[kind]:
                break
        except sqlite3.OperationalError:
            pass
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.wait(60)


@in_loop
async def test_bulk_import_follower_lists_started_concurrently_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = awkward(tmp_path)
    async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as shoal:
        store: Any = shoal.network.store
        load = store.load

        async def meddled(part: LoadPart) -> None:
            if len(part.links):
                # Right before the first lists: a registered member follows an imported member.
                monkeypatch.undo()
                stranger = await shoal.register("stranger")
                await stranger.follow((await shoal.member("per_son5")).id)
            elif part.objects and not taken:
                taken.append(await shoal.register("per_son20"))
            await load(part)

        taken: list[Any] = []
        monkeypatch.setattr(store, "load", meddled)
        summary = await import_all(shoal.network, sources, Summary())
        assert "Username has already been taken" in summary.counts["members"].refused
        assert {"the follower was refused", "the followee was refused"} <= summary.counts["follows"].refused.keys()
        assert (await check(shoal.network)).clean
        profile = await (await shoal.member("per_son5")).profile()
        assert profile.followers == 39


@in_loop
async def test_import_duplicate_record_id_is_refused_without_delaying_other_records(tmp_path: Path) -> None:
    members = tmp_path / "m.csv"
    members.write_text("id,name\n1,ann\n1,ben\n2,cleo\n")
    summary = await imported(tmp_path / "shoal.db", Sources(members=members))
    assert (summary["members"].taken, summary["members"].refusals) == (2, 1)


_NAMES = st.text("abc-_1", min_size=1, max_size=3)


@given(st.lists(st.tuples(_NAMES, _NAMES), max_size=20), st.lists(_NAMES, max_size=20))
def test_import_references_resolve_by_id_then_by_name(people: list[tuple[str, str]], wanted: list[str]) -> None:
    records = [(id_, name.replace("-", "_")) for id_, name in people]
    compact = References()
    for id_, name in records:
        compact.add(id_, name)
    compact.settle()
    by_name: dict[str, int] = {}
    for at, (_, name) in enumerate(records):
        by_name.setdefault(name, at)
    by_id = {records[at][0]: at for at in sorted(by_name.values())}
    expected = [by_id.get(name, by_name.get(name.lower().replace("-", "_"), -1)) for name in wanted]
    assert compact.find(wanted).tolist() == expected
    assert np.nonzero(~compact.twice)[0].tolist() == sorted(by_name.values())


def test_import_malformed_rows_are_reported_with_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text('from,to\n1,2\n\n3\n"4\n4",5\n6,7,8\n9,10\n')
    summary = Summary()
    blocks = list(follow_blocks(file, {}, summary))
    assert [(block.followers, block.followees, list(block.moments)) for block in blocks] == [
        (["1", "4\n4", "9"], ["2", "5", "10"], [TICKS, 3 * TICKS, 5 * TICKS])
    ]
    reason = summary["follows"].refused["the row has a different number of columns than the header"]
    assert reason.examples == ["line 4", "line 7"]
