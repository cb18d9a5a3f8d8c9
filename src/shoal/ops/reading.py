"""A member's feed, and suggestions to them, as an operator sees these in the terminal, with the reasons for each place."""

from __future__ import annotations

import msgspec

from shoal.core.ranking.terms import words_of
from shoal.graph.contract import Cursor
from shoal.queries import home, suggestions
from shoal.queries.context import Reads
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.hydration import Entry

PATIENT_SECONDS = 10.0
"""An operator waits longer than a client."""


class TermReason(msgspec.Struct):
    """A term that moves a post or a member up, or down where the contribution is below 0."""

    name: str
    contribution: float
    words: str


class FeedLine(msgspec.Struct):
    """An entry of a feed."""

    author: str
    text: str
    score: float | None = None
    sources: list[str] = []
    reasons: list[TermReason] = []
    places_lost: int = 0
    lost_to: str = ""


class FeedShown(msgspec.Struct):
    """The first entries of a feed."""

    lines: list[FeedLine]
    by_time: str = ""
    """Why For you is shown by time; empty where it is ranked, and for a home timeline."""
    quiet: int = 0
    """How many of the first are by friends who post rarely, where it was asked what the member missed."""
    words: str = ""
    """Words for the end of it."""


class SuggestionLine(msgspec.Struct):
    """A member who is suggested. The contributions of the reasons add up to the score."""

    name: str
    score: float
    reasons: list[TermReason]


class SuggestionsShown(msgspec.Struct):
    """The first members who are suggested to a member, the likeliest first."""

    lines: list[SuggestionLine]


async def show_suggestions(reads: Reads, member: int, limit: int) -> SuggestionsShown:
    """Return whom a member is suggested to follow."""
    found = await suggestions.suggestions(reads, member, limit)
    return SuggestionsShown(
        [
            SuggestionLine(
                one.profile.member.name,
                one.score,
                [TermReason(reason.source, reason.contribution, reason.words) for reason in one.reasons],
            )
            for one in found
        ]
    )


async def show(reads: Reads, member: int, limit: int, *, for_you: bool, explain: bool) -> FeedShown:
    """Return the first entries of a member's home timeline or, ranked, of For you."""
    if not for_you:
        page = await home.page(reads, member, Cursor(limit=limit))
        return FeedShown([_line(entry) for entry in page.entries])
    ranked = await feed.page(reads, member, limit, explain=explain, deadline=PATIENT_SECONDS)
    return FeedShown([_ranked(one) for one in ranked.entries], ranked.by_time)


async def missed(reads: Reads, member: int, limit: int, *, explain: bool) -> FeedShown:
    """Return the best of what a member missed since they were last here."""
    found = await catch_up(reads, member, None, limit, explain=explain)
    return FeedShown(
        [_ranked(one) for one in (*found.quiet, *found.best)],
        "off" if found.by_time else "",
        len(found.quiet),
        found.words,
    )


def _line(entry: Entry) -> FeedLine:
    return FeedLine(entry.author.member.name, entry.post.text)


def _ranked(one: RankedEntry) -> FeedLine:
    line, why = _line(one.entry), one.why
    if why is None:
        return line
    line.sources = [source.key for source in why.sources]
    line.places_lost, line.lost_to = why.lost, why.rule
    if why.terms:
        line.score = why.score
        line.reasons = [
            TermReason(term.name, term.contribution, words_of(term.name, term.value, why.recipe, one.entry.reactions))
            for term in sorted(why.terms, key=lambda term: -abs(term.contribution))
            if term.contribution
        ]
    return line
