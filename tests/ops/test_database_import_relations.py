"""Imports by a map of shares, bookmarks, mutes, blocks and profile pictures."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from PIL import Image

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports.maps import Section, parse_map
from shoal.admin.database_imports.run import MappedImport
from shoal.admin.imports.records import ImportReport
from shoal.commands import members, reactions, relationships
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.ids import milliseconds_of
from shoal.core.model import ImportPosition, Member, Share, Visibility
from shoal.graph.changes import change_object
from shoal.graph.contract import Cursor
from shoal.graph.schema import BLOCKS, BOOKMARK, BOOKMARKS, FOLLOWS, MUTES, POSTED, SHARED_BY
from tests.async_runner import in_loop
from tests.engines import postgres
from tests.ops.test_database_import import ISSUER, fill, numbers, png, reasons, run, stored
from tests.ops.test_database_import_updates import member, post

MAP = """
issuer = "https://old.example"
[members]
table = "users"
fields = { id = "id", name = "name", avatar = "avatar", header = "header" }
[follows]
table = "follows"
fields = { follower = "a", followee = "b" }
[posts]
table = "posts"
fields = { id = "id", author = "author", text = "text", created_at = "at", visibility = { column = "audience" } }
[shares]
table = "shares"
fields = { member = "who", post = "post", created_at = "at", visibility = { column = "audience", default = "public" } }
[bookmarks]
table = "bookmarks"
fields = { member = "who", post = "post", created_at = "at" }
[mutes]
table = "mutes"
fields = { member = "a", other = "b", notifications = "n" }
[blocks]
table = "blocks"
fields = { member = "a", other = "b" }
"""
T0 = 1_717_200_000


def source(folder: Path) -> str:
    (folder / "media").mkdir()
    (folder / "media" / "me.png").write_bytes(png("teal"))
    Image.new("RGB", (300, 100), "navy").save(folder / "media" / "sea.png")
    (folder / "media" / "no.png").write_bytes(b"no picture")
    names = ("ann", "ben", "cyd")
    pictures = [("me.png", "sea.png"), (None, None), ("no.png", "../secret.png")]
    rows: dict[str, list[dict[str, Any]]] = {
        "users": [
            {"id": n, "name": name, "avatar": avatar, "header": header}
            for n, (name, (avatar, header)) in enumerate(zip(names, pictures, strict=True), 1)
        ],
        "follows": [{"id": 1, "a": 1, "b": 3}, {"id": 2, "a": 1, "b": 2}],
        "posts": [
            {"id": 1, "author": 1, "text": "Low tide", "at": T0, "audience": "public"},
            {"id": 2, "author": 1, "text": "Mine", "at": T0 + 1, "audience": "followers"},
        ],
        "shares": [
            {"id": 1, "who": 2, "post": 1, "at": T0 + 10, "audience": "unlisted"},
            {"id": 2, "who": 2, "post": 2, "at": T0 + 11, "audience": None},
            {"id": 3, "who": 9, "post": 1, "at": T0 + 11, "audience": None},
        ],
        "bookmarks": [{"id": 1, "who": 2, "post": 1, "at": T0 + 20}, {"id": 2, "who": 2, "post": 7, "at": T0}],
        "mutes": [{"id": 1, "a": 1, "b": 2, "n": 0}, {"id": 2, "a": 1, "b": 8, "n": 1}],
        "blocks": [{"id": 1, "a": 3, "b": 1}, {"id": 2, "a": 3, "b": 3}],
    }
    fill(f"sqlite:///{folder / 'old.db'}", rows)
    return f"sqlite:///{folder / 'old.db'}"


EXPECTED = {
    "members": (3, 0, 2),
    "pictures": (2, 0, 0),
    "follows": (2, 0, 0),
    "posts": (2, 0, 0),
    "shares": (1, 0, 2),
    "bookmarks": (1, 0, 1),
    "mutes": (1, 0, 1),
    "blocks": (1, 0, 1),
}


async def imported(shoal: Shoal, tmp_path: Path, **options: Any) -> ImportReport:
    return await run(shoal, f"sqlite:///{tmp_path / 'old.db'}", MAP, media=tmp_path / "media", **options)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "memory"])
@in_loop
async def test_import_of_shares_bookmarks_mutes_blocks_and_pictures_is_complete_and_idempotent(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source(tmp_path)
    store = {"sqlite": f"sqlite:///{tmp_path}/shoal.db", "memory": "memory://"}.get(engine)
    async with Shoal.open(store or await postgres.database(request), media=f"file://{tmp_path}/files") as shoal:
        rehearsed = await imported(shoal, tmp_path, dry_run=True)
        # A dry run decodes no picture.
        assert numbers(rehearsed) == EXPECTED | {
            "members": (3, 0, 1),
            "pictures": (3, 0, 0),
        }
        assert {*reasons(rehearsed)} >= {
            ("shares", "post: the member may not share it"),
            ("blocks", "a member cannot block themselves"),
        }
        report = await imported(shoal, tmp_path)
        assert numbers(report) == EXPECTED
        refused = sorted(reason for kind, reason in reasons(report) if kind == "members")
        assert refused[0].startswith("avatar: ")
        assert refused[1] == "header: path: outside the folder of --media"
        graph = shoal.network.store
        ann, ben, cyd = [await member(shoal, n) for n in (1, 2, 3)]
        assert ann.avatar
        assert ann.header
        assert not ben.avatar
        low = await post(shoal, 1)
        (entry,) = await graph.assoc_range(ben.id, POSTED, Cursor())
        share = (await graph.obj_get((entry.id2,)))[entry.id2]
        assert isinstance(share, Share)
        assert (share.post_id, share.visibility, milliseconds_of(share.id) // 1000) == (
            low.id,
            Visibility.UNLISTED,
            T0 + 10,
        )
        assert (await graph.assoc_count((low.id,), (SHARED_BY,)))[SHARED_BY] == {low.id: 1}
        assert low.id in (await graph.assoc_get(ben.id, (BOOKMARKS,), (low.id,)))[BOOKMARKS]
        assert ben.id in (await graph.assoc_get(ann.id, (MUTES,), (ben.id,)))[MUTES]
        assert ann.id in (await graph.assoc_get(cyd.id, (BLOCKS,), (ann.id,)))[BLOCKS]
        # The block has ended the follow.
        assert [assoc.id2 for assoc in await graph.assoc_range(ann.id, FOLLOWS, Cursor())] == [ben.id]
        assert not (await (await shoal.external_ids.member(ISSUER, "1")).notifications.page()).items
        again = await imported(shoal, tmp_path)
        assert [again.counts[kind].taken for kind in EXPECTED if kind in again.counts] == [0] * len(again.counts)
        await shoal.network.settle()
        assert (await check(shoal.network)).clean


@in_loop
async def test_repeated_import_restores_nothing_that_a_member_has_ended_here(tmp_path: Path) -> None:
    source(tmp_path)
    path = tmp_path / "shoal.db"
    async with Shoal.open(f"sqlite:///{path}", media=f"file://{tmp_path}/files") as shoal:
        await imported(shoal, tmp_path)
        writes = shoal.network.writes
        ann, ben, cyd = [await member(shoal, n) for n in (1, 2, 3)]
        low = await post(shoal, 1)
        await reactions.unshare(writes, ben.id, low.id)
        await reactions.unmark(writes, ben.id, low.id, BOOKMARK)
        await relationships.unmute(writes, ann.id, ben.id)
        await relationships.unblock(writes, cyd.id, ann.id)
        await members.remove_picture(writes, ann.id, "avatar")
        await members.update_profile(writes, cyd.id, ProfileChange(avatar=png("red")))
        mine = (await member(shoal, 3)).avatar
        await shoal.network.settle()
    before = stored(path)
    async with Shoal.open(f"sqlite:///{path}", media=f"file://{tmp_path}/files") as shoal:
        again = await imported(shoal, tmp_path)
        assert {kind: found.taken for kind, found in again.counts.items() if found.taken} == {}
        assert not (await member(shoal, 1)).avatar
        assert (await member(shoal, 3)).avatar == mine
    assert {name: rows for name, rows in stored(path).items() if rows != before[name]} == {}


@in_loop
async def test_import_of_pictures_continues_after_a_run_without_their_folder(tmp_path: Path) -> None:
    source(tmp_path)
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, f"sqlite:///{tmp_path / 'old.db'}", MAP)
        assert numbers(report)["members"] == (3, 0, 4)
        assert ("members", "avatar: path: name the folder of the files by --media") in reasons(report)
        again = await imported(shoal, tmp_path)
        assert again.counts["pictures"].taken == 2


@in_loop
async def test_repeated_import_reads_all_sections_after_a_kill_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(tmp_path)

    class Killed(BaseException):
        pass

    keep = MappedImport._keep

    async def die(self: MappedImport, section: Section, position: ImportPosition) -> None:
        await keep(self, section, position)
        if section.kind == "posts" and not position.finished:
            raise Killed

    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/files") as shoal:
        await imported(shoal, tmp_path)
        with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
            old.execute("INSERT INTO bookmarks VALUES (9, 3, 1, ?)", (T0 + 50,))
        with monkeypatch.context() as patched:
            patched.setattr(MappedImport, "_keep", die)
            with pytest.raises(Killed):
                await imported(shoal, tmp_path)
        again = await imported(shoal, tmp_path)
        assert (again.counts["members"].there, again.counts["bookmarks"].taken) == (0, 1)


@in_loop
async def test_import_continues_if_a_member_with_a_picture_is_suspended_here(tmp_path: Path) -> None:
    source(tmp_path)
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/files") as shoal:
        await run(shoal, f"sqlite:///{tmp_path / 'old.db'}", MAP)

        async def read() -> Member:
            return await member(shoal, 1)

        await change_object(shoal.network.writes.graph, read, lambda before: structs.replace(before, suspended=True))
        again = await imported(shoal, tmp_path)
        assert ("members", "avatar: this member is suspended") in reasons(again)
        assert not (await member(shoal, 1)).avatar
        assert again.counts["blocks"].there == 1


@pytest.mark.parametrize("engine", ["sqlite", "memory"])
@in_loop
async def test_import_counts_rows_of_one_relation_once(engine: str, tmp_path: Path) -> None:
    source(tmp_path)
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("INSERT INTO mutes VALUES (7, 1, 2, 0)")
        old.execute("INSERT INTO blocks VALUES (7, 3, 1)")
        old.execute("INSERT INTO shares VALUES (7, 2, 1, ?, 'unlisted')", (T0 + 10,))
        old.execute("INSERT INTO shares VALUES (8, 2, 1, ?, 'unlisted')", (T0 + 19,))
    store = {"sqlite": f"sqlite:///{tmp_path}/shoal.db", "memory": "memory://"}[engine]
    async with Shoal.open(store, media=f"file://{tmp_path}/files") as shoal:
        found = numbers(await imported(shoal, tmp_path))
        assert [found[kind] for kind in ("shares", "mutes", "blocks")] == [(1, 2, 2), (1, 1, 1), (1, 1, 1)]
        await shoal.network.settle()
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize("engine", ["sqlite", "memory"])
@in_loop
async def test_import_of_many_posts_and_shares_of_one_time_is_complete_and_counted(engine: str, tmp_path: Path) -> None:
    source(tmp_path)
    many = 1_300
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        for n in range(3, many + 1):
            audience = "public" if n % 3 else "unlisted"
            old.execute("INSERT INTO posts VALUES (?, 1, 'Tide', 1400000000, ?)", (n, audience))
            old.execute("INSERT INTO shares VALUES (?, 2, ?, NULL, ?)", (n + 10, n, audience))
        old.execute("UPDATE posts SET at = 1400000000")
    store = {"sqlite": f"sqlite:///{tmp_path}/shoal.db", "memory": "memory://"}[engine]
    async with Shoal.open(store, media=f"file://{tmp_path}/files") as shoal:
        found = numbers(await imported(shoal, tmp_path))
        assert (found["posts"], found["shares"]) == ((many, 0, 0), (many - 1, 0, 2))
        found = numbers(await imported(shoal, tmp_path))
        assert (found["posts"], found["shares"]) == ((0, many, 0), (0, many - 1, 2))
        await shoal.network.settle()
        assert (await check(shoal.network, sample=20)).clean


@pytest.mark.parametrize("engine", ["sqlite", "memory"])
@in_loop
async def test_import_rejects_comments_on_posts_that_their_author_may_not_see(engine: str, tmp_path: Path) -> None:
    source(tmp_path)
    comments = '[comments]\ntable = "comments"\n[comments.fields]\n' + "\n".join(
        f'{name} = "{name}"' for name in ("id", "author", "post", "text", "created_at")
    )
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("CREATE TABLE comments (id INTEGER, author INTEGER, post INTEGER, text TEXT, created_at INTEGER)")
        old.executemany("INSERT INTO comments VALUES (?, ?, 2, 'Hm', ?)", [(1, 1, T0), (2, 2, T0), (3, 3, T0)])
        old.execute("INSERT INTO follows VALUES (9, 2, 1)")
    store = {"sqlite": f"sqlite:///{tmp_path}/shoal.db", "memory": "memory://"}[engine]
    async with Shoal.open(store, media=f"file://{tmp_path}/files") as shoal:
        report = await run(shoal, f"sqlite:///{tmp_path / 'old.db'}", f"{MAP}\n{comments}", media=tmp_path / "media")
        assert numbers(report)["comments"] == (2, 0, 1)
        reason = "post: deleted here since it was imported, or the author may not see it"
        assert report.counts["comments"].refused[reason].examples == ["row 3"]


def test_map_with_a_path_and_a_url_of_a_picture_is_refused() -> None:
    text = MAP.replace('header = "header"', 'avatar_url = "header"')
    with pytest.raises(InvalidInput, match=r"members.fields: expected either avatar or avatar_url"):
        parse_map(text)
