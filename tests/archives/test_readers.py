"""Each network's archive reader returns the author's posts, and the omitted items with their reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from libipld import encode_cid

from shoal.admin.archives.entries import opened
from shoal.admin.archives.formats.instagram import as_typed
from shoal.admin.archives.plan import ArchivePlan
from shoal.admin.archives.reader import reader_of
from shoal.admin.archives.records import ArchivedPost, ArchiveKind, ArchiveReport, Omission, SkippedRecord
from shoal.core.errors import InvalidInput
from shoal.core.handles import FollowList
from shoal.core.model import Visibility
from tests.archives import factories
from tests.archives.factories import ANN, DID, FOLLOWERS, HOST, PUBLIC

NOW = 2_000_000_000_000


class Read:
    """The records that a reader returns for an archive."""

    def __init__(self, path: Path, folder: Path) -> None:
        with opened(path, folder) as entries:
            reader = reader_of(entries, folder)
            self.kind, self.account = reader.kind, reader.account
            found = list(reader.records())
        self.posts = [record for record in found if isinstance(record, ArchivedPost)]
        self.left = [(record.kind, record.reason) for record in found if isinstance(record, SkippedRecord)]
        self.follows = [str(handle) for record in found if isinstance(record, FollowList) for handle in record.handles]

    @property
    def texts(self) -> list[str]:
        return [post.text for post in self.posts]


@contextmanager
def planned(path: Path, folder: Path) -> Iterator[tuple[ArchivePlan, ArchiveReport]]:
    with opened(path, folder) as entries:
        plan = ArchivePlan(folder)
        yield plan, plan.fill(reader_of(entries, folder), NOW, lambda _: None)


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def mastodon(tmp_path: Path, activities: list[dict[str, Any]], files: dict[str, bytes] | None = None) -> Read:
    return Read(factories.zipped(tmp_path / "archive.zip", factories.mastodon_files(activities, files)), tmp_path)


def test_mastodon_archive_post_keeps_date_text_photos_and_spoiler(tmp_path: Path) -> None:
    name = "media_attachments/files/109/002/original/3f2a.jpeg"
    photo = factories.document(f"/{name}", "A gull", focalPoint=[0.25, -0.5])
    content = (
        "<p>Low tide, &quot;quoted&quot; &amp; &lt;raw&gt;<br />second line</p>"
        f'<p><a href="{HOST}/tags/dawn" class="mention hashtag" rel="tag">#<span>dawn</span></a> with '
        '<span class="h-card" translate="no">'
        '<a href="https://other.example/@bob" class="u-url mention">@<span>bob</span></a></span> '
        '<a href="https://example.org/a/very/long/path/that/is/cut" target="_blank" rel="nofollow noopener" translate="no">'
        '<span class="invisible">https://</span><span class="ellipsis">example.org/a/very/long/path/t</span>'
        '<span class="invisible">hat/is/cut</span></a></p>'
    )
    activity = factories.note(2, content, summary="Gulls", sensitive=True, attachment=[photo])
    read = mastodon(tmp_path, [activity], {name: factories.picture()})
    assert (read.kind, read.account) == (ArchiveKind.MASTODON, ANN)
    (post,) = read.posts
    assert post.text == (
        'Low tide, "quoted" & <raw>\nsecond line\n\n'
        "#dawn with @bob@other.example https://example.org/a/very/long/path/that/is/cut"
    )
    assert (post.written, post.spoiler, post.sensitive) == (moment("2022-11-05T08:32:15"), "Gulls", True)
    assert (post.language, post.visibility) == ("en", Visibility.PUBLIC)
    assert [(one.file, one.description, one.focus) for one in post.photos] == [(name, "A gull", (0.25, -0.5))]


def test_mastodon_archive_tar_is_read_like_zip(tmp_path: Path) -> None:
    name = "media_attachments/files/109/002/original/3f2a.jpeg"
    files = factories.mastodon_files(
        [factories.note(1, "<p>One</p>", attachment=[factories.document(name)])], {name: factories.picture()}
    )
    read = Read(factories.tarred(tmp_path / "archive.tar.gz", files), tmp_path)
    assert (read.texts, [photo.file for photo in read.posts[0].photos]) == (["One"], [name])


def test_mastodon_archive_post_visibility_is_derived_from_to_and_cc(tmp_path: Path) -> None:
    bob = "https://other.example/users/bob"
    read = mastodon(
        tmp_path,
        [
            factories.note(1, "<p>Public</p>"),
            factories.note(2, "<p>Unlisted</p>", to=[FOLLOWERS], cc=[PUBLIC]),
            factories.note(3, "<p>Followers</p>", to=[FOLLOWERS], cc=[bob]),
            factories.note(4, "<p>Secret</p>", to=[bob], cc=[]),
            factories.announce(5, "https://other.example/users/bob/statuses/1"),
        ],
    )
    assert [post.visibility for post in read.posts] == [Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS]
    assert read.left == [("posts", Omission.DIRECT), ("posts", Omission.BOOST)]


def test_mastodon_archive_poll_becomes_text(tmp_path: Path) -> None:
    options = [
        {"type": "Note", "name": name, "replies": {"type": "Collection", "totalItems": 3}} for name in ("Gull", "Tern")
    ]
    activity = factories.note(
        1, "<p>Which?</p>", type="Question", oneOf=options, endTime="2022-11-06T00:00:00Z", votersCount=6
    )
    (post,) = mastodon(tmp_path, [activity]).posts
    assert (post.text, post.poll) == ("Which?\n\n- Gull\n- Tern", True)


def test_mastodon_archive_missing_files_and_videos_are_omitted(tmp_path: Path) -> None:
    attached = [
        factories.document("media_attachments/files/1/original/a.jpg"),
        factories.document("b.mp4", kind="video/mp4"),
    ]
    read = mastodon(tmp_path, [factories.note(1, "<p>Show posts</p>", attachment=attached)])
    assert read.left == [("photos", Omission.MISSING), ("photos", Omission.VIDEO)]
    assert read.posts[0].photos == ()


def test_mastodon_archive_self_replies_form_thread_and_other_replies_are_omitted(tmp_path: Path) -> None:
    ids = [factories.note(n, "")["object"]["id"] for n in range(10)]
    bob = "https://other.example/users/bob/statuses/1"
    activities = [
        factories.note(1, "<p>First</p>"),
        factories.note(2, "<p>Second</p>", inReplyTo=ids[1]),
        factories.note(3, "<p>Third</p>", inReplyTo=ids[2]),
        factories.note(4, "<p>To Bob</p>", inReplyTo=bob),
        factories.note(5, "<p>Further to Bob</p>", inReplyTo=ids[4]),
        factories.note(6, "<p>To one that is gone</p>", inReplyTo=ids[9]),
    ]
    path = factories.zipped(tmp_path / "archive.zip", factories.mastodon_files(activities))
    with planned(path, tmp_path) as (plan, report):
        levels = [[post.text for post in plan.read(level)] for level in plan.levels()]
    assert levels == [["First", "To one that is gone"], ["Second"], ["Third"]]
    assert (report.found.posts, report.found.comments) == (2, 2)
    assert {(one.reason, one.count) for one in report.omitted} == {(Omission.REPLY, 1), (Omission.THREAD, 1)}


def test_mastodon_archive_cyclic_replies_are_broken_into_thread(tmp_path: Path) -> None:
    ids = [factories.note(n, "")["object"]["id"] for n in range(4)]
    ring = [factories.note(n, f"<p>{n}</p>", inReplyTo=ids[n % 3 + 1]) for n in (1, 2, 3)]
    path = factories.zipped(tmp_path / "archive.zip", factories.mastodon_files(ring))
    with planned(path, tmp_path) as (plan, report):
        assert [len(level) for level in plan.levels()] == [1, 1, 1]
    assert (report.found.posts, report.found.comments, report.omitted) == (1, 2, [])


def test_pixelfed_archive_as_json_file_yields_posts_and_as_zip_file_also_photos(tmp_path: Path) -> None:
    url = "https://pixelfed.example/storage/m/_v2/7/0a1b2c/xyz/Qw3rTy.jpg"
    posts = [
        factories.status(
            1, "Dawn & dew\n#dawn", media_attachments=[factories.attachment(url, "Dew on grass")], spoiler_text="Wet"
        ),
        factories.status(2, "Followers only", visibility="private", sensitive=True),
        factories.status(3, "Mine again", in_reply_to_id="1", in_reply_to_account_id="7", pf_type="text"),
        factories.status(4, "", pf_type="share"),
        factories.status(5, "Psst", visibility="direct"),
    ]
    bare = tmp_path / "pixelfed-statuses.json"
    bare.write_text(factories.statuses(posts))
    read = Read(bare, tmp_path)
    assert (read.kind, read.account) == (ArchiveKind.PIXELFED, "https://pixelfed.example/ann")
    assert read.texts == ["Dawn & dew\n#dawn", "Followers only", "Mine again"]
    assert (read.posts[0].spoiler, read.posts[0].written) == ("Wet", moment("2022-11-05T08:31:15"))
    assert (read.posts[1].visibility, read.posts[1].sensitive) == (Visibility.FOLLOWERS, True)
    assert (read.posts[2].parent, read.posts[2].own_parent) == ("1", True)
    assert read.left == [("photos", Omission.MISSING), ("posts", Omission.BOOST), ("posts", Omission.DIRECT)]
    following = json.dumps(["https://pixelfed.example/bob"])
    files = {
        bare.name: factories.statuses(posts),
        "m/Qw3rTy.jpg": factories.picture(),
        "pixelfed-following.json": following,
    }
    whole = Read(factories.zipped(tmp_path / "p.zip", files), tmp_path)
    assert [(photo.file, photo.description) for photo in whole.posts[0].photos] == [("m/Qw3rTy.jpg", "Dew on grass")]
    assert whole.follows == ["bob@pixelfed.example"]


@pytest.mark.parametrize("folder", ["your_instagram_activity/media/", "your_instagram_activity/content/", "content/"])
def test_instagram_archive_captions_of_post_or_photo_are_decoded(tmp_path: Path, folder: str) -> None:
    one, two, clip = "media/posts/202211/1_n.jpg", "media/posts/202211/2_n.webp", "media/posts/202211/3_n.mp4"
    single = {"media": [factories.instagram_file(one, 1_667_637_015, "Frühstück 🥐 #morgen\nzweite Zeile")]}
    album = {
        "media": [factories.instagram_file(one, 1_667_640_000), factories.instagram_file(two, 1_667_640_000)],
        "title": factories.mojibake("Überall"),
        "creation_timestamp": 1_667_640_100,
    }
    files = {
        f"{folder}posts_1.json": json.dumps([single, album], indent=2),
        f"{folder}posts_2.json": json.dumps([{"media": [factories.instagram_file(clip, 1_667_640_200, "Clip")]}]),
        f"{folder}stories.json": json.dumps({"ig_stories": [factories.instagram_file(one, 1)] * 3}),
        f"{folder}archived_posts.json": json.dumps({"ig_archived_post_media": [single]}),
        one: factories.picture(),
        two: factories.picture("navy", form="WEBP"),
        "connections/followers_and_following/following.json": json.dumps(
            {
                "relationships_following": [
                    {"title": "bob", "string_list_data": [{"href": "https://www.instagram.com/_u/bob", "timestamp": 1}]}
                ]
            }
        ),
    }
    read = Read(factories.zipped(tmp_path / "instagram.zip", files), tmp_path)
    assert (read.kind, read.account) == (ArchiveKind.INSTAGRAM, "")
    assert read.texts == ["Frühstück 🥐 #morgen\nzweite Zeile", "Überall", "Clip"]
    assert [post.written for post in read.posts] == [1_667_637_015_000, 1_667_640_100_000, 1_667_640_200_000]
    assert [[photo.file for photo in post.photos] for post in read.posts] == [[one], [one, two], []]
    assert sorted(read.left) == [
        ("photos", Omission.VIDEO),
        ("posts", Omission.ARCHIVED),
        *[("posts", Omission.STORY)] * 3,
    ]
    assert read.follows == ["bob@instagram.com"]


def test_instagram_archive_in_html_format_is_refused(tmp_path: Path) -> None:
    path = factories.zipped(tmp_path / "i.zip", {"your_instagram_activity/media/posts_1.html": "<html>"})
    with pytest.raises(InvalidInput, match="in JSON format"):
        Read(path, tmp_path)


def x_files(*tweets: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the files of an archive of X."""
    return {
        "Your archive.html": "<html>",
        "data/manifest.js": "window.__THAR_CONFIG = {}",
        "data/account.js": factories.script("account.part0", factories.ACCOUNT),
        "data/tweets.js": factories.script("tweets.part0", list(tweets)),
        "data/following.js": factories.script(
            "following.part0",
            [{"following": {"accountId": "12", "userLink": "https://twitter.com/intent/user?user_id=12"}}],
        ),
        **more,
    }


