"""Imports by a map from databases and folders: conversions, references, repetition, watermarks, dry runs and reports."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
import ssl
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports.maps import KINDS, RowError, parse_map
from shoal.admin.database_imports.positions import pack, unpack
from shoal.admin.database_imports.run import ImportMapped
from shoal.admin.database_imports.session import ImportOptions
from shoal.admin.imports.records import ImportReport
from shoal.admin.report import nothing
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.kinds import KindDraft
from shoal.core.model import ImportProgress, Member, Post, Visibility
from shoal.graph.schema import COMMENTED_BY, FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, TAGGED, decode_node
from tests.async_runner import in_loop
from tests.engines import certificates, dynamodb, mariadb, postgres

ISSUER = "https://old.example"
MAP = """
issuer = "https://old.example"

[members]
table = "users"
fields = { id = "id", name = "username", display_name = "full_name", created_at = "joined", note = "bio" }

[follows]
table = "friends"
fields = { follower = "follower_id", followee = "followee_id", created_at = "since" }

[posts]
table = "articles"
watermark = "updated_at"
[posts.fields]
id = "id"
author = "user_id"
title = "title"
text = { column = "body", html = true }
created_at = { column = "published", time = "seconds" }
sensitive = "nsfw"
visibility = { column = "audience", values = { 0 = "public", 1 = "followers" } }
tags = { column = "keywords", split = ";" }

[comments]
table = "replies"
fields = { id = "id", author = "user_id", post = "article_id", text = "body", created_at = "created" }

[[likes]]
table = "hearts"
key = ["user_id", "article_id"]
fields = { member = "user_id", post = "article_id", created_at = "created" }

