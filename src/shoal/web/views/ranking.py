"""Why a post stands where it does in a ranked feed."""

from __future__ import annotations

import msgspec

from shoal.core.ranking.reranking import Source
from shoal.core.ranking.terms import TITLES, ReasonWords, reason_of
from shoal.queries.foryou.ranking import Why
from shoal.queries.hydration import Entry
from shoal.web.visit import Visit

_FULL_BAR = 4.0
"""A contribution that fills a bar; balanced weights are up to 4."""
_PERSONAL = frozenset({"tags", "author", "nearby", "friends", "common", "rising", "velocity"})
"""Terms that say more than that a post is new or liked."""
_SOURCE_WORDS = {
    Source.FOLLOWEES: "You follow its author or who shared it",
    Source.FRIENDS_LIKED: "People you follow like it",
    Source.FRIENDS_SHARED: "People you follow shared it",
    Source.FRIENDS_COMMENTED: "People you follow commented on it",
    Source.FRIENDS_OF_FRIENDS: "People you follow follow its author",
    Source.TAGS_FOLLOWED: "You follow one of its tags",
    Source.TAGS_LIKED: "You like one of its tags",
    Source.RISING: "One of its tags is on the rise",
    Source.NEARBY: "It was made near you",
    Source.AUTHORS_LIKED: "You like what its author posts",
    Source.POPULAR: "Many like it now",
    Source.EXPLORATION: "New, by somebody you have not met",
}


class Bar(msgspec.Struct, frozen=True):
    """A term of the score, as a bar."""

    name: str
    title: str
    words: str
    amount: str
    """The amount that it adds to the score, with its sign."""
    length: float
    """0 to 100."""
    below: bool


class WhyView(msgspec.Struct, frozen=True):
    """Everything that a page says about the place of a post."""

    score: str
    first: str
    """The strongest reason, in a few words."""
    sources: tuple[str, ...]
    bars: tuple[Bar, ...]
    lost: str = ""
    """How diversity moved it; empty where it did not."""


def why_of(visit: Visit, why: Why | None, entry: Entry) -> WhyView | None:
    """Return why the post of an entry has its rank; None where nothing was ranked."""
    if why is None or not why.terms:
        return None
    _ = visit.words.text
    terms = sorted((term for term in why.terms if term.contribution), key=lambda term: -abs(term.contribution))
    bars = tuple(
        Bar(
            term.name,
            _(TITLES[term.name]),
            _reason(visit, reason_of(term.name, term.value, why.recipe, entry.reactions)),
            visit.words.decimal(term.contribution, "+.2f"),
            round(min(1.0, abs(term.contribution) / _FULL_BAR) * 100, 1),
            term.contribution < 0,
        )
        for term in terms
    )
    sources = tuple(_(words) for source, words in _SOURCE_WORDS.items() if source in why.sources)
    return WhyView(
        visit.words.decimal(why.score, ".2f"),
        _first(visit, sources, bars),
        sources,
        bars,
        _lost(visit, why.lost),
    )


def _reason(visit: Visit, reason: ReasonWords | None) -> str:
    if reason is None:
        return ""
    return visit.words.text(reason.message) % {name: visit.words.about(n) for name, n in reason.numbers.items()}


def _first(visit: Visit, sources: tuple[str, ...], bars: tuple[Bar, ...]) -> str:
    """Return the reason that says most: the strongest of those that are about the viewer, or else where the post comes from."""
    strongest = next((bar for bar in bars if not bar.below and bar.name in _PERSONAL), None)
    if strongest is not None and strongest.words:
        return strongest.words[0].upper() + strongest.words[1:]
    return sources[0] if sources else visit.words.text("Why this?")


def _lost(visit: Visit, places: int) -> str:
    if places == 0:
        return ""
    if places < 0:
        text = visit.words.plural(
            "Variety moved it up by %(n)s place.", "Variety moved it up by %(n)s places.", -places
        )
    else:
        text = visit.words.plural(
            "Variety moved it down by %(n)s place.", "Variety moved it down by %(n)s places.", places
        )
    return text % {"n": visit.words.number(abs(places))}
