"""I4 of the tag cloud: what was counted by increments is what a plain recount of the posts gives; and how it is put right."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator, Sequence

from shoal.core.model import Post
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.payloads.posts import counted_tags
from shoal.graph.schema import TAG_OF, AnyNode, tag_id
from shoal.ops.checking.invariants import MOST, Found
from shoal.ops.checking.report import Finding, Progress
from shoal.ops.checking.scan import FIRST
from shoal.ops.network import AnyNetwork
from shoal.tagcloud.cloud import DAYS, empty_row
from shoal.tagcloud.contract import DAY_MS, AuthorKey, CloudStore, TagChange, TagRow, Use
from shoal.tagcloud.merger import Amendment, authors_after, rows_after, tally

_PAGE = 1_000
_TAGS_AT_ONCE = 200
_LOOKED_AT = 1_000
"""Findings that are looked at again, one by one. More than so many are no accident of the moment."""
_LOOKS = 8


def horizon() -> int:
    """The first day (since 1970-01-01 UTC) whose uses are told apart."""
    return time.time_ns() // 1_000_000 // DAY_MS - DAYS


class TagCounts:
    """Rows of tags as posts make them, post by post."""

    def __init__(self) -> None:
        self._horizon = horizon()
        self.rows: dict[int, TagRow] = {}
        self.authors: dict[AuthorKey, int] = {}

    def take(self, nodes: Iterable[AnyNode]) -> None:
        """Count the posts among these."""
        uses = [use for node in nodes if isinstance(node, Post) and (use := _use(node)) is not None]
        found = tally(uses, self._horizon)
        after = authors_after(found, self.authors)
        self.rows.update(rows_after(found, self.rows, self.authors, after, {}, self._horizon))
        self.authors.update(after)

    async def compared(self, store: CloudStore) -> Found:
        """Return the tags that the cloud counts differently."""
        findings: list[Finding] = []
        seen: set[int] = set()
        checked, after = 0, FIRST
        while page := await store.scan(after, _PAGE):
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
        days = {day: held for day, held in stored.days.items() if day >= self._horizon}
        what = ""
        if stored.n != counted.n:
            what = f"counts {stored.n:,} uses of #{counted.name}, there are {counted.n:,}"
        elif days != counted.days:
            what = f"does not count the last days of #{counted.name} as they were"
        elif stored.forms != counted.forms and sum(stored.forms.values()) != stored.n:
            what = f"does not count the spellings of #{counted.name} as they are"
        if what:
            yield Finding(f"the tag cloud {what}".replace("{", "{{").replace("}", "}}"), (), tag=counted.name)


def _use(post: Post) -> Use | None:
    changes = tuple(TagChange(name, form, 1) for name, form in counted_tags(post).items())
    return Use(post.id, post.version, post.author_id, post.created_at, post.created_at, changes) if changes else None


async def still_wrong(network: AnyNetwork, found: Found) -> Found:
    """Return the findings of two looks that persist: tags that go on differing by as much, even on a network in use."""
    if found.wrong > _LOOKED_AT:
        return found
    differ = {finding: await _difference(network, finding.tag) for finding in found.findings}
    for _ in range(_LOOKS):
        differ = {finding: by for finding, by in differ.items() if any(by)}
        if differ:
            # At random, so as not to keep step with whoever writes.
            await asyncio.sleep(random.uniform(0.0, 0.01))  # noqa: S311
            await network.settle()
            differ = {finding: by for finding, by in differ.items() if by == await _difference(network, finding.tag)}
    kept = [finding for finding in found.findings if any(differ.get(finding, ()))]
    return Found(found.checked, len(kept), kept)


async def _difference(network: AnyNetwork, name: str) -> tuple[object, ...]:
    """By how many uses, on which days and in which spellings the cloud and a recount differ; nothing true when they do not."""
    counted, _ = await _counted_anew(network, name)
    stored = (await network.tag_store.tags((counted.id,))).get(counted.id) or empty_row(counted.id, name)
    days = {day: held for day, held in stored.days.items() if day >= horizon()}
    return (
        stored.n - counted.n,
        set(days.items()) ^ set(counted.days.items()),
        set(stored.forms.items()) ^ set(counted.forms.items()),
    )


async def count_anew(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Have the tags of these findings counted as the graph has them now."""
    names = [finding.tag for finding in findings if finding.tag]
    for start in range(0, len(names), _TAGS_AT_ONCE):
        counted = [await _counted_anew(network, name) for name in names[start : start + _TAGS_AT_ONCE]]
        authors: dict[AuthorKey, int] = {}
        for _, of_tag in counted:
            authors |= of_tag
        await network.amend_tags(Amendment(rows=[row for row, _ in counted], authors=authors))


async def count_all(network: AnyNetwork, progress: Progress) -> int:
    """Count every tag from the posts, for a cloud that is empty; how many tags there are. Nobody else may be at work."""
    await network.settle()
    counts, done, after = TagCounts(), 0, FIRST
    while page := await network.store.obj_scan(after, _PAGE):
        counts.take(page)
        done += len(page)
        after = page[-1].id
        progress("tags of posts", done, 0)
    rows = list(counts.rows.values())
    for start in range(0, len(rows), _PAGE):
        some = {row.id: row for row in rows[start : start + _PAGE]}
        authors = {key: n for key, n in counts.authors.items() if key[0] in some}
        await network.amend_tags(Amendment(rows=list(some.values()), authors=authors))
        progress("tags", start + len(some), len(rows))
    return len(rows)


async def _counted_anew(network: AnyNetwork, name: str) -> tuple[TagRow, dict[AuthorKey, int]]:
    """The row of a tag, and who used it on the days that are stored or counted: 0 for who did not."""
    id_ = tag_id(name)
    counts = TagCounts()
    before = MAX_TIME
    while page := await network.store.assoc_range(id_, TAG_OF, Cursor(before=before, limit=_PAGE)):
        posts = await network.store.obj_get([entry.id2 for entry in page])
        counts.take(posts.values())
        before = page[-1].time
    stored = (await network.tag_store.tags((id_,))).get(id_) or empty_row(id_, name)
    gone = await network.tag_store.author_counts({(id_, day) for day in stored.days})
    authors = {key: n for key, n in counts.authors.items() if key[0] == id_}
    return counts.rows.get(id_) or empty_row(id_, name), {**dict.fromkeys(gone, 0), **authors}