[[likes]]
query = "SELECT user_id, reply_id, '12:30' AS ignored FROM reply_hearts"
key = ["user_id", "reply_id"]
fields = { member = "user_id", post = { column = "reply_id", ids = "comments" } }
"""
Tables = dict[str, list[dict[str, Any]]]
UUIDS = [str(UUID(int=number)) for number in range(1, 4)]


def rows() -> Tables:
    """Return a small network with rows of every kind that do not fit."""
    ann, ben, cyd = UUIDS
    return {
        "users": [
            {"id": ann, "username": "Ann", "full_name": "Ann A.", "joined": "2012-03-04T05:06:07", "bio": "Sails"},
            {"id": ben, "username": "ben", "full_name": "", "joined": "2024-06-01T00:00:00", "bio": None},
            {"id": cyd, "username": "B E N", "full_name": None, "joined": None, "bio": None},
            {"id": "x", "username": "late", "full_name": None, "joined": "soon", "bio": None},
        ],
        "friends": [
            {"id": 1, "follower_id": ann, "followee_id": ben, "since": "2024-06-02T00:00:00"},
            {"id": 2, "follower_id": ben, "followee_id": ben, "since": None},
            {"id": 3, "follower_id": ben, "followee_id": "nobody", "since": None},
        ],
        "articles": [
            article(7, ann, published=1_325_376_000, keywords="Low Tide;sea", title="Old"),
            article(8, ann, published=1_717_300_000, audience=1),
            article(9, ben, body="Ben <b>writes</b>"),
            article(10, ben, body="", title=""),
            article(11, "nobody"),
            article(12, ben, audience=5),
            article(13, ben, published=99_999_999_999),
        ],
        "replies": [
            reply(3, cyd, 7, "First", "2024-06-03T10:00:00"),
            reply(4, ben, 66, "Lost", "2024-06-03T10:00:01"),
        ],
        "hearts": [
            {"user_id": ben, "article_id": 7, "created": "2024-06-04T10:00:00"},
            {"user_id": cyd, "article_id": 7, "created": "2024-06-04T10:00:00"},
            {"user_id": cyd, "article_id": 66, "created": None},
        ],
        "reply_hearts": [{"user_id": ann, "reply_id": 3}],
    }


def article(id_: int, author: str, **values: Any) -> dict[str, Any]:
    usual = {"title": "", "body": "<p>Cold &amp; clear</p>", "published": 1_717_200_000 + id_, "nsfw": 0, "audience": 0}
    return {"id": id_, "user_id": author, **usual, "keywords": None, "updated_at": 1_000 + id_} | values


def reply(id_: int, author: str, to: int, body: str, created: str) -> dict[str, Any]:
    return {"id": id_, "user_id": author, "article_id": to, "body": body, "created": created}


def fill(url: str, tables: Tables, **options: Any) -> None:
    """Create these tables in a database, with columns of the types of their values."""
    engine = sa.create_engine(url, **options)
    with engine.begin() as connection:
        for name, entries in tables.items():
            columns = [sa.Column(column, _type(entries, column)) for column in entries[0]]
            table = sa.Table(name, sa.MetaData(), *columns)
            table.drop(connection, checkfirst=True)
            table.create(connection)
            connection.execute(table.insert(), entries)
    engine.dispose()


def _type(entries: list[dict[str, Any]], column: str) -> sa.types.TypeEngine[Any]:
    numbers = all(isinstance(entry[column], int) for entry in entries)
    return sa.BigInteger() if numbers else sa.String(200)


def sqlite_source(path: Path, tables: Tables) -> str:
    fill(f"sqlite:///{path}", tables)
    return f"sqlite:///{path}"


def folder_source(folder: Path, tables: Tables) -> str:
    """Write a folder with a CSV or JSONL file for each table."""
    folder.mkdir()
    for number, (name, entries) in enumerate(tables.items()):
        if number % 2:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        else:
            with (folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(entries[0]))
                writer.writeheader()
                writer.writerows(entries)
    return str(folder)


async def source_of(kind: str, folder: Path, tables: Tables, owner: object) -> str:
    if kind == "sqlite":
        return sqlite_source(folder / "old.db", tables)
    if kind == "folder":
        return folder_source(folder / "old", tables)
    if kind == "mariadb":
        url = mariadb.database()
        fill(url.replace("mysql://", "mysql+pymysql://"), tables)
        return url
    url = await postgres.database(owner)
    fill(url.replace("postgresql://", "postgresql+pg8000://"), tables)
    return url


async def run(shoal: Shoal, source: str, text: str = MAP, **options: Any) -> ImportReport:
    return await ImportMapped(text, source, options=ImportOptions(**options)).carry_out(shoal.network, nothing)


def numbers(report: ImportReport) -> dict[str, tuple[int, int, int]]:
    """Return how many records of each kind were imported, existed and were rejected."""
    return {kind: (found.taken, found.there, found.refusals) for kind, found in report.counts.items()}


FIRST = {
    "members": (3, 0, 1),
    "tags": (0, 0, 1),
    "follows": (1, 0, 2),
    "posts": (3, 0, 4),
    "comments": (1, 0, 1),
    "likes": (3, 0, 1),
}


def reasons(report: ImportReport) -> set[tuple[str, str]]:
    return {(kind, reason) for kind, found in report.counts.items() for reason in found.refused}


@pytest.mark.parametrize("kind", ["sqlite", "folder", "postgresql", "mariadb"])
@in_loop
async def test_database_import_keeps_ids_texts_times_and_relations_of_each_source(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = await source_of(kind, tmp_path, rows(), request.node)
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        report = await run(shoal, source)
        assert numbers(report) == FIRST, report
        assert reasons(report) == {
            ("members", "created_at (column joined): neither ISO 8601 nor a number"),
            ("follows", "a member cannot follow themselves"),
            ("follows", "followee: no member has this id"),
            ("posts", "author: no member has this id"),
            ("posts", "created_at (column published): in the future"),
            ("posts", "visibility (column audience): this value is not in values"),
            ("posts", "text: empty, and no photo could be imported"),
            ("comments", "post: no post or comment has this id"),
            ("tags", "a tag is 1 to 100 letters, digits and underscores, and not digits alone"),
            ("likes", "post: no post or comment has this id"),
        }
        ann, ben, cyd = [await shoal.external_ids.member(ISSUER, id_) for id_ in UUIDS]
        members = await shoal.network.store.obj_get([ann.id, ben.id, cyd.id])
        first, second, third = (m for m in members.values() if isinstance(m, Member))
        assert (first.name, first.display_name, first.note) == ("ann", "Ann A.", "Sails")
        assert first.created_at == datetime(2012, 3, 4, 5, 6, 7, tzinfo=UTC).timestamp() * 1000
        assert (second.display_name, third.name) == ("ben", "b_e_n")
        old = await shoal.visitor.read(await shoal.external_ids.find("posts", ISSUER, "7"))
        assert old.post.text == "Old\n\nCold & clear\n\n#sea"
        assert old.post.created_at == 1_325_376_000_000
        assert (old.likes, old.comments) == (2, 1)
        hidden = await shoal.external_ids.find("posts", ISSUER, "8")
        with pytest.raises(NotFound):
            await shoal.visitor.read(hidden)
        assert (await ann.read(hidden)).post.visibility is Visibility.FOLLOWERS
        answer = await shoal.visitor.read(await shoal.external_ids.find("comments", ISSUER, "3"))
        assert (answer.post.parent_id, answer.post.text, answer.likes) == (old.post.id, "First", 1)
        assert answer.post.created_at == datetime(2024, 6, 3, 10, tzinfo=UTC).timestamp() * 1000
        with pytest.raises(NotFound):
            await shoal.external_ids.find("comments", ISSUER, "7")
        newest = await shoal.external_ids.find("posts", ISSUER, "9")
        assert [entry.post.id for entry in (await ann.home()).entries] == [hidden, newest, old.post.id]
        assert (await check(shoal.network)).clean


def stored(path: Path) -> dict[str, list[Any]]:
    """Return all rows of a store except the progress of imports."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        names = [name for (name,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = {name: sorted(map(repr, store.execute(f"SELECT * FROM {name}"))) for name in names if name != "object"}  # noqa: S608
        nodes = [decode_node(data) for (data,) in store.execute("SELECT data FROM object")]
        return {**found, "object": sorted(map(repr, (node for node in nodes if not isinstance(node, ImportProgress))))}


