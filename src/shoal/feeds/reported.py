"""Reports, as moderators read them: a page of those that are wanted, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.model import Post, Report, Review
from shoal.feeds.merging.sparse import look_through
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import EVERYBODY, REPORTED


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
    """A page, newest first, which may come short. `next` is the `before` of the page that follows; None at the end."""

    reports: list[Report]
    next: int | None


async def page(graph: Reader, cursor: Cursor, wanted: WantedReports) -> Reports:
    """A page of the reports that are wanted. Raises `InvalidInput` for a limit below 1."""

    async def read(at: Cursor) -> list[Assoc]:
        return await graph.assoc_range(EVERYBODY, REPORTED, at)

    async def sift(listed: Sequence[Assoc]) -> list[Report]:
        nodes = await graph.obj_get([assoc.id2 for assoc in listed])
        filed = [node for assoc in listed if isinstance(node := nodes.get(assoc.id2), Report) and wanted.admits(node)]
        return await _about_waiting(graph, filed) if wanted.waiting else filed

    return Reports(*await look_through(cursor, cursor.limit + 1, read, sift, lambda report: report.id))


async def _about_waiting(graph: Reader, reports: Sequence[Report]) -> list[Report]:
    """Return the reports about posts that wait for moderators; one read."""
    ids = list({id_ for report in reports for id_ in report.post_ids})
    nodes = await graph.obj_get(ids) if ids else {}
    waiting = {id_ for id_ in ids if isinstance(post := nodes.get(id_), Post) and post.review is Review.WAITING}
    return [report for report in reports if not waiting.isdisjoint(report.post_ids)]
