"""Catching up: which of the ranked posts are shown to somebody who was away, and who of their friends are quiet.

Quiet friends come first, for their posts are what one misses most easily: at most half of the places, unless others do not fill
the rest. Nobody has more than two. For example, with four places and the scores

    9 ann   8 ann   7 ann   6 ben   5 cyd, quiet   4 dan, quiet   3 eve, quiet

the order is cyd, dan, ann, ann.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

AUTHOR_MOST = 2
"""Posts of one author."""
QUIET_DAYS = 30
QUIET_MOST = 4
"""Somebody is quiet who has posted and shared no more than so often within `QUIET_DAYS`, about once a week."""


_DAY_MS = 86_400_000


class Chosen(NamedTuple):
    """Rows of the posts that are shown: those by quiet friends, and the best of the others."""

    quiet: list[int]
    best: list[int]


def chosen(authors: Sequence[Hashable], quiet: Collection[Hashable], limit: int) -> Chosen:
    """Choose at most `limit` of the posts that are given best first, by their authors."""
    counts: Counter[Hashable] = Counter()
    found = Chosen([], [])
    for row, author in enumerate(authors):
        counts[author] += 1
        if counts[author] <= AUTHOR_MOST:
            (found.quiet if author in quiet else found.best).append(row)
    most = max(limit // 2, limit - len(found.best))
    first = found.quiet[:most]
    return Chosen(first, found.best[: limit - len(first)])


def end_words(since: int, until: int, left_out: int) -> str:
    """Return the words at the end, such as "That is all since Tuesday."; moments in Unix milliseconds, told in UTC."""
    moment = datetime.fromtimestamp(since / 1_000, UTC)
    days = until // _DAY_MS - since // _DAY_MS
    if days == 0:
        when = f"{moment:%H:%M} UTC"
    elif days < 7:
        when = f"{moment:%A}"
    else:
        when = f"{moment.day} {moment:%B}"
    if not left_out:
        return f"That is all since {when}."
    more = "one more is" if left_out == 1 else f"{left_out:,} more are"
    return f"That is the best since {when}; {more} in your home timeline."
