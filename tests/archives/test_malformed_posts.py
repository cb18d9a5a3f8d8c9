"""A malformed part of a post is omitted and counted, and never affects another post."""

from __future__ import annotations

import json
import tempfile
import zipfile
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.admin.archives.entries import opened
from shoal.admin.archives.plan import ArchivePlan
from shoal.admin.archives.reader import reader_of
from shoal.admin.archives.records import ArchivedPost, ArchiveReport, Omission, SkippedRecord
from tests.archives import factories
from tests.archives.factories import ANN, DID, HOST
from tests.example_counts import examples

NOW = 2_000_000_000_000
ODD = {"odd": 1}
DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]


class Kind(NamedTuple):
    """A network: example posts in its format, and a function that writes an archive of posts."""

    posts: list[dict[str, Any]]
    archive: Callable[[Path, list[Any]], Path]


def _mastodon(folder: Path, posts: list[Any]) -> Path:
    files = factories.mastodon_files([], {"media_attachments/files/1/a.jpg": factories.picture()})
    return factories.zipped(folder / "a.zip", files | {"outbox.json": "".join(factories.outbox(posts, len(posts)))})


def _pixelfed(folder: Path, posts: list[Any]) -> Path:
    return factories.zipped(
        folder / "a.zip", {"pixelfed-statuses.json": json.dumps(posts), "m/a.jpg": factories.picture()}
    )


def _instagram(folder: Path, posts: list[Any]) -> Path:
    files = {"content/posts_1.json": json.dumps(posts)}
    return factories.zipped(folder / "a.zip", files | {f"media/{n}.jpg": factories.picture() for n in range(4)})


def _x(folder: Path, posts: list[Any]) -> Path:
    files = {
        "data/account.js": factories.script("account.part0", factories.ACCOUNT),
        "data/tweets.js": factories.script("tweets.part0", posts),
        f"data/tweets_media/{1_500_000_000_000_000_001}-a.jpg": factories.picture(),
    }
    return factories.zipped(folder / "a.zip", files)


def _bluesky(folder: Path, posts: list[Any]) -> Path:
    path = folder / "a.car"
    path.write_bytes(factories.repository({factories.post_key(n): post for n, post in enumerate(posts)}))
    return path


def _shoal(folder: Path, posts: list[Any]) -> Path:
    profile = {"id": "1", "name": "ann", "joined": "2024-05-01"}
    documents = {"profile": profile, "posts": posts, "comments": [], "media": [{"file": "media/1.jpg"}]}
    files = {f"{name}.json": json.dumps(document) for name, document in documents.items()}
    return factories.zipped(folder / "a.zip", files | {"media/1.jpg": factories.picture()})


def _facet(start: int, end: int, uri: str) -> dict[str, Any]:
    feature = {"$type": "app.bsky.richtext.facet#link", "uri": uri}
    return {"index": {"byteStart": start, "byteEnd": end}, "features": [feature]}


