"""A member export contains all data of the member and no posts hidden from the member."""

from __future__ import annotations

import asyncio
import csv
import json
import time
import zipfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shoal import Shoal
from shoal.admin import export as streamed_export
from shoal.admin import export_writer
from shoal.admin.export import export, streamed
from shoal.commands import filters, lists, members, oauth, polls, posts, reactions, relationships, scheduled_posts, tags
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.filters import FilterContext
from shoal.core.model import RepliesPolicy, Visibility
from shoal.core.tokens import Origin
from shoal.library import Handle
from tests.async_runner import in_loop


def picture(color: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (32, 24), color).save(file, "JPEG")
    return file.getvalue()


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as opened:
        return opened.size


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def ann_in(shoal: Shoal) -> Handle:
    """Create Ann with data of every kind."""
    ann, ben = await shoal.register("ann", "a long password", email="ann@example.org"), await shoal.register("ben")
    await ann.feeds.create("All", {"sources": [{"from": "everybody"}]})
    weight = {"type": "number", "default": 1, "minimum": 0, "maximum": 9}
    order = {"by": "expression", "expression": "likes * $weight"}
    best = {"sources": [{"from": "everybody"}], "order": order, "parameters": {"weight": weight}}
    await shoal.server_feeds.create("best", best, title="The best")
    await ann.feeds.follow("best")
    await ann.feeds.set_parameters("best", {"weight": 2})
    await ann.update_profile(note="By the sea", avatar=picture("red"), findable_by_email=True)
    media = await ann.upload(picture("teal"), description="A teal square")
    post = await ann.create("Low tide, “quoted”, \n#dawn", media=[media], place=(0.0, 2.50123), data={"a": [1]})
    await ann.update(post, "High tide #dawn")
    await ann.albums.put_in(await ann.albums.create("Tides", "Low and high"), post)
    theirs = await ben.create("Hello, “Ann”")
    secret = await ben.create("For Ben's followers", visibility="followers")
    await ann.follow(ben)
    await ann.bookmark(secret)
    await ann.comment(theirs, "Hi!")
    await ann.like(theirs)
    await ann.share(theirs)
    for emoji in ("👍", "❤", "🎉"):
        await ann.react(theirs, emoji)
    await ann.unreact(theirs, "👍")
    await ann.unfollow(ben)
    await ann.follow_tag("dawn")
    await ben.follow(ann)
    await ann.follow(await shoal.register("cyd"))
    await ann.mute(await shoal.register("dan"))
    await ann.block(await shoal.register("eve"))
    return ann


@in_loop
async def test_member_export_contains_all_data_of_the_member(tmp_path: Path) -> None:
    to = tmp_path / "out"
    async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as shoal:
        await ann_in(shoal)
        await export(shoal.network, "ann", to)
    profile = read(to / "profile.json")
    assert (profile["name"], profile["note"]) == ("ann", "By the sea")
    assert profile["findable_by_email"] is True
    assert "email_hash" not in profile
    assert (to / profile["avatar"]).exists()
    (post,) = read(to / "posts.json")
    assert (post["text"], post["tags"], post["data"]) == ("High tide #dawn", ["dawn"], {"a": [1]})
    assert post["place"] == {"latitude": 0.0, "longitude": 2.5}
    assert [before["text"] for before in post["history"]] == ["Low tide, “quoted”, \n#dawn"]
    (media,) = read(to / "media.json")
    assert media["description"] == "A teal square"
    assert post["media"] == [media["file"]]
    assert size_of(to / media["file"]) == (32, 24)
    (feed,) = read(to / "feeds.json")
    assert (feed["title"], feed["declaration"], feed["shared"]) == ("All", {"sources": [{"from": "everybody"}]}, False)
    assert read(to / "followed_feeds.json") == [{"feed": "best", "title": "The best", "parameters": {"weight": 2.0}}]
    (album,) = read(to / "albums.json")
    assert (album["title"], album["description"]) == ("Tides", "Low and high")
    assert album["photos"] == [{"post": post["id"], "file": media["file"]}]
    assert [comment["text"] for comment in read(to / "comments.json")] == ["Hi!"]
    for noun in ("likes", "shares"):
        assert [(row["author"], row["text"]) for row in table(to / f"{noun}.csv")] == [("ben", "Hello, “Ann”")]
    (reaction,) = table(to / "reactions.csv")
    assert (reaction["author"], reaction["text"], reaction["emoji"]) == ("ben", "Hello, “Ann”", "❤️ 🎉")
    for noun, names in {"follows": ["cyd"], "followers": ["ben"], "mutes": ["dan"], "blocks": ["eve"]}.items():
        assert [row["name"] for row in table(to / f"{noun}.csv")] == names
    assert [row["tag"] for row in table(to / "followed_tags.csv")] == ["dawn"]


