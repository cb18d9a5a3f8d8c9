"""Records that every archive reader yields: posts, follow lists and omissions, and the report of an import."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from shoal.core.handles import FollowList
from shoal.core.licenses import License
from shoal.core.model import Visibility
from shoal.core.photo_details import PhotoDetails


class ArchiveKind(StrEnum):
    MASTODON = "mastodon"
    PIXELFED = "pixelfed"
    INSTAGRAM = "instagram"
    X = "x"
    BLUESKY = "bluesky"
    SHOAL = "shoal"

    @property
    def network(self) -> str:
        return self.value.capitalize()


class Omission(StrEnum):
    BOOST = "boost"
    """The post shares another account's post."""
    REPLY = "reply"
    """The post replies to another account."""
    THREAD = "thread"
    """The post replies to a post that is left out."""
    DIRECT = "direct"
    STORY = "story"
    ARCHIVED = "archived"
    """The author has hidden the post from the profile."""
    VIDEO = "video"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    OVER_QUOTA = "no_room"
    """The member has used up the quota for media."""
    EMPTY = "empty"
    FUTURE = "future"
    TWICE = "twice"
    """Another record has the same id."""
    MALFORMED = "malformed"
    TOO_MANY = "too_many"
    """The record exceeds a limit of the import."""
    DELETED = "deleted"
    """The record was imported before and has been deleted since."""
    ELSEWHERE = "elsewhere"
    """No member of this network is known to be the account."""
    UNSURE = "unsure"
    """A member of this network has the account's name, but may be another person."""
    UNMATCHED = "unmatched"
    """A truncated post with this full text is not in the archive."""
    NO_ACCOUNT = "nobody"
    REFUSED = "refused"
    """The server refused the record. The example contains the reason."""


class ArchivedPhoto(msgspec.Struct, frozen=True, array_like=True):
    file: str
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    """The point that must remain visible when the photo is cropped: x and y from -1 to 1, y upwards."""
    details: PhotoDetails | None = None
    """Details that the archive names, unchecked. If it is None, the details in the photo's file are used."""
    shows_details: bool = False


class ArchivedPost(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    written: int
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    visibility: Visibility = Visibility.PUBLIC
    language: str = ""
    photos: tuple[ArchivedPhoto, ...] = ()
    parent: str = ""
    """Id of the post that this post replies to; empty if it is no reply."""
    own_parent: bool = False
    """Whether this author is known to have written the parent, even if the archive lacks the parent."""
    poll: bool = False
    """Whether the text ends with the options of a poll."""
    place: tuple[float, float] | None = None
    data: Any = None
    """Custom data: any JSON value."""
    kind: str = ""
    """The name of the kind of `data`, if it had one."""
    license: License = License.RESERVED
    downloads: bool = False


class SkippedRecord(NamedTuple):
    kind: str
    """`posts`, `photos` or `follows`; or `parts`, if only parts of a post are skipped."""
    id: str
    reason: Omission


def odd_parts(id_: str, count: int) -> Iterator[SkippedRecord]:
    for _ in range(count):
        yield SkippedRecord("parts", id_, Omission.MALFORMED)


class KnownFollows(NamedTuple):
    """Members whom the owner of a Shoal export follows: their ids, and their names at the time of the export."""

    members: tuple[tuple[int, str], ...]
    beyond: int = 0
    """Number of follows that exceed the limit."""


ArchiveRecord = ArchivedPost | FollowList | KnownFollows | SkippedRecord


class ArchiveReader(Protocol):
    @property
    def kind(self) -> ArchiveKind: ...

    @property
    def account(self) -> str:
        """The name or address of the account as the archive contains it; empty if unknown."""
        ...

    def records(self) -> Iterator[ArchiveRecord]:
        """Iterate over all records, in any order; one record is in memory at a time.

        Raises `InvalidInput` for an archive that is damaged or too large.
        """
        ...


EXAMPLES = 5
_EXAMPLE = 200


def printable(name: str) -> str:
    """Return a name without characters that could control a terminal or imitate a line of a report."""
    return "".join(filter(str.isprintable, name))


class Amounts(msgspec.Struct):
    posts: int = 0
    comments: int = 0
    photos: int = 0
    follows: int = 0


class Omitted(msgspec.Struct):
    """Items of a `kind` (`posts`, `photos`, `follows`, `parts`) that are left out for one reason, with examples.

    `parts` are parts of posts.
    """

    kind: str
    reason: Omission
    count: int = 0
    examples: list[str] = []


class Sample(msgspec.Struct):
    written: int
    text: str
    photos: int


class ArchiveReport(msgspec.Struct):
    """The items found in an archive.

    After the import, it also has the numbers of new items (`taken`) and existing items (`there`).
    """

    kind: ArchiveKind
    account: str
    found: Amounts = msgspec.field(default_factory=Amounts)
    """Numbers of items that can be imported."""
    with_photos: int = 0
    first: int = 0
    last: int = 0
    """`first` and `last`: dates of the oldest and the newest post, in Unix milliseconds; 0 without posts."""
    samples: list[Sample] = []
    omitted: list[Omitted] = []
    polls: int = 0
    """Number of polls that become text."""
    cut: int = 0
    """Number of texts, content warnings and descriptions that are shortened."""
    continued: int = 0
    """Number of posts with more photos than the server allows. The remaining photos follow in comments."""
    taken: Amounts = msgspec.field(default_factory=Amounts)
    there: Amounts = msgspec.field(default_factory=Amounts)
    finished: bool = False
    """Whether the archive was imported. If not, the report is a preview."""

    def omit(self, kind: str, reason: Omission, example: str = "", count: int = 1) -> None:
        if not count:
            return
        found = next(
            (omission for omission in self.omitted if (omission.kind, omission.reason) == (kind, reason)), None
        )
        if found is None:
            found = Omitted(kind, reason)
            self.omitted.append(found)
        found.count += count
        if example and len(found.examples) < EXAMPLES:
            found.examples.append(printable(example[:_EXAMPLE]))

    def sample(self, written: int, text: str, photos: int) -> None:
        """Add a post to `samples`, unless there are enough."""
        if len(self.samples) < EXAMPLES:
            self.samples.append(Sample(written, text[:_EXAMPLE], photos))
