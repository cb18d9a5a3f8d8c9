"""Records that every archive reader yields (posts, follow lists, omissions with their reasons), and the report of imported and
omitted items.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from shoal.core.handles import FollowList
from shoal.core.model import Visibility


class ArchiveKind(StrEnum):
    """Networks whose archives are read."""

    MASTODON = "mastodon"
    PIXELFED = "pixelfed"
    INSTAGRAM = "instagram"
    X = "x"
    BLUESKY = "bluesky"
    SHOAL = "shoal"

    @property
    def network(self) -> str:
        """Name the network as it writes itself."""
        return self.value.capitalize()


class Omission(StrEnum):
    """Reasons for which something of an archive is left out."""

    BOOST = "boost"
    """It shares a post of somebody else."""
    REPLY = "reply"
    """It answers somebody else."""
    THREAD = "thread"
    """It answers a post that is left out."""
    DIRECT = "direct"
    """It is for single people."""
    STORY = "story"
    ARCHIVED = "archived"
    """Its author had taken it out of their profile."""
    VIDEO = "video"
    """It is a video or a sound."""
    MISSING = "missing"
    """The archive does not hold the file."""
    UNREADABLE = "unreadable"
    """The file is no picture that is taken here."""
    NO_ROOM = "no_room"
    """The member's room for media is used up."""
    EMPTY = "empty"
    """There is neither a text nor a photo."""
    FUTURE = "future"
    """Its date is in the future."""
    TWICE = "twice"
    """It has the id of an earlier one."""
    MALFORMED = "malformed"
    """It is not of the form that it should have."""
    TOO_MANY = "too_many"
    """The archive has more than are taken."""
    DELETED = "deleted"
    """It was taken in before, and deleted here since."""
    ELSEWHERE = "elsewhere"
    """The account is nobody's here, as far as is known."""
    UNSURE = "unsure"
    """Somebody here has the same name, and may be somebody else."""
    UNMATCHED = "unmatched"
    """The archive does not have the post that it belongs to."""
    NOBODY = "nobody"
    """The entry names no account."""
    REFUSED = "refused"
    """The server refused it; the example says why."""


class ArchivedPhoto(msgspec.Struct, frozen=True, array_like=True):
    """A photo of a post."""

    file: str
    """Name of its file in the archive."""
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    """As `Media.focus`."""


class ArchivedPost(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A post as its author wrote it."""

    id: str
    """Tells it from all others of the same network."""
    written: int
    """Unix milliseconds."""
    text: str = ""
    """Plain text."""
    spoiler: str = ""
    sensitive: bool = False
    visibility: Visibility = Visibility.PUBLIC
    language: str = ""
    photos: tuple[ArchivedPhoto, ...] = ()
    parent: str = ""
    """Id of the post that it answers; empty for none."""
    own_parent: bool = False
    """Whether that post is known to be by the same author, even if the archive does not have it."""
    poll: bool = False
    """Whether the text ends with the options of a poll."""
    place: tuple[float, float] | None = None
    data: Any = None
    """As `Draft.data`."""


class SkippedRecord(NamedTuple):
    """A record, or a part of one, that a reader cannot give."""

    kind: str
    """`posts`, `photos`, `follows`, or `parts` of posts that are imported without them."""
    id: str
    reason: Omission


def odd_parts(id_: str, count: int) -> Iterator[SkippedRecord]:
    """Yield the parts of a post that are of another form than they should be."""
    for _ in range(count):
        yield SkippedRecord("parts", id_, Omission.MALFORMED)


class KnownFollows(NamedTuple):
    """Members whom the owner of one of our own exports follows: ids and names, as they were when it was made."""

    members: tuple[tuple[int, str], ...]
    beyond: int = 0
    """How many more there are than are taken."""


ArchiveRecord = ArchivedPost | FollowList | KnownFollows | SkippedRecord


class ArchiveReader(Protocol):
    """An archive of one format."""

    @property
    def kind(self) -> ArchiveKind:
        """The network that it is of."""
        ...

    @property
    def account(self) -> str:
        """The account that it is of, as its network writes it; empty where the archive does not say."""
        ...

    def records(self) -> Iterator[ArchiveRecord]:
        """Yield everything, in any order; one record is in memory at a time.

        Raises `InvalidInput` for an archive that is damaged or larger than is allowed.
        """
        ...


EXAMPLES = 5
_EXAMPLE = 200
"""Characters of an example."""


def printable(name: str) -> str:
    """Return a name from an archive without characters that could control a terminal or forge a line of a report."""
    return "".join(filter(str.isprintable, name))


class Amounts(msgspec.Struct):
    """Numbers of things. A comment is a post that answers another of the same member's."""

    posts: int = 0
    comments: int = 0
    photos: int = 0
    follows: int = 0


class Omitted(msgspec.Struct):
    """Things of a `kind` (`posts`, `photos`, `follows`, or `parts` of posts) that are left out for one reason, with examples."""

    kind: str
    reason: Omission
    count: int = 0
    examples: list[str] = []


class Sample(msgspec.Struct):
    """A post that is taken in."""

    written: int
    """Unix milliseconds."""
    text: str
    photos: int


class ArchiveReport(msgspec.Struct):
    """Amounts that were found, and once the archive is taken in, those that were new and those that were there already."""

    kind: ArchiveKind
    account: str
    found: Amounts = msgspec.field(default_factory=Amounts)
    """Amounts that are to be taken in."""
    with_photos: int = 0
    """Posts and comments that have photos."""
    first: int = 0
    last: int = 0
    """Dates of the oldest and the newest post, in Unix milliseconds; 0 where there is none."""
    samples: list[Sample] = []
    omitted: list[Omitted] = []
    polls: int = 0
    """Polls that become text."""
    cut: int = 0
    """Texts, warnings and descriptions that are cut at the limit."""
    continued: int = 0
    """Posts with more photos than one may have here: the others follow in comments."""
    taken: Amounts = msgspec.field(default_factory=Amounts)
    there: Amounts = msgspec.field(default_factory=Amounts)
    finished: bool = False
    """Whether it was taken in, and not only looked at."""

    def omit(self, kind: str, reason: Omission, example: str = "", count: int = 1) -> None:
        """Count something that is left out."""
        if not count:
            return
        found = next((one for one in self.omitted if (one.kind, one.reason) == (kind, reason)), None)
        if found is None:
            found = Omitted(kind, reason)
            self.omitted.append(found)
        found.count += count
        if example and len(found.examples) < EXAMPLES:
            found.examples.append(printable(example[:_EXAMPLE]))

    def sample(self, written: int, text: str, photos: int) -> None:
        """Show a post as one of the first."""
        if len(self.samples) < EXAMPLES:
            self.samples.append(Sample(written, text[:_EXAMPLE], photos))
