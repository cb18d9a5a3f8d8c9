"""Wordings of a post, each with what changed since the one before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import msgspec

from shoal.core.model import Media, Post, Revision
from shoal.feeds.hydrate import Entry
from shoal.web.views.posts import Photo, photo_of
from shoal.web.visit import Visit
from shoal.web.words import Translated, When

_WORDS = re.compile(r"\s+|[^\s]+")
_MOST_WORDS = 4_000
"""Words of two wordings that are compared one by one; of longer ones all is said to be new."""


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
    """Return all wordings of a post, the newest first."""
    post = entry.post
    options = tuple(option.title for option in entry.poll.poll.options) if entry.poll else ()
    states: list[Revision | Post] = [*former, post]
    made = []
    for n, state in enumerate(states):
        before = states[n - 1] if n else None
        written = state.written if isinstance(state, Revision) else post.edited_at or post.created_at
        added, removed = _exchanged(before, state)
        made.append(
            PastWording(
                when=visit.words.when(written, visit.now_ms),
                pieces=difference(before.text if before else state.text, state.text),
                changed=_changed(visit.words, before, state, options),
                added=tuple(photo_of(visit, media[id_]) for id_ in added if id_ in media),
                removed=tuple(photo_of(visit, media[id_]) for id_ in removed if id_ in media),
                first=n == 0,
                present=n == len(states) - 1,
            )
        )
    return tuple(reversed(made))


def difference(before: str, after: str) -> tuple[Piece, ...]:
    """Return a text as pieces: which of its words are kept, which are new, and which of the one before are gone."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _MOST_WORDS:
        return (Piece(after),) if before == after else (Piece(before, "del"), Piece(after, "ins"))
    pieces: list[Piece] = []
    for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            pieces.append(Piece("".join(new[c:d])))
            continue
        pieces += [Piece("".join(words), kind) for words, kind in ((old[a:b], "del"), (new[c:d], "ins")) if words]
    return tuple(pieces)


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
        found.append(text % {"text": after.spoiler} if after.spoiler else text)
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
