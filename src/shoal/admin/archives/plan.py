"""The plan of an import: the posts of an archive, ordered so that a post comes after the post that it replies to.

The posts are in a file. Memory contains a digest of each id and a few numbers. The process that reads the archive
creates and saves the plan, and the server loads and checks it. Reading an archive again results in an identical plan.
"""

from __future__ import annotations

import operator
import os
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import IO, Self

import msgspec

from shoal.admin.archives.entries import MAX_ENTRIES
from shoal.admin.archives.records import (
    ArchivedPost,
    ArchiveReader,
    ArchiveReport,
    KnownFollows,
    Omission,
    SkippedRecord,
    printable,
)
from shoal.core.handles import MOST_HANDLES, FollowList, ForeignHandle
from shoal.core.text import as_text

MOST_POSTS = 500_000
"""Maximum number of posts. It is also the maximum number of ids of skipped posts."""
MOST_PHOTOS = 1_000
"""Maximum photos per post. The maximum for all posts together is the maximum number of files in an archive."""
_MOST_ID = 2_000
_MOST_TEXT = 100_000
"""Maximum characters of a text, of a content warning, and of all descriptions of a post. The server's limits are lower."""
_MOST_PLAN = 128 << 20
_MOST_RECORD = 32 << 20
_MOST_ACCOUNT = 200
_CHUNK_POSTS = 500
_NONE = -1
_UNKNOWN, _DROPPED, _IN_FLIGHT = -2, -1, -3
"""Depths of posts without a known depth: not visited yet, left out, and on the path that is being followed."""


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """The form in which a plan is saved, with each array as bytes."""

    at: bytes
    written: bytes
    parents: bytes
    depths: bytes
    order: bytes
    by_depth: bytes
    photos: bytes
    answered: bytes
    handles: list[ForeignHandle]
    followees: dict[int, str]


class DamagedPlan(Exception):
    """A saved plan is damaged or forged: its values cannot come from reading an archive."""