_PHOTO = "media_attachments/files/1/a.jpg"
_REF = {"uri": f"at://{DID}/{factories.post_key(0)}", "cid": "bafy"}
KINDS = {
    "mastodon": Kind(
        [
            factories.note(
                1, "<p>One</p>", attachment=[factories.document(_PHOTO, "A gull")], summary="Wet", sensitive=True
            ),
            factories.note(2, "<p>Two</p>", inReplyTo=f"{ANN}/statuses/109000000000000001"),
            factories.note(3, "<p>Three</p>", oneOf=[{"type": "Note", "name": "Gull"}]),
        ],
        _mastodon,
    ),
    "pixelfed": Kind(
        [
            factories.status(
                1, "One", media_attachments=[factories.attachment(f"{HOST}/a.jpg", "A gull")], spoiler_text="Wet"
            ),
            factories.status(2, "Two", in_reply_to_id="1", in_reply_to_account_id="7", language="en"),
            factories.status(3, "Three", poll={"options": [{"title": "Gull"}]}, sensitive=True),
        ],
        _pixelfed,
    ),
    "instagram": Kind(
        [{"media": [factories.instagram_file(f"media/{n}.jpg", 1_667_640_000 + n, f"Number {n}")]} for n in range(2)]
        + [
            {
                "media": [factories.instagram_file(f"media/{n}.jpg", 1_667_640_009) for n in (2, 3)],
                "title": "Album",
                "creation_timestamp": 1_667_640_100,
            }
        ],
        _instagram,
    ),
    "x": Kind(
        [
            factories.tweet(
                1,
                "One https://t.co/a https://t.co/b",
                entities={"urls": [{"url": "https://t.co/a", "expanded_url": "https://example.org/a"}]},
                extended_entities={"media": [factories.x_medium("a.jpg", "https://t.co/b")]},
                possibly_sensitive=True,
            ),
            factories.tweet(2, "Two", in_reply_to_status_id_str="1500000000000000001", in_reply_to_user_id_str="4711"),
            factories.tweet(3, "Three"),
        ],
        _x,
    ),
    "bluesky": Kind(
        [
            factories.bluesky_post(0, "One ex.org/a", facets=[_facet(4, 12, "https://ex.org/a")]),
            factories.bluesky_post(
                1,
                "Two",
                reply={"root": _REF, "parent": _REF},
                labels={"$type": "com.atproto.label.defs#selfLabels", "values": [{"val": "nudity"}]},
            ),
            factories.bluesky_post(
                2,
                "Three",
                embed={"$type": "app.bsky.embed.images", "images": [factories.image(factories.picture(), "A gull")]},
            ),
            factories.bluesky_post(
                3,
                "Four",
                embed={"$type": "app.bsky.embed.external", "external": {"uri": "https://ex.org/x", "title": "X"}},
            ),
        ],
        _bluesky,
    ),
    "shoal": Kind(
        [
            {
                "id": str(n),
                "written": "2024-05-01T10:00:00Z",
                "visibility": "public",
                "text": f"Number {n}",
                "media": ["media/1.jpg"],
                "language": "en",
                "spoiler": "Wet",
                "place": {"latitude": 52.5, "longitude": 13.4},
                "poll": {"options": ["Gull"]},
            }
            for n in range(3)
        ],
        _shoal,
    ),
}


class Read(NamedTuple):
    """The records of a reader and the report of the plan."""

    posts: dict[str, ArchivedPost]
    left: list[SkippedRecord]
    report: ArchiveReport


def _read(kind: Kind, posts: list[Any]) -> Read:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with opened(kind.archive(folder, posts), folder) as entries:
            found = list(reader_of(entries, folder).records())
            report = ArchivePlan(folder).fill(reader_of(entries, folder), NOW, lambda _: None)
    posts_of = {record.id: record for record in found if isinstance(record, ArchivedPost)}
    return Read(posts_of, [record for record in found if isinstance(record, SkippedRecord)], report)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all parts of a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from _paths(part, (*path, key))


def _changed(post: dict[str, Any], path: tuple[Any, ...], change: str) -> Any:
    """Return a post with a change at a path; None for a change that is not possible there."""
    changed = deepcopy(post)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    part = holder[path[-1]]
    if change == "missing":
        del holder[path[-1]]
    elif change == "null":
        holder[path[-1]] = None
    elif change == "odd":
        holder[path[-1]] = "odd" if isinstance(part, dict) else ODD
    elif change == "deep":
        holder[path[-1]] = DEEP
    elif isinstance(part, list) and len(part) == 1:
        holder[path[-1]] = part[0]
    else:
        holder[path[-1]] = [part]
    return changed