def test_x_archive_expands_links_and_finds_photos_by_post_id(tmp_path: Path) -> None:
    short, medium = "https://t.co/AbCdEfGhIj", "https://t.co/MeDiAmEdIa"
    entities = {
        "urls": [{"url": short, "expanded_url": "https://example.org/long", "display_url": "example.org/long"}],
        "media": [factories.x_medium("FgbB4NKaUAAY-9X.png", medium)],
    }
    extended = {
        "media": [factories.x_medium("FgbB4NKaUAAY-9X.png", medium), factories.x_medium("v.jpg", medium, "video")]
    }
    id_ = 1_500_000_000_000_000_001
    tweets = (
        factories.tweet(
            1, f"Ebb &amp; flow &lt;3 {short} #tide {medium}", entities=entities, extended_entities=extended
        ),
        factories.tweet(2, "RT @bob: Not mine"),
        factories.tweet(3, "Go on", in_reply_to_status_id_str=str(id_), in_reply_to_user_id_str="4711", lang="qme"),
        factories.tweet(4, "@bob no", in_reply_to_status_id_str="9", in_reply_to_user_id_str="12"),
    )
    files = x_files(*tweets, **{f"data/tweets_media/{id_}-FgbB4NKaUAAY-9X.png": factories.picture(form="PNG")})
    files["data/tweets-part1.js"] = factories.script("tweets.part1", [factories.tweet(5, "Of the second script")])
    read = Read(factories.zipped(tmp_path / "x.zip", files), tmp_path)
    assert (read.kind, read.account) == (ArchiveKind.X, "ann_by_the_sea")
    by_text = {post.text: post for post in read.posts}
    assert set(by_text) == {"Ebb & flow <3 https://example.org/long #tide", "Go on", "@bob no", "Of the second script"}
    first = by_text["Ebb & flow <3 https://example.org/long #tide"]
    assert (first.written, first.language) == (moment("2022-11-05T08:31:15"), "en")
    assert [photo.file for photo in first.photos] == [f"data/tweets_media/{id_}-FgbB4NKaUAAY-9X.png"]
    assert (by_text["Go on"].parent, by_text["Go on"].own_parent, by_text["Go on"].language) == (str(id_), True, "")
    assert not by_text["@bob no"].own_parent
    assert sorted(read.left) == [("photos", Omission.VIDEO), ("posts", Omission.BOOST)]


