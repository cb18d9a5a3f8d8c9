"""The report of an archive: what is taken in of it, what is left out and why."""

from __future__ import annotations

import msgspec

from shoal.archives.records import ArchiveKind, Omission

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
