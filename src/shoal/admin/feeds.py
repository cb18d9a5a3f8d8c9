"""Feeds and suggestions of members for operators, and comparisons with another ranking recipe (replays).

A replay compares the ranked feeds of recently active members under the server's recipe with their feeds under another
one. It changes nothing. It uses the current follows, likes, reactions and views, so it shows what would change from now
on, and not what members would have seen in the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace as with_changes
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Progress
from shoal.core.ids import floor_at
from shoal.core.model import DAY_MS, Post, Share, Token
from shoal.core.ranking.comparison import ReplayFigures, ShownAuthor, TopPost, TwoTops, figures
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.terms import words_of
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor, Reader, Store
from shoal.graph.schema import LIKED_BY, AnyNode
from shoal.queries import home, suggestions
from shoal.queries.context import ExpiringCache, Reads
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.foryou.preview import LeftOut, first_entries
from shoal.queries.hydration import Entry
from shoal.timelines.contract import Timelines

PATIENT_SECONDS = 10.0
"""Timeout of the ranking of a feed for an operator, which is longer than for clients."""


class TermReason(msgspec.Struct):
    name: str
    contribution: float
    words: str


class FeedLine(msgspec.Struct):
    author: str
    text: str
    score: float | None = None
    sources: list[str] = []
    reasons: list[TermReason] = []
    places_lost: int = 0
    lost_to: str = ""


class FeedShown(msgspec.Struct):
    lines: list[FeedLine]
    by_time: str = ""
    """Why the For you feed is not ranked; empty for a ranked feed and for other feeds."""
    quiet: int = 0
    """Number of the first entries that are by followees who rarely post. Only in a catch-up feed."""
    words: str = ""
    """The sentence below the feed. Only in a catch-up feed."""


class SuggestionLine(msgspec.Struct):
    name: str
    score: float
    reasons: list[TermReason]


class SuggestionsShown(msgspec.Struct):
    lines: list[SuggestionLine]


async def show_suggestions(reads: Reads, member: int, limit: int) -> SuggestionsShown:
    found = await suggestions.suggestions(reads, member, limit)
    return SuggestionsShown(
        [
            SuggestionLine(
                suggestion.profile.member.name,
                suggestion.score,
                [TermReason(reason.source, reason.contribution, reason.words) for reason in suggestion.reasons],
            )
            for suggestion in found
        ]
    )


async def show(reads: Reads, member: int, limit: int, *, for_you: bool, explain: bool) -> FeedShown:
    if not for_you:
        page = await home.page(reads, member, Cursor(limit=limit))
        return FeedShown([_line(entry) for entry in page.entries])
    ranked = await feed.page(reads, member, limit, explain=explain, deadline=PATIENT_SECONDS)
    return FeedShown([_ranked(ranked_entry) for ranked_entry in ranked.entries], ranked.by_time)


async def missed(reads: Reads, member: int, limit: int, *, explain: bool) -> FeedShown:
    found = await catch_up(reads, member, None, limit, explain=explain)
    return FeedShown(
        [_ranked(entry) for entry in (*found.quiet, *found.best)],
        "off" if found.by_time else "",
        len(found.quiet),
        found.words,
    )


def _line(entry: Entry) -> FeedLine:
    return FeedLine(entry.author.member.name, entry.post.text)


def _ranked(entry: RankedEntry) -> FeedLine:
    line, why = _line(entry.entry), entry.why
    if why is None:
        return line
    line.sources = [source.key for source in why.sources]
    line.places_lost, line.lost_to = why.lost, why.rule
    if why.terms:
        line.score = why.score
        facts = why.facts(entry.entry, "en")
        line.reasons = [
            TermReason(term.name, term.contribution, words_of(term.name, term.value, facts))
            for term in sorted(why.terms, key=lambda term: -abs(term.contribution))
            if term.contribution
        ]
    return line


PAGES = 200
OBJECTS_AT_ONCE = 1_000
_LIKES_EACH = 5
_MOST_WARM = 100_000
_MEMBERS_AT_ONCE = 500
FINDING = "active members"


class Active(NamedTuple):
    members: list[int]
    """Ids in ascending order."""
    complete: bool
    """Whether all objects of the period were read. If not, more members may have been active."""


async def active_since(
    store: Store,
    timelines: Timelines,
    since: int,
    now: int,
    progress: Progress,
    *,
    pages: int = PAGES,
    page_size: int = OBJECTS_AT_ONCE,
) -> Active:
    """Return the members active between two times (Unix ms).

    At most `pages` pages of the objects created in this period are read. If the period has more objects, the pages are
    spread over it evenly.
    """
    found = set(await timelines.members(_MOST_WARM))
    after, complete = floor_at(since) - 1, True
    for at in range(pages):
        progress(FINDING, at, pages)
        begin = max(after, floor_at(since + (now - since) * at // pages) - 1)
        complete = complete and begin == after
        page = await store.obj_scan(begin, page_size)
        if not page:
            break
        found.update(_who(page, since))
        found.update(await _likers(store, page, since))
        after = page[-1].id
    else:
        complete = complete and not await store.obj_scan(after, 1)
    progress(FINDING, pages, pages)
    return Active(sorted(found), complete)


def _who(page: Sequence[AnyNode], since: int) -> Iterator[int]:
    """Yield the members who posted, shared or logged in. An imported post counts only if it was written after `since`."""
    for node in page:
        match node:
            case Post() if node.created_at >= since:
                yield node.author_id
            case Share():
                yield node.author_id
            case Token(member_id=member_id) if member_id:
                yield member_id


async def _likers(graph: Reader, page: Sequence[AnyNode], since: int) -> set[int]:
    posts = [node.id for node in page if isinstance(node, Post)]
    lists = await graph.assoc_ranges(posts, LIKED_BY, Cursor(after=floor_at(since) - 1, limit=_LIKES_EACH))
    return {row.id2 for rows in lists.values() for row in rows}


async def sample(graph: Reader, active: Active, most: int, seed: int) -> list[int]:
    """Return up to `most` active members who exist and are not suspended. The result depends only on the members and the seed."""
    order = np.random.default_rng(seed).permutation(np.array(active.members, np.int64)).tolist()
    chosen: list[int] = []
    for at in range(0, len(order), _MEMBERS_AT_ONCE):
        asked = order[at : at + _MEMBERS_AT_ONCE]
        members = await members_by_id(graph, asked)
        chosen += [id_ for id_ in asked if id_ in members and not members[id_].suspended]
        if len(chosen) >= most:
            break
    return chosen[:most]


MOST_DAYS = 30
MOST_MEMBERS = 1_000
MOST_TOP = 100
MOST_SEED = 2**32 - 1
RANKING = "members ranked"
_HOUR_MS = 3_600_000


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 7
    """Number of past days. The posts of these days are ranked, for members who were active in these days."""
    members: Annotated[int, Meta(ge=1, le=MOST_MEMBERS)] = 100
    top: Annotated[int, Meta(ge=1, le=MOST_TOP)] = 20
    """Number of positions of each feed that are compared, from the first."""
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] = 0
    """Seed of the random sample. Equal seeds draw identical members if the active members are identical."""


class ReplayReport(msgspec.Struct, kw_only=True):
    """The result of a replay of ranked feeds, with the numbers of active, sampled and excluded members."""

    options: ReplayOptions
    at: int
    """The current time for the ranking, in Unix milliseconds."""
    before: Recipe
    after: Recipe
    active: int
    all_found: bool
    """Whether all activity was read. If not, more members may have been active."""
    sampled: int
    own_recipe: int
    """Number of sampled members excluded because they chose a recipe themselves."""
    ranking_off: int
    """Number of sampled members excluded because they turned ranking off."""
    nothing_to_rank: int
    """Number of members of the sample for whom the chosen days contain no post."""
    figures: ReplayFigures


async def replay(network: AnyNetwork, recipe: Recipe, options: ReplayOptions, progress: Progress) -> ReplayReport:
    # Use separate caches, so that sampled members do not evict current viewers from the caches of the server.
    reads = with_changes(network.reads, interests=ExpiringCache(1), near=ExpiringCache(1))
    now = reads.tags.clock()
    since = now - options.days * DAY_MS
    active = await active_since(network.store, network.timelines, since, now, progress)
    chosen = await sample(reads.graph, active, options.members, options.seed)
    left_out = dict.fromkeys(LeftOut, 0)
    authors: dict[int, ShownAuthor] = {}
    pairs: list[TwoTops] = []
    for done, member in enumerate(chosen):
        progress(RANKING, done, len(chosen))
        found = await first_entries(reads, member, (reads.recipe, recipe), options.top, since)
        if isinstance(found, LeftOut):
            left_out[found] += 1
            continue
        pairs.append(TwoTops(*(top(entries, authors, now) for entries in found)))
        # Let other requests run: with cached data, no call above yields to the event loop.
        await asyncio.sleep(0)
    progress(RANKING, len(chosen), len(chosen))
    return ReplayReport(
        options=options,
        at=now,
        before=reads.recipe,
        after=recipe,
        active=len(active.members),
        all_found=active.complete,
        sampled=len(chosen),
        own_recipe=left_out[LeftOut.OWN_RECIPE],
        ranking_off=left_out[LeftOut.OFF],
        nothing_to_rank=sum(not (pair.before or pair.after) for pair in pairs),
        figures=figures(pairs, authors),
    )


def top(entries: Sequence[Entry], authors: dict[int, ShownAuthor], now: int) -> list[TopPost]:
    """Return entries for a comparison, and add their authors to `authors`. `now` is in Unix milliseconds."""
    for entry in entries:
        authors[entry.post.author_id] = ShownAuthor(entry.author.member.name, entry.author.followers)
    return [
        TopPost(entry.post.id, entry.post.author_id, entry.post.tags, max(0, now - entry.post.created_at) / _HOUR_MS)
        for entry in entries
    ]