def test_bluesky_archive_keeps_full_links_threads_and_photos(tmp_path: Path) -> None:
    photo = factories.picture("gold")
    text = "Ebbe – siehe example.org/a/long/p... und 🦀"
    start = text.encode().index(b"example")
    facet = {
        "index": {"byteStart": start, "byteEnd": start + len("example.org/a/long/p...")},
        "features": [{"$type": "app.bsky.richtext.facet#link", "uri": "https://example.org/a/long/path"}],
    }
    first = f"at://{DID}/{factories.post_key(1)}"
    ref = {"uri": first, "cid": "bafy"}
    records = {
        factories.post_key(1): factories.bluesky_post(1, text, facets=[facet]),
        factories.post_key(2): factories.bluesky_post(
            2,
            "Go on",
            embed={"$type": "app.bsky.embed.images", "images": [factories.image(photo, "Gold")]},
            reply={"root": ref, "parent": ref},
        ),
        factories.post_key(3): factories.bluesky_post(
            3, "@bob no", reply={"root": ref, "parent": {"uri": "at://did:plc:bob/app.bsky.feed.post/1", "cid": "bafy"}}
        ),
        factories.post_key(4): factories.bluesky_post(
            4,
            "A card",
            embed={"$type": "app.bsky.embed.external", "external": {"uri": "https://example.org/x", "title": "X"}},
            labels={"$type": "com.atproto.label.defs#selfLabels", "values": [{"val": "nudity"}]},
        ),
        "app.bsky.feed.repost/3jz1": {"$type": "app.bsky.feed.repost", "subject": ref},
        "app.bsky.feed.like/3jz1": {"$type": "app.bsky.feed.like", "subject": ref},
        "app.bsky.graph.follow/3jz1": {"$type": "app.bsky.graph.follow", "subject": "did:plc:bob"},
        "app.bsky.actor.profile/self": {"$type": "app.bsky.actor.profile", "displayName": "Ann"},
    }
    car = tmp_path / "repo.car"
    car.write_bytes(factories.repository(records))
    read = Read(car, tmp_path)
    assert (read.kind, read.account) == (ArchiveKind.BLUESKY, DID)
    assert read.texts == [
        "Ebbe – siehe https://example.org/a/long/path und 🦀",
        "Go on",
        "@bob no",
        "A card\n\nhttps://example.org/x",
    ]
    assert (read.posts[0].id, read.posts[0].written) == (first, moment("2022-11-05T08:31:15") + 123)
    assert [(post.parent == first, post.own_parent) for post in read.posts[1:3]] == [(True, True), (False, False)]
    assert read.posts[3].sensitive
    assert read.left == [("photos", Omission.MISSING), ("posts", Omission.BOOST)]
    assert read.follows == ["did:plc:bob@bsky.app"]
    name = f"blobs/{encode_cid(factories.cid_of(photo, 0x55))}.jpeg"
    whole = Read(factories.zipped(tmp_path / "b.zip", {"ann.car": car.read_bytes(), name: photo}), tmp_path)
    assert [(one.file, one.description) for one in whole.posts[1].photos] == [(name, "Gold")]