@pytest.mark.parametrize("network", KINDS)
@settings(deadline=None, max_examples=examples(60, full=120))
@given(data=st.data())
def test_archive_with_one_malformed_post_imports_others_and_counts_omission(network: str, data: st.DataObject) -> None:
    kind = KINDS[network]
    before = _read(kind, kind.posts)
    assert len(before.posts) == len(kind.posts)
    number = data.draw(st.integers(0, len(kind.posts) - 1))
    path = data.draw(st.sampled_from(list(_paths(kind.posts[number]))))
    change = data.draw(st.sampled_from(["missing", "null", "odd", "deep", "wrapped"]))
    posts = [*kind.posts]
    posts[number] = _changed(posts[number], path, change)
    after = _read(kind, posts)
    changed_id = [*before.posts][number]
    for id_, post in before.posts.items():
        if id_ != changed_id:
            assert after.posts[id_] == post
    survivors = after.report.found.posts + after.report.found.comments
    omitted = sum(one.count for one in after.report.omitted if one.kind == "posts")
    assert survivors + omitted == len(kind.posts)
    if change not in {"missing", "null"} and after.posts.get(changed_id) != before.posts[changed_id]:
        counted = sum(one.count for one in after.report.omitted) - sum(one.count for one in before.report.omitted)
        assert counted > 0 or set(after.posts) != set(before.posts)
    if change == "wrapped" and not isinstance(_at(kind.posts[number], path), str | int | float | bool | None):
        assert after.posts.get(changed_id) == before.posts[changed_id] or len(after.left) > len(before.left)


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize("network", KINDS)
@pytest.mark.parametrize("odd", [None, 7, "odd", [], {}, [[]], {"odd": 1}, DEEP])
def test_archive_item_that_is_not_a_post_is_counted_as_omitted(network: str, odd: Any) -> None:
    kind = KINDS[network]
    posts = [*kind.posts, odd]
    if network == "bluesky" and not isinstance(odd, dict):
        posts[-1] = {"$type": odd}
    after = _read(kind, posts)
    assert after.report.found.posts + after.report.found.comments == len(kind.posts)
    assert sum(one.count for one in after.report.omitted if one.kind == "posts") == 1
    assert [one.reason for one in after.report.omitted if one.kind == "posts"] in (
        [Omission.MALFORMED],
        [Omission.BOOST],
    )


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "9" * 5_000, "9" * 200_000, "1e999", "1." + "1" * 5_000]
)
def test_archive_post_with_number_out_of_range_is_kept(number: str, tmp_path: Path) -> None:
    posts = [json.dumps(factories.note(n, "<p>One</p>", replies=12345.5)) for n in range(3)]
    outbox = f'{{"orderedItems": [{", ".join(posts).replace("12345.5", number)}]}}'
    files = factories.mastodon_files([]) | {"outbox.json": outbox}
    with opened(factories.zipped(tmp_path / "a.zip", files), tmp_path) as entries:
        report = ArchivePlan(tmp_path).fill(reader_of(entries, tmp_path), NOW, lambda _: None)
    assert (report.found.posts, report.omitted) == (3, [])


@pytest.mark.parametrize("network", KINDS)
def test_archive_documents_with_byte_order_mark_are_read(network: str, tmp_path: Path) -> None:
    path = KINDS[network].archive(tmp_path, KINDS[network].posts)
    if network != "bluesky":
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        documents = {name: BOM_UTF8 + data for name, data in files.items() if name.endswith((".json", ".js"))}
        factories.zipped(path, files | documents)
    with opened(path, tmp_path) as entries:
        report = ArchivePlan(tmp_path).fill(reader_of(entries, tmp_path), NOW, lambda _: None)
    assert report.found.posts + report.found.comments == len(KINDS[network].posts)


@pytest.mark.parametrize("network", ["mastodon", "pixelfed", "instagram", "x", "shoal"])
def test_archive_document_with_single_post_instead_of_list_is_read(network: str, tmp_path: Path) -> None:
    kind = KINDS[network]
    for posts in (kind.posts[0], {"3": kind.posts[0]}):
        if network == "mastodon":
            files = factories.mastodon_files([]) | {"outbox.json": json.dumps({"first": {"orderedItems": posts}})}
            path = factories.zipped(tmp_path / "a.zip", files)
        else:
            path = kind.archive(tmp_path, posts)  # type: ignore[arg-type]  # not a list
        with opened(path, tmp_path) as entries:
            report = ArchivePlan(tmp_path).fill(reader_of(entries, tmp_path), NOW, lambda _: None)
        assert report.found.posts == 1


@pytest.mark.parametrize("document", ["5", "null", '"odd"', "{}", '{"data": [{"id": "1"}]}'])
@pytest.mark.parametrize("network", ["mastodon", "instagram", "x"])
def test_archive_document_without_posts_is_counted_as_malformed(network: str, document: str, tmp_path: Path) -> None:
    files: dict[str, dict[str, Any]] = {
        "mastodon": factories.mastodon_files([]) | {"outbox.json": document},
        "instagram": {"content/posts_1.json": document},
        "x": {"data/tweets.js": f"window.YTD.tweets.part0 = {document}"},
    }
    with opened(factories.zipped(tmp_path / "a.zip", files[network]), tmp_path) as entries:
        report = ArchivePlan(tmp_path).fill(reader_of(entries, tmp_path), NOW, lambda _: None)
    assert [(one.kind, one.reason, one.count) for one in report.omitted] == [("posts", Omission.MALFORMED, 1)]
