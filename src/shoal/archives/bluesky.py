"""Bluesky's export: the repository of an account as a CAR file, by itself or in a ZIP.

A repository names photos by their hash and does not hold them. Where a ZIP has files that are called by these hashes, as programs
that fetch them save them, they are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from libipld import encode_cid

from shoal.archives.car import RepoRecord, Repository
from shoal.archives.entries import Entries
from shoal.archives.moments import iso_moment
from shoal.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
)
from shoal.core.archives import MOST_HANDLES, FollowList
from shoal.core.handles import BLUESKY, ForeignHandle, read_handle

_POST, _REPOST, _FOLLOW = "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.graph.follow"
_LINK = "app.bsky.richtext.facet#link"
_SHORTENED = "..."


class _Blob(msgspec.Struct, frozen=True):
    ref: bytes = b""
    mime_type: str = msgspec.field(default="image/", name="mimeType")


class _Image(msgspec.Struct, frozen=True):
    image: _Blob
    alt: str | None = None


class _Embed(msgspec.Struct, frozen=True):
    """Pictures, a video, a link, or a quoted post, which may have one of the others with it (`media`)."""

    type: str = msgspec.field(default="", name="$type")
    images: list[_Image] = []
    external: dict[str, Any] = {}
    media: dict[str, Any] = {}


class _Slice(msgspec.Struct, frozen=True, rename="camel"):
    byte_start: int
    byte_end: int


class _Feature(msgspec.Struct, frozen=True):
    type: str = msgspec.field(default="", name="$type")
    uri: str = ""


class _Facet(msgspec.Struct, frozen=True):
    index: _Slice
    features: list[_Feature] = []


class _Ref(msgspec.Struct, frozen=True):
    uri: str


class _ReplyTo(msgspec.Struct, frozen=True):
    parent: _Ref


class _SelfLabel(msgspec.Struct, frozen=True):
    val: str = ""


class _SelfLabels(msgspec.Struct, frozen=True):
    values: list[_SelfLabel] = []


class _BlueskyPost(msgspec.Struct, frozen=True, rename="camel"):
    text: str
    created_at: str
    facets: list[_Facet] | None = None
    embed: _Embed | None = None
    reply: _ReplyTo | None = None
    langs: list[str] | None = None
    labels: _SelfLabels | None = None


class _FollowOf(msgspec.Struct, frozen=True):
    subject: str


class BlueskyArchive:
    """A repository: the file `name` among the entries, or the only file. `folder` takes what has to be unpacked to be read."""

    kind = ArchiveKind.BLUESKY

    def __init__(self, entries: Entries, folder: Path, name: str = "") -> None:
        self._entries = entries
        self._path = entries.path
        if not entries.single:
            self._path = folder / "repository.car"
            with entries.opened(name) as packed, self._path.open("wb") as file:
                while piece := packed.read():
                    file.write(piece)
        self._files = {PurePosixPath(entry).name.partition(".")[0]: entry for entry in entries.names}
        with self._repository() as repository:
            self._did = repository.did

    @property
    def account(self) -> str:
        """The account's decentralized identifier."""
        return self._did

    def records(self) -> Iterator[ArchiveRecord]:
        """Yield the posts, and the follow list."""
        followees: dict[ForeignHandle, None] = {}
        unreadable = 0
        with self._repository() as repository:
            for record in repository.records():
                collection, _, _ = record.key.partition("/")
                if collection == _POST:
                    yield from self._post(record)
                elif collection == _REPOST:
                    yield SkippedRecord("posts", f"at://{self._did}/{record.key}", Omission.BOOST)
                elif collection == _FOLLOW:
                    handle = _followee(record)
                    if handle is None or len(followees) >= MOST_HANDLES:
                        unreadable += 1
                    else:
                        followees[handle] = None
        yield FollowList(tuple(followees), unreadable)

    @contextmanager
    def _repository(self) -> Iterator[Repository]:
        with self._path.open("rb") as file:
            yield Repository(file)

    def _post(self, record: RepoRecord) -> Iterator[ArchiveRecord]:
        uri = f"at://{self._did}/{record.key}"
        try:
            post = msgspec.convert(record.value, _BlueskyPost)
            embed = post.embed or _Embed()
            if embed.media:
                embed = msgspec.convert(embed.media, _Embed)
        except (msgspec.ValidationError, RecursionError):
            yield SkippedRecord("posts", uri, Omission.MALFORMED)
            return
        photos: list[ArchivedPhoto] = []
        for image in embed.images:
            file = self._files.get(_name(image.image.ref))
            if file is None:
                yield SkippedRecord("photos", uri, Omission.MISSING)
            else:
                photos.append(ArchivedPhoto(file, image.alt or ""))
        if embed.type.endswith("embed.video"):
            yield SkippedRecord("photos", uri, Omission.VIDEO)
        parent = post.reply.parent.uri if post.reply else ""
        labels = post.labels.values if post.labels else ()
        yield ArchivedPost(
            id=uri,
            written=iso_moment(post.created_at),
            text=_whole(post, embed),
            sensitive=any(not label.val.startswith("!") for label in labels),
            language=post.langs[0] if post.langs else "",
            photos=tuple(photos),
            parent=parent,
            own_parent=parent.startswith(f"at://{self._did}/"),
        )


def _followee(record: RepoRecord) -> ForeignHandle | None:
    try:
        return read_handle(msgspec.convert(record.value, _FollowOf).subject, BLUESKY)
    except msgspec.ValidationError:
        return None


def _name(ref: bytes) -> str:
    """Return a link to a file as files are called by it; empty for one that is no CID."""
    try:
        return encode_cid(ref.removeprefix(b"\0"))
    except ValueError:
        return ""


def _whole(post: _BlueskyPost, embed: _Embed) -> str:
    """Return the text with whole links: Bluesky's apps shorten them in the text, and a card has its link beside it."""
    text = post.text.encode()
    links: list[str] = []
    # From the end, so that what was replaced moves nothing that is still to come.
    for facet in sorted(post.facets or (), key=lambda facet: facet.index.byte_start, reverse=True):
        uri = next((feature.uri for feature in facet.features if feature.type == _LINK), "")
        start, end = facet.index.byte_start, facet.index.byte_end
        if not uri or not 0 <= start < end <= len(text):
            continue
        shown = text[start:end].decode(errors="replace")
        links.append(uri)
        whole = uri if shown.removesuffix(_SHORTENED).removesuffix("…") in uri else f"{shown} ({uri})"
        text = text[:start] + whole.encode() + text[end:]
    typed = text.decode(errors="replace")
    card = embed.external.get("uri")
    if isinstance(card, str) and card and card not in links and card not in typed:
        typed = f"{typed}\n\n{card}"
    return typed.strip()