def test_bluesky_export_yields_all_records_in_order(tmp_path: Path) -> None:
    records = {factories.post_key(n): factories.bluesky_post(n, f"Post {n}") for n in range(1_500)}
    car = tmp_path / "repo.car"
    car.write_bytes(factories.repository(records))
    assert Read(car, tmp_path).texts == [f"Post {n}" for n in range(1_500)]


def test_x_archive_long_post_has_full_text_of_note(tmp_path: Path) -> None:
    whole = "Ebb & flow " * 30 + "https://t.co/AbCdEfGhIj END"
    other = "Ebb & flow " * 29 + "and another"
    cut = whole[:270].replace("&", "&amp;") + "… https://t.co/ZyXw"
    notes = [
        {
            "noteTweet": {
                "noteTweetId": "12",
                "createdAt": f"2022-11-{day}T08:31:15.000Z",
                "core": {"text": text, "urls": urls},
            }
        }
        for day, text, urls in (
            ("04", other, []),
            ("05", whole, [{"shortUrl": "https://t.co/AbCdEfGhIj", "expandedUrl": "https://example.org/long"}]),
            ("06", "A note of a post that was deleted", []),
        )
    ]
    short = factories.tweet(2, "Ebb & flow " * 3)
    files = x_files(
        factories.tweet(1, cut), short, **{"data/note-tweet.js": factories.script("note_tweet.part0", notes)}
    )
    read = Read(factories.zipped(tmp_path / "x.zip", files), tmp_path)
    assert read.texts == [
        whole.replace("https://t.co/AbCdEfGhIj", "https://example.org/long"),
        ("Ebb & flow " * 3).strip(),
    ]
    assert read.left == [("parts", Omission.UNMATCHED)] * 2


