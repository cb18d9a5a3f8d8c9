"""The maps that are part of Shoal, on a database made by the project or with its tables."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports.maps import parse_map, read_map, ready_maps
from shoal.admin.database_imports.run import ImportMapped
from shoal.admin.database_imports.session import ImportOptions
from shoal.admin.imports.records import ImportReport
from shoal.admin.report import nothing
from shoal.core.model import Member, Post, Visibility
from tests.async_runner import in_loop
from tests.engines import mariadb, postgres

ISSUER = "https://old.example"


async def imported(shoal: Shoal, name: str, source: str, media: Path | None = None) -> ImportReport:
    operation = ImportMapped(read_map(name), source, ISSUER, ImportOptions(media=media))
    report = await operation.carry_out(shoal.network, nothing)
    assert (await check(shoal.network)).clean
    again = await operation.carry_out(shoal.network, nothing)
    assert {kind: found.taken for kind, found in again.counts.items() if found.taken} == {}
    return report


def numbers(report: ImportReport) -> dict[str, tuple[int, int]]:
    """Return how many records of each kind were imported and rejected."""
    return {kind: (found.taken, found.refusals) for kind, found in report.counts.items()}


async def post(shoal: Shoal, id_: int) -> Post:
    found = await shoal.external_ids.find("posts", ISSUER, str(id_))
    node = (await shoal.network.store.obj_get([found]))[found]
    assert isinstance(node, Post)
    return node


async def member(shoal: Shoal, id_: int) -> Member:
    found = (await shoal.external_ids.member(ISSUER, str(id_))).id
    node = (await shoal.network.store.obj_get([found]))[found]
    assert isinstance(node, Member)
    return node


def create(url: str, tables: dict[str, tuple[str, list[dict[str, Any]]]]) -> None:
    """Create tables with columns in SQL, and insert their rows."""
    engine = sa.create_engine(url)
    quote = engine.dialect.identifier_preparer.quote
    with engine.begin() as connection:
        for name, (columns, rows) in tables.items():
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {name}"))
            connection.execute(sa.text(f"CREATE TABLE {name} ({columns})"))
            for row in rows:
                names, marks = ", ".join(map(quote, row)), ", ".join(f":{column}" for column in row)
                connection.execute(sa.text(f"INSERT INTO {name} ({names}) VALUES ({marks})"), row)  # noqa: S608
    engine.dispose()


@pytest.mark.parametrize("name", ready_maps())
def test_ready_map_is_valid_and_needs_an_issuer(name: str) -> None:
    assert {section.kind for section in parse_map(read_map(name), ISSUER).sections} >= {"members", "follows", "posts"}
    assert "issuer" not in read_map(name).splitlines()


@in_loop
async def test_django_activity_stream_map_imports_users_actions_comments_and_likes(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    made = [sys.executable, "-W", "ignore", "-m", "tests.ops.activity_stream_site", str(path)]
    await asyncio.to_thread(subprocess.run, made, check=True, cwd=Path(__file__).parents[2])
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        report = await imported(shoal, "django-activity-stream", f"sqlite:///{path}")
        assert numbers(report) == {
            "members": (3, 0),
            "follows": (1, 0),
            "posts": (2, 0),
            "comments": (1, 0),
            "likes": (1, 0),
        }
        ann, ben = await member(shoal, 1), await shoal.external_ids.member(ISSUER, "2")
        assert (ann.name, ann.display_name) == ("ann", "Ann Lee")
        assert datetime.fromtimestamp(ann.created_at / 1000).year == 2020  # noqa: DTZ006
        entries = (await ben.posts()).entries
        (hidden,) = (entry.post for entry in entries)
        assert (hidden.text, hidden.visibility) == ("reached level 60", Visibility.DIRECT)
        (joined,) = (await (await shoal.member("ann")).posts()).entries
        assert joined.post.text == "Ann joined the sailors"
        assert joined.post.created_at == 1_612_325_106_000
        assert (joined.likes, joined.comments) == (1, 1)


@in_loop
async def test_stream_framework_map_imports_pins_with_their_pictures(tmp_path: Path) -> None:
    (tmp_path / "media" / "items").mkdir(parents=True)
    Image.new("RGB", (40, 30), "teal").save(tmp_path / "media" / "items" / "a.jpg")
    when = "2014-05-06 07:08:09"
    user = "id integer, username text, first_name text, last_name text, is_active bool, date_joined timestamp"
    people = [
        {"id": id_, "username": name, "first_name": "", "last_name": "", "is_active": True, "date_joined": when}
        for id_, name in enumerate(("ann", "ben"), 1)
    ]
    item: dict[str, Any] = {"user_id": 1, "source_url": "https://x.example"}
    items: list[dict[str, Any]] = [
        {"id": 5, "image": "items/a.jpg", "message": "A sea"},
        {"id": 6, "image": "items/lost.jpg", "message": ""},
    ]
    pins: list[dict[str, Any]] = [
        {"id": 1, "item_id": 5, "message": ""},
        {"id": 2, "item_id": 5, "message": "Mine"},
        {"id": 3, "item_id": 6, "message": None},
    ]
    url = f"sqlite:///{tmp_path}/site.db"
    create(
        url,
        {
            "auth_user": (user, people),
            "core_follow": (
                "id integer, user_id integer, target_id integer, created_at timestamp",
                [{"id": 1, "user_id": 1, "target_id": 2, "created_at": when}],
            ),
            "core_item": (
                "id integer, user_id integer, image text, source_url text, message text",
                [item | each for each in items],
            ),
            "core_pin": (
                "id integer, user_id integer, item_id integer, board_id integer, influencer_id integer, "
                "message text, created_at timestamp",
                [{"user_id": 2, "board_id": 1, "influencer_id": 1, "created_at": when} | pin for pin in pins],
            ),
        },
    )
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        report = await imported(shoal, "stream-framework", url, tmp_path / "media")
        assert numbers(report) == {"members": (2, 0), "follows": (1, 0), "posts": (2, 1), "media": (2, 1)}
        assert [(await post(shoal, id_)).text for id_ in (1, 2)] == ["A sea", "Mine"]
        assert len((await post(shoal, 1)).media) == 1


MASTODON = {
    "accounts": (
        "id bigint, username varchar, domain varchar, note text, display_name varchar, created_at timestamp, "
        "suspended_at timestamp, updated_at timestamp, avatar_file_name varchar, header_file_name varchar"
    ),
    "users": "id bigint, account_id bigint, locale varchar, confirmed_at timestamp, approved boolean",
    "follows": "id bigint, account_id bigint, target_account_id bigint, created_at timestamp",
    "statuses": (
        "id bigint, text text, created_at timestamp, in_reply_to_id bigint, reblog_of_id bigint, sensitive boolean, "
        "visibility integer, spoiler_text text, language varchar, account_id bigint, deleted_at timestamp, "
        "updated_at timestamp, edited_at timestamp"
    ),
    "media_attachments": "id bigint, status_id bigint, file_file_name varchar, remote_url varchar, type integer, description text",
    "favourites": "id bigint, account_id bigint, status_id bigint, created_at timestamp",
    "bookmarks": "id bigint, account_id bigint, status_id bigint, created_at timestamp",
    "mutes": "id bigint, account_id bigint, target_account_id bigint, hide_notifications boolean, expires_at timestamp",
    "blocks": "id bigint, account_id bigint, target_account_id bigint, created_at timestamp",
}
"""The columns of Mastodon's schema of 2025-12-17 that the map reads, with their types."""


