"""Archive import: posts with dates, threads, photos and follows, without notifications, and idempotent."""

from __future__ import annotations

import asyncio
import csv
import json
import zipfile
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import UTC, datetime
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shoal import Shoal
from shoal.admin.archives.importer import import_archive
from shoal.admin.archives.records import ArchiveReport, Omission
from shoal.admin.consistency.check import check
from shoal.admin.export import export
from shoal.commands import moderation
from shoal.core.errors import Gone
from shoal.core.model import Media, Post, Visibility
from shoal.graph import media as media_life
from shoal.graph.contract import Cursor
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import OWNS
from shoal.library import Handle
from tests.archives import factories
from tests.archives.factories import FOLLOWERS, PUBLIC
from tests.async_runner import eventually, in_loop
from tests.flows.members import connected


def opened(**settings: Any) -> AbstractAsyncContextManager[Shoal]:
    return Shoal.open("memory://", base_url="https://shoal.example", **settings)


async def taken(shoal: Shoal, who: Handle, path: Path, **options: Any) -> ArchiveReport:
    """Import an archive and process all pending work."""
    report = await import_archive(shoal.network, who.id, path, **{"dry_run": False, **options})
    await shoal.settle()
    return report


def reasons(report: ArchiveReport) -> dict[tuple[str, Omission], int]:
    return {(one.kind, one.reason): one.count for one in report.omitted}


async def read(shoal: Shoal, who: Handle, folder: Path, name: str = "out.zip") -> dict[str, Any]:
    """Return the contents of a member's export, including the photos."""
    await export(shoal.network, who.name, folder / name)
    with zipfile.ZipFile(folder / name) as archive:
        found: dict[str, Any] = {
            noun: json.loads(archive.read(f"{noun}.json")) for noun in ("posts", "comments", "media")
        }
        found["follows"] = list(csv.DictReader(TextIOWrapper(BytesIO(archive.read("follows.csv")), "utf-8")))
        found["files"] = {name: archive.read(name) for name in archive.namelist() if name.startswith("media/")}
    return found


def of_mastodon(folder: Path) -> Path:
    """Return a Mastodon archive with one activity of each type."""
    ids = [factories.note(n, "")["object"]["id"] for n in range(9)]
    name = "media_attachments/files/109/001/original/3f2a.jpeg"
    bob = "https://other.example/users/bob"
    activities = [
        factories.note(1, "<p>Low tide #dawn</p>", attachment=[factories.document(f"/{name}", "A gull")]),
        factories.note(2, "<p>And further</p>", inReplyTo=ids[1]),
        factories.note(3, "<p>Quiet, @ben</p>", to=[FOLLOWERS], cc=[], summary="Hush"),
        factories.note(4, "<p>To Bob</p>", inReplyTo=f"{bob}/statuses/1"),
        factories.note(5, "<p>Psst</p>", to=[bob], cc=[]),
        factories.announce(6, f"{bob}/statuses/2"),
        factories.note(7, "<p>Unlisted</p>", to=[FOLLOWERS], cc=[PUBLIC]),
    ]
    files = factories.mastodon_files(activities, {name: factories.picture()})
    addresses = ["@ben@shoal.example", "cyd@shoal.example", "ben@elsewhere.example", "dan@elsewhere.example"]
    rows = "".join(f"{address},true,false,\n" for address in addresses)
    files["following_accounts.csv"] = f"Account address,Show boosts,Notify on new posts,Languages\n{rows}"
    return factories.zipped(folder / "mastodon.zip", files)