def test_x_archive_community_posts_are_read(tmp_path: Path) -> None:
    community = factories.script("community_tweet.part0", [factories.tweet(2, "In a community")])
    files = x_files(factories.tweet(1, "One"), **{"data/community-tweet.js": community})
    assert sorted(Read(factories.zipped(tmp_path / "x.zip", files), tmp_path).texts) == ["In a community", "One"]


@pytest.mark.parametrize("folder", ["", "data/", "twitter-2019/", "twitter-2019/data/"])
def test_x_archive_before_2020_with_bare_posts_is_read(tmp_path: Path, folder: str) -> None:
    files = {
        f"{folder}account.js": factories.script("account.part0", factories.ACCOUNT),
        f"{folder}tweet.js": factories.script("tweet.part0", [factories.tweet(1, "An older post")["tweet"]]),
    }
    read = Read(factories.zipped(tmp_path / "x.zip", files), tmp_path)
    assert (read.kind, read.account, read.texts) == (ArchiveKind.X, "ann_by_the_sea", ["An older post"])


def link_facet(start: int, end: int, uri: str) -> dict[str, Any]:
    feature = {"$type": "app.bsky.richtext.facet#link", "uri": uri}
    return {"index": {"byteStart": start, "byteEnd": end}, "features": [feature]}


