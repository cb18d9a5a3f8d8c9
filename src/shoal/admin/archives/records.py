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
    """The services whose archives can be imported."""

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
    """The reason for which a record was not imported."""

    BOOST = "boost"
    """Shares another account's post."""
    REPLY = "reply"
    """Replies to another account."""
    THREAD = "thread"
    """Replies to a post that is left out."""
    DIRECT = "direct"
    STORY = "story"
    ARCHIVED = "archived"
    """Hidden from the profile by its author."""
    VIDEO = "video"
    """A video or audio file."""
    MISSING = "missing"
    """The archive does not contain the file."""
    UNREADABLE = "unreadable"
    OVER_QUOTA = "no_room"
    """The member's media quota is used up."""
    EMPTY = "empty"
    FUTURE = "future"
    TWICE = "twice"
    """Duplicate id."""
    MALFORMED = "malformed"
    """Does not have the expected format."""
    TOO_MANY = "too_many"
    """Exceeds a limit of the import."""
    DELETED = "deleted"
    """Imported before, and deleted since."""
    ELSEWHERE = "elsewhere"
    """The account is not known to be on this server."""
    UNSURE = "unsure"
    """A member here has this name, but may be another person."""
    UNMATCHED = "unmatched"
    """The full text of a truncated post that is not in the archive."""
    NO_ACCOUNT = "nobody"
    """The entry names no account."""
    REFUSED = "refused"
    """The server rejected it; the example has the reason."""


class ArchivedPhoto(msgspec.Struct, frozen=True, array_like=True):
    file: str
    """File name in the archive."""
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    """The point that a crop must keep: x and y in -1..1, y upwards."""
    details: PhotoDetails | None = None
    """What the camera stored, unchecked; None for the details in the file."""
    shows_details: bool = False


class ArchivedPost(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A post from an archive, as its author wrote it."""

    id: str
    """Id of the post, unique in its network."""
    written: int
    """Unix milliseconds."""
    text: str = ""
    spoiler: str = ""
    sensitive: bool = False
    visibility: Visibility = Visibility.PUBLIC
    language: str = ""
    photos: tuple[ArchivedPhoto, ...] = ()
    parent: str = ""
    """Id of the post it replies to, or empty."""
    own_parent: bool = False
    """Whether the parent is known to be by this author, even if it is not in the archive."""
    poll: bool = False
    """Whether the text ends with the options of a poll."""
    place: tuple[float, float] | None = None
    data: Any = None
    """Any JSON value."""
    license: License = License.RESERVED
    downloads: bool = False


class SkippedRecord(NamedTuple):
    """A record, or part of a record, that cannot be imported."""

    kind: str
    """`posts`, `photos`, `follows`, or `parts` of posts that are imported without them."""
    id: str
    reason: Omission


def odd_parts(id_: str, count: int) -> Iterator[SkippedRecord]:
    """Yield a skipped record for each of `count` parts of a post that have an unexpected format."""
    for _ in range(count):
        yield SkippedRecord("parts", id_, Omission.MALFORMED)


class KnownFollows(NamedTuple):
    """Members followed by the owner of a Shoal export, with their ids and names at the time of the export."""

    members: tuple[tuple[int, str], ...]
    beyond: int = 0
    """Number of follows beyond the limit."""


ArchiveRecord = ArchivedPost | FollowList | KnownFollows | SkippedRecord


class ArchiveReader(Protocol):
    """Reads an archive of one format."""

    @property
    def kind(self) -> ArchiveKind: ...

    @property
    def account(self) -> str:
        """The name or address of the account, as the service that created the archive writes it; empty if unknown."""
        ...

    def records(self) -> Iterator[ArchiveRecord]:
        """Iterate over all records, in any order; one record is in memory at a time.

        Raises `InvalidInput` for an archive that is damaged or too large.
        """
        ...


EXAMPLES = 5
_EXAMPLE = 200
"""Maximum characters of an example."""


def printable(name: str) -> str:
    """Return a name without characters that could control a terminal or forge a line of a report."""
    return "".join(filter(str.isprintable, name))


class Amounts(msgspec.Struct):
    """Numbers of items in an archive. A comment is a reply to a post of the archive's owner."""

    posts: int = 0
    comments: int = 0
    photos: int = 0
    follows: int = 0


class Omitted(msgspec.Struct):
    """Items of a `kind` (`posts`, `photos`, `follows`, or `parts` of posts) left out for one reason, with examples."""

    kind: str
    reason: Omission
    count: int = 0
    examples: list[str] = []


class Sample(msgspec.Struct):
    """An example of a post to be imported."""

    written: int
    """Unix milliseconds."""
    text: str
    photos: int


class ArchiveReport(msgspec.Struct):
    """The items found in an archive and, after the import, the numbers of new (`taken`) and already existing (`there`) items."""

    kind: ArchiveKind
    account: str
    found: Amounts = msgspec.field(default_factory=Amounts)
    """Items to import."""
    with_photos: int = 0
    """Posts and comments with photos."""
    first: int = 0
    last: int = 0
    """Dates of the oldest and newest post, in Unix milliseconds; 0 if there is none."""
    samples: list[Sample] = []
    omitted: list[Omitted] = []
    polls: int = 0
    """Polls converted to text."""
    cut: int = 0
    """Texts, content warnings and descriptions that are truncated."""
    continued: int = 0
    """Posts with more photos than the server allows: the rest follow in comments."""
    taken: Amounts = msgspec.field(default_factory=Amounts)
    there: Amounts = msgspec.field(default_factory=Amounts)
    finished: bool = False
    """Whether it was imported, not only previewed."""

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
        """Add a post as an example, unless there are enough examples."""
        if len(self.samples) < EXAMPLES:
            self.samples.append(Sample(written, text[:_EXAMPLE], photos))
