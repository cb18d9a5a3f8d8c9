"""Checks and repairs of derived data: home timelines, the search index and tag counts equal what the stored posts yield.

Invariant I1: a materialized home timeline equals its definition once its events are processed. Each timeline is compared twice:
its first pages, as a member reads them, across the boundary between materialized and pulled entries; and all entries above its
floor, the id above which a materialized timeline is complete. The search index holds every member and post with their current
contents and nothing else. Invariant I4: tag counts maintained by increments equal a recount of the posts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import numpy as np

from shoal.admin.consistency.invariants import MOST, Found
from shoal.admin.consistency.scan import Counts, Objects
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Finding, Progress
from shoal.core.ids import now_ms
from shoal.core.model import Member, Post
from shoal.graph.bulk import FIRST
from shoal.graph.contract import MAX_TIME, Cursor, Reader
from shoal.graph.payloads.posts import counted_tags
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, TAG_OF, AnyNode, tag_id
from shoal.queries import home
from shoal.queries.context import Reads
from shoal.queries.pipeline import Page
from shoal.search.indexing import rows_of
from shoal.tagcloud.cloud import DAYS, empty_row
from shoal.tagcloud.contract import DAY_MS, AuthorKey, CloudStore, TagChange, TagRow, Use
from shoal.tagcloud.merger import Amendment, authors_after, rows_after, tag_deltas

MOST_CONNECTED = 50
BY_CHANCE = 200

_ALL = 1_000_000
_PAGES = 3
_TIMELINE_PAGE = 40
_TIMELINE_LOOKS = 3
"""Number of passes. A timeline is wrong if an entry differs in all of them. All events are processed between two passes."""

Read = Callable[[Reads, int, Cursor], Awaitable[Page]]


async def check_homes(
    network: AnyNetwork, objects: Objects, counts: Counts, sample: int | None, progress: Progress
) -> Found:
    """Check `sample` random materialized timelines; None checks all of them.

    If none is materialized, check the timelines of some members.
    """
    warm = await network.timelines.members(_ALL)
    chosen = _some(warm, sample) if warm else _sampled(objects, counts, BY_CHANCE if sample is None else sample)
    findings = []
    for at, member in enumerate(chosen, 1):
        difference = await settled_difference(network, member)
        if difference is not None:
            findings.append(Finding(difference, (member,), drop=member))
        if not warm:
            # Remove the timeline, which the check has materialized.
            await network.timelines.drop((member,))
        progress("home timelines", at, len(chosen))
    return Found(len(chosen), len(findings), findings)


def _some(members: Sequence[int], most: int | None) -> list[int]:
    chance = random.Random()  # noqa: S311  # a sample guards nothing
    return list(members) if most is None or most >= len(members) else chance.sample(members, most)


def _sampled(objects: Objects, counts: Counts, sample: int) -> list[int]:
    """Return the members with the most and the fewest follows, and `sample` random members."""
    members = objects.members
    degree = np.zeros(len(members), np.int64)
    follows = (counts.atype == FOLLOWS.number) | (counts.atype == FOLLOWED_BY.number)
    at = np.searchsorted(members, counts.id1[follows])
    known = at < len(members)
    np.add.at(degree, at[known], counts.n[follows][known])
    ranked = members[np.argsort(degree, kind="stable")]
    ends = [*ranked[:MOST_CONNECTED].tolist(), *ranked[-MOST_CONNECTED:].tolist()]
    return list(dict.fromkeys([*ends, *_some(members.tolist(), sample)]))


async def settled_difference(network: AnyNetwork, member: int) -> str | None:
    """Describe how a home timeline differs from its definition; None if it does not.

    Concurrent writes cause transient differences. Therefore only the entries that differ in every one of several passes count,
    and all events are processed between passes.
    """
    found = await _timeline_difference(network, member)
    for _ in range(_TIMELINE_LOOKS - 1):
        if not found:
            return None
        await network.settle()
        found &= await _timeline_difference(network, member)
    if not found:
        return None
    lacking, extra = ([id_ for id_, missing in found if missing is expected] for expected in (True, False))
    return f"the home timeline of {{0}} lacks {_listed(lacking)} and has {_listed(extra)} in excess"


async def _timeline_difference(network: AnyNetwork, member: int) -> set[tuple[int, bool]]:
    """Return the ids of the entries that only the timeline or only its definition has.

    The flag next to an id is true if the timeline lacks the entry.
    """
    pages = await _compared(network.reads, member, Cursor(limit=_TIMELINE_PAGE), _PAGES * _TIMELINE_PAGE)
    floor = await network.timelines.floor(member)
    whole = Cursor(after=floor or 0, limit=200)
    return pages | await _compared(network.reads, member, whole, network.timelines.length)


async def _compared(reads: Reads, member: int, cursor: Cursor, most: int) -> set[tuple[int, bool]]:
    shown = await _ids(home.page, reads, member, cursor, most)
    defined = await _ids(home.definition, reads, member, cursor, most)
    expected = set(defined)
    return {(id_, id_ in expected) for id_ in expected.symmetric_difference(shown)}


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(ids)[:3])) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "") or "nothing"


async def _ids(read: Read, reads: Reads, member: int, cursor: Cursor, most: int) -> list[int]:
    """Return the ids of the first `most` entries of a timeline, read page by page.

    A page may be short, so two timelines cannot be compared page by page.
    """
    ids: list[int] = []
    before: int | None = cursor.before
    while before is not None and len(ids) < most:
        page = await read(reads, member, cursor._replace(before=before))
        ids += [entry.id for entry in page.entries]
        before = page.next
    return ids[:most]


_SEARCH_PAGE = 2_000


class SearchRows:
    def __init__(self, network: AnyNetwork) -> None:
        self._graph: Reader = network.effects.graph
        self._index = network.effects.search.index
        self.checked = 0
        self.wrong = 0
        self.findings: list[Finding] = []

    async def is_filled(self) -> bool:
        """Return whether the search index is complete. An index that is being filled cannot be compared."""
        return self._index.keeps and (await self._index.state()).complete

    async def watch(self, page: Sequence[AnyNode]) -> None:
        nodes = {node.id: node for node in page if isinstance(node, Member | Post)}
        expected = await rows_of(self._graph, nodes)
        indexed = await self._index.rows(list(expected)) if expected else {}
        self.checked += len(expected)
        for id_, row in expected.items():
            if indexed.get(id_) != row:
                self._add("the row of {0} in the search index is outdated or missing", id_)

    async def compared(self) -> Found:
        """Return all differences between the index and the graph, including index rows of deleted objects."""
        after = -1
        while ids := await self._index.ids(after, _SEARCH_PAGE):
            after = ids[-1]
            there = await self._graph.obj_get(ids)
            for id_ in ids:
                if id_ not in there:
                    self._add("the search index has a row of {0}, which does not exist", id_)
        return Found(self.checked, self.wrong, self.findings)

    def _add(self, words: str, id_: int) -> None:
        self.wrong += 1
        if len(self.findings) < MOST:
            self.findings.append(Finding(words, (id_,), look=id_))


async def reindex(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    if ids := [finding.look for finding in findings if finding.look]:
        await network.effects.search.look(network.effects.graph, ids)


_TAG_PAGE = 1_000
_TAGS_AT_ONCE = 200
_RECHECKED = 1_000
"""Maximum number of findings that are checked again one by one. More findings cannot come from concurrent changes only."""
_RECHECKS = 8


def horizon() -> int:
    """Return the first day for which the tag cloud has daily counts, in days since 1970-01-01 UTC."""
    return now_ms() // DAY_MS - DAYS


class TagCounts:
    """The rows of the tag cloud, recomputed from posts."""

    def __init__(self) -> None:
        self._horizon = horizon()
        self.rows: dict[int, TagRow] = {}
        self.authors: dict[AuthorKey, int] = {}

    def take(self, nodes: Iterable[AnyNode]) -> None:
        uses = [use for node in nodes if isinstance(node, Post) and (use := _use(node)) is not None]
        found = tag_deltas(uses, self._horizon)
        after = authors_after(found, self.authors)
        self.rows.update(rows_after(found, self.rows, self.authors, after, {}, self._horizon))
        self.authors.update(after)

    async def compared(self, store: CloudStore) -> Found:
        """Return the tags whose counts in the tag cloud differ from the recomputed counts."""
        findings: list[Finding] = []
        seen: set[int] = set()
        checked, after = 0, FIRST
        while page := await store.scan(after, _TAG_PAGE):
            for row in page:
                seen.add(row.id)
                findings += self._differing(row, self.rows.get(row.id) or empty_row(row.id, row.name))
            checked += len(page)
            after = page[-1].id
        for id_, row in self.rows.items():
            if id_ not in seen:
                findings += self._differing(empty_row(id_, row.name), row)
                checked += 1
        return Found(checked, len(findings), findings[:MOST])

    def _differing(self, stored: TagRow, counted: TagRow) -> Iterator[Finding]:
        days = {day: counts for day, counts in stored.days.items() if day >= self._horizon}
        what = ""
        if stored.n != counted.n:
            what = f"counts {stored.n:,} uses of #{counted.name}, there are {counted.n:,}"
        elif days != counted.days:
            what = f"has wrong counts of the last days of #{counted.name}"
        elif stored.forms != counted.forms and sum(stored.forms.values()) != stored.n:
            what = f"has wrong counts of the spellings of #{counted.name}"
        if what:
            yield Finding(f"the tag cloud {what}".replace("{", "{{").replace("}", "}}"), (), tag=counted.name)


def _use(post: Post) -> Use | None:
    changes = tuple(TagChange(name, form, 1) for name, form in counted_tags(post).items())
    return Use(post.id, post.version, post.author_id, post.created_at, post.created_at, changes) if changes else None


async def constant(
    found: Found, difference: Callable[[Finding], Awaitable[object]], settled: AnyNetwork | None = None
) -> Found:
    """Return the findings whose `difference` is not zero and has equal values in several measurements.

    A single measurement may differ only because the network was changing. If `settled` is a network, all its events are
    processed before each further measurement. If there are more than `_RECHECKED` findings, all of them are returned
    without measurements.
    """
    if found.wrong > _RECHECKED:
        return found
    differ = {finding: await difference(finding) for finding in found.findings}
    for _ in range(_RECHECKS):
        differ = {finding: by for finding, by in differ.items() if by}
        if differ:
            # A random pause, so that the measurements do not run in step with a writer.
            await asyncio.sleep(random.uniform(0.0, 0.01))  # noqa: S311
            if settled is not None:
                await settled.settle()
            differ = {finding: by for finding, by in differ.items() if by == await difference(finding)}
    confirmed = [finding for finding in found.findings if finding in differ]
    return Found(found.checked, len(confirmed), confirmed)


async def tag_difference(network: AnyNetwork, name: str) -> tuple[object, ...]:
    """Return how a tag's counts in the cloud differ from a recount: total, by day and by spelling; empty if equal."""
    counted, _ = await _recounted(network, name)
    stored = (await network.tag_store.tags((counted.id,))).get(counted.id) or empty_row(counted.id, name)
    days = {day: counts for day, counts in stored.days.items() if day >= horizon()}
    difference = (
        stored.n - counted.n,
        set(days.items()) ^ set(counted.days.items()),
        set(stored.forms.items()) ^ set(counted.forms.items()),
    )
    return difference if any(difference) else ()


