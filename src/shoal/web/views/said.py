"""How often somebody asked for more, or for less, of something."""

from __future__ import annotations

from typing import NamedTuple

from shoal.web.visit import Visit


class Taps(NamedTuple):
    """Taps for more or less."""

    icon: str
    words: str


def said_of(visit: Visit, taps: int) -> Taps:
    """Return what a number of taps says; below 0 they were for less."""
    words = visit.words
    if taps > 0:
        return Taps("thumbs-up", words.plural("asked for more", "asked for more, %(n)s times", taps) % {"n": taps})
    return Taps("thumbs-down", words.plural("asked for less", "asked for less, %(n)s times", -taps) % {"n": -taps})
