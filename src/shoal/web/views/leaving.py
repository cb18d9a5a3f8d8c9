"""A member who left, in the words of a page: when, and how much there was of what."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import Departure
from shoal.web.visit import Visit


class CountLine(NamedTuple):
    """One kind of what was deleted, and how much of it."""

    words: str
    n: str


class DepartureView(NamedTuple):
    """A departure in words."""

    name: str
    until: str
    """The moment at which the deletion begins."""
    begun: bool
    done: str
    """When the last of it was deleted; empty: it is not done."""
    lines: list[CountLine]


def departure_view(visit: Visit, departure: Departure) -> DepartureView:
    """Return a departure as a page shows it. Kinds of which there was nothing are left out."""
    words = visit.words
    lines = [
        CountLine(label, words.number(n))
        for kind, label in _kinds(visit).items()
        if (n := departure.counts.get(kind, 0))
    ]
    if size := departure.counts.get("bytes", 0):
        lines.append(CountLine(words.text("Megabytes of files"), words.about(size / 1e6)))
    return DepartureView(
        departure.name,
        words.full(departure.at),
        departure.begun_at > 0,
        words.full(departure.done_at) if departure.done_at else "",
        lines,
    )


def _kinds(visit: Visit) -> dict[str, str]:
    _ = visit.words.text
    return {
        "posts": _("Posts and comments"),
        "media": _("Pictures, videos and sounds"),
        "shares": _("Shares"),
        "likes": _("Likes"),
        "bookmarks": _("Saved posts"),
        "reactions": _("Emoji on posts"),
        "votes": _("Votes in polls"),
        "followers": _("Followers"),
        "follows": _("Members followed"),
        "tags": _("Tags followed"),
        "albums": _("Albums"),
        "lists": _("Lists"),
        "filters": _("Filters"),
        "invitations": _("Invitations"),
        "scheduled": _("Scheduled posts"),
        "conversations": _("Conversations"),
        "notifications": _("Notifications"),
        "blocks": _("Members blocked"),
        "mutes": _("Members muted"),
        "notes": _("Notes about members"),
    }
