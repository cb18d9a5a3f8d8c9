"""Bluesky's export: the repository of an account as a CAR file, by itself or in a ZIP.

The AT Protocol calls the data of an account its repository. A content-addressed archive (CAR v1) holds its blocks: the
records, and the tree that orders them. It is a header and then blocks, each with its length, its identifier (CID) and its
bytes. One pass records the position of each block; blocks are read again as the tree needs them, so memory grows by some
hundred bytes a record. The repository names photos by their hash and does not contain them. Files in a ZIP that are named
by these hashes, as download programs save them, are imported.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import msgspec
from libipld import decode_dag_cbor, encode_cid

from shoal.admin.archives.entries import Entries
from shoal.admin.archives.formats.documents import fitted, iso_moment
from shoal.admin.archives.formats.plain_text import abbreviates
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
    odd_parts,
)
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import BLUESKY, MOST_HANDLES, FollowList, ForeignHandle, read_handle

MAX_BLOCK = 4 << 20
"""Maximum bytes of a block. A record has at most one MiB; a tree node has far less."""
MAX_BLOCKS = 2_000_000
_MOST_READ = 2
"""Bytes that may be read for each byte of the file. Records with equal content are one block, which is read for each of them."""
_SPARE = 16 << 20
"""Bytes that may be read in addition to `_MOST_READ`, whatever the size of the file."""
_MAX_KEY = 1_024
"""Maximum size of a record key in bytes, as in the AT Protocol."""
_CID_BYTES = 36
"""Size of a CID of version 1 with SHA-256 and codec DAG-CBOR or raw: `0x01 codec 0x12 0x20 digest`."""
_DAMAGED = "file: this Bluesky export is damaged and cannot be read"


class RepoRecord(NamedTuple):
    """A record of a Bluesky repository. Its key is `<collection>/<name>`. Its value is None if it is missing or damaged."""

    key: str
    value: dict[str, Any] | None


class Repository:
    """The newest state of a repository in a CAR file, which must stay open while the repository is read."""

    def __init__(self, file: IO[bytes]) -> None:
        """Index the blocks of the file. Raises `InvalidInput` if it is not a readable CAR file."""
        self._file = file
        header = _decoded(self._block())
        roots = header.get("roots")
        if header.get("version") != 1 or not isinstance(roots, list) or not roots:
            raise InvalidInput(_DAMAGED, field="file")
        self._at: dict[bytes, tuple[int, int]] = {}
        self._index()
        self._left = _MOST_READ * file.tell() + _SPARE
        commit = self._read(roots[0])
        did, data = commit.get("did"), commit.get("data")
        if not isinstance(did, str) or not isinstance(data, bytes):
            raise InvalidInput(_DAMAGED, field="file")
        self.did = did
        self._data = data

    def records(self) -> Iterator[RepoRecord]:
        seen: set[bytes] = set()
        # A stack of subtrees and records to visit, as (key, CID). A subtree has an empty key.
        queue: list[tuple[str, bytes]] = [("", self._data)]
        while queue:
            key, cid = queue.pop()
            if key:
                yield RepoRecord(key, self._record(cid))
                continue
            node = _bare(cid)
            if node in seen:
                raise InvalidInput(_DAMAGED, field="file")
            seen.add(node)
            queue.extend(reversed(list(_node(self._read(cid)))))

    def _index(self) -> None:
        while (size := self._size()) >= 0:
            if not _CID_BYTES <= size <= MAX_BLOCK:
                raise InvalidInput(_DAMAGED, field="file")
            at = self._file.tell()
            cid = self._file.read(_CID_BYTES)
            if len(self._at) >= MAX_BLOCKS:
                raise TooLarge(f"file: a Bluesky export may have at most {MAX_BLOCKS} blocks", field="file")
            self._at[cid] = (at + _CID_BYTES, size - _CID_BYTES)
            self._file.seek(at + size)

    def _record(self, cid: Any) -> dict[str, Any] | None:
        try:
            return self._read(cid)
        except TooLarge:
            raise
        except InvalidInput:
            return None

    def _read(self, cid: Any) -> dict[str, Any]:
        at, size = self._at.get(_bare(cid), (0, 0))
        if not size:
            raise InvalidInput(_DAMAGED, field="file")
        self._left -= size
        if self._left < 0:
            raise TooLarge("file: this Bluesky export repeats its records too often; download it again", field="file")
        self._file.seek(at)
        return _decoded(self._file.read(size))

    def _block(self) -> bytes:
        size = self._size()
        if not 0 < size <= MAX_BLOCK:
            raise InvalidInput(_DAMAGED, field="file")
        return self._file.read(size)

    def _size(self) -> int:
        """Return the next varint (seven bits per byte); -1 at the end."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self._file.read(1)
            if not byte:
                if shift:
                    raise InvalidInput(_DAMAGED, field="file")
                return -1
            number |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return number
        raise InvalidInput(_DAMAGED, field="file")


