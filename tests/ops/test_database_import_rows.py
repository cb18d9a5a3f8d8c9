"""Imports by a map of rows that are late, disordered, damaged or hostile: none is lost, and none ends the import."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports import run as import_run
from shoal.admin.database_imports.maps import parse_map
from shoal.admin.database_imports.source import open_source
from shoal.admin.imports.records import Summary
from shoal.core.errors import InvalidInput
from shoal.graph.schema import user_name_key
from tests.async_runner import in_loop
from tests.engines import mariadb, postgres
from tests.ops.test_database_import import ISSUER, Tables, fill, numbers, run, sqlite_source

PLAIN = """
issuer = "https://old.example"
[members]
table = "users"
fields = { id = "id", name = "name" }
[posts]
table = "posts"
watermark = "at"
fields = { id = "id", author = "author", text = "text", created_at = "at" }
[comments]
table = "comments"
watermark = "at"
fields = { id = "id", author = "author", post = "post", text = "text", created_at = "at" }
[likes]
table = "likes"
watermark = "at"
fields = { member = "author", post = "post" }
"""
T0 = 1_717_200_000


def post(id_: Any, at: Any = T0, **values: Any) -> dict[str, Any]:
    return {"id": id_, "author": 1, "text": f"post {id_}", "at": at} | values


def reply(id_: Any, to: Any, at: Any = T0, **values: Any) -> dict[str, Any]:
    return {"id": id_, "author": 1, "post": to, "text": f"reply {id_}", "at": at} | values


def tables(**more: list[dict[str, Any]]) -> Tables:
    usual = {
        "users": [{"id": 1, "name": "ann"}],
        "posts": [post(1)],
        "comments": [reply(1, 1)],
        "likes": [{"id": 1, "author": 1, "post": 1, "at": T0}],
    }
    return usual | more


def insert(path: Path, table: str, *rows: Mapping[str, Any]) -> None:
    with closing(sqlite3.connect(path)) as old, old:
        for row in rows:
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            old.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))  # noqa: S608


@in_loop
async def test_comment_that_is_newer_than_the_posts_read_is_imported_by_the_next_run(tmp_path: Path) -> None:
    """The product is in use: a post and its comment are created when the posts have been read, and the comments have not."""
    source = sqlite_source(
        tmp_path / "old.db", tables(comments=[reply(1, 1), reply(2, 2, T0 + 5), reply(3, 1, T0 + 6)])
    )
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, PLAIN))["comments"] == (2, 0, 1)
        insert(tmp_path / "old.db", "posts", post(2, T0 + 4))
        insert(tmp_path / "old.db", "comments", reply(4, 1, T0 + 9))
        assert numbers(await run(shoal, source, PLAIN))["comments"][0] == 2
        assert await shoal.external_ids.find("comments", ISSUER, "2")


@in_loop
async def test_row_with_the_watermark_of_a_finished_section_is_imported_after_an_interruption(tmp_path: Path) -> None:
    source = sqlite_source(
        tmp_path / "old.db",
        tables(
            posts=[post("b")],
            comments=[reply(1, "b")],
            likes=[{"id": 1, "author": 1, "post": "b", "at": T0}, {"id": 2, "author": 1, "post": "lost", "at": T0}],
        ),
    )
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput, match="no post or comment"):
            await run(shoal, source, PLAIN, strict=True)
        insert(tmp_path / "old.db", "posts", post("a"), post("c", T0 + 1))
        await run(shoal, source, PLAIN)
        await run(shoal, source, PLAIN)
        assert await shoal.external_ids.find("posts", ISSUER, "a")


@in_loop
async def test_comment_before_its_parent_in_the_order_of_the_watermark_is_imported(tmp_path: Path) -> None:
    """The parent was edited last, so its row is read thousands of rows after those of its comments."""
    text = PLAIN.replace('post = "post", text', 'post = { column = "post", ids = "comments" }, text')
    text = (
        PLAIN.split("[comments]", maxsplit=1)[0]
        + """
        [comments]
        table = "comments"
        watermark = "changed"
        ids = "posts"
        fields = { id = "id", author = "author", post = "post", text = "text", created_at = "at" }
        """
    )
    found = [reply(10, 1, T0, changed=99_999), reply(11, 10, T0 + 1, changed=1), reply(12, 11, T0 + 2, changed=0)]
    found += [reply(100 + at, 1, T0 + at, changed=10 + at) for at in range(2_500)]
    source = sqlite_source(tmp_path / "old.db", tables(comments=found))
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        assert numbers(await run(shoal, source, text, dry_run=True))["comments"] == (2_503, 0, 0)
        assert numbers(await run(shoal, source, text))["comments"] == (2_503, 0, 0)
        child = await shoal.visitor.read(await shoal.external_ids.find("posts", ISSUER, "12"))
        assert child.post.parent_id == await shoal.external_ids.find("posts", ISSUER, "11")


@in_loop
async def test_comment_is_imported_after_its_parent_that_was_rejected_and_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_run, "ROWS", 2)
    text = PLAIN.split("[comments]", maxsplit=1)[0] + (
        '[comments]\ntable = "comments"\nwatermark = "changed"\nids = "posts"\n'
        'fields = { id = "id", author = "author", post = "post", text = "text", created_at = "at" }\n'
    )
    found = [reply(n, 1, changed=n) for n in (11, 13, 14, 17)]
    found += [reply(12, 16, changed=12), reply(16, 99, changed=16)]
    source = sqlite_source(tmp_path / "old.db", tables(comments=found))
    async with Shoal.open("memory://") as shoal:
        await run(shoal, source, text)
        insert(tmp_path / "old.db", "posts", post(99, T0 + 1))
        await run(shoal, source, text)
        assert await shoal.external_ids.find("posts", ISSUER, "12")


@in_loop
async def test_shares_of_a_post_and_of_a_comment_with_one_id_are_two(tmp_path: Path) -> None:
    text = PLAIN.split("[likes]", maxsplit=1)[0] + (
        '[[shares]]\ntable = "shares"\nfields = { member = "member", post = "post" }\n'
        '[[shares]]\ntable = "shares"\nfields = { member = "member", post = { column = "post", ids = "comments" } }\n'
    )
    users = [{"id": 1, "name": "ann"}, {"id": 2, "name": "ben"}]
    shares = [{"id": 1, "member": 2, "post": 1}]
    source = sqlite_source(tmp_path / "old.db", tables(users=users, shares=shares))
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, text))["shares"] == (2, 0, 0)
        assert numbers(await run(shoal, source, text, full=True))["shares"] == (0, 2, 0)


@in_loop
async def test_deeply_nested_json_rejects_the_row_only(tmp_path: Path) -> None:
    deep = "[" * 100_000
    source = sqlite_source(tmp_path / "old.db", tables(posts=[post(1), post(2, text=deep)]))
    for field in ("tags", "data"):
        async with Shoal.open("memory://") as shoal:
            text = PLAIN.replace('text = "text"', f'text = "at", {field} = "text"', 1)
            assert numbers(await run(shoal, source, text))["posts"][2] >= 1
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "users.jsonl").write_text(f'{{"id": 1, "name": "ann"}}\n{{"id": {deep}\n', "utf-8")
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, str(tmp_path / "files"), ONLY_MEMBERS)
        assert (report.counts["members"].taken, report.counts["users"].refused["not a JSON object"].count) == (1, 1)


@in_loop
async def test_cycle_of_comments_is_rejected(tmp_path: Path) -> None:
    text = PLAIN.replace('post = "post", text', 'post = { column = "post", ids = "comments" }, text')
    source = sqlite_source(tmp_path / "old.db", tables(comments=[reply(1, 2), reply(2, 1), reply(3, 3)]))
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, text))["comments"] == (0, 0, 3)


@in_loop
async def test_rows_are_read_again_when_the_conversions_of_the_map_change(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", tables(posts=[post(1, scope="p"), post(2, scope="f")]))
    first = PLAIN.replace(
        'created_at = "at" }\n[comments]',
        'created_at = "at", visibility = { column = "scope", values = { p = "public" } } }\n[comments]',
    )
    second = first.replace('p = "public"', 'p = "public", f = "followers"')
    assert first != PLAIN != second
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, first))["posts"] == (1, 0, 1)
        insert(tmp_path / "old.db", "posts", post(3, T0 + 1, scope="p"))
        assert numbers(await run(shoal, source, first))["posts"][0] == 1
        await run(shoal, source, second)
        assert await shoal.external_ids.find("posts", ISSUER, "2")


@in_loop
async def test_row_with_null_key_is_rejected_and_counted(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", tables(likes=[{"id": None, "author": 1, "post": 1, "at": T0}]))
    text = PLAIN.replace('watermark = "at"\nfields = { member', "fields = { member")
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, text))["likes"] == (0, 0, 1)


@pytest.mark.parametrize("value", [None, "", 0])
@in_loop
async def test_empty_visibility_without_default_rejects_the_row(tmp_path: Path, value: Any) -> None:
    source = sqlite_source(tmp_path / "old.db", tables(posts=[post(1, scope=value)]))
    text = PLAIN.replace('created_at = "at" }\n[comments]', 'created_at = "at", visibility = "scope" }\n[comments]')
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, text))["posts"] == (0, 0, 1)
        default = text.replace('visibility = "scope"', 'visibility = { column = "scope", default = "followers" }')
        if value != 0:
            assert numbers(await run(shoal, source, default, full=True))["posts"] == (1, 0, 0)


ONLY_MEMBERS = PLAIN.split("[posts]", maxsplit=1)[0]


@in_loop
async def test_folder_with_huge_text_is_imported(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "users.csv").write_text("id,name,bio\n1,ann," + "x" * 200_000 + "\n2,ben,short\n")
    text = ONLY_MEMBERS.replace('name = "name"', 'name = "name", note = "bio"')
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, str(tmp_path / "old"), text))["members"] == (2, 0, 0)


@pytest.mark.parametrize(
    ("name", "content", "imported"),
    [
        ("users.jsonl", '{"id": 18446744073709551615, "name": "ann"}\n', 1),
        ("users.jsonl", '{"id": 1, "name": "ann", "extra": 99999999999999999999999}\n', 1),
        ("users.jsonl", '{"id": 1, "name": "ann", "Name": "x"}\n', 1),
        ("users.jsonl", '{"id": 1, "name": "ann", "": "x", "a\\u0000b": 1}\n', 1),
        ("users.csv", "id,name,Name\n1,ann,x\n", 1),
        ("users.csv", "id,name\n", 0),
        ("users.jsonl", "", 0),
    ],
)
@in_loop
async def test_folder_with_unusual_values_or_columns_is_imported(
    tmp_path: Path, name: str, content: str, imported: int
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / name).write_text(content)
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, str(tmp_path / "old"), ONLY_MEMBERS))["members"] == (imported, 0, 0)


@in_loop
async def test_folder_watermark_of_numbers_is_compared_as_a_number(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    text = ONLY_MEMBERS.replace("fields", 'watermark = "id"\nfields')
    (folder / "users.csv").write_text("id,name\n8,ann\n9,ben\n")
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, str(folder), text))["members"] == (2, 0, 0)
        (folder / "users.csv").write_text("id,name\n8,ann\n9,ben\n10,cyd\n")
        assert numbers(await run(shoal, str(folder), text))["members"] == (1, 1, 0)


@in_loop
async def test_text_with_invalid_bytes_ends_no_import(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", tables())
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("UPDATE posts SET text = CAST(x'61ff62' AS TEXT)")
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, PLAIN))["posts"] == (1, 0, 0)


@in_loop
async def test_infinite_number_as_key_rejects_the_row_only(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", tables())
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("DROP TABLE users")
        old.execute("CREATE TABLE users (id REAL, name TEXT)")
        old.execute("INSERT INTO users VALUES (1, 'ann'), (9e999, 'inf')")
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, ONLY_MEMBERS))["members"] == (1, 0, 1)


@in_loop
async def test_ids_of_invalid_bytes_stay_distinct(tmp_path: Path) -> None:
    source = sqlite_source(tmp_path / "old.db", tables())
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("DROP TABLE users")
        old.execute("CREATE TABLE users (id BLOB, name TEXT)")
        old.execute("INSERT INTO users VALUES (x'ff01', 'ann'), (x'fe01', 'ben')")
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, ONLY_MEMBERS))["members"] == (2, 0, 0)


@in_loop
async def test_name_with_control_characters_imports_the_member(tmp_path: Path) -> None:
    users: list[dict[str, Any]] = [
        {"id": 1, "name": "ann\0\x1b[2J", "shown": "A\0n\x1b[31mn\u202e", "bio": "a\0b"},
        {"id": 2, "name": None, "shown": None, "bio": None},
    ]
    users += [{"id": 3, "name": "x" * 100_000, "shown": "y" * 100_000, "bio": "z" * 100_000}]
    source = sqlite_source(tmp_path / "old.db", tables(users=users))
    text = ONLY_MEMBERS.replace('name = "name"', 'name = "name", display_name = "shown", note = "bio"')
    for url in ("memory://", f"sqlite:///{tmp_path}/new.db"):
        async with Shoal.open(url) as shoal:
            report = await run(shoal, source, text)
            assert numbers(report)["members"] == (3, 0, 0), report.counts["members"]


@in_loop
async def test_likes_given_twice_are_counted_once_and_as_existing(tmp_path: Path) -> None:
    likes = [{"id": at, "author": 1, "post": 1, "at": T0} for at in (1, 2)]
    source = sqlite_source(tmp_path / "old.db", tables(likes=likes))
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, PLAIN))["likes"] == (1, 1, 0)


@in_loop
async def test_report_has_no_control_characters_and_a_bounded_number_of_reasons(tmp_path: Path) -> None:
    posts = [post(f"\x1b]0;x\x07{at}", T0, author="\x1b[2J") for at in range(3)]
    source = sqlite_source(tmp_path / "old.db", tables(posts=posts))
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, source, PLAIN)
        for found in report.counts["posts"].refused.values():
            assert all(example.isprintable() for example in found.examples), found.examples
    summary = Summary()
    for number in range(10_000):
        summary.refuse("posts", f"row {number}", f"reason {number}")
    assert len(summary.report().counts["posts"].refused) <= 1_000
    assert summary.report().counts["posts"].refusals == 10_000


@in_loop
async def test_media_path_that_is_a_loop_of_links_rejects_the_photo_only(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "loop.png").symlink_to(folder / "loop.png")
    media = [
        {"id": 1, "post": 1, "path": "loop.png"},
        {"id": 2, "post": 1, "path": "x" * 5_000},
        {"id": 3, "post": 1, "path": "/etc/passwd"},
    ]
    source = sqlite_source(tmp_path / "old.db", tables(media=media))
    text = PLAIN + '[media]\ntable = "media"\nfields = { id = "id", post = "post", path = "path" }\n'
    async with Shoal.open("memory://") as shoal:
        found = numbers(await run(shoal, source, text, media=folder))
        assert (found["posts"], found["media"]) == ((1, 0, 0), (0, 0, 3))


def test_sqlite_source_can_be_read_in_many_threads_at_once(tmp_path: Path) -> None:
    many = [post(at, T0 + at) for at in range(500)]
    url = sqlite_source(tmp_path / "old.db", tables(posts=many))
    mapped = parse_map(PLAIN)
    (posts,) = mapped.of("posts")
    with open_source(url, mapped, tmp_path, Summary()) as source:
        batches = source.batches(posts, None, 10)
        seen = 0
        for batch in batches:
            seen += len(batch)
            # A new thread for each query, as on a machine with many processors.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(source.related, posts, "id", [1, 2]).result()
        assert seen == 500


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
@in_loop
async def test_query_of_a_map_cannot_write_to_the_source(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = mariadb.database() if engine == "mariadb" else await postgres.database(request.node)
    driver = url.replace("mysql://", "mysql+pymysql://").replace("postgresql://", "postgresql+pg8000://")
    fill(driver, tables())
    evil = "SELECT 1 AS id) AS a; COMMIT; DELETE FROM users; COMMIT; SELECT 1 FROM (SELECT 1"
    text = ONLY_MEMBERS + f'[likes]\nquery = "{evil}"\nfields = {{ member = "id", post = "id" }}\n'
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput):
            await run(shoal, url, text)
        assert numbers(await run(shoal, url, PLAIN))["members"] == (1, 0, 0)


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
@in_loop
async def test_positions_of_large_and_small_ids_are_valid_in_queries(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = mariadb.database() if engine == "mariadb" else await postgres.database(request.node)
    driver = url.replace("mysql://", "mysql+pymysql://").replace("postgresql://", "postgresql+pg8000://")
    large = 113_000_000_000_000_000
    found = tables(
        posts=[post(1), post(large, T0 + 1)],
        likes=[
            {"id": large, "author": 1, "post": large, "at": T0 + large},
            {"id": 5, "author": 1, "post": 4, "at": T0 + large},
        ],
    )
    found["media"] = [{"id": 1, "post": large, "path": "no.png"}, {"id": 2, "post": 1, "path": "no.png"}]
    fill(driver, found)
    text = PLAIN + '[media]\ntable = "media"\nfields = { id = "id", post = "post", path = "path" }\n'
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput, match="no post or comment"):
            await run(shoal, url, PLAIN, strict=True)
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, url, text, media=tmp_path)
        assert numbers(report)["media"] == (0, 0, 2), report
        assert numbers(report)["likes"] == (1, 0, 1)
        assert numbers(await run(shoal, url, text, media=tmp_path))["posts"][0] == 0


@in_loop
async def test_few_photos_are_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"no picture")
    found = tables(posts=[post(at) for at in range(200)])
    found["media"] = [{"id": at, "post": at, "path": "a.png"} for at in range(200)]
    source = sqlite_source(tmp_path / "old.db", found)
    text = PLAIN + '[media]\ntable = "media"\nfields = { id = "id", post = "post", path = "path" }\n'
    running, most = 0, 0

    async def upload(*_: object, **__: object) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        raise InvalidInput("no picture")

    monkeypatch.setattr("shoal.commands.media.upload", upload)
    async with Shoal.open("memory://") as shoal:
        assert numbers(await run(shoal, source, text, media=folder))["media"] == (0, 0, 200)
    assert 1 <= most <= 8


@in_loop
async def test_concurrent_imports_of_one_source_make_one_network(tmp_path: Path) -> None:
    found = tables(
        users=[{"id": at, "name": f"member {at}"} for at in range(300)],
        posts=[post(at, T0 + at, author=at % 300) for at in range(600)],
        comments=[reply(at, at, T0 + at, author=(at * 7) % 300) for at in range(600)],
        likes=[{"id": at, "author": at % 300, "post": (at * 11) % 600, "at": T0 + at} for at in range(600)],
    )
    source = sqlite_source(tmp_path / "old.db", found)
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        reports = await asyncio.gather(run(shoal, source, PLAIN), run(shoal, source, PLAIN))
        assert all(found.refusals == 0 for report in reports for found in report.counts.values()), reports
        assert (await check(shoal.network)).clean
        names = [user_name_key(f"member_{at}") for at in range(300)]
        assert len(await shoal.network.store.key_get(names)) == 300
        again = [user_name_key(f"member_{at}_2") for at in range(300)]
        assert not await shoal.network.store.key_get(again)
        repeated = numbers(await run(shoal, source, PLAIN, full=True))
        assert repeated == {"members": (0, 300, 0), "posts": (0, 600, 0), "comments": (0, 600, 0), "likes": (0, 600, 0)}


KIND_DATA = """
[posts]
table = "posts"
fields = { id = "id", author = "author", text = "text", created_at = "at", data = { columns = ["size", "text"] } }
"""


@pytest.mark.parametrize("value", [float("inf"), 1e308, b"\xff\x00", "x" * 100_000])
@in_loop
async def test_data_of_unusual_values_rejects_the_row_only(tmp_path: Path, value: Any) -> None:
    source = sqlite_source(tmp_path / "old.db", tables())
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("DROP TABLE posts")
        old.execute("CREATE TABLE posts (id, author, text, at, size)")
        old.executemany("INSERT INTO posts VALUES (?, 1, 'x', 1717200000, ?)", [(1, value), (2, 1)])
    async with Shoal.open("memory://") as shoal:
        found = numbers(await run(shoal, source, ONLY_MEMBERS + KIND_DATA))
        assert found["posts"][0] + found["posts"][2] == 2, found
        assert found["posts"][0] >= 1


@in_loop
async def test_times_that_python_does_not_have_or_in_the_future_hide_no_rows(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = await postgres.database(request.node)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+pg8000://"))
    with engine.connect() as connection:
        for statement in (
            "CREATE TABLE users (id int, name text)",
            "INSERT INTO users VALUES (1, 'ann')",
            "CREATE TABLE posts (id int, author int, text text, at timestamptz, changed timestamptz)",
            "INSERT INTO posts VALUES (1, 1, 'a', 'infinity', '2024-03-01'), (2, 1, 'b', '0044-03-15 BC', '2024-03-02')",
            "INSERT INTO posts VALUES (3, 1, 'c', '2024-03-01', '2024-03-03'), (4, 1, 'd', '2024-03-01', '9999-01-01')",
        ):
            connection.execute(sa.text(statement))
        text = PLAIN.split("[comments]", maxsplit=1)[0].replace('watermark = "at"', 'watermark = "changed"')
        async with Shoal.open("memory://") as shoal:
            connection.commit()
            assert numbers(await run(shoal, url, text))["posts"] == (2, 0, 2)
            connection.execute(sa.text("INSERT INTO posts VALUES (5, 1, 'e', '2024-03-04', '2024-03-05')"))
            connection.commit()
            assert numbers(await run(shoal, url, text))["posts"] == (1, 2, 0)
            assert await shoal.external_ids.find("posts", ISSUER, "5")
    engine.dispose()