@in_loop
async def test_database_import_repeated_changes_no_row_of_the_store(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    path = tmp_path / "new.db"
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        await run(shoal, source)
        before = stored(path)
        again = await run(shoal, source, full=True)
        # The tag was rejected with its post, which exists now.
        expected = {kind: (0, taken, refused) for kind, (taken, _, refused) in FIRST.items() if kind != "tags"}
        assert numbers(again) == expected
        assert stored(path) == before


@pytest.mark.parametrize("store", ["memory", "postgresql", "dynamodb"])
@in_loop
async def test_database_import_is_complete_and_idempotent_on_each_store(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    urls = {"memory": "memory://", "dynamodb": ""}
    url = urls.get(store) if store != "dynamodb" else dynamodb.new_table()
    url = url or await postgres.database(request.node)
    async with Shoal.open(url, media="memory://", tags="memory://", search="memory://") as shoal:
        assert numbers(await run(shoal, source)) == FIRST
        assert numbers(await run(shoal, source, full=True))["posts"] == (0, 3, 4)
        assert (await check(shoal.network)).clean


@in_loop
async def test_database_import_dry_run_reports_the_same_and_writes_nothing(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    path = tmp_path / "new.db"
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        before = stored(path)
        planned = await run(shoal, source, dry_run=True)
        assert stored(path) == before
        real = await run(shoal, source)
        assert numbers(planned) == numbers(real)
        assert reasons(planned) == reasons(real)


@in_loop
async def test_database_import_report_names_row_column_and_value_of_a_rejected_row(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    async with Shoal.open("memory://") as shoal:
        operation = ImportMapped(MAP, source, refused=tmp_path / "refused.jsonl")
        report = await operation.carry_out(shoal.network, nothing)
    refused = report.counts["members"].refused["created_at (column joined): neither ISO 8601 nor a number"]
    assert refused.examples == ["row x: 'soon'"]
    lines = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert len(lines) == sum(count[2] for count in FIRST.values())
    assert {
        "kind": "posts",
        "record": "row 12: 5",
        "reason": "visibility (column audience): this value is not in values",
    } in lines


@in_loop
async def test_database_import_with_strict_ends_at_the_first_rejected_row(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput, match=r"members \(users\), row x: created_at \(column joined\): .*: 'soon'"):
            await run(shoal, source, strict=True)
        assert await shoal.network.store.obj_scan(-1, 10) == []


@in_loop
async def test_database_import_with_watermark_reads_only_newer_rows(tmp_path: Path) -> None:
    tables = rows()
    source = sqlite_source(tmp_path / "old.db", tables)
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        await run(shoal, source)
        # The second run tries a row again whose author was missing.
        assert numbers(await run(shoal, source))["posts"] == (0, 0, 3)
        with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
            # The second row is older than the watermark, so it is not read.
            for id_, updated in ((20, 1013), (21, 1012)):
                new = (id_, UUIDS[1], "", "new", 1_717_400_000, 0, 0, None, updated)
                old.execute("INSERT INTO articles VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", new)
        # The row with the watermark 1013, which was rejected, is read again, because rows of one moment may become visible later.
        assert numbers(await run(shoal, source))["posts"] == (1, 0, 1)
        assert numbers(await run(shoal, source, full=True))["posts"] == (1, 4, 4)


@in_loop
async def test_database_import_does_not_restore_a_deleted_post(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        await run(shoal, source)
        ben = await shoal.external_ids.member(ISSUER, UUIDS[1])
        await ben.delete(await shoal.external_ids.find("posts", ISSUER, "9"))
        assert numbers(await run(shoal, source, full=True))["posts"] == (0, 3, 4)
        with pytest.raises(NotFound):
            await shoal.external_ids.find("posts", ISSUER, "9")


@in_loop
async def test_database_import_resolves_comments_on_comments_of_any_depth(tmp_path: Path) -> None:
    thread = [{"id": "p", "author": "1", "parent": None, "text": "root", "created_at": "2024-02-01T00:00:00"}]
    # Later comments have smaller ids, and the two of each pair have one moment.
    for depth in range(60):
        moment = f"2024-02-01T01:00:{depth // 2:02}"
        parent = f"c{100 - depth}" if depth else "p"
        thread.append(
            {"id": f"c{99 - depth}", "author": "1", "parent": parent, "text": f"at {depth}", "created_at": moment}
        )
    tables: Tables = {"users": [{"id": "1", "username": "ann"}], "statuses": thread}
    text = """
        issuer = "https://old.example"
        [members]
        table = "users"
        fields = { id = "id", name = "username" }
        [posts]
        query = "SELECT * FROM statuses WHERE parent IS NULL"
        fields = { id = "id", author = "author", text = "text", created_at = "created_at" }
        [comments]
        query = "SELECT * FROM statuses WHERE parent IS NOT NULL"
        ids = "posts"
        fields = { id = "id", author = "author", post = "parent", text = "text", created_at = "created_at" }
        """
    source = sqlite_source(tmp_path / "old.db", tables)
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        assert numbers(await run(shoal, source, text, dry_run=True))["comments"] == (60, 0, 0)
        assert numbers(await run(shoal, source, text))["comments"] == (60, 0, 0)
        deepest = await shoal.visitor.thread(await shoal.external_ids.find("posts", ISSUER, "c40"))
        assert [entry.post.text for entry in deepest.above[-2:]] == ["at 57", "at 58"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[members", "map: not valid TOML"),
        ("", "issuer: name the product"),
        ('issuer = "x"', "map: no section; expected one of members,"),
        ('issuer = "x"\nmember = 1', "map: unknown key 'member'; did you mean members?"),
        ('issuer = "x"\nmembers = 1', "members: expected a table, or several as [[members]]"),
        ("[members]\ntabel = 'x'", "members: unknown key 'tabel'; did you mean table?"),
        ("[members]\nfields = {}", "members: expected either table or query"),
        ("[members]\ntable = 3", "members.table: expected a text"),
        ("[members]\ntable = 'a'\nquery = 'b'", "members: expected either table or query"),
        ("[members]\ntable = 'a'\nkey = []", "members.key: expected the name of a column, or a list of names"),
        ("[members]\ntable = 'a'\nfields = { id = 'id' }", "members.fields: name is missing"),
        ("[members]\ntable = 'a'\nids = 'posts'\nfields = { id = 'a', name = 'b' }", "members.ids: only posts"),
        ("[[members]]\ntable = 'a'\nfields = { id = 'id', named = 'x' }", "unknown key 'named'; did you mean name?"),
        (
            "[members]\ntable = 'a'\nfields = { id = 'id', name = 5 }",
            "members.fields.name: expected the name of a column",
        ),
        (
            "[members]\ntable = 'a'\nfields = { id = 'id', name = {} }",
            "members.fields.name: expected one of column, columns and value",
        ),
        (
            "[members]\ntable = 'a'\nfields = { id = 'id', name = { column = 'a', zone = 'UTC' } }",
            "name.zone: not for this field",
        ),
        (
            "[members]\ntable = 'a'\nfields = { id = 'a', name = 'b', created_at = { column = 'c', zone = 'Mars/X' } }",
            "created_at.zone: unknown time zone 'Mars/X'",
        ),
        ("[media]\ntable = 'a'\nfields = { post = 'a' }", "media.fields: expected either path or url"),
        (
            "[likes]\ntable = 'a'\nfields = { member = 'a', post = { column = 'b', ids = 'likes' } }",
            "post.ids: expected one of posts, comments, media",
        ),
    ],
)
def test_map_with_invalid_entry_is_refused_with_its_place_and_the_fix(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_map(text, "" if (text.startswith(("[members", "issuer")) and "\n" not in text) or not text else "x")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("username", "user_name"), "members (users): no column 'user_name'; did you mean username?"),
        (
            ('table = "users"', 'table = "people"'),
            "members (people): the source refused the query: no such table: people",
        ),
        (("SELECT user_id, reply_id,", "SELEC"), "likes (query): "),
    ],
)
@in_loop
async def test_map_that_does_not_fit_the_source_is_refused_before_anything_is_written(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    async with Shoal.open("memory://") as shoal:
        with pytest.raises((InvalidInput, Unavailable)) as raised:
            await run(shoal, source, MAP.replace(*change))
        assert message in str(raised.value)
        assert await shoal.network.store.obj_scan(-1, 10) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("oracle://host/db", "from: unknown scheme 'oracle'; expected postgresql://"),
        ("sqlite:///missing.db", "from: no file missing.db"),
        ("/missing", "from: /missing is not a folder"),
        ("postgresql://user:secret@127.0.0.1:1/db", "the source cannot be read"),
        ("mysql://user:p@secret@127.0.0.1:1/db", "from: write @ as %40"),
        ("postgresql://user:p@secret@127.0.0.1:1/db", "the source cannot be read: 127.0.0.1:1"),
        ("postgresql:/user:secret@127.0.0.1/db", "from: neither a folder nor a URL"),
        ("mysql://user:secret@127.0.0.1:1/db?no_option=1", "from: the URL has an invalid option"),
    ],
)
@in_loop
async def test_source_that_cannot_be_opened_is_refused_without_its_password(source: str, message: str) -> None:
    async with Shoal.open("memory://") as shoal:
        with pytest.raises((InvalidInput, Unavailable)) as raised:
            await run(shoal, source)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def _with_all_fields() -> str:
    parts = ["issuer = 'x'"]
    for kind, fields in KINDS.items():
        named = ", ".join(f"{name} = '{name}'" for name in fields if not name.endswith("url"))
        parts.append(f"[{kind}]\ntable = 'a'\nfields = {{ {named} }}")
    return "\n".join(parts)


ALL_FIELDS = parse_map(_with_all_fields())


@given(st.sampled_from(ALL_FIELDS.sections), st.data())
def test_converted_row_of_any_values_is_valid_or_rejected(section: Any, data: st.DataObject) -> None:
    values = st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.datetimes(), st.dates()),
        *(st.uuids(), st.decimals(), st.lists(st.text())),
    )
    row = {column: data.draw(values) for column in section.columns}
    try:
        found = section.converted(row)
    except RowError:
        return
    assert found.keys() == section.fields.keys()


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        ({"column": "c"}, "2020-01-02 03:04:05", 1_577_934_245_000),
        ({"column": "c"}, datetime(2020, 1, 2, 3, 4, 5), 1_577_934_245_000),  # noqa: DTZ001
        ({"column": "c", "zone": "Europe/Berlin"}, datetime(2020, 1, 2, 3, 4, 5), 1_577_930_645_000),  # noqa: DTZ001
        ({"column": "c"}, date(2020, 1, 2), 1_577_923_200_000),
        ({"column": "c", "time": "microseconds"}, 1_577_923_200_000_000, 1_577_923_200_000),
        ({"column": "c", "time": "%d.%m.%Y %H:%M"}, "02.01.2020 03:04", 1_577_934_240_000),
        ({"column": "c"}, Decimal(1577934245), 1_577_934_245_000),
        ({"column": "c", "default": 0}, None, 0),
    ],
)
def test_time_of_a_row_is_read_in_its_format_unit_and_zone(spec: Mapping[str, Any], value: Any, expected: int) -> None:
    inner = ", ".join(f"{name} = {json.dumps(given)}" for name, given in spec.items())
    text = f"issuer = 'x'\n[likes]\ntable = 'a'\nfields = {{ member = 'm', post = 'p', created_at = {{ {inner} }} }}"
    (section,) = parse_map(text).sections
    assert section.converted({"m": 1, "p": 2, "c": value})["created_at"] == expected