@pytest.mark.parametrize(
    ("text", "facets", "whole", "odd"),
    [
        ("⚽ short.org/long... ok", [(4, 21, "https://short.org/long/path")], "⚽ https://short.org/long/path ok", 0),
        ("日本語 ex.org/a", [(4, 12, "https://ex.org/a")], "日本語 https://ex.org/a", 0),
        ("🦀🦀 ex.org/a", [(5, 13, "https://ex.org/a")], "🦀🦀 https://ex.org/a", 0),
        ("😀😀 https://ex.org/x", [(4, 20, "https://ex.org/x")], "😀😀 https://ex.org/x", 0),
        ("dup ex.org/a", [(4, 12, "https://ex.org/a")] * 2, "dup https://ex.org/a", 0),
        (
            "one two three four",
            [(0, 13, "https://ex.org/a"), (8, 18, "https://ex.org/b")],
            "one two three (https://ex.org/a) four\n\nhttps://ex.org/b",
            1,
        ),
        ("see here or there", [(4, 8, "https://ex.org/where")], "see here (https://ex.org/where) or there", 0),
        ("詳細はこちらです", [(9, 18, "https://ex.org/a")], "詳細はこちら (https://ex.org/a)です", 0),
        ("broken words", [(2, 9, "https://ex.org/a")], "broken words\n\nhttps://ex.org/a", 1),
        ("é", [(1, 2, "https://ex.org/a"), (-3, 900, "https://ex.org/a")], "é\n\nhttps://ex.org/a", 2),
    ],
)
def test_bluesky_archive_link_with_wrong_position_keeps_text(
    tmp_path: Path, text: str, facets: list[tuple[int, int, str]], whole: str, odd: int
) -> None:
    car = tmp_path / "repo.car"
    post = factories.bluesky_post(1, text, facets=[link_facet(*facet) for facet in facets])
    car.write_bytes(factories.repository({factories.post_key(1): post}))
    read = Read(car, tmp_path)
    assert (read.texts, read.left) == ([whole], [("parts", Omission.MALFORMED)] * odd)


def test_bluesky_archive_damaged_record_omits_only_itself(tmp_path: Path) -> None:
    car = tmp_path / "repo.car"
    records = {factories.post_key(n): factories.bluesky_post(n, f"Number {n}") for n in range(3)}
    car.write_bytes(factories.repository(records).replace(b"Number 1", b"Number \xff"))
    read = Read(car, tmp_path)
    assert (read.texts, read.left) == (["Number 0", "Number 2"], [("posts", Omission.MALFORMED)])


@pytest.mark.parametrize(
    ("title", "caption"),
    [
        (factories.mojibake("Café 😀"), "Café 😀"),
        (factories.mojibake("café") + " ’tis", "café ’tis"),
        (factories.mojibake("naïve é")[:-1], "naïve "),
        (factories.mojibake("naïve 😀")[:-1], "naïve "),
        ("Ça alors", "Ça alors"),
        ("ÇA MAÇÃ", "ÇA MAÇÃ"),
    ],
)
def test_instagram_archive_partly_encoded_or_truncated_caption_is_decoded(title: str, caption: str) -> None:
    assert as_typed(title) == caption


def test_pixelfed_archive_caption_character_references_are_unescaped(tmp_path: Path) -> None:
    path = tmp_path / "pixelfed-statuses.json"
    path.write_text(factories.statuses([factories.status(1, "", content_text="you &amp; me &#39;here&#39;")]))
    assert Read(path, tmp_path).texts == ["you & me 'here'"]


@pytest.mark.parametrize(
    "more",
    [
        {"attachment": [{"mediaType": "image/jpeg", "url": [{"type": "Link", "href": f"{HOST}/m/a.jpg"}]}]},
        {"attachment": {"mediaType": "image/jpeg", "url": "/media_attachments/files/1/a.jpg"}},
        {"attachment": [{"mediaType": "image/jpeg", "url": "/a.jpg", "focalPoint": [None, None]}]},
        {"attachment": [{"mediaType": "image/jpeg", "url": None}]},
        {"contentMap": {"en": None}},
        {"inReplyTo": {"id": f"{ANN}/statuses/0"}},
    ],
)
def test_mastodon_archive_post_with_malformed_part_keeps_text(tmp_path: Path, more: dict[str, Any]) -> None:
    read = mastodon(tmp_path, [factories.note(1, "<p>Words</p>", **more)])
    assert read.texts == ["Words"]
    assert len(read.left) == ("attachment" in more) + ("focalPoint" in str(more))
    if "inReplyTo" in more:
        assert (read.posts[0].parent, read.posts[0].own_parent) == (f"{ANN}/statuses/0", True)