def mastodon_rows() -> dict[str, list[dict[str, Any]]]:
    when = datetime(2023, 4, 5, 6, 7, 8)  # noqa: DTZ001
    account = {"domain": None, "note": "Sails", "display_name": "", "created_at": when, "suspended_at": None}
    account |= {"updated_at": when, "avatar_file_name": None, "header_file_name": None}
    people = [
        {"id": 1, "username": "ann", "avatar_file_name": "me.png", "header_file_name": "sea.png"},
        {"id": 2, "username": "ben"},
        {"id": 3, "username": "cyd", "domain": "far.example"},
    ]
    status: dict[str, Any] = {
        "in_reply_to_id": None,
        "reblog_of_id": None,
        "sensitive": False,
        "visibility": 0,
        "spoiler_text": "",
    }
    status |= {"language": "en", "created_at": when, "deleted_at": None, "text": "Low tide"}
    status |= {"updated_at": when, "edited_at": None}
    return {
        "accounts": [account | each for each in people],
        "users": [
            {"id": 10 + id_, "account_id": id_, "locale": "de", "confirmed_at": when, "approved": True}
            for id_ in (1, 2)
        ],
        "follows": [
            {"id": id_, "account_id": 1, "target_account_id": other, "created_at": when}
            for id_, other in ((1, 2), (2, 3))
        ],
        "statuses": [
            status | {"id": 109_876_543_210_987_654, "account_id": 1, "visibility": 1, "spoiler_text": "sea"},
            status | {"id": 109_876_543_210_987_660, "account_id": 1, "visibility": 2},
            status | {"id": 109_876_543_210_987_661, "account_id": 2, "visibility": 3},
            status | {"id": 109_876_543_210_987_662, "account_id": 2, "in_reply_to_id": 109_876_543_210_987_654},
            status | {"id": 109_876_543_210_987_663, "account_id": 2, "reblog_of_id": 109_876_543_210_987_654},
            status | {"id": 109_876_543_210_987_664, "account_id": 3},
        ],
        "media_attachments": [
            {"id": 109_876_543_210_000_001, "status_id": 109_876_543_210_987_654, "file_file_name": "a.png"}
            | {"remote_url": "", "type": 0, "description": "Waves"}
        ],
        "favourites": [
            {"id": 1, "account_id": 2, "status_id": 109_876_543_210_987_654, "created_at": when},
            {"id": 2, "account_id": 2, "status_id": 109_876_543_210_987_664, "created_at": when},
        ],
        "bookmarks": [{"id": 1, "account_id": 2, "status_id": 109_876_543_210_987_654, "created_at": when}],
        "mutes": [
            {"id": 1, "account_id": 1, "target_account_id": 2, "hide_notifications": False, "expires_at": None},
            {"id": 2, "account_id": 1, "target_account_id": 3, "hide_notifications": True, "expires_at": None},
        ],
        "blocks": [{"id": 1, "account_id": 1, "target_account_id": 3, "created_at": when}],
    }