@in_loop
async def test_member_export_contains_invitations_without_codes(tmp_path: Path) -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann = await shoal.register("ann")
        ben = await shoal.register("ben", invite_code=(await ann.invite(2, follow=True)).code)
        code = (await ann.invitations())[0].code
        for one in (ann, ben):
            await export(shoal.network, one.name, tmp_path / one.name)
    profiles = [read(tmp_path / name / "profile.json") for name in ("ann", "ben")]
    assert [profile["invited_by"] for profile in profiles] == [None, "ann"]
    assert not {"follows_inviter", "login_id"} & profiles[1].keys()
    (invitation,) = read(tmp_path / "ann" / "invitations.json")
    assert (invitation["uses"], invitation["most_uses"], invitation["follow"]) == (1, 2, True)
    assert invitation["until"] > invitation["made"]
    assert not [path for path in (tmp_path / "ann").rglob("*.json") if code in path.read_text()]
    assert read(tmp_path / "ben" / "invitations.json") == []


@in_loop
async def test_member_export_contains_sessions_without_tokens(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, writes = await shoal.register("ann"), shoal.network.writes
        app = (await oauth.register(writes, "Tide")).app
        origin = Origin("192.0.2.7", "Tusky", "Android")
        await oauth.issue_token(writes, app.id, ann.id, ("read",), origin=origin)
        await export(shoal.network, "ann", tmp_path / "ann")
    assert read(tmp_path / "ann" / "passkeys.json") == []
    (session,) = read(tmp_path / "ann" / "sessions.json")
    made = session.pop("made")
    assert session == {
        "app": "Tide",
        "program": "Tusky",
        "system": "Android",
        "made_from": "192.0.2.7",
        "last_used": made,
        "last_used_from": "192.0.2.7",
    }


@in_loop
async def test_member_export_contains_relationships_lists_filters_and_settings(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = [await shoal.register(name) for name in ("ann", "ben", "cyd")]
        await ben.update_profile(locked=True)
        writes = shoal.network.writes
        await ann.follow(cyd)
        began = table_time(await export_of(shoal, tmp_path / "before"), "follows")
        await relationships.follow(
            writes, ann.id, cyd.id, FollowOptions(shares=False, languages=("en", "de"), notify=True)
        )
        await relationships.follow(writes, ann.id, ben.id, FollowOptions(notify=True))
        await relationships.mute(writes, ann.id, ben.id, notifications=False, seconds=3_600)
        await relationships.note(writes, ann.id, ben.id, "owes me a boat")
        await relationships.endorse(writes, ann.id, cyd.id)
        held = await lists.create(writes, ann.id, "Sailors", replies=RepliesPolicy.NONE, exclusive=True)
        await lists.put_on(writes, ann.id, held.id, [cyd.id])
        fog = filters.FilterChange(
            title="No fog", contexts=[FilterContext.HOME], words=[filters.KeywordChange(keyword="fog", whole_word=True)]
        )
        await filters.create(writes, ann.id, fog)
        await tags.feature(writes, ann.id, "dawn")
        poll = PollDraft(options=("ebb", "flow"), seconds=3_600)
        asked = await posts.create(writes, cyd.id, Draft(text="Which?", poll=poll))
        await polls.vote(writes, ann.id, asked.poll_id, [1])
        secret = await posts.create(writes, cyd.id, Draft(text="For you?", poll=poll, visibility=Visibility.FOLLOWERS))
        await polls.vote(writes, ann.id, secret.poll_id, [0])
        dan = await shoal.register("dan")
        gone = await posts.create(writes, dan.id, Draft(text="Us?", poll=PollDraft(options=("x", "y"), seconds=3_600)))
        await polls.vote(writes, ann.id, gone.poll_id, [0])
        await dan.block(ann)
        mine = await ann.create("Mine")
        await reactions.pin(writes, ann.id, mine.id)
        await reactions.mute_thread(writes, ann.id, asked.id)
        later = time.time_ns() // 1_000_000 + 3_600_000
        await scheduled_posts.schedule(writes, ann.id, Draft(text="Later", poll=poll), later)
        to = await export_of(shoal, tmp_path / "after")
    (follow,) = table(to / "follows.csv")
    assert (follow["name"], follow["shares"], follow["languages"], follow["time"]) == ("cyd", "no", "en de", began)
    (request,) = table(to / "requests.csv")
    assert (request["name"], request["shares"], request["notify"]) == ("ben", "yes", "yes")
    (mute,) = table(to / "mutes.csv")
    assert (mute["name"], mute["notifications"]) == ("ben", "no")
    assert datetime.fromisoformat(mute["until"]) > datetime.now(UTC)
    assert [(row["name"], row["note"]) for row in table(to / "notes.csv")] == [("ben", "owes me a boat")]
    for noun in ("endorsed", "notified_of"):
        assert [row["name"] for row in table(to / f"{noun}.csv")] == ["cyd"]
    assert read(to / "lists.json") == [{"title": "Sailors", "replies": "none", "exclusive": True, "members": ["cyd"]}]
    (filter_,) = read(to / "filters.json")
    assert (filter_["title"], filter_["contexts"], filter_["keywords"]) == (
        "No fog",
        ["home"],
        [{"keyword": "fog", "whole_word": True}],
    )
    assert [row["tag"] for row in table(to / "featured_tags.csv")] == ["dawn"]
    assert [(vote["author"], vote["text"], vote["chosen"]) for vote in table(to / "votes.csv")] == [
        ("", "", ""),
        ("cyd", "For you?", "ebb"),
        ("cyd", "Which?", "flow"),
    ]
    assert [(post["id"], post["pinned"]) for post in read(to / "posts.json")] == [(str(mine.id), True)]
    assert [row["post"] for row in table(to / "muted_threads.csv")] == [str(asked.id)]
    (plan,) = read(to / "scheduled.json")
    assert (plan["text"], plan["poll"]["options"]) == ("Later", ["ebb", "flow"])
    assert datetime.fromisoformat(plan["at"]).timestamp() * 1000 == pytest.approx(later)


async def export_of(shoal: Shoal, to: Path) -> Path:
    assert await export(shoal.network, "ann", to) == 0
    return to


def table_time(folder: Path, noun: str) -> str:
    (row,) = table(folder / f"{noun}.csv")
    return row["time"]


@in_loop
async def test_member_export_lists_invisible_posts_without_their_text(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        await ann_in(shoal)
        await export(shoal.network, "ann", tmp_path / "out")
    (kept,) = table(tmp_path / "out" / "bookmarks.csv")
    assert (kept["author"], kept["text"]) == ("", "")
    assert int(kept["post"]) > 0


@in_loop
async def test_member_export_contains_no_password_hashes(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        await ann_in(shoal)
        await export(shoal.network, "ann", tmp_path / "out")
    for path in (tmp_path / "out").glob("*.*"):
        assert b"argon2" not in path.read_bytes()


@in_loop
async def test_member_export_as_zip_contains_the_same_files(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        await ann_in(shoal)
        await export(shoal.network, "ann", tmp_path / "out")
        await export(shoal.network, "ann", tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.testzip() is None
        packed = {name: archive.read(name) for name in archive.namelist()}
    folder = tmp_path / "out"
    assert packed == {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("page", [1, 2, 500])
@in_loop
async def test_member_export_contains_follow_periods_in_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(export_writer, "PAGE", page)
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, dan, eve = [await shoal.register(name) for name in ("ann", "ben", "cyd", "dan", "eve")]
        for other in (ben, cyd, dan):
            await ann.follow(other)
            await ann.unfollow(other)
        for other in (cyd, eve):
            await ann.follow(other)
        await dan.follow(ann)
        history = await ann.relationship_history(cyd)
        await ben.follow(cyd)
        to = await export_of(shoal, tmp_path / "out")
        await export(shoal.network, "dan", tmp_path / "dans")
    rows = table(to / "follow_periods.csv")
    assert sorted((row["name"], row["until"] != "") for row in rows) == [
        ("ben", True),
        ("cyd", False),
        ("cyd", True),
        ("dan", True),
        ("eve", False),
    ]
    told = [(row["since"], row["until"]) for row in rows if row["name"] == "cyd"]
    assert told == [tuple(export_writer.iso(moment or 0) for moment in period) for period in history.following]
    (follower,) = table(to / "follower_periods.csv")
    assert (follower["name"], follower["id"], follower["until"]) == ("dan", str(dan.id), "")
    assert [(row["name"], row["until"] != "") for row in table(tmp_path / "dans" / "follower_periods.csv")] == [
        ("ann", True)
    ]


@in_loop
async def test_member_export_writes_long_lists_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_writer, "PAGE", 2)
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        for n in range(5):
            await ann.like(await ben.create(f"Wave {n}"))
            await ann.create(f"Foam {n}")
        await export(shoal.network, "ann", tmp_path / "out")
    assert [row["text"] for row in table(tmp_path / "out" / "likes.csv")] == [f"Wave {n}" for n in range(4, -1, -1)]
    assert [post["text"] for post in read(tmp_path / "out" / "posts.json")] == [f"Foam {n}" for n in range(4, -1, -1)]


@in_loop
async def test_member_export_of_empty_account_is_complete(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.register("ann")
        await export(shoal.network, "ann", tmp_path / "out")
    assert read(tmp_path / "out" / "posts.json") == []
    assert table(tmp_path / "out" / "likes.csv") == []


@pytest.mark.parametrize("name", ["out", "out.zip"])
@in_loop
async def test_member_export_failure_leaves_no_files(tmp_path: Path, name: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        await ann.create("Hello")

        def stop(phase: str, done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(NotFound):
            await export(shoal.network, "ben", tmp_path / name)
        with pytest.raises(KeyboardInterrupt):
            await export(shoal.network, "ann", tmp_path / name, stop)
    assert names_in(tmp_path) == []


@in_loop
async def test_member_export_refuses_existing_destination_and_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    (tmp_path / "out.zip").write_text("mine")
    async with Shoal.open("memory://") as shoal:
        await shoal.register("ann")
        for name in ("out", "out.zip"):
            with pytest.raises(InvalidInput, match="already exists"):
                await export(shoal.network, "ann", tmp_path / name)
    assert (tmp_path / "out" / "mine.txt").read_text() == (tmp_path / "out.zip").read_text() == "mine"


@in_loop
async def test_member_export_streamed_equals_export_on_disk(tmp_path: Path) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await ann_in(shoal)
        network = shoal.network
        await export(network, "ann", tmp_path / "ann.zip")
        member = await members.find(network.writes, ann.name)
        assert member is not None
        sent = b"".join([piece async for piece in streamed(network.store, network.reads, network.media, member)])
    with zipfile.ZipFile(tmp_path / "ann.zip") as kept, zipfile.ZipFile(BytesIO(sent)) as found:
        assert found.testzip() is None
        assert {name: found.read(name) for name in found.namelist()} == {
            name: kept.read(name) for name in kept.namelist()
        }


@in_loop
async def test_member_export_streaming_applies_backpressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_export, "_MOST_HELD", 100_000)
    read: list[str] = []

    class Slow:
        async def read(self, key: str) -> tuple[bytes, str]:
            read.append(key)
            return b"\xff" * 60_000, "image/jpeg"

    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        for n in range(20):
            await ann.create(f"Wave {n}", media=[await ann.upload(picture(f"rgb({n}, 0, 0)"))])
        member = await members.find(shoal.network.writes, "ann")
        assert member is not None
        pieces = streamed(shoal.network.store, shoal.network.reads, Slow(), member)
        first = await anext(pieces)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(read) < 6
        rest = [piece async for piece in pieces]
        assert (len(read), len(b"".join([first, *rest])) > 1_200_000) == (20, True)
        left = streamed(shoal.network.store, shoal.network.reads, Slow(), member)
        await anext(left)
        await left.aclose()
        assert "shoal-export" not in {task.get_name() for task in asyncio.all_tasks()}


@in_loop
async def test_member_export_streaming_error_is_raised_to_the_reader() -> None:
    class Away:
        async def read(self, key: str) -> tuple[bytes, str]:
            raise Unavailable("the disk is away")

    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        await ann.create("A wave", media=[await ann.upload(picture("teal"))])
        member = await members.find(shoal.network.writes, "ann")
        assert member is not None
        with pytest.raises(Unavailable):
            [piece async for piece in streamed(shoal.network.store, shoal.network.reads, Away(), member)]