def test_packed_position_has_the_same_types_and_values_when_unpacked() -> None:
    values = [1, "x", 1.5, Decimal("1.50"), UUID(int=5), datetime(2020, 1, 2, tzinfo=UTC), date(2020, 1, 2), b"\0\xff"]
    assert unpack(pack(values)) == values


def png(color: str) -> bytes:
    data = BytesIO()
    Image.new("RGB", (40, 30), color).save(data, "PNG")
    return data.getvalue()


def with_media(fields: str) -> str:
    return MAP + f'[media]\ntable = "photos"\nfields = {{ id = "id", post = "article_id", {fields} }}\n'


def photos(*names: str, article_id: int = 7) -> Tables:
    found = [
        {"id": at, "article_id": article_id, "place": name, "words": f"Photo {at}"} for at, name in enumerate(names)
    ]
    return rows() | {"photos": found}


@in_loop
async def test_database_import_attaches_files_of_its_folder_and_rejects_all_others(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "a.png").write_bytes(png("teal"))
    (folder / "b.png").write_bytes(b"no picture")
    (folder / "big.png").write_bytes(bytes(3_000_000))
    (tmp_path / "secret.png").write_bytes(png("navy"))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    source = sqlite_source(
        tmp_path / "old.db", photos("a.png", "b.png", "big.png", "../secret.png", "link.png", "lost.png", "", ".")
    )
    text = with_media('path = "place", description = "words"')
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db", max_upload_bytes=2_000_000) as shoal:
        planned = await run(shoal, source, text, media=folder, dry_run=True)
        report = await run(shoal, source, text, media=folder)
        assert report.counts["media"].taken == 1
        assert {reason: found.count for reason, found in report.counts["media"].refused.items()} == {
            "the type of this file is not supported: use JPEG, PNG, GIF, WebP, AVIF or HEIC": 1,
            "path: at most 2000000 bytes": 1,
            "path: outside the folder of --media": 2,
            "path: no such file": 2,
            "path: empty": 1,
        }
        # A dry run does not decode files.
        assert planned.counts["media"].taken == 2
        entry = await shoal.visitor.read(await shoal.external_ids.find("posts", ISSUER, "7"))
        assert [media.description for media in entry.media] == ["Photo 0"]
        assert [media.id for media in entry.media] == [await shoal.external_ids.find("media", ISSUER, "0")]
        again = await run(shoal, source, text, media=folder, full=True)
        assert again.counts["media"].taken == 0
        assert (await check(shoal.network)).clean


