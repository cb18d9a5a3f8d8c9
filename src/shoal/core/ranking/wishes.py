"""Wishes of a member about their ranked feed: tags that they picked, and "more" or "less like this".

Every tap moves the affinity to an author or a tag by 0.4, up to five times in each direction; a picked tag moves it by 0.5. The
affinity stays between -1 and 1. So a followee (affinity 0.4) has 0 after one tap for less, and -0.4 after two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.ranking.interests import Interests
from shoal.core.text import canonical_tag

TAP = 0.4
MOST_TAPS = 5
PICKED = 0.5
MOST_PICKED = 50
MOST_REMEMBERED = 100
"""Authors, and tags, whose taps are remembered: those tapped last."""

MOST_BYTES = 8_192
"""Bytes of all wishes as they are stored."""
_MOST_PICKED_BYTES = 4_096

K = TypeVar("K", int, str)


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """All wishes of a member."""

    picked: tuple[str, ...] = ()
    """Tags (canonical)."""
    authors: dict[int, int] = {}
    """Taps by the id of an author, -5 to 5; the one that was tapped last is at the end."""
    tags: dict[str, int] = {}
    """Taps by tag, likewise."""


NO_WISHES = Wishes()


def tapped(taps: Mapping[K, int], key: K, step: int) -> dict[K, int]:
    """Return the taps after one more for a key: `step` is 1 for more, -1 for less, and 0 forgets what was said of it."""
    count = max(-MOST_TAPS, min(MOST_TAPS, taps.get(key, 0) + step)) if step else 0
    others = {other: number for other, number in taps.items() if other != key}
    kept = dict(list(others.items())[-(MOST_REMEMBERED - 1) :])
    return kept | {key: count} if count else others


def check_picked(picked: tuple[str, ...]) -> None:
    """Raise `InvalidInput` for more than 50 tags, or 4,096 bytes of them."""
    if len(picked) > MOST_PICKED:
        raise InvalidInput(f"tags: at most {MOST_PICKED}", field="tags")
    if len(encode_wishes(Wishes(picked=picked))) > _MOST_PICKED_BYTES:
        raise InvalidInput(f"tags: at most {_MOST_PICKED_BYTES:,} bytes together", field="tags")


def fitting(wishes: Wishes) -> Wishes:
    """Return the wishes without the oldest taps, as far as they would take more than 8,192 bytes."""
    while len(encode_wishes(wishes)) > MOST_BYTES and (wishes.authors or wishes.tags):
        authors, tags = dict(wishes.authors), dict(wishes.tags)
        longer: dict[int, int] | dict[str, int] = tags if tags and len(tags) >= len(authors) else authors
        del longer[next(iter(longer))]  # type: ignore[arg-type]  # a key of its own
        wishes = replace(wishes, authors=authors, tags=tags)
    return wishes


def folded(wishes: Wishes) -> Wishes:
    """Return the wishes with tags in canonical form, without those whose canonical form is too long for a tag.

    The taps of two spellings of one tag are added up.
    """
    picked = tuple(tag for tag in dict.fromkeys(map(canonical_tag, wishes.picked)) if tag)
    taps: dict[str, int] = {}
    for name, count in wishes.tags.items():
        tag = canonical_tag(name)
        taps[tag] = max(-MOST_TAPS, min(MOST_TAPS, taps.pop(tag, 0) + count))
    return replace(wishes, picked=picked, tags={tag: count for tag, count in taps.items() if tag and count})


def encode_wishes(wishes: Wishes) -> bytes:
    """Return wishes as they are stored."""
    return msgspec.json.encode(wishes)


def with_wishes(interests: Interests, wishes: Wishes) -> Interests:
    """Return the interests of a member with what the member has said of them."""
    if wishes == NO_WISHES:
        return interests
    tags, authors = dict(interests.tags), dict(interests.authors)
    for tag in wishes.picked:
        tags[tag] = _bounded(tags.get(tag, 0.0) + PICKED)
    for tag, taps in wishes.tags.items():
        tags[tag] = _bounded(tags.get(tag, 0.0) + TAP * taps)
    for author, taps in wishes.authors.items():
        authors[author] = _bounded(authors.get(author, 0.0) + TAP * taps)
    return interests._replace(tags=tags, authors=authors)


def _bounded(value: float) -> float:
    return max(-1.0, min(1.0, value))
