"""How commands tell what was found in an archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from shoal.archives.records import Amounts, ArchiveReport, Omission

REASONS: Mapping[Omission, str] = {
    Omission.BOOST: "posts of others that were shared",
    Omission.REPLY: "answers to others",
    Omission.THREAD: "answers to posts that are not taken in",
    Omission.DIRECT: "for single people",
    Omission.STORY: "stories",
    Omission.ARCHIVED: "archived by their author",
    Omission.VIDEO: "videos and sounds",
    Omission.MISSING: "the file is not in the archive",
    Omission.UNREADABLE: "no picture that can be taken",
    Omission.NO_ROOM: "no room for more media",
    Omission.EMPTY: "neither a text nor a photo is left",
    Omission.FUTURE: "dated in the future",
    Omission.TWICE: "in the archive twice",
    Omission.MALFORMED: "not of the form that they should have",
    Omission.TOO_MANY: "more than are taken",
    Omission.DELETED: "taken in before, and deleted here since",
    Omission.ELSEWHERE: "not here, as far as is known",
    Omission.UNSURE: "somebody here has the name, and may be somebody else",
    Omission.UNMATCHED: "the post that they belong to is not in the archive",
    Omission.NOBODY: "entries that name nobody",
    Omission.REFUSED: "refused",
}


def told(report: ArchiveReport) -> Iterator[str]:
    """Yield the lines about a report."""
    whose = f" of {report.account}" if report.account else ""
    yield f"an archive of {report.kind.network}{whose}"
    if report.first:
        yield f"posts from {_day(report.first)} to {_day(report.last)}"
    if report.finished:
        yield f"taken in: {_amounts(report.taken)}"
        yield f"there already: {_amounts(report.there)}"
    else:
        yield f"would be taken in: {_amounts(report.found)}; {report.with_photos:,} of the posts have photos"
        for sample in report.samples:
            photos = f" [photos: {sample.photos}]" if sample.photos else ""
            yield f"  {_day(sample.written)} {' '.join(sample.text.split())[:80]}{photos}"
    for one in report.omitted:
        examples = f" ({', '.join(one.examples)})" if one.examples else ""
        yield f"{one.kind} left out, {one.count:,}: {REASONS[one.reason]}{examples}"
    if report.polls:
        yield f"polls that become text: {report.polls:,}"
    if report.cut:
        yield f"texts and descriptions cut at the limit: {report.cut:,}"
    if report.continued:
        yield f"posts whose further photos are in comments: {report.continued:,}"


def _amounts(amounts: Amounts) -> str:
    return f"{amounts.posts:,} posts, {amounts.comments:,} comments, {amounts.photos:,} photos, {amounts.follows:,} follows"


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d}"