@in_loop
async def test_database_import_without_media_folder_rejects_media_and_keeps_posts(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", photos("a.png"))
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, source, with_media('path = "place"'))
        assert list(report.counts["media"].refused) == ["path: name the folder of the files by --media"]
        assert numbers(report)["posts"] == (3, 0, 4)


@in_loop
async def test_database_import_fetches_urls_only_if_asked_and_only_from_allowed_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificates.trusted().signed("media")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.trusted().certificate))
    body = png("teal")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        status = b"200 OK" if path == b"/a.png" else b"404 Not Found"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        base = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        source = sqlite_source(tmp_path / "old.db", photos(f"{base}/a.png", f"{base}/b.png", "http://localhost/a.png"))
        text = with_media('url = "place"')
        for options, taken, refused in (
            ({}, 0, {"url: not fetched without --fetch-media"}),
            ({"fetch": True, "dry_run": True}, 3, set()),
            (
                {"fetch": True},
                0,
                {"url: the host has no public address, nor one in an allowed network", "url: expected an https URL"},
            ),
            (
                {"fetch": True, "networks": ("127.0.0.0/8",)},
                1,
                {"url: the server returned the status 404", "url: expected an https URL"},
            ),
        ):
            async with Shoal.open("memory://") as shoal:
                report = await run(shoal, source, text, **options)
                assert report.counts["media"].taken == taken
                assert set(report.counts["media"].refused) == refused


