"""Operations on the named feeds of the server."""

from __future__ import annotations

import asyncio
from dataclasses import replace as with_changes

import msgspec
from msgspec.structs import replace

from shoal.admin.contract import AnyNetwork, Operation, member_named
from shoal.admin.feeds import RANKING, FeedLine, ReplayOptions, TermReason, active_since, sample, top
from shoal.admin.report import Progress
from shoal.commands import feeds
from shoal.core.feeds.declarations import Cost, FeedDeclaration, NamedFeed, cost_of
from shoal.core.model import DAY_MS
from shoal.core.ranking.comparison import ReplayFigures, ShownAuthor, TwoTops, figures
from shoal.graph.contract import Reader
from shoal.graph.feed_lookup import contained_feeds, contained_in_each, feeds_of, readable_feed
from shoal.queries.context import ExpiringCache
from shoal.queries.hydration import Entry
from shoal.queries.named_feeds.preview import dry_run, first_entries
from shoal.queries.named_feeds.snapshots import Explanation


class FeedWithCost(msgspec.Struct):
    feed: NamedFeed
    cost: Cost
    """The most that reading a page costs."""


async def _with_cost(graph: Reader, feed: NamedFeed) -> FeedWithCost:
    return FeedWithCost(feed, cost_of(feed.declaration, await contained_feeds(graph, None, feed.declaration)))


class ListFeeds(Operation[list[FeedWithCost]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[FeedWithCost]:
        graph = network.writes.graph
        feeds = await feeds_of(graph, 0)
        each = await contained_in_each(graph, None, [feed.declaration for feed in feeds])
        return [
            FeedWithCost(feed, cost_of(feed.declaration, contained))
            for feed, contained in zip(feeds, each, strict=True)
        ]


class ShowNamedFeed(Operation[FeedWithCost]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedWithCost:
        graph = network.writes.graph
        return await _with_cost(graph, await readable_feed(graph, None, self.name))


class PutFeed(Operation[FeedWithCost]):
    """Create a feed of the server, or change one. None keeps a value of the latter."""

    name: str
    declaration: str | None
    """The declaration as JSON text."""
    title: str | None = None
    new: bool = True

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedWithCost:
        writes = network.writes
        if self.new:
            made = await feeds.create_for_server(writes, self.name, self.declaration, title=self.title or "")
        else:
            made = await feeds.update_for_server(writes, self.name, title=self.title, declaration=self.declaration)
        return await _with_cost(writes.graph, made)


class FeedTrial(msgspec.Struct):
    """What a declaration would show to a member."""

    cost: Cost
    lines: list[FeedLine]
    positions: list[int | None]
    """For each line, its position in the feed that is compared; None if it is not among the first entries there."""
    overlap: float | None
    """The fraction of entries that both feeds have in common; None without another feed."""


class TryFeed(Operation[FeedTrial]):
    """Show what a declaration would show to a member now, compared with a feed of the server. Nothing is stored."""

    declaration: str
    member: str
    limit: int
    feed: str = ""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedTrial:
        graph, reads = network.writes.graph, network.reads
        member = await member_named(network, self.member)
        declared = await feeds.checked_for(graph, 0, self.declaration)
        other = (await readable_feed(graph, None, self.feed)).declaration if self.feed else None
        found = await dry_run(reads, member.id, declared, self.limit, other=other)
        return FeedTrial(
            cost_of(declared, await contained_feeds(graph, None, declared)),
            [_line(each.entry, each.why) for each in found.entries],
            [each.before for each in found.entries],
            found.comparison.overlap if found.comparison is not None else None,
        )


def _line(entry: Entry, why: Explanation) -> FeedLine:
    return FeedLine(
        author=entry.author.member.name,
        text=entry.post.text,
        score=why.score,
        sources=list(why.sources),
        reasons=[TermReason(name, value, "") for name, value in why.contributions],
        places_lost=why.lost,
    )


class FeedReplay(msgspec.Struct, kw_only=True):
    """A comparison of a feed of the server with another declaration, for active members."""

    options: ReplayOptions
    at: int
    """The current time for the feeds, in Unix milliseconds."""
    active: int
    all_found: bool
    """Whether all activity was read. If not, more members may have been active."""
    sampled: int
    figures: ReplayFigures


class ReplayFeed(Operation[FeedReplay]):
    """Compare a feed of the server with another declaration, for a sample of active members. Nothing is written."""

    alone = True
    feed: str
    declaration: str
    options: ReplayOptions

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedReplay:
        graph = network.writes.graph
        declared = await feeds.checked_for(graph, 0, self.declaration)
        present = (await readable_feed(graph, None, self.feed)).declaration
        both = [_of_days(each, self.options.days) for each in (present, declared)]
        # Use separate caches, so that sampled members do not evict current viewers from the caches of the server.
        reads = with_changes(network.reads, interests=ExpiringCache(1), near=ExpiringCache(1))
        now, options = reads.tags.clock(), self.options
        active = await active_since(network.store, network.timelines, now - options.days * DAY_MS, now, progress)
        chosen = await sample(graph, active, options.members, options.seed)
        authors: dict[int, ShownAuthor] = {}
        pairs: list[TwoTops] = []
        for done, member in enumerate(chosen):
            progress(RANKING, done, len(chosen))
            shown = [await first_entries(reads, member, each, options.top, pulled=True) for each in both]
            pairs.append(TwoTops(*(top([each.entry for each in entries], authors, now) for entries in shown)))
            # Let other requests run: with cached data, no call above yields to the event loop.
            await asyncio.sleep(0)
        progress(RANKING, len(chosen), len(chosen))
        return FeedReplay(
            options=options,
            at=now,
            active=len(active.members),
            all_found=active.complete,
            sampled=len(chosen),
            figures=figures(pairs, authors),
        )


def _of_days(declared: FeedDeclaration, days: int) -> FeedDeclaration:
    """Return a declaration without posts older than this number of days."""
    most = 24.0 * days
    oldest = declared.filters.maximum_age_hours
    filters = replace(declared.filters, maximum_age_hours=most if oldest is None else min(most, oldest))
    return replace(declared, filters=filters)


class DeleteFeed(Operation[None]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await feeds.delete_for_server(network.writes, self.name)