async def recount_tags(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    names = [finding.tag for finding in findings if finding.tag]
    for start in range(0, len(names), _TAGS_AT_ONCE):
        counted = [await _recounted(network, name) for name in names[start : start + _TAGS_AT_ONCE]]
        authors: dict[AuthorKey, int] = {}
        for _, of_tag in counted:
            authors |= of_tag
        await network.amend_tags(Amendment(rows=[row for row, _ in counted], authors=authors))


async def count_all(network: AnyNetwork, progress: Progress) -> int:
    """Count all tags from the posts into an empty tag cloud. Return the number of tags. No other writer may be active."""
    await network.settle()
    counts, done, after = TagCounts(), 0, FIRST
    while page := await network.store.obj_scan(after, _TAG_PAGE):
        counts.take(page)
        done += len(page)
        after = page[-1].id
        progress("tags of posts", done, 0)
    rows = list(counts.rows.values())
    for start in range(0, len(rows), _TAG_PAGE):
        some = {row.id: row for row in rows[start : start + _TAG_PAGE]}
        authors = {key: n for key, n in counts.authors.items() if key[0] in some}
        await network.amend_tags(Amendment(rows=list(some.values()), authors=authors))
        progress("tags", start + len(some), len(rows))
    return len(rows)


async def _recounted(network: AnyNetwork, name: str) -> tuple[TagRow, dict[AuthorKey, int]]:
    """Recount a tag. Return its row for the tag cloud, and its uses by day and author.

    A day and author that are stored and do not occur in the recount have 0 uses.
    """
    id_ = tag_id(name)
    counts = TagCounts()
    before = MAX_TIME
    while page := await network.store.assoc_range(id_, TAG_OF, Cursor(before=before, limit=_TAG_PAGE)):
        posts = await network.store.obj_get([entry.id2 for entry in page])
        counts.take(posts.values())
        before = page[-1].time
    stored = (await network.tag_store.tags((id_,))).get(id_) or empty_row(id_, name)
    gone = await network.tag_store.author_counts({(id_, day) for day in stored.days})
    authors = {key: n for key, n in counts.authors.items() if key[0] == id_}
    return counts.rows.get(id_) or empty_row(id_, name), {**dict.fromkeys(gone, 0), **authors}
