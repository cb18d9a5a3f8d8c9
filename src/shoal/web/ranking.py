"""Explanation of the ranked feed: the position of a post and its reasons, or the rule that excludes it."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from shoal.core.ranking.reranking import PHOTOS, Source
from shoal.core.ranking.terms import TITLES, ReasonWords, reason_of
from shoal.core.text import isolated
from shoal.graph.cache.coherence import one_request
from shoal.queries.foryou import feed
from shoal.queries.foryou.feed import FeedExplanation
from shoal.queries.foryou.ranking import Why
from shoal.queries.hydration import Entry
from shoal.web import routing
from shoal.web.rendering import page
from shoal.web.request_context import IdPath, PageContext
from shoal.web.view_models import entry_with_id, post_of

_FULL_BAR = 4.0
_PERSONAL = frozenset({"tags", "author", "nearby", "country", "friends", "common", "rising", "velocity"})
"""Terms with a specific reason, unlike freshness or likes in general."""
_SOURCE_WORDS = {
    Source.FOLLOWEES: "From or shared by someone you follow",
    Source.FRIENDS_LIKED: "Liked by people you follow",
    Source.FRIENDS_SHARED: "Shared by people you follow",
    Source.FRIENDS_COMMENTED: "Commented on by people you follow",
    Source.FRIENDS_OF_FRIENDS: "People you follow also follow the author",
    Source.TAGS_FOLLOWED: "You follow one of the post's tags",
    Source.TAGS_LIKED: "You like one of the post's tags",
    Source.RISING: "Trending tag",
    Source.NEARBY: "Posted near you",
    Source.COUNTRY: "From your country",
    Source.AUTHORS_LIKED: "You interacted with posts by %(name)s",
    Source.POPULAR: "Popular now",
    Source.EXPLORATION: "New, from someone you don't know yet",
}


class Bar(msgspec.Struct, frozen=True):
    name: str
    title: str
    words: str
    amount: str
    length: float
    below: bool


class WhyView(msgspec.Struct, frozen=True):
    score: str
    first: str
    bars: tuple[Bar, ...]
    lost: str = ""
    """How far the rules for photos and variety moved the post, as text; empty if they did not."""
    in_feed: bool = False
    """Whether the feed is a named feed, which the viewer's recipe and feedback do not change."""


def why_of(ctx: PageContext, why: Why | None, entry: Entry) -> WhyView | None:
    """Return the explanation of a post's rank for display, or None if it was not ranked."""
    if why is None or not why.terms:
        return None
    _ = ctx.words.text
    facts = why.facts(entry, ctx.words.code)
    terms = sorted((term for term in why.terms if term.contribution), key=lambda term: -abs(term.contribution))
    bars = tuple(
        Bar(
            term.name,
            _(TITLES[term.name]),
            reason_words(ctx, reason_of(term.name, term.value, facts)),
            ctx.words.decimal(term.contribution, "+.2f"),
            round(min(1.0, abs(term.contribution) / _FULL_BAR) * 100, 1),
            term.contribution < 0,
        )
        for term in terms
    )
    names = {"name": entry.author.member.shown_name}
    sources = tuple(_(words) % names for source, words in _SOURCE_WORDS.items() if source in why.sources)
    first = _first(sources, bars, popular=Source.POPULAR in why.sources)
    return WhyView(ctx.words.decimal(why.score, ".2f"), first, bars, _lost(ctx, why))


def reason_words(ctx: PageContext, reason: ReasonWords | None) -> str:
    """Return a reason in the viewer's language; "" for None."""
    if reason is None:
        return ""
    names = {name: isolated(text) for name, text in reason.names.items()}
    if reason.many:
        return ctx.words.counted(reason.message, reason.many, reason.number, **names)
    numbers = {name: ctx.words.about(n) for name, n in reason.numbers.items()}
    return ctx.words.text(reason.message) % {**numbers, **names}


def _first(sources: tuple[str, ...], bars: tuple[Bar, ...], *, popular: bool) -> str:
    """Return the main reason for a post's rank: the strongest personal term, or else its source.

    For a `popular` post without a personal term, it is the number of likes and shares.
    """
    specific = [bar for bar in bars if bar.name in _PERSONAL and not bar.below and bar.words]
    liked = [bar for bar in bars if bar.name == "reactions" and popular and not bar.below]
    if found := [*specific, *liked]:
        return found[0].words[0].upper() + found[0].words[1:]
    return sources[0] if sources else ""