@in_loop
async def test_database_import_into_an_empty_network_equals_one_into_a_network_with_members(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", rows())
    found = []
    for name, others in (("rows", ()), ("commands", ("zoe",))):
        path = tmp_path / f"{name}.db"
        async with Shoal.open(f"sqlite:///{path}") as shoal:
            for other in others:
                await shoal.register(other)
            assert numbers(await run(shoal, source)) == FIRST
            assert (await check(shoal.network)).clean
            hits = await (await shoal.member("ben")).search_posts("cold")
            assert [entry.post.text for entry in hits] == ["Old\n\nCold & clear\n\n#sea"]
            names = {id_: (await shoal.external_ids.member(ISSUER, id_)).id for id_ in UUIDS}
        ids = {internal: external for external, internal in names.items()}
        found.append(_described(path, ids))
    assert found[0] == found[1]


def _described(path: Path, members: Mapping[int, str]) -> dict[str, list[str]]:
    """Return the posts, and the main associations, of a store, with the external ids of members instead of their ids."""
    shown = (FOLLOWS, FOLLOWED_BY, LIKES, LIKED_BY, TAGGED, COMMENTED_BY)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        nodes = [decode_node(data) for (data,) in store.execute("SELECT data FROM object")]
        marks = ", ".join("?" * len(shown))
        edges = store.execute(
            f"SELECT id1, atype, id2, alive, time, length(data) FROM association WHERE atype IN ({marks})",  # noqa: S608
            [atype.number for atype in shown],
        ).fetchall()
    described = {
        "posts": [repr(node) for node in nodes if isinstance(node, Post)],
        "associations": list(map(repr, edges)),
    }
    for internal, external in members.items():
        for kind, entries in described.items():
            described[kind] = [entry.replace(str(internal), external) for entry in entries]
    assert all(described.values())
    return {kind: sorted(entries) for kind, entries in described.items()}


@in_loop
async def test_database_import_into_several_stores_finds_every_object_by_its_external_id(tmp_path: Path) -> None:
    people = [{"id": str(n), "username": f"member{n}"} for n in range(40)]
    posts = [{"id": n, "author": str(n), "text": f"post {n}", "at": 1_714_000_000 + n} for n in range(40)]
    text = """
        issuer = "https://old.example"
        [members]
        table = "users"
        fields = { id = "id", name = "username" }
        [posts]
        table = "posts"
        fields = { id = "id", author = "author", text = "text", created_at = "at" }
        """
    source = sqlite_source(tmp_path / "old.db", {"users": people, "posts": posts})
    stores = {
        "0-20": f"sqlite:///{tmp_path}/a.db",
        "21-41": f"sqlite:///{tmp_path}/b.db",
        "42-63": f"sqlite:///{tmp_path}/c.db",
    }
    async with Shoal.open(stores, media=f"file://{tmp_path}/media") as shoal:
        assert numbers(await run(shoal, source, text)) == {"members": (40, 0, 0), "posts": (40, 0, 0)}
        for n in range(40):
            member = await shoal.external_ids.member(ISSUER, str(n))
            (entry,) = (await member.posts()).entries
            assert entry.post.text == f"post {n}"
            assert entry.post.id == await shoal.external_ids.find("posts", ISSUER, str(n))
        assert (await check(shoal.network)).clean


@in_loop
async def test_database_import_checks_data_of_kinds_and_builds_it_from_columns(tmp_path: Path) -> None:
    recipes = [
        {"id": 1, "user_id": "1", "minutes": 30, "servings": 2, "body": "Stew"},
        {"id": 2, "user_id": "1", "minutes": 900, "servings": 2, "body": "Roast"},
        {"id": 3, "user_id": "1", "minutes": 10, "servings": 4, "body": ""},
    ]
    text = """
        issuer = "https://old.example"
        [members]
        table = "users"
        fields = { id = "id", name = "username" }
        [posts]
        table = "recipes"
        [posts.fields]
        id = "id"
        author = "user_id"
        text = "body"
        created_at = { value = "2024-05-06" }
        kind = { value = "recipe" }
        data = { columns = ["minutes", "servings"] }
        """
    source = sqlite_source(tmp_path / "old.db", {"users": [{"id": "1", "username": "ann"}], "recipes": recipes})
    schema = {"type": "object", "properties": {"minutes": {"type": "integer", "maximum": 600}}, "required": ["minutes"]}
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        assert numbers(await run(shoal, source, text, dry_run=True))["posts"] == (0, 0, 3)
        await shoal.kinds.declare(KindDraft(name="recipe", schema=schema))
        assert numbers(await run(shoal, source, text, dry_run=True))["posts"] == (2, 0, 1)
        report = await run(shoal, source, text)
        assert numbers(report)["posts"] == (2, 0, 1)
        (reason,) = report.counts["posts"].refused
        assert reason.startswith("data.minutes: ")
        entry = await shoal.visitor.read(await shoal.external_ids.find("posts", ISSUER, "1"))
        assert (entry.post.kind, entry.post.data) == ("recipe", {"minutes": 30, "servings": 2})
        assert (await check(shoal.network)).clean