@in_loop
async def test_mastodon_map_imports_local_posts_with_photos_replies_and_favorites(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = (
        "media_attachments/files/109/876/543/210/000/001/original/a.png",
        "accounts/avatars/000/000/001/original/me.png",
        "accounts/headers/000/000/001/original/sea.png",
    )
    for name in files:
        (tmp_path / "system" / name).parent.mkdir(parents=True)
        Image.new("RGB", (40, 30), "teal").save(tmp_path / "system" / name)
    url, rows = await postgres.database(request.node), mastodon_rows()
    create(
        url.replace("postgresql:", "postgresql+pg8000:"),
        {name: (columns, rows[name]) for name, columns in MASTODON.items()},
    )
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        report = await imported(shoal, "mastodon", url, tmp_path / "system")
        expected = {
            "members": (2, 0),
            "pictures": (2, 0),
            "follows": (1, 0),
            "posts": (2, 0),
            "media": (1, 0),
            "comments": (1, 0),
            "shares": (1, 0),
            "likes": (1, 0),
            "bookmarks": (1, 0),
            "mutes": (1, 0),
            "blocks": (0, 0),
        }
        assert numbers(report) == expected
        first = await post(shoal, 109_876_543_210_987_654)
        assert (first.visibility, first.spoiler, first.language, len(first.media)) == (
            Visibility.UNLISTED,
            "sea",
            "en",
            1,
        )
        assert first.created_at == 1_680_674_828_000
        assert (await post(shoal, 109_876_543_210_987_660)).visibility is Visibility.FOLLOWERS
        assert (await post(shoal, 109_876_543_210_987_662)).parent_id == first.id
        assert first.media == (await shoal.external_ids.find("media", ISSUER, "109876543210000001"),)
        assert (await member(shoal, 1)).default_language == "de"
        assert (await member(shoal, 1)).avatar
        assert (await member(shoal, 1)).header
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+pg8000:"))
        with engine.begin() as connection:
            edit = "UPDATE statuses SET text = 'High tide', edited_at = now(), updated_at = now() WHERE id = :id"
            connection.execute(sa.text(edit), {"id": 109_876_543_210_987_660})
            delete = "UPDATE statuses SET deleted_at = now(), updated_at = now() WHERE id = 109876543210987662"
            connection.execute(sa.text(delete))
        engine.dispose()
        again = await imported(shoal, "mastodon", url, tmp_path / "system")
        assert {kind: (found.taken, found.changed, found.deleted) for kind, found in again.counts.items()} == {
            kind: {"posts": (0, 1, 0), "comments": (0, 0, 1)}.get(kind, (0, 0, 0)) for kind in again.counts
        }
        assert (await post(shoal, 109_876_543_210_987_660)).text == "High tide"


PIXELFED = {
    "profiles": (
        "id bigint, user_id bigint, domain varchar(255), username varchar(255), name varchar(255), bio text, "
        "status varchar(255), created_at timestamp NULL, updated_at timestamp NULL, deleted_at timestamp NULL"
    ),
    "avatars": "id bigint, profile_id bigint, media_path varchar(255), remote_url varchar(255)",
    "followers": "id bigint, profile_id bigint, following_id bigint, created_at timestamp NULL",
    "statuses": (
        "id bigint, uri varchar(255), caption text, profile_id bigint, in_reply_to_id bigint, reblog_of_id bigint, "
        "is_nsfw boolean, scope varchar(255), cw_summary varchar(255), type varchar(255), "
        "created_at timestamp NULL, updated_at timestamp NULL, edited_at timestamp NULL, deleted_at timestamp NULL"
    ),
    "media": (
        "id bigint, status_id bigint, media_path varchar(255), caption text, mime varchar(255), {order} smallint, "
        "deleted_at timestamp NULL"
    ),
    "likes": "id bigint, profile_id bigint, status_id bigint, created_at timestamp NULL, deleted_at timestamp NULL",
    "bookmarks": "id bigint, profile_id bigint, status_id bigint, created_at timestamp NULL",
    "user_filters": (
        "id bigint, user_id bigint, filterable_id bigint, filterable_type varchar(255), filter_type varchar(255)"
    ),
}
"""The columns of the migrations of Pixelfed 0.12 that the map reads, with their types."""


def pixelfed_rows() -> dict[str, list[dict[str, Any]]]:
    when = datetime(2022, 4, 5, 6, 7, 8)  # noqa: DTZ001
    profile = {
        "user_id": 5,
        "domain": None,
        "name": "",
        "bio": "Sails<br>far",
        "status": None,
        "deleted_at": None,
        "created_at": when,
        "updated_at": when,
    }
    status: dict[str, Any] = {
        "uri": None,
        "in_reply_to_id": None,
        "reblog_of_id": None,
        "is_nsfw": False,
        "scope": "public",
        "type": "photo",
    }
    status |= {"cw_summary": None, "created_at": when, "deleted_at": None, "caption": "Low tide #sea"}
    status |= {"updated_at": when, "edited_at": None}
    muted = {"user_id": 1, "filterable_id": 2, "filterable_type": "App\\Profile"}
    photo = {"status_id": 100, "mime": "image/png", "deleted_at": None}
    return {
        "profiles": [
            profile | {"id": 1, "username": "ann"},
            profile | {"id": 2, "username": "ben"},
            profile | {"id": 3, "username": "cyd", "domain": "far.example"},
        ],
        "followers": [
            {"id": 1, "profile_id": 2, "following_id": 1, "created_at": when},
            {"id": 2, "profile_id": 2, "following_id": 3, "created_at": when},
        ],
        "statuses": [
            status | {"id": 100, "profile_id": 1, "is_nsfw": True, "scope": "private"},
            status | {"id": 101, "profile_id": 2, "in_reply_to_id": 100, "type": "reply", "caption": "So calm"},
            status | {"id": 102, "profile_id": 1, "scope": "draft"},
            status | {"id": 103, "profile_id": 3, "uri": "https://far.example/1"},
            status | {"id": 104, "profile_id": 1, "deleted_at": when},
            status | {"id": 105, "profile_id": 1, "caption": "Open"},
            status | {"id": 106, "profile_id": 2, "reblog_of_id": 105, "type": "share", "caption": None},
        ],
        "avatars": [
            {"id": 1, "profile_id": 1, "media_path": "public/m/a.png", "remote_url": None},
            {"id": 2, "profile_id": 2, "media_path": "public/avatars/default.jpg", "remote_url": None},
        ],
        "bookmarks": [{"id": 1, "profile_id": 2, "status_id": 105, "created_at": when}],
        "user_filters": [muted | {"id": 1, "filter_type": "mute"}, muted | {"id": 2, "filter_type": "block"}],
        "media": [
            photo | {"id": 7, "media_path": "public/m/b.png", "caption": "second", "order": 2},
            photo | {"id": 8, "media_path": "public/m/a.png", "caption": "first", "order": 1},
            photo | {"id": 9, "media_path": "../../secret.png", "caption": None, "order": 3},
        ],
        "likes": [{"id": 1, "profile_id": 2, "status_id": 100, "created_at": when, "deleted_at": None}],
    }


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
@in_loop
async def test_pixelfed_map_imports_albums_in_order_with_replies_and_likes(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "app" / "public" / "m").mkdir(parents=True)
    for name in ("app/public/m/a.png", "app/public/m/b.png", "secret.png"):
        Image.new("RGB", (40, 30), "teal").save(tmp_path / name)
    url = await postgres.database(request.node) if engine == "postgresql" else mariadb.database()
    order, rows = ('"order"' if engine == "postgresql" else "`order`"), pixelfed_rows()
    tables = {name: (columns.replace("{order}", order), rows[name]) for name, columns in PIXELFED.items()}
    create(url.replace("postgresql:", "postgresql+pg8000:").replace("mysql:", "mysql+pymysql:"), tables)
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        report = await imported(shoal, "pixelfed", url, tmp_path / "app")
        expected = {
            "members": (2, 0),
            "pictures": (1, 0),
            "follows": (1, 0),
            "posts": (2, 0),
            "media": (2, 1),
            "comments": (1, 0),
            "shares": (1, 0),
            "likes": (1, 0),
            "bookmarks": (1, 0),
            "mutes": (1, 0),
            "blocks": (1, 0),
        }
        assert numbers(report) == expected
        assert list(report.counts["media"].refused) == ["path: outside the folder of --media"]
        album = await post(shoal, 100)
        assert (album.visibility, album.sensitive, album.tags) == (Visibility.FOLLOWERS, True, ("sea",))
        assert album.media == tuple([await shoal.external_ids.find("media", ISSUER, id_) for id_ in ("8", "7")])
        assert (await member(shoal, 1)).note == "Sails\nfar"
        assert (await post(shoal, 101)).parent_id == album.id