def test_pixelfed_archive_invalid_photo_url_omits_photo(tmp_path: Path) -> None:
    path = tmp_path / "pixelfed-statuses.json"
    path.write_text(
        factories.statuses([factories.status(1, "One", media_attachments=[factories.attachment("http://[", None)])])
    )
    read = Read(path, tmp_path)
    assert (read.texts, read.left) == (["One"], [("photos", Omission.MISSING)])


def test_mastodon_archive_with_oversized_follow_list_omits_follows_and_keeps_posts(tmp_path: Path) -> None:
    rows = "Account address\n" + "".join(f"u{n}@other.example\n" for n in range(10_001))
    read = mastodon(tmp_path, [factories.note(1, "<p>One</p>")], {"following_accounts.csv": rows.encode()})
    assert (read.texts, read.follows, read.left) == (["One"], [], [("follows", Omission.TOO_MANY)])


def test_instagram_archive_captions_of_further_photos_are_kept(tmp_path: Path) -> None:
    one, two, clip, gone = (f"media/posts/202211/{name}" for name in ("1.jpg", "2.jpg", "3.mp4", "4.jpg"))
    captions = {one: "Überall", two: "Grüße", clip: "Der Film", gone: "Nicht da"}
    files = [factories.instagram_file(uri, 1_667_640_000, caption) for uri, caption in captions.items()]
    album = {"media": files[:2], "title": factories.mojibake("Album")}
    documents = {
        "content/posts_1.json": json.dumps([{"media": files}, album]),
        one: factories.picture(),
        two: factories.picture("navy"),
    }
    read = Read(factories.zipped(tmp_path / "instagram.zip", documents), tmp_path)
    assert read.texts == ["Überall\n\nDer Film\n\nNicht da", "Album"]
    described = [[photo.description for photo in post.photos] for post in read.posts]
    assert described == [["", "Grüße"], ["Überall", "Grüße"]]


@pytest.mark.parametrize("odd", [None, {"odd": 1}])
@pytest.mark.parametrize("lacking", [(), ("uri",), ("uri", "url")])
def test_pixelfed_archive_post_with_null_or_object_as_id_is_kept(
    tmp_path: Path, odd: object, lacking: tuple[str, ...]
) -> None:
    posts = [factories.status(1, "One"), {**factories.status(2, "Two"), "id": odd, **dict.fromkeys(lacking)}]
    read = Read(factories.zipped(tmp_path / "a.zip", {"pixelfed-statuses.json": json.dumps(posts)}), tmp_path)
    assert (read.texts, read.left) == (["One", "Two"], [("parts", Omission.MALFORMED)])
    assert all(post.id for post in read.posts)


@pytest.mark.parametrize(
    ("changed", "language", "odd"),
    [
        ({"content": None, "contentMap": [{"de": "<p>Moin</p>"}, {"odd": {}}]}, "de", 1),
        ({"content": None, "contentMap": ["<p>Moin</p>", "<p>Hi</p>"]}, "", 1),
        ({"contentMap": [{"de": "<p>Moin</p>"}, {"en": "<p>Hi</p>"}]}, "de", 0),
        ({"to": [{"type": "Collection", "id": PUBLIC}], "cc": []}, "en", 0),
        ({"to": {"href": PUBLIC}, "cc": [[], {"id": FOLLOWERS}]}, "en", 1),
    ],
)
def test_mastodon_archive_note_with_lists_and_objects_keeps_text(
    tmp_path: Path, changed: dict[str, object], language: str, odd: int
) -> None:
    activity = factories.note(1, "<p>Moin</p>", contentMap={"en": "<p>Moin</p>"})
    activity["object"] |= changed
    read = mastodon(tmp_path, [activity])
    assert read.texts == ["Moin"]
    assert [(post.language, post.visibility) for post in read.posts] == [(language, Visibility.PUBLIC)]
    assert read.left == [("parts", Omission.MALFORMED)] * odd


def test_mastodon_archive_activity_with_list_of_objects_keeps_each(tmp_path: Path) -> None:
    activity = factories.note(1, "<p>One</p>")
    activity["object"] = [activity["object"], 7.5, factories.note(2, "<p>Two</p>")["object"], [[]]]
    read = mastodon(tmp_path, [activity, {**activity, "object": []}])
    assert read.texts == ["One", "Two"]
    assert sorted(read.left) == [("parts", Omission.MALFORMED)] * 2 + [("posts", Omission.MALFORMED)]