class ArchivePlan:
    """The plan of an import, stored in a folder: posts, follows, and the report on the contents of the archive."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "posts"
        self._saved = folder / "plan"
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ArchivedPost)
        self._at = array("q")
        self.written = array("q")
        """Dates by post, in Unix milliseconds."""
        self._ordinals: dict[bytes, int] = {}
        self._answers: dict[int, tuple[bytes, bool]] = {}
        self.parents = array("i")
        """For each post, the position of the post that it replies to, or -1."""
        self._depths = array("i")
        self.order = array("i")
        """Positions of the posts to import, by date."""
        self._by_depth = array("i")
        self.photos = array("H")
        self._photos_left = MAX_ENTRIES
        self.answered = bytearray()
        """For each post, 1 if it has replies, otherwise 0."""
        self.handles: dict[ForeignHandle, None] = {}
        self.followees: dict[int, str] = {}
        """Names at the time of the export of the followed members, by id."""

    def save(self) -> None:
        self._saved.write_bytes(
            self._encoder.encode(
                _Saved(
                    self._at.tobytes(),
                    self.written.tobytes(),
                    self.parents.tobytes(),
                    self._depths.tobytes(),
                    self.order.tobytes(),
                    self._by_depth.tobytes(),
                    self.photos.tobytes(),
                    bytes(self.answered),
                    list(self.handles),
                    self.followees,
                )
            )
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load the plan that is saved in a folder. Raises `DamagedPlan` if it exceeds the limits of an archive."""
        plan = cls(folder)
        with _regular(plan._saved) as file:
            data = file.read(_MOST_PLAN + 1)
        if len(data) > _MOST_PLAN:
            raise DamagedPlan(f"the import plan saved by the archive reader process has more than {_MOST_PLAN} bytes")
        saved = msgspec.msgpack.decode(data, type=_Saved)
        plan._at.frombytes(saved.at)
        plan.written.frombytes(saved.written)
        plan.parents.frombytes(saved.parents)
        plan._depths.frombytes(saved.depths)
        plan.order.frombytes(saved.order)
        plan._by_depth.frombytes(saved.by_depth)
        plan.photos.frombytes(saved.photos)
        plan.answered = bytearray(saved.answered)
        plan.handles = dict.fromkeys(saved.handles)
        plan.followees = saved.followees
        plan._check()
        return plan

    def _check(self) -> None:
        posts = range(len(self))
        parts = (self.parents, self._depths, self.photos, self.answered)
        sizes = map(operator.sub, self._at[1:], self._at)
        if not (
            len(posts) <= MOST_POSTS
            and all(len(part) == len(posts) for part in parts)
            and len(self._at) == len(posts) + 1
            and all(0 <= size <= _MOST_RECORD for size in (self._at[0], *sizes))
            and all(_NONE <= parent < len(posts) for parent in self.parents)
            and all(position in posts and self._depths[position] >= 0 for position in self.order)
            and len(set(self.order)) == len(self.order)
            and sorted(self.order) == sorted(self._by_depth)
            and sum(self.photos) <= MAX_ENTRIES
            and len(self.handles) <= MOST_HANDLES
            and len(self.followees) <= MOST_HANDLES
        ):
            raise DamagedPlan("the import plan saved by the archive reader process is inconsistent")

    def fill(self, reader: ArchiveReader, now: int, on_progress: Callable[[int], None]) -> ArchiveReport:
        """Read an archive and return its report. `on_progress` is called with the number of posts read so far.

        Raises `InvalidInput` for an archive that is damaged or too large.
        """
        report = ArchiveReport(reader.kind, printable(reader.account[:_MOST_ACCOUNT]))
        left: set[bytes] = set()
        with self._path.open("wb") as file:
            for record in reader.records():
                if isinstance(record, SkippedRecord):
                    report.omit(record.kind, record.reason, record.id)
                    if record.kind == "posts" and record.id and len(left) < MOST_POSTS:
                        left.add(_digest(record.id))
                elif isinstance(record, FollowList):
                    self.handles.update(dict.fromkeys(record.handles))
                    report.omit("follows", Omission.NO_ACCOUNT, count=record.unreadable)
                elif isinstance(record, KnownFollows):
                    self.followees.update(record.members)
                    report.omit("follows", Omission.TOO_MANY, count=record.beyond)
                elif reason := self._unfit(cleaned := _cleaned(self._within(record, report)), now):
                    report.omit("posts", reason, record.id)
                else:
                    self._add(cleaned, file.tell())
                    file.write(self._encoder.encode(cleaned))
                    if len(self) % _CHUNK_POSTS == 0:
                        on_progress(len(self))
            self._at.append(file.tell())
        self._arrange(left, report)
        self._count(report)
        return report

    def __len__(self) -> int:
        return len(self.written)

    def levels(self) -> Iterator[list[int]]:
        """Yield positions of posts by level: posts, then comments on these posts, then replies to these comments.

        A level is ordered by date.
        """
        for _, level in groupby(self._by_depth, key=self._depths.__getitem__):
            yield list(level)

    def read(self, positions: Iterable[int]) -> list[ArchivedPost]:
        found = []
        with _regular(self._path) as file:
            for position in positions:
                file.seek(self._at[position])
                post = self._decoder.decode(file.read(self._at[position + 1] - self._at[position]))
                if (post.written, len(post.photos)) != (self.written[position], self.photos[position]):
                    raise DamagedPlan("a post saved by the archive reader process differs from the import plan")
                found.append(post)
        return found

    def _within(self, post: ArchivedPost, report: ArchiveReport) -> ArchivedPost:
        """Return a post without the photos beyond the limits per post and per archive."""
        retained = post.photos[: min(MOST_PHOTOS, self._photos_left)]
        report.omit("photos", Omission.TOO_MANY, post.id, len(post.photos) - len(retained))
        return msgspec.structs.replace(post, photos=retained)

    def _unfit(self, post: ArchivedPost, now: int) -> Omission | None:
        if not 0 < len(post.id) <= _MOST_ID or len(post.parent) > _MOST_ID or post.written <= 0:
            return Omission.MALFORMED
        if post.written > now:
            return Omission.FUTURE
        if _digest(post.id) in self._ordinals:
            return Omission.TWICE
        if not (post.text.strip() or post.photos or post.data is not None):
            return Omission.EMPTY
        return Omission.TOO_MANY if len(self) >= MOST_POSTS else None

    def _add(self, post: ArchivedPost, at: int) -> None:
        position = len(self)
        self._ordinals[_digest(post.id)] = position
        if post.parent:
            self._answers[position] = (_digest(post.parent), post.own_parent)
        self._at.append(at)
        self.written.append(post.written)
        self.photos.append(len(post.photos))
        self._photos_left -= len(post.photos)

    def _arrange(self, left: set[bytes], report: ArchiveReport) -> None:
        """Set the depth of each post in its thread. Replies to posts that are not imported are omitted."""
        self.parents = array("i", [_NONE]) * len(self)
        self._depths = array("i", [_UNKNOWN]) * len(self)
        self.answered = bytearray(len(self))
        reasons: dict[int, Omission] = {}
        for position in range(len(self)):
            self._follow_thread(position, left, reasons)
        dropped = sorted(reasons)
        for position, post in zip(dropped, self._some(dropped), strict=True):
            report.omit("posts", reasons[position], post.id)
        retained = (position for position in range(len(self)) if self._depths[position] >= 0)
        self.order = array("i", sorted(retained, key=lambda position: (self.written[position], position)))
        self._by_depth = array("i", sorted(self.order, key=self._depths.__getitem__))

    def _follow_thread(self, position: int, left: set[bytes], reasons: dict[int, Omission]) -> None:
        chain: list[int] = []
        while self._depths[position] == _UNKNOWN:
            answered, own = self._answers.get(position, (b"", True))
            parent = self._ordinals.get(answered, _NONE)
            if parent in (_NONE, position) or self._depths[parent] == _IN_FLIGHT:
                # The parent of this post is not imported: it is by another author, is missing in the archive, or is
                # part of a cycle.
                taken = parent != _NONE or (own and answered not in left)
                self._depths[position] = 0 if taken else _DROPPED
                if not taken:
                    reasons[position] = Omission.THREAD if answered in left else Omission.REPLY
                break
            chain.append(position)
            self.parents[position] = parent
            self.answered[parent] = True
            self._depths[position] = _IN_FLIGHT
            position = parent
        depth = self._depths[position]
        for below in reversed(chain):
            depth = _DROPPED if depth == _DROPPED else depth + 1
            self._depths[below] = depth
            if depth == _DROPPED:
                reasons[below] = Omission.THREAD

    def _count(self, report: ArchiveReport) -> None:
        posts = sum(1 for position in self.order if not self._depths[position])
        report.found.posts, report.found.comments = posts, len(self.order) - posts
        report.found.photos = sum(self.photos[position] for position in self.order)
        report.with_photos = sum(1 for position in self.order if self.photos[position])
        if self.order:
            report.first, report.last = self.written[self.order[0]], self.written[self.order[-1]]
        for post in self._some(self.order):
            report.polls += post.poll
            report.sample(post.written, post.text, len(post.photos))

    def _some(self, positions: Sequence[int]) -> Iterator[ArchivedPost]:
        for start in range(0, len(positions), _CHUNK_POSTS):
            yield from self.read(positions[start : start + _CHUNK_POSTS])


def _regular(path: Path) -> IO[bytes]:
    """Open a file that another process wrote. Raises `DamagedPlan` for a pipe, which would block, and `OSError` for a symlink."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise DamagedPlan("the import plan saved by the archive reader process is not a regular file")


def _digest(id_: str) -> bytes:
    """Return a digest of fixed size. It is kept in memory instead of the id, which may have any length."""
    return blake2b(id_.encode(errors="surrogatepass"), digest_size=16).digest()


def _cleaned(post: ArchivedPost) -> ArchivedPost:
    """Return a post whose texts are cleaned (`as_text`) and shortened to the limits."""
    each = _MOST_TEXT // max(1, len(post.photos))
    return msgspec.structs.replace(
        post,
        text=_bounded(post.text),
        spoiler=_bounded(post.spoiler),
        language=_bounded(post.language),
        photos=tuple(
            msgspec.structs.replace(photo, description=_bounded(photo.description)[:each]) for photo in post.photos
        ),
    )


def _bounded(text: str) -> str:
    return as_text(text)[:_MOST_TEXT]