@in_loop
async def test_archive_import_dry_run_reports_without_changes(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        await shoal.register("ben")
        report = await taken(shoal, ann, of_mastodon(tmp_path), dry_run=True)
        found = report.found
        assert (found.posts, found.comments, found.photos, found.follows) == (3, 1, 1, 1)
        assert (report.with_photos, report.finished, report.account) == (1, False, factories.ANN)
        assert [sample.text for sample in report.samples] == [
            "Low tide #dawn",
            "And further",
            "Quiet, @ben",
            "Unlisted",
        ]
        assert reasons(report) == {
            ("posts", Omission.REPLY): 1,
            ("posts", Omission.DIRECT): 1,
            ("posts", Omission.BOOST): 1,
            ("follows", Omission.ELSEWHERE): 2,
            ("follows", Omission.UNSURE): 1,
        }
        out = await read(shoal, ann, tmp_path)
        assert (out["posts"], out["media"], out["follows"]) == ([], [], [])


@in_loop
async def test_archive_import_keeps_dates_threads_photos_and_visibility(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        await shoal.register("ben")
        report = await taken(shoal, ann, of_mastodon(tmp_path))
        assert report.finished
        assert (report.taken, report.there.posts) == (report.found, 0)
        out = await read(shoal, ann, tmp_path)
        told = {post["text"]: post for post in out["posts"]}
        assert list(told) == ["Unlisted", "Quiet, @ben", "Low tide #dawn"]
        assert told["Low tide #dawn"]["written"] == "2022-11-05T08:31:15.000+00:00"
        assert told["Low tide #dawn"]["tags"] == ["dawn"]
        assert [told[text]["visibility"] for text in told] == ["unlisted", "followers", "public"]
        assert (told["Quiet, @ben"]["spoiler"], told["Quiet, @ben"]["sensitive"]) == ("Hush", True)
        (comment,) = out["comments"]
        assert (comment["text"], comment["in_answer_to"]) == ("And further", told["Low tide #dawn"]["id"])
        assert [medium["description"] for medium in out["media"]] == ["A gull"]
        assert [row["name"] for row in out["follows"]] == ["ben"]
        # The text mentions a Ben of another server, so the local Ben is not mentioned.
        quiet = (await shoal.network.store.obj_get((int(told["Quiet, @ben"]["id"]),)))[int(told["Quiet, @ben"]["id"])]
        assert isinstance(quiet, Post)
        assert quiet.mentions == ()
        assert (await check(shoal.network)).clean


@in_loop
async def test_archive_import_sends_no_post_notifications_and_orders_home_timeline_by_date(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann, ben, cyd = [await shoal.register(name) for name in ("ann", "ben", "cyd")]
        await ben.follow(ann, notify=True)
        await ben.follow(cyd)
        await ben.follow_tag("dawn")
        await cyd.create("Of today")
        # The timeline is cached from here on.
        assert [entry.post.text for entry in (await ben.home()).entries] == ["Of today"]
        await shoal.settle()
        async with aclosing(ben.live()) as live:
            heard = asyncio.ensure_future(anext(live))
            await eventually(partial(connected, shoal), 1)
            await taken(shoal, ann, of_mastodon(tmp_path))
            await cyd.create("Later")
            assert "Later" in str(await asyncio.wait_for(heard, 60))
        # An imported follow has the current date and creates a notification.
        told = (await ben.notifications.page()).items
        assert [(one.notice.kind, one.notice.actor_id) for one in told] == [(Kind.FOLLOW, ann.id)]
        assert [entry.post.text for entry in (await ben.home()).entries] == [
            "Later",
            "Of today",
            "Unlisted",
            "Quiet, @ben",
            "And further",
            "Low tide #dawn",
        ]
        assert (await check(shoal.network)).clean


@in_loop
async def test_archive_import_into_full_home_timeline_keeps_newer_posts(tmp_path: Path) -> None:
    """Ids older than a full timeline are dropped; ids within its range are inserted."""
    async with opened(timeline_length=30) as shoal:
        ann, ben, cyd = [await shoal.register(name) for name in ("ann", "ben", "cyd")]
        await ben.follow(ann)
        await ben.follow(cyd)
        earlier = [await cyd.create(f"Earlier {number}") for number in range(20)]
        await asyncio.sleep(0.01)
        between = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        await asyncio.sleep(0.01)
        later = [await cyd.create(f"Later {number}") for number in range(20)]
        assert len((await ben.home(limit=40)).entries) == 40
        await shoal.settle()
        notes = [factories.note(n, f"<p>Old {n} #dawn</p>") for n in range(60)]
        notes.append(factories.note(99, "<p>Between</p>", published=between))
        await taken(shoal, ann, factories.zipped(tmp_path / "m.zip", factories.mastodon_files(notes)))
        assert (await check(shoal.network)).clean
        texts = [entry.post.text for entry in (await ben.home(limit=42)).entries]
        of_cyd = [post.text for post in (*reversed(later), *reversed(earlier))]
        assert texts == [*of_cyd[:20], "Between", *of_cyd[20:], "Old 59 #dawn"]


@in_loop
async def test_archive_import_repeated_is_idempotent_and_keeps_deletions(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        await shoal.register("ben")
        path = of_mastodon(tmp_path)
        first = await taken(shoal, ann, path)
        out = await read(shoal, ann, tmp_path)
        again = await taken(shoal, ann, path)
        assert (again.there, again.taken.posts, again.taken.photos) == (first.taken, 0, 0)
        assert await read(shoal, ann, tmp_path, "again.zip") == out
        await ann.delete(int(out["posts"][0]["id"]))
        third = await taken(shoal, ann, path)
        assert reasons(third)["posts", Omission.DELETED] == 1
        assert [post["text"] for post in (await read(shoal, ann, tmp_path, "third.zip"))["posts"]] == [
            "Quiet, @ben",
            "Low tide #dawn",
        ]


@in_loop
async def test_archive_import_limits_visibility_to_chosen_maximum(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        await taken(shoal, ann, of_mastodon(tmp_path), widest=Visibility.FOLLOWERS)
        out = await read(shoal, ann, tmp_path)
        assert {post["visibility"] for post in (*out["posts"], *out["comments"])} == {"followers"}


def album(path: Path, number: int, unreadable: tuple[int, ...] = (), title: str = "Zehn für dich") -> Path:
    """Return an Instagram archive with a single post of n photos, some of them unreadable."""
    uris = [f"media/posts/202211/{n}_n.jpg" for n in range(number)]
    post = {
        "media": [factories.instagram_file(uri, 1_667_640_000) for uri in uris],
        "title": factories.mojibake(title),
        "creation_timestamp": 1_667_640_000,
    }
    files = {uri: b"no picture" if n in unreadable else factories.picture(f"#{n}{n}8844") for n, uri in enumerate(uris)}
    files["your_instagram_activity/media/posts_1.json"] = json.dumps([post]).encode()
    return factories.zipped(path, files)


@in_loop
async def test_archive_import_moves_excess_photos_into_comments(tmp_path: Path) -> None:
    path = album(tmp_path / "instagram.zip", 10, (4,))
    async with opened(max_media_per_post=4) as shoal:
        ann = await shoal.register("ann")
        report = await taken(shoal, ann, path)
        assert (report.taken.posts, report.taken.photos, report.continued) == (1, 9, 1)
        assert reasons(report) == {("photos", Omission.UNREADABLE): 1}
        out = await read(shoal, ann, tmp_path)
        assert [len(post["media"]) for post in out["posts"]] == [4]
        assert sorted(len(post["media"]) for post in out["comments"]) == [2, 3]
        assert {post["in_answer_to"] for post in out["comments"]} == {out["posts"][0]["id"]}
        again = await taken(shoal, ann, path)
        assert again.taken.posts == again.taken.comments == 0
        assert len((await read(shoal, ann, tmp_path, "again.zip"))["comments"]) == 2


@in_loop
async def test_archive_import_and_export_keep_ten_photos_in_one_post(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann, ben = [await shoal.register(name) for name in ("ann", "ben")]
        report = await taken(shoal, ann, album(tmp_path / "instagram.zip", 10))
        assert (report.taken.posts, report.taken.photos, report.continued) == (1, 10, 0)
        first = await read(shoal, ann, tmp_path)
        await taken(shoal, ben, tmp_path / "out.zip")
        second = await read(shoal, ben, tmp_path, "again.zip")
        assert [[len(post["media"]) for post in out["posts"]] for out in (first, second)] == [[10], [10]]
        assert first["comments"] == second["comments"] == []


@in_loop
async def test_archive_import_of_shoal_export_round_trips(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann, ben, cyd, eve = [await shoal.register(name) for name in ("ann", "ben", "cyd", "eve")]
        media = await ann.upload(factories.picture("teal"), description="A teal square", focus=(0.5, -0.25))
        post = await ann.create(
            "Low tide, “quoted”, \n#dawn", media=[media], place=(10.5, 2.25), data={"a": [1]}, language="en"
        )
        await ann.create("Followers only", visibility="followers", spoiler="Hush")
        await ann.comment(post, "And further")
        await ann.comment(await ben.create("Of Ben"), "Hi")
        await ann.follow(ben)
        await ann.follow(cyd)
        await taken(shoal, ann, of_mastodon(tmp_path))
        before = await read(shoal, ann, tmp_path, "ann.zip")
        report = await taken(shoal, eve, tmp_path / "ann.zip")
        assert reasons(report) == {("posts", Omission.REPLY): 1}
        after = await read(shoal, eve, tmp_path, "eve.zip")
        assert said(after) == said(before, without="Hi")
        assert {row["name"] for row in after["follows"]} == {"ben", "cyd"}
        # A second import of the account's own export adds nothing.
        own = await taken(shoal, eve, tmp_path / "eve.zip")
        assert (own.taken.posts, own.taken.comments, own.taken.photos, own.taken.follows) == (0, 0, 0, 0)
        assert said(await read(shoal, eve, tmp_path, "third.zip")) == said(after)
        assert (await check(shoal.network)).clean


def said(out: dict[str, Any], without: str | None = None) -> list[Any]:
    """Return the posts and photos of an export without their ids."""
    media = {medium["file"]: (medium["description"], medium["focus"]) for medium in out["media"]}
    texts = {post["id"]: post["text"] for post in (*out["posts"], *out["comments"])}
    told = ("written", "visibility", "language", "sensitive", "spoiler", "text", "tags", "place", "data")
    return [
        (
            {name: post[name] for name in told},
            texts.get(post["in_answer_to"]),
            [(media[name], _size(out["files"][name])) for name in post["media"]],
        )
        for post in sorted((*out["posts"], *out["comments"]), key=lambda post: (post["written"], post["text"]))
        if post["text"] != without
    ]


def _size(data: bytes) -> tuple[int, int]:
    with Image.open(BytesIO(data)) as opened:
        return opened.size


@in_loop
async def test_archive_import_of_posts_with_equal_timestamps_keeps_both(tmp_path: Path) -> None:
    notes = [factories.note(n, f"<p>{n}</p>", published="2025-01-01T00:00:00Z") for n in range(30)]
    when = {"created_at": "Wed Jan 01 00:00:00 +0000 2025"}
    scripts = {
        "data/tweets.js": factories.script("tweets.part0", [factories.tweet(n, f"X {n}", **when) for n in range(30)])
    }
    async with opened() as shoal:
        ann = await shoal.register("ann")
        one = await taken(shoal, ann, factories.zipped(tmp_path / "m.zip", factories.mastodon_files(notes)))
        other = await taken(shoal, ann, factories.zipped(tmp_path / "x.zip", scripts))
        assert (one.taken.posts, other.taken.posts, other.omitted) == (30, 30, [])
        posts = (await read(shoal, ann, tmp_path))["posts"]
        assert len({post["id"] for post in posts}) == 60
        assert {post["written"] for post in posts} == {"2025-01-01T00:00:00.000+00:00"}


@in_loop
async def test_archive_import_by_suspended_member_is_refused(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        await moderation.suspend(shoal.network.writes, ann.id)
        with pytest.raises(Gone):
            await taken(shoal, ann, of_mastodon(tmp_path))


@in_loop
async def test_archive_import_omits_photos_above_storage_quota(tmp_path: Path) -> None:
    async with opened(max_member_bytes=100) as shoal:
        ann = await shoal.register("ann")
        report = await taken(shoal, ann, of_mastodon(tmp_path))
        assert reasons(report)["photos", Omission.OVER_QUOTA] == 1
        assert (report.taken.posts, report.taken.photos) == (3, 0)


@in_loop
async def test_archive_import_repeated_stores_photo_again_that_was_deleted_while_unattached(tmp_path: Path) -> None:
    """A run that stops between a photo and its post leaves an unattached photo, which is deleted after a day."""

    def archive(name: str, value: str) -> Path:
        told = {"id": "5", "written": "2024-05-01T00:00:00.000+00:00", "visibility": "public", "text": "Here"}
        files = {
            "profile.json": json.dumps({"id": "1", "name": "ann", "joined": "2024-05-01"}),
            "posts.json": json.dumps([{**told, "data": value, "media": ["media/a.jpg"]}]),
            "comments.json": "[]",
            "media.json": json.dumps([{"file": "media/a.jpg", "kind": "image", "description": "A gull"}]),
            "media/a.jpg": factories.picture(),
        }
        return factories.zipped(tmp_path / f"{name}.zip", files)

    async with opened() as shoal:
        ann = await shoal.register("ann")
        refused = await taken(shoal, ann, archive("large", "a" * 1_000_000))
        assert reasons(refused) == {("posts", Omission.REFUSED): 1}
        store = shoal.network.store
        (owned,) = await store.assoc_range(ann.id, OWNS, Cursor(limit=10))
        photo = (await store.obj_get((owned.id2,)))[owned.id2]
        assert isinstance(photo, Media)
        await media_life.delete(shoal.network.writes.graph, shoal.network.writes.new_id, photo)
        report = await taken(shoal, ann, archive("small", "a"))
        assert (report.taken.posts, report.taken.photos) == (1, 1)
        out = await read(shoal, ann, tmp_path)
        assert [medium["description"] for medium in out["media"]] == ["A gull"]
        assert (await taken(shoal, ann, archive("small", "a"))).there.photos == 1
        assert (await check(shoal.network)).clean


@in_loop
async def test_archive_import_of_post_with_undecodable_photo_keeps_text(tmp_path: Path) -> None:
    heic = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(200)
    files = {
        "content/posts_1.json": json.dumps(
            [
                {"media": [factories.instagram_file(f"media/{name}", 1_667_640_000)], "title": "By the sea"}
                for name in ("a.heic",)
            ]
        ),
        "media/a.heic": heic,
    }
    async with opened() as shoal:
        ann = await shoal.register("ann")
        report = await taken(shoal, ann, factories.zipped(tmp_path / "i.zip", files))
        assert (report.taken.posts, report.taken.photos) == (1, 0)
        (omitted,) = report.omitted
        assert (omitted.kind, omitted.reason, omitted.count) == ("photos", Omission.UNREADABLE, 1)
        assert omitted.examples[0].startswith("media/a.heic: ")
        assert [entry.post.text for entry in (await ann.posts()).entries] == ["By the sea"]
