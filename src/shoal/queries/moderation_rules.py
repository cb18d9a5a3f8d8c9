"""Dry runs of moderation rules over stored posts, profiles and uploads: what a rule would have held or rejected.

A dry run reads a bounded part of the network, from the newest object back, for a limited time, and reports how far back it got.
Content is checked as it is now, with the age and the number of posts that its member had then. Posts that were rejected or deleted
since are missing. Direct posts are left out, unless new ones are checked too.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.ids import floor_at, milliseconds_of
from shoal.core.model import HIDDEN_BY_MODERATION, OPEN, Media, Member, Poll, Post, Role, Visibility
from shoal.core.moderation_rules import (
    BURST_SECONDS,
    DAY_MS,
    MAX_BURST,
    CompiledRules,
    DryRun,
    Rule,
    RuleState,
)
from shoal.core.publishing import Candidate, HeldKind, MediaFacts, texts_of
from shoal.core.text import parse, plain_excerpt
from shoal.graph.contract import MAX_TIME, Store
from shoal.graph.payloads.moderation import removed_pictures
from shoal.graph.schema import POSTED, AnyNode
from shoal.queries.moderation import SEARCH_SCANS, newest_objects

MAX_DAYS = 90
EXAMPLES = 20
_CHUNK = 200
"""Objects that are read and checked together."""
_SECONDS = 30.0
"""Maximum duration of a dry run: an admin waits for it, and long texts take up to a second each."""
_EXCERPT = 200
_HISTORY_DAYS = 90
_HISTORY_POSTS = 100
"""Members with an older account and more posts than these count as trusted."""


class RuleHit(msgspec.Struct, frozen=True, kw_only=True):
    """Content that a rule matched. Times are in Unix milliseconds."""

    kind: HeldKind
    id: int
    """Id of the post or upload, or of the member whose profile it is."""
    member_id: int
    member_name: str
    at: int
    text: str
    """The beginning of the text; empty for an upload, and for a post that is not public or unlisted."""
    trusted: bool
    """Whether the member has a role, or has posted for long: the hit may be a mistake."""
    hidden: bool
    """Whether moderators have hidden the post since: the hit is probably right."""


class RuleHits(msgspec.Struct, frozen=True, kw_only=True):
    rule: Rule
    hits: int
    members: int
    trusted: int
    """Hits by members with a role or a long history."""
    hidden: int
    """Hits that moderators have hidden since."""
    newest: list[RuleHit]
    """The newest 20 hits."""


class DryRunReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a dry run. Times are in Unix milliseconds."""

    at: int
    since: int
    """Content from this time on was checked."""
    complete: bool
    """Whether the whole requested time was checked."""
    posts: int
    profiles: int
    """Profiles of members who joined in this time."""
    uploads: int
    hits: int
    """Content that at least one of the rules matched."""
    rules: list[RuleHits]

    def recorded(self, hits: RuleHits) -> DryRun:
        return DryRun(self.at, self.since, self.posts, hits.hits)


@dataclass(slots=True)
class _RuleCounts:
    hits: int = 0
    trusted: int = 0
    hidden: int = 0
    members: set[int] = field(default_factory=set)
    newest: list[RuleHit] = field(default_factory=list)

    def add(self, hit: RuleHit) -> None:
        self.hits += 1
        self.trusted += hit.trusted
        self.hidden += hit.hidden
        self.members.add(hit.member_id)
        if len(self.newest) < EXAMPLES:
            self.newest.append(hit)