def is_car(head: bytes) -> bool:
    """Return whether a file begins like a CAR file: with a short map that has the keys `roots` and `version`."""
    return b"eroots" in head[:100] and b"gversion" in head[:100]


def _node(node: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the records and subtrees of a tree node in order, as (key, CID). A subtree has an empty key.

    The key of an `entry` consists of the first `entry["p"]` bytes of the previous key and the bytes `entry["k"]`.
    """
    try:
        if node["l"] is not None:
            yield "", node["l"]
        key = b""
        for entry in node["e"]:
            key = key[: entry["p"]] + entry["k"]
            if len(key) > _MAX_KEY:
                raise InvalidInput(_DAMAGED, field="file")
            yield key.decode(), entry["v"]
            if entry["t"] is not None:
                yield "", entry["t"]
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise InvalidInput(_DAMAGED, field="file") from error


def _bare(cid: Any) -> bytes:
    """Return a CID without the zero byte that precedes it in a DAG-CBOR link."""
    if not isinstance(cid, bytes):
        raise InvalidInput(_DAMAGED, field="file")
    return cid.removeprefix(b"\0")


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found = decode_dag_cbor(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_DAMAGED, field="file") from error
    if not isinstance(found, dict):
        raise InvalidInput(_DAMAGED, field="file")
    return found


_POST, _REPOST, _FOLLOW = "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.graph.follow"
_LINK = "app.bsky.richtext.facet#link"
_MOST_FACETS = 300
"""Maximum number of facets (links, mentions and tags) that are used per post; a text has at most 300 characters."""


class _Blob(msgspec.Struct, frozen=True):
    ref: bytes = b""
    mime_type: str = msgspec.field(default="image/", name="mimeType")


class _Image(msgspec.Struct, frozen=True):
    image: _Blob
    alt: str | None = None


class _Card(msgspec.Struct, frozen=True):
    uri: str


class _Embed(msgspec.Struct, frozen=True):
    """An attachment: pictures, a video, a link, or a quoted post, which may have a further attachment (`media`)."""

    type: str = msgspec.field(default="", name="$type")
    images: list[_Image] = []
    external: _Card | None = None
    media: _Embed | None = None


class _Slice(msgspec.Struct, frozen=True, rename="camel"):
    byte_start: int
    byte_end: int


class _Feature(msgspec.Struct, frozen=True):
    type: str = msgspec.field(name="$type")
    uri: str = ""


class _Facet(msgspec.Struct, frozen=True):
    index: _Slice
    features: list[_Feature] = []


class _Ref(msgspec.Struct, frozen=True):
    uri: str


class _ReplyTo(msgspec.Struct, frozen=True):
    parent: _Ref


class _SelfLabel(msgspec.Struct, frozen=True):
    val: str


class _SelfLabels(msgspec.Struct, frozen=True):
    values: list[_SelfLabel]


class _BlueskyPost(msgspec.Struct, frozen=True, rename="camel"):
    text: str = ""
    created_at: str = ""
    facets: list[_Facet] | None = None
    embed: _Embed | None = None
    reply: _ReplyTo | None = None
    langs: list[str] | None = None
    labels: _SelfLabels | None = None


class _FollowOf(msgspec.Struct, frozen=True):
    subject: str


class BlueskyArchive:
    """A Bluesky repository: an uploaded CAR file, or the entry `name` of a ZIP, which is unpacked into `folder`."""

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
        post, dropped = fitted(record.value, _BlueskyPost)
        if post is None:
            yield SkippedRecord("posts", uri, Omission.MALFORMED)
            return
        embed = post.embed or _Embed()
        embed = embed.media or embed
        text, odd_facets = _whole(post, embed)
        yield from odd_parts(uri, dropped + odd_facets)
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
            text=text,
            sensitive=any(not label.val.startswith("!") for label in labels),
            language=post.langs[0] if post.langs else "",
            photos=tuple(photos),
            parent=parent,
            own_parent=parent.startswith(f"at://{self._did}/"),
        )


def _followee(record: RepoRecord) -> ForeignHandle | None:
    follow = fitted(record.value, _FollowOf).value
    return read_handle(follow.subject, BLUESKY) if follow else None


def _name(ref: bytes) -> str:
    """Return the file name of a photo, which is the text form of its CID; empty if the CID is invalid."""
    try:
        return encode_cid(ref.removeprefix(b"\0"))
    except ValueError:
        return ""


class _Span(NamedTuple):
    """A range of characters that is a link, and the text that replaces it."""

    start: int
    end: int
    words: str


def _whole(post: _BlueskyPost, embed: _Embed) -> tuple[str, int]:
    """Return the text of a post with complete links, and the number of links with an invalid position.

    Bluesky's apps shorten the links in a text, and the link of a preview is not in the text. A link that the text lacks
    is appended to it.
    """
    spans, links, odd = _spans(post)
    pieces: list[str] = []
    at = 0
    for span in spans:
        pieces += post.text[at : span.start], span.words
        at = span.end
    typed = "".join((*pieces, post.text[at:])).strip()
    if embed.external:
        links.append(embed.external.uri)
    missing = [link for link in dict.fromkeys(links) if link and link not in typed]
    return "\n\n".join(filter(None, (typed, "\n".join(missing)))), odd


def _spans(post: _BlueskyPost) -> tuple[list[_Span], list[str], int]:
    """Return the valid links, in order and without overlaps; all links; and the number of links with a wrong position."""
    if not post.facets:
        return [], [], 0
    found: list[_Span] = []
    links: list[str] = []
    facets = post.facets[:_MOST_FACETS]
    odd = len(post.facets) - len(facets)
    positions = _Positions(post.text)
    for facet in sorted(facets, key=lambda facet: (facet.index.byte_start, facet.index.byte_end)):
        uri = next((feature.uri for feature in facet.features if feature.type == _LINK), "")
        if not uri:
            continue
        span = _span(positions, facet.index, uri)
        if span is not None and span not in found[-1:] and span.start >= (found[-1].end if found else 0):
            found.append(span)
        elif span is None or span not in found[-1:]:
            odd += uri not in post.text
        links.append(uri)
    return found, links, odd


def _span(positions: _Positions, index: _Slice, uri: str) -> _Span | None:
    """Return the position of a link in the text and its replacement; None if the position in the post is wrong.

    Positions should count bytes of UTF-8. Some programs count characters or UTF-16 units, which is accepted if the text
    at that position is the link.
    """
    text = positions.text
    in_bytes = positions.of_bytes(index)
    for way in (in_bytes, (index.byte_start, index.byte_end), positions.of_units(index)):
        if way and _is_apart(text, *way) and abbreviates(text[way[0] : way[1]], uri):
            return _Span(*way, uri)
    if in_bytes is None or uri in text or not _is_apart(text, *in_bytes):
        return None
    return _Span(*in_bytes, f"{text[in_bytes[0] : in_bytes[1]]} ({uri})")


def _is_apart(text: str, start: int, end: int) -> bool:
    """Return whether a range is valid, does not begin or end with a space, and does not cut a word of ASCII letters."""
    if not 0 <= start < end <= len(text) or text[start].isspace() or text[end - 1].isspace():
        return False
    return not any(
        0 < at < len(text) and all(letter.isascii() and letter.isalnum() for letter in text[at - 1 : at + 1])
        for at in (start, end)
    )


class _Positions:
    """Converts positions in the UTF-8 or UTF-16 form of a text to positions of characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._bytes = array("L", accumulate((len(letter.encode()) for letter in text), initial=0))
        self._units = array("L", accumulate((1 + (letter > "\uffff") for letter in text), initial=0))

    def of_bytes(self, index: _Slice) -> tuple[int, int] | None:
        """Return the range of characters for a range of bytes; None if it is invalid or splits a character."""
        return _range(self._bytes, index)

    def of_units(self, index: _Slice) -> tuple[int, int] | None:
        """Return the range of characters for a range of UTF-16 units; None if it is invalid or splits a character."""
        return _range(self._units, index)


def _range(positions: array[int], index: _Slice) -> tuple[int, int] | None:
    if not 0 <= index.byte_start < index.byte_end <= positions[-1]:
        return None
    start, end = bisect_left(positions, index.byte_start), bisect_left(positions, index.byte_end)
    return (start, end) if (positions[start], positions[end]) == (index.byte_start, index.byte_end) else None
