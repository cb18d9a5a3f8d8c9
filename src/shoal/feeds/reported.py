"""Reports, as moderators read them: a page of those that are wanted, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.model import Post
from shoal.core.reports import Report
from shoal.core.reviews import Review
from shoal.feeds.merging.pull import check_limit
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import EVERYBODY, REPORTED

_LOOKS = 25
"""After so many refills in vain a page may come short: its cursor goes on from there."""


class WantedReports(NamedTuple):
    """Which reports: open or resolved ones, made by one member, about one member."""

    resolved: bool = False
    reporter_id: int | None = None
    target_id: int | None = None
    waiting: bool = False
    """Only those about a post that waits for moderators."""

    def admits(self, report: Report) -> bool:
        """Whether a report is wanted."""
        return (
            bool(report.closed_at) is self.resolved
            and self.reporter_id in (None, report.reporter_id)
            and self.target_id in (None, report.target_id)
        )


class Reports(NamedTuple):
    """A page, newest first. `next` is the `before` of the page that follows; None at the end."""

    reports: list[Report]
    next: int | None


async def page(graph: Reader, cursor: Cursor, wanted: WantedReports) -> Reports:
    """A page of the reports that are wanted. Raises `InvalidInput` for a limit below 1."""
    check_limit(cursor)
    found: list[Report] = []
    at, ended = cursor, False
    for _ in range(_LOOKS):
        listed = await graph.assoc_range(
            EVERYBODY,
            REPORTED,
            Cursor(before=at.before, after=at.after, limit=cursor.limit + 1, oldest_first=cursor.oldest_first),
        )
        nodes = await graph.obj_get([assoc.id2 for assoc in listed])
        filed = [node for assoc in listed if isinstance(node := nodes.get(assoc.id2), Report)]
        filed = [report for report in filed if wanted.admits(report)]
        found += await _about_waiting(graph, filed) if wanted.waiting else filed
        ended = len(listed) <= cursor.limit
        if ended or len(found) > cursor.limit:
            break
        at = at.past(listed[-1].time)
    here = found[: cursor.limit]
    if cursor.oldest_first:
        return Reports(here[::-1], here[0].id if here else None)
    if len(found) > cursor.limit:
        return Reports(here, here[-1].id)
    return Reports(here, None if ended else at.before)


async def _about_waiting(graph: Reader, reports: Sequence[Report]) -> list[Report]:
    """Return the reports about posts that wait for moderators; one read."""
    ids = list({id_ for report in reports for id_ in report.post_ids})
    nodes = await graph.obj_get(ids) if ids else {}
    waiting = {id_ for id_ in ids if isinstance(post := nodes.get(id_), Post) and post.review is Review.WAITING}
    return [report for report in reports if not waiting.isdisjoint(report.post_ids)]