@dataclass(slots=True)
class _Run:
    """The state of a dry run. Objects are added from the newest to the oldest."""

    rules: CompiledRules
    direct: bool
    """Whether direct posts are checked."""
    until: float
    """The time (monotonic) after which nothing more is checked."""
    posted: dict[int, list[int]] = field(default_factory=dict)
    """Ids of the posts read so far, by author, newest first."""
    checked: dict[HeldKind, int] = field(default_factory=lambda: dict.fromkeys(("post", "profile", "media"), 0))
    pending: list[tuple[RuleHit, list[Rule]]] = field(default_factory=list)
    """The hits that are not counted yet, newest first."""
    counts: defaultdict[int, _RuleCounts] = field(default_factory=lambda: defaultdict(_RuleCounts))
    """The hits by rule."""
    hits: int = 0

    async def check(self, store: Store, nodes: Sequence[Post | Member | Media]) -> int:
        """Check objects until the time is over. Return the number of checked objects."""
        members = {_member_of(node) for node in nodes}
        parts = {part for node in nodes if isinstance(node, Post) for part in (*node.media, node.poll_id)} - {0}
        found = await store.obj_get([*members, *parts])
        counts = (await store.assoc_count(list(members), (POSTED,)))[POSTED]
        # In a thread, because many long texts take seconds, in which the event loop must answer others.
        return await asyncio.to_thread(self._check, nodes, found, counts)

    def _check(
        self, nodes: Sequence[Post | Member | Media], found: Mapping[int, AnyNode], counts: Mapping[int, int]
    ) -> int:
        for done, node in enumerate(nodes):
            if time.monotonic() > self.until:
                return done
            member = found.get(_member_of(node))
            if not isinstance(member, Member):
                continue
            kind: HeldKind = "post" if isinstance(node, Post) else "profile" if isinstance(node, Member) else "media"
            newer = self.posted.setdefault(member.id, [])
            before = max(0, counts.get(member.id, 0) - len(newer) - (kind == "post"))
            if kind == "post":
                newer.append(node.id)
            if isinstance(node, Post) and node.visibility is Visibility.DIRECT and not self.direct:
                continue
            self.checked[kind] += 1
            candidate = _candidate(kind, node, member, found, before)
            at = milliseconds_of(node.id)
            if matching := self.rules.matching(candidate, at / 1_000):
                self.pending.append((_hit(kind, node, member, candidate, at), matching))
        return len(nodes)

    def count(self, since: int) -> None:
        """Count the hits from the time `since` on (Unix ms). The posts of ten minutes before each of them were read."""
        ready = bisect_right(self.pending, -since, key=lambda found: -found[0].at)
        for hit, matching in self.pending[:ready]:
            kept = [rule for rule in matching if self._is_burst(hit, rule.conditions.more_posts_than)]
            self.hits += bool(kept)
            for rule in kept:
                self.counts[rule.id].add(hit)
        del self.pending[:ready]

    def _is_burst(self, hit: RuleHit, more_than: int) -> bool:
        if not more_than:
            return True
        # The ids are in descending order.
        ids = self.posted.get(hit.member_id, [])
        newest = hit.id if hit.kind == "post" else floor_at(hit.at)
        first = bisect_left(ids, -newest, key=lambda id_: -id_)
        since = floor_at(hit.at - 1_000 * BURST_SECONDS)
        return bisect_left(ids, -since, key=lambda id_: -id_) - first > more_than