def _lost(ctx: PageContext, why: Why) -> str:
    counted, places = ctx.words.counted, why.lost
    if why.rule == PHOTOS and places < 0:
        return counted(
            "The feed starts with photos, so the post moved up by %(n)s place.",
            "The feed starts with photos, so the post moved up by %(n)s places.",
            -places,
        )
    if why.rule == PHOTOS:
        return counted(
            "The feed starts with photos, so the post moved down by %(n)s place.",
            "The feed starts with photos, so the post moved down by %(n)s places.",
            places,
        )
    if places < 0:
        return counted(
            "To keep the feed varied, the post moved up by %(n)s place.",
            "To keep the feed varied, the post moved up by %(n)s places.",
            -places,
        )
    if places > 0:
        return counted(
            "To keep the feed varied, the post moved down by %(n)s place.",
            "To keep the feed varied, the post moved down by %(n)s places.",
            places,
        )
    return ""


_OUT_WORDS = {
    "off": "Ranking is off, so your feed is sorted by time.",
    "muted": "You muted the author.",
    "filtered": "One of your filters hides the post.",
    "no_source": "The post has no connection to you right now: no one you follow, no tag you like and no place near you.",
    "too_low": "Other posts have a higher score.",
    "own": "This is your own post.",
    "direct": "The post is visible only to the people it mentions.",
    "reply": "The post is a reply to someone else's post.",
    "opted_out": "The author has opted out of ranked feeds.",
    "apart": "You see the author only in a list.",
    "language": "You follow the author only in other languages.",
    "reported": "Several members reported the post, and moderators have not reviewed it yet.",
    "not_public": "You do not follow the author, and the post is unlisted.",
    "not_discoverable": "You do not follow the author, who has opted out of suggestions.",
    "sensitive": "You do not follow the author, and the post is marked as sensitive.",
}
_STAGES = {
    "sources": "A post is considered if it comes from people, tags or places you are connected to.",
    "filter": "The post was considered, but a rule excluded it before ranking.",
    "score": "The post was ranked, but too low to be shown.",
}
_WAYS = {
    "off": ("/settings/ranking", "Change"),
    "filtered": ("/settings/filters", "Your filters"),
    "too_low": ("/settings/ranking", "Weight of each reason"),
    "apart": ("/lists", "Your lists"),
}


class FeedPosition(msgspec.Struct, frozen=True):
    """The position of a post in the ranked feed or, if the feed does not contain it, the rule that excludes it."""

    title: str
    words: str
    hint: str = ""
    path: str = ""
    """Path of the page where the viewer can change the rule that excludes the post."""
    way: str = ""


def _placed_at(ctx: PageContext, position: int, total: int = 0) -> FeedPosition:
    """Return the view model of a post's position in the feed. `position` counts from 1. `total` is 0 if it is unknown."""
    words = ctx.words
    ranked = words.text("Ranked %(place)s of %(n)s") if total else words.text("Ranked %(place)s")
    title = ranked % {"place": words.ordinal(position), "n": words.number(total)}
    hint = words.text("Posts above it have a higher score.") if position > 1 else ""
    return FeedPosition(title, words.text("Ranked for you just now."), hint)


def _out_of(ctx: PageContext, explanation: FeedExplanation) -> FeedPosition:
    """Return the view model of the rule that excludes a post from the feed."""
    _ = ctx.words.text
    if explanation.place is not None:
        # The ranking computed for this explanation contains the post; the one computed a moment ago did not.
        return _placed_at(ctx, explanation.place)
    title = _("Not in For you right now")
    words = _(_OUT_WORDS.get(explanation.rule, "")) or f"{explanation.words[:1].upper()}{explanation.words[1:]}."
    path, way = _WAYS.get(explanation.rule, ("", ""))
    return FeedPosition(title, words, _(_STAGES.get(explanation.stage, "")), path, _(way))


_PATIENCE = 3.0
"""Timeout of the ranking in seconds. It is longer than for other pages, because this page shows nothing else."""


async def why(ctx: PageContext, path: IdPath) -> Response:
    """Explain the position of a post in For you, or why it is missing there."""
    member = ctx.member
    entry = await entry_with_id(ctx, path.id)
    with one_request():
        position, reasons = await _position(ctx, member.id, entry)
    return await page(
        ctx,
        "why",
        title=ctx.words.text("Why am I seeing this?"),
        post=post_of(ctx, entry, why=reasons),
        position=position,
    )


async def _position(ctx: PageContext, member_id: int, entry: Entry) -> tuple[FeedPosition, object]:
    reading = await feed.new_reading(ctx.reads, member_id, explain=True, deadline=_PATIENCE)
    position = None if isinstance(reading, str) else reading.position_of(entry.post.id)
    if isinstance(reading, str) or position is None:
        return _out_of(ctx, await feed.why_not(ctx.reads, member_id, entry.post.id)), None
    (why,) = reading.why(position, position + 1)
    return _placed_at(ctx, position + 1, len(reading)), why_of(ctx, why, entry)


ROUTES = (routing.page("/posts/{id}/why", why, IdPath),)
