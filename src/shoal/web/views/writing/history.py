"""Wordings of a post, each with what changed since the one before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from shoal.core.model import Media, Post, Revision
from shoal.core.text import isolated
from shoal.queries.hydration import Entry
from shoal.queries.posts import media_then
from shoal.web.views.posts import Photo, photo_of
from shoal.web.visit import Visit
from shoal.words.languages import Translated, When

_WORDS = re.compile(r"\s+|[^\s]+")
_MOST_PAIRS = 250_000
"""Pairs of words that are compared for two wordings, each of which costs time; beyond, all that differs is said to be new."""
_PAIRS_OF_PAGE = 1_000_000
"""Pairs of words that are compared for a page: a tenth of a second."""
MOST_WORDINGS = 100
"""Wordings on a page: the newest."""


class Piece(msgspec.Struct, frozen=True):
    """A piece of a text: kept, added or removed."""

    text: str
    kind: str = ""
    """`ins`, `del`, or empty."""


class PastWording(msgspec.Struct, frozen=True):
    """A wording of a post, from some moment on."""

    when: When
    pieces: tuple[Piece, ...]
    changed: tuple[str, ...]
    """Changes besides those of its text, in words."""
    added: tuple[Photo, ...]
    removed: tuple[Photo, ...]
    first: bool
    present: bool


def wordings_of(
    visit: Visit, entry: Entry, former: Sequence[Revision], media: Mapping[int, Media]
) -> tuple[PastWording, ...]:
    """Return the newest wordings of a post, the newest first. It compares texts: up to some tenths of a second."""
    post = entry.post
    options = tuple(option.title for option in entry.poll.poll.options) if entry.poll else ()
    states: list[Revision | Post] = [*former, post]
    begin = max(0, len(states) - MOST_WORDINGS)
    pairs = min(_MOST_PAIRS, _PAIRS_OF_PAGE // (len(states) - begin))
    made = []
    for n, state in enumerate(states[begin:], begin):
        before = states[n - 1] if n else None
        written = state.written if isinstance(state, Revision) else post.edited_at or post.created_at
        added, removed = _exchanged(before, state)
        now, then = media_then(state, media), media_then(before, media) if before else {}
        made.append(
            PastWording(
                when=visit.when(written),
                pieces=difference(before.text if before else state.text, state.text, pairs),
                changed=_changed(visit.words, before, state, options),
                added=tuple(photo_of(visit, now[id_]) for id_ in added if id_ in now),
                removed=tuple(photo_of(visit, then[id_]) for id_ in removed if id_ in then),
                first=n == 0,
                present=n == len(states) - 1,
            )
        )
    return tuple(reversed(made))


def difference(before: str, after: str, pairs: int = _MOST_PAIRS) -> tuple[Piece, ...]:
    """Return a text as pieces: which of its words are kept, which are new, and which of the one before are gone.

    Between what both begin and end with, a longest common subsequence is kept, which takes time for each pair of words.
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    middle = (
        _compared(a, b)
        if len(a) * len(b) <= pairs
        else [*[(word, "del") for word in a], *[(word, "ins") for word in b]]
    )
    return _pieces([*[(word, "") for word in old[:head]], *middle, *[(word, "") for word in old[len(old) - tail :]]])


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words both begin with."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _compared(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """Return the words of two texts with what became of each, by the table of the lengths of common subsequences."""
    lengths = [[0] * (len(new) + 1)]
    for a in reversed(old):
        below, row = lengths[-1], [0]
        for n, b in enumerate(reversed(new)):
            row.append(below[n] + 1 if a == b else max(below[n + 1], row[n]))
        lengths.append(row)
    words, x, y = [], len(old), len(new)
    while x and y:
        # What is left of both texts is as long as `x` and `y` say.
        a, b = old[len(old) - x], new[len(new) - y]
        if a == b:
            words.append((a, ""))
            x, y = x - 1, y - 1
        elif lengths[x - 1][y] >= lengths[x][y - 1]:
            words.append((a, "del"))
            x -= 1
        else:
            words.append((b, "ins"))
            y -= 1
    return [*words, *[(a, "del") for a in old[len(old) - x :]], *[(b, "ins") for b in new[len(new) - y :]]]


def _pieces(words: Sequence[tuple[str, str]]) -> tuple[Piece, ...]:
    """Return runs of words with the same fate as one piece each; between two that are kept, all that went comes first."""
    made: list[Piece] = []
    for kept, run in groupby(words, key=lambda word: not word[1]):
        part = list(run)
        kinds = ("",) if kept else ("del", "ins")
        made += [Piece("".join(word for word, what in part if what == kind), kind) for kind in kinds]
    return tuple(piece for piece in made if piece.text)


def _exchanged(before: Revision | Post | None, after: Revision | Post) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if before is None:
        return after.media, ()
    added = tuple(id_ for id_ in after.media if id_ not in before.media)
    return added, tuple(id_ for id_ in before.media if id_ not in after.media)


def _changed(
    words: Translated, before: Revision | Post | None, after: Revision | Post, present: tuple[str, ...]
) -> tuple[str, ...]:
    if before is None:
        return ()
    _, found = words.text, []
    if before.spoiler != after.spoiler:
        text = _("Its warning is now: %(text)s") if after.spoiler else _("It has no warning any more.")
        found.append(text % {"text": isolated(after.spoiler)} if after.spoiler else text)
    if before.sensitive != after.sensitive:
        found.append(
            _("Its pictures are covered now.") if after.sensitive else _("Its pictures are no longer covered.")
        )
    if set(before.media) == set(after.media) and before.media != after.media:
        found.append(_("Its pictures stand in another order."))
    old, new = (one.options if isinstance(one, Revision) else present for one in (before, after))
    if old != new:
        found.append(
            _("Its poll asks: %(options)s") % {"options": ", ".join(new)} if new else _("It has no poll any more.")
        )
    return tuple(found)