async def dry_run(
    store: Store, rules: Sequence[Rule], days: int, now: int, *, direct: bool = False, seconds: float = _SECONDS
) -> DryRunReport:
    """Check the content of the last `days` with rules, whatever their state. Nothing is written. `now` is in Unix milliseconds.

    Stored posts stand for new posts and for edits; direct posts are only checked with `direct`. After `seconds`, the dry run ends
    with the object that it is checking. Raises `InvalidInput` for a number of days that is not 1 to 90.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"days: must be 1 to {MAX_DAYS} (got {days})", field="days")
    pictures = await removed_pictures(store) if any(rule.conditions.like_removed for rule in rules) else ()
    run = _Run(CompiledRules([_testable(rule) for rule in rules], pictures), direct, time.monotonic() + seconds)
    start, reached = floor_at(now - days * DAY_MS), floor_at(now)
    async for low, here in newest_objects(store, MAX_TIME, start, SEARCH_SCANS):
        nodes = [node for node in reversed(here) if _is_content(node)]
        checked = 0
        while checked < len(nodes) and time.monotonic() <= run.until:
            checked += await run.check(store, nodes[checked : checked + _CHUNK])
        if checked < len(nodes):
            reached = nodes[checked - 1].id if checked else reached
            break
        reached = low
        run.count(milliseconds_of(low) + 1_000 * BURST_SECONDS + 1)
        if time.monotonic() > run.until:
            break
    run.count(0)
    complete = reached <= start + 1
    return DryRunReport(
        at=now,
        # Round up, because a range may begin within a millisecond.
        since=now - days * DAY_MS if complete else milliseconds_of(reached - 1) + 1,
        complete=complete,
        posts=run.checked["post"],
        profiles=run.checked["profile"],
        uploads=run.checked["media"],
        hits=run.hits,
        rules=[_report(rule, run.counts[rule.id]) for rule in rules],
    )


def _testable(rule: Rule) -> Rule:
    kinds: tuple[HeldKind, ...] = (*rule.kinds, "post") if "edit" in rule.kinds else rule.kinds
    return replace(rule, state=RuleState.DRY_RUN, kinds=kinds)


def _report(rule: Rule, counts: _RuleCounts) -> RuleHits:
    return RuleHits(
        rule=rule,
        hits=counts.hits,
        members=len(counts.members),
        trusted=counts.trusted,
        hidden=counts.hidden,
        newest=counts.newest,
    )


def _is_content(node: AnyNode) -> TypeGuard[Post | Member | Media]:
    return isinstance(node, Post | Member | Media)


def _member_of(node: Post | Member | Media) -> int:
    return node.author_id if isinstance(node, Post) else node.id if isinstance(node, Member) else node.owner_id


def _candidate(
    kind: HeldKind, node: Post | Member | Media, member: Member, found: Mapping[int, AnyNode], posts: int
) -> Candidate:
    text, media = _content(node, found)
    return Candidate(
        kind=kind,
        member_id=member.id,
        member_name=member.name,
        member_created_at=member.created_at / 1_000,
        member_posts=posts,
        text=text,
        data=node.json if isinstance(node, Post) else "",
        links=tuple(dict.fromkeys(span.value for span in parse(text) if span.kind == "link")),
        tags=node.tags if isinstance(node, Post) else (),
        visibility=node.visibility.value if isinstance(node, Post) else "public",
        media=tuple(MediaFacts(id=each.id, kind=each.kind.value, blurhash=each.blurhash) for each in media),
        # Whether it was a burst is known once the older posts are read.
        recent_posts=MAX_BURST + 1,
    )


def _content(node: Post | Member | Media, found: Mapping[int, AnyNode]) -> tuple[str, list[Media]]:
    """Return the texts of content, one per line, and its media."""
    if isinstance(node, Media):
        return _lines(texts_of(node)), [node]
    if isinstance(node, Member):
        fields = (f"{each.name} {each.value}" for each in node.fields)
        return _lines((node.display_name, node.note, *fields)), []
    media = [each for id_ in node.media if isinstance(each := found.get(id_), Media)]
    poll = found.get(node.poll_id)
    titles = [option.title for option in poll.options] if isinstance(poll, Poll) else []
    return _lines((node.spoiler, node.text, *titles, *(text for each in media for text in texts_of(each)))), media


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))


def _hit(kind: HeldKind, node: Post | Member | Media, member: Member, candidate: Candidate, at: int) -> RuleHit:
    long_history = candidate.member_posts > _HISTORY_POSTS and member.created_at < at - _HISTORY_DAYS * DAY_MS
    # An upload may be in a direct post.
    shown = isinstance(node, Member) or (isinstance(node, Post) and node.visibility in OPEN)
    return RuleHit(
        kind=kind,
        id=node.id,
        member_id=member.id,
        member_name=member.name,
        at=at,
        text=plain_excerpt(" ".join(candidate.text.split()), _EXCERPT) if shown else "",
        trusted=member.role is not Role.NONE or long_history,
        hidden=isinstance(node, Post) and bool(node.hidden & HIDDEN_BY_MODERATION),
    )
