"""Repeated imports by a map of rows that the source has changed or deleted since they were imported."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports.entries import EntryImport
from shoal.admin.imports.records import ImportReport
from shoal.commands import account_deletions, external_ids, members, posts
from shoal.commands.context import Writes
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.errors import NotFound
from shoal.core.external_ids import ExternalLink, ExternalObject
from shoal.core.model import Member, Post, Visibility
from tests.async_runner import in_loop
from tests.engines import postgres
from tests.ops.test_database_import import ISSUER, fill, run, stored

MAP = """
issuer = "https://old.example"
[members]
table = "users"
watermark = "changed"
fields = { id = "id", name = "name", display_name = "full_name", note = "bio", updated_at = "changed" }
[posts]
table = "posts"
watermark = "changed"
[posts.fields]
id = "id"
author = "author"
text = "text"
created_at = "at"
sensitive = "nsfw"
data = "data"
visibility = { column = "audience", default = "public" }
updated_at = "changed"
deleted_at = "gone"
[comments]
table = "comments"
watermark = "changed"
[comments.fields]
id = "id"
author = "author"
post = "post"
text = "text"
created_at = "at"
updated_at = "changed"
deleted_at = "gone"
"""
T0 = 1_717_200_000
KEPT = "changed here since it was imported: kept (--overwrite replaces it)"


def source(folder: Path) -> str:
    old = folder / "old.db"
    usual: dict[str, Any] = {"nsfw": 0, "data": None, "audience": "public", "gone": None}
    rows: dict[str, list[dict[str, Any]]] = {
        "users": [
            {"id": 1, "name": "ann", "full_name": "Ann", "bio": "Sails", "changed": T0},
            {"id": 2, "name": "ben", "full_name": "Ben", "bio": "Rows", "changed": T0},
        ],
        "posts": [
            {"id": n, "author": 1, "text": f"post {n} #sea", "at": T0 + n, "changed": T0 + n, **usual}
            for n in range(1, 4)
        ],
        "comments": [{"id": 1, "author": 2, "post": 1, "text": "Nice", "at": T0 + 9, "changed": T0 + 9, "gone": None}],
    }
    fill(f"sqlite:///{old}", rows)
    return f"sqlite:///{old}"


def change(folder: Path, table: str, id_: int, **values: Any) -> None:
    given = ", ".join(f"{name} = ?" for name in values)
    with closing(sqlite3.connect(folder / "old.db")) as old, old:
        old.execute(f"UPDATE {table} SET {given} WHERE id = ?", (*values.values(), id_))  # noqa: S608


async def post(shoal: Shoal, id_: int, kind: Any = "posts") -> Post:
    found = await shoal.external_ids.find(kind, ISSUER, str(id_))
    node = (await shoal.network.store.obj_get((found,)))[found]
    assert isinstance(node, Post)
    return node


async def member(shoal: Shoal, id_: int) -> Member:
    found = await shoal.external_ids.member(ISSUER, str(id_))
    node = (await shoal.network.store.obj_get((found.id,)))[found.id]
    assert isinstance(node, Member)
    return node


def updates(report: ImportReport) -> dict[str, tuple[int, int]]:
    return {kind: (found.changed, found.deleted) for kind, found in report.counts.items() if kind != "tags"}


def kept(report: ImportReport) -> dict[str, list[str]]:
    return {kind: found.refused[KEPT].examples for kind, found in report.counts.items() if KEPT in found.refused}


NOTHING = {"members": (0, 0), "posts": (0, 0), "comments": (0, 0)}


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "memory"])
@in_loop
async def test_repeated_import_applies_changes_and_deletions_of_the_source_once(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old = source(tmp_path)
    store = {"sqlite": f"sqlite:///{tmp_path}/shoal.db", "memory": "memory://"}.get(engine)
    async with Shoal.open(store or await postgres.database(request), media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        assert updates(await run(shoal, old, MAP)) == NOTHING
        before = await post(shoal, 1)
        change(tmp_path, "users", 1, full_name="Ann A.", changed=T0 + 100)
        change(tmp_path, "posts", 1, text="new #tide", nsfw=1, data='{"a": 1}', audience="followers", changed=T0 + 100)
        change(tmp_path, "posts", 2, gone="2024-06-02", changed=T0 + 100)
        change(tmp_path, "comments", 1, text="Very nice", changed=T0 + 100)
        await shoal.network.settle()
        assert updates(await run(shoal, old, MAP)) == {"members": (1, 0), "posts": (1, 1), "comments": (1, 0)}
        ann, edited, comment = await member(shoal, 1), await post(shoal, 1), await post(shoal, 1, "comments")
        assert (ann.display_name, ann.note) == ("Ann A.", "Sails")
        assert (edited.id, edited.text, edited.tags, edited.data) == (before.id, "new #tide", ("tide",), {"a": 1})
        assert edited.sensitive
        assert edited.visibility is Visibility.FOLLOWERS
        assert edited.edited_at == (T0 + 100) * 1000
        assert comment.text == "Very nice"
        with pytest.raises(NotFound):
            await shoal.external_ids.find("posts", ISSUER, "2")
        again = await run(shoal, old, MAP, full=True)
        assert updates(again) == NOTHING
        assert [again.counts[kind].taken for kind in NOTHING] == [0, 0, 0]
        await shoal.network.settle()
        assert (await check(shoal.network)).clean


@in_loop
async def test_repeated_import_of_changes_writes_nothing_more_and_notifies_no_member(tmp_path: Path) -> None:
    old, path = source(tmp_path), tmp_path / "shoal.db"
    async with Shoal.open(f"sqlite:///{path}", media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        ben = await shoal.external_ids.member(ISSUER, "2")
        await ben.share(await shoal.external_ids.find("posts", ISSUER, "1"))
        change(tmp_path, "posts", 1, text="new, @ben", changed=T0 + 100)
        change(tmp_path, "users", 1, bio="Dives", changed=T0 + 100)
        await run(shoal, old, MAP)
        await shoal.network.settle()
        assert not (await ben.notifications.page()).items
    before = stored(path)
    async with Shoal.open(f"sqlite:///{path}", media=f"file://{tmp_path}/media") as shoal:
        assert updates(await run(shoal, old, MAP, full=True)) == NOTHING
    assert stored(path) == before


@in_loop
async def test_repeated_import_keeps_changes_made_here_unless_it_overwrites(tmp_path: Path) -> None:
    old = source(tmp_path)
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        writes = shoal.network.writes
        for number in (1, 2):
            mine = await post(shoal, number)
            await posts.update(writes, mine.author_id, mine.id, Draft(text=f"mine {number}"))
        ann = await member(shoal, 1)
        await members.update_profile(writes, ann.id, ProfileChange(note="Mine"))
        change(tmp_path, "users", 1, full_name="Theirs", changed=T0 + 100)
        change(tmp_path, "posts", 1, text="theirs", changed=T0 + 100)
        change(tmp_path, "posts", 2, gone="2024-06-02", changed=T0 + 100)
        change(tmp_path, "posts", 3, text="theirs 3", changed=T0 + 100)
        # The rows that have not changed do not conflict.
        await posts.update(
            writes,
            (await post(shoal, 1, "comments")).author_id,
            (await post(shoal, 1, "comments")).id,
            Draft(text="mine"),
        )
        report = await run(shoal, old, MAP, strict=True, full=True)
        assert updates(report) == NOTHING | {"posts": (1, 0)}
        assert kept(report) == {"members": ["row 1"], "posts": ["row 1", "row 2"]}
        assert [(await post(shoal, number)).text for number in (1, 2, 3)] == ["mine 1", "mine 2", "theirs 3"]
        assert (await member(shoal, 1)).note == "Mine"
        assert kept(await run(shoal, old, MAP, full=True)) == kept(report)
        # A dry run reports the same, and changes nothing.
        rehearsed = await run(shoal, old, MAP, full=True, overwrite=True, dry_run=True)
        assert updates(rehearsed) == {"members": (1, 0), "posts": (1, 1), "comments": (0, 0)}
        assert (await post(shoal, 1)).text == "mine 1"
        assert updates(await run(shoal, old, MAP, full=True, overwrite=True)) == updates(rehearsed)
        assert (await post(shoal, 1)).text == "theirs"
        assert ((await member(shoal, 1)).display_name, (await member(shoal, 1)).note) == ("Theirs", "Sails")
        assert updates(await run(shoal, old, MAP, full=True, overwrite=True)) == NOTHING


@in_loop
async def test_repeated_import_after_a_kill_between_change_and_note_recognizes_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = source(tmp_path)

    class Killed(BaseException):
        pass

    note = external_ids.note_import

    async def die(writes: Writes, link: ExternalLink | ExternalObject, **values: Any) -> None:
        if "updated" in values:
            raise Killed
        await note(writes, link, **values)

    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        for kind, table, changed in (("members", "users", {"bio": "New"}), ("posts", "posts", {"text": "New"})):
            change(tmp_path, table, 1, **changed, changed=T0 + 100)
            with monkeypatch.context() as patched:
                patched.setattr(external_ids, "note_import", die)
                with pytest.raises(BaseException) as error:
                    await run(shoal, old, MAP)
                assert "Killed" in repr(error.value)
            report = await run(shoal, old, MAP)
            assert updates(report) == NOTHING, kind
            assert kept(report) == {}
        assert (await member(shoal, 1)).note == "New"
        assert (await post(shoal, 1)).text == "New"
        # The next change is applied too, also if the row changes before the import is repeated.
        change(tmp_path, "posts", 1, text="Newer", changed=T0 + 200)
        change(tmp_path, "users", 1, bio="Newer", changed=T0 + 200)
        for section in ("members", "posts"):
            with monkeypatch.context() as patched:
                patched.setattr(external_ids, "note_import", die)
                with pytest.raises(BaseException) as error:
                    await run(shoal, old, MAP)
                assert "Killed" in repr(error.value), section
            change(tmp_path, "posts", 1, text="Newest", changed=T0 + 300)
            change(tmp_path, "users", 1, bio="Newest", changed=T0 + 300)
        report = await run(shoal, old, MAP)
        assert kept(report) == {}
        assert (await member(shoal, 1)).note == "Newest"
        assert (await post(shoal, 1)).text == "Newest"


@in_loop
async def test_import_omits_rows_that_were_deleted_before_and_counts_them(tmp_path: Path) -> None:
    old = source(tmp_path)
    change(tmp_path, "posts", 2, gone="2024-06-02")
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, old, MAP)
        assert report.counts["posts"].taken == 2
        assert report.notes == [(1, "row was deleted in the source", "rows were deleted in the source")]


@in_loop
async def test_import_after_a_kill_before_external_ids_applies_changes_and_deletions_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = source(tmp_path)

    class Killed(BaseException):
        pass

    async def die(*_: Any, **__: Any) -> None:
        raise Killed

    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/media") as shoal:
        with monkeypatch.context() as patched:
            patched.setattr(EntryImport, "_link", die)
            with pytest.raises(Killed):
                await run(shoal, old, MAP)
        change(tmp_path, "posts", 1, text="new", changed=T0 + 100)
        change(tmp_path, "posts", 2, gone="2024-06-02", changed=T0 + 100)
        report = await run(shoal, old, MAP)
        assert updates(report) == NOTHING | {"posts": (1, 1)}
        assert (report.counts["posts"].taken, report.counts["posts"].there) == (0, 3)
        assert (await post(shoal, 1)).text == "new"
        with pytest.raises(NotFound):
            await shoal.external_ids.find("posts", ISSUER, "2")
        assert updates(await run(shoal, old, MAP, full=True)) == NOTHING
        await shoal.network.settle()
        assert (await check(shoal.network)).clean


@in_loop
async def test_import_applies_two_changes_of_a_row_at_the_same_time_of_its_watermark(tmp_path: Path) -> None:
    old = source(tmp_path)
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        for text in ("first", "second"):
            change(tmp_path, "posts", 1, text=text, changed=T0 + 100)
            change(tmp_path, "users", 1, bio=text, changed=T0 + 100)
            await run(shoal, old, MAP)
            assert (await post(shoal, 1)).text == text
            assert (await member(shoal, 1)).note == text
        assert updates(await run(shoal, old, MAP)) == NOTHING
        mine, ann = await post(shoal, 1), await member(shoal, 1)
        await posts.update(shoal.network.writes, mine.author_id, mine.id, Draft(text="mine"))
        await members.update_profile(shoal.network.writes, ann.id, ProfileChange(note="Mine"))
        report = await run(shoal, old, MAP)
        assert (updates(report), kept(report)) == (NOTHING, {})
        assert ((await post(shoal, 1)).text, (await member(shoal, 1)).note) == ("mine", "Mine")


@in_loop
async def test_import_applies_changes_after_one_with_a_time_before_the_post(tmp_path: Path) -> None:
    old = source(tmp_path)
    change(tmp_path, "posts", 1, at=T0 + 5_000)
    async with Shoal.open("memory://") as shoal:
        await run(shoal, old, MAP)
        for moment in (T0 + 100, T0 + 6_000):
            change(tmp_path, "posts", 1, text=f"new {moment}", changed=moment)
            report = await run(shoal, old, MAP)
            assert (updates(report)["posts"], kept(report)) == ((1, 0), {})


@in_loop
async def test_repeated_import_does_not_restore_members_who_deleted_their_account(tmp_path: Path) -> None:
    old = source(tmp_path)
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        writes, ann = shoal.network.writes, await member(shoal, 1)
        await account_deletions.carry_out(writes, (await account_deletions.dismiss(writes, ann.id, 0)).deletion)
        await shoal.network.settle()
        for dry_run in (True, False):
            report = await run(shoal, old, MAP, full=True, dry_run=dry_run)
            assert (report.counts["members"].taken, report.counts["members"].there) == (0, 2)
        with pytest.raises(NotFound):
            await shoal.external_ids.member(ISSUER, "1")
        await shoal.network.settle()
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize("gone", ["0000-00-00 00:00:00", 0.0, "0.0", "NULL", "\\N"])
@in_loop
async def test_import_deletes_no_post_whose_row_has_an_empty_time_of_deletion(gone: Any, tmp_path: Path) -> None:
    old = source(tmp_path)
    async with Shoal.open("memory://") as shoal:
        await run(shoal, old, MAP)
        change(tmp_path, "posts", 1, gone=gone, changed=T0 + 100)
        report = await run(shoal, old, MAP)
        assert updates(report) == NOTHING
        reason = "deleted_at (column gone): neither a time nor true or false"
        assert list(report.counts["posts"].refused) == ([reason] if gone in ("NULL", "\\N") else [])


@in_loop
async def test_import_omits_deleted_comments_on_deleted_posts(tmp_path: Path) -> None:
    old = source(tmp_path)
    for table in ("posts", "comments"):
        change(tmp_path, table, 1, gone="2024-06-02")
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, old, MAP, strict=True)
        assert report.notes == [(2, "row was deleted in the source", "rows were deleted in the source")]


@in_loop
async def test_import_of_several_rows_with_one_id_keeps_the_last_changed_one(tmp_path: Path) -> None:
    old = source(tmp_path)
    with closing(sqlite3.connect(tmp_path / "old.db")) as opened, opened:
        opened.execute("UPDATE posts SET id = 1")
    async with Shoal.open("memory://") as shoal:
        report = await run(shoal, old, MAP)
        assert (report.counts["posts"].taken, report.counts["posts"].refusals) == (1, 2)
        assert (await post(shoal, 1)).text == "post 3 #sea"


@in_loop
async def test_import_names_the_reason_of_a_comment_on_a_post_that_was_deleted_here(tmp_path: Path) -> None:
    old = source(tmp_path)
    async with Shoal.open("memory://") as shoal:
        await run(shoal, old, MAP)
        mine = await post(shoal, 1)
        await posts.delete(shoal.network.writes, mine.author_id, mine.id)
        change(tmp_path, "comments", 1, id=2, changed=T0 + 100)
        report = await run(shoal, old, MAP)
        reason = "post: deleted here since it was imported, or the author may not see it"
        assert list(report.counts["comments"].refused) == [reason]


@in_loop
async def test_row_with_the_id_of_a_post_of_another_author_changes_nothing(tmp_path: Path) -> None:
    old = source(tmp_path)
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", media=f"file://{tmp_path}/media") as shoal:
        await run(shoal, old, MAP)
        change(tmp_path, "posts", 1, author=2, text="of Ben", changed=T0 + 100)
        change(tmp_path, "posts", 2, author=2, gone=T0 + 100, changed=T0 + 100)
        report = await run(shoal, old, MAP)
        assert updates(report) == NOTHING
        reason = "id: a post or comment of another author was imported with this id"
        assert report.counts["posts"].refused[reason].examples == ["row 1: 1", "row 2: 2"]
        assert [(await post(shoal, id_)).text for id_ in (1, 2)] == ["post 1 #sea", "post 2 #sea"]
