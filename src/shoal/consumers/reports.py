"""Remove posts that many members reported from public lists until a moderator decides, and notify reporters of the outcome.

The review state of a post is computed from its reports in the graph, so running twice, late or out of order does not change it. If
a moderator upheld any report of the post, the state is "upheld"; otherwise, if a moderator dismissed any, it is "cleared";
otherwise it becomes "waiting" once enough members have reported the post, and does not return from "waiting" to none. For example,
ann, ben and cyd report a post, with a threshold of two; a dash means no state, and `"` no change:

    event           ann reports   ben reports   ann's dismissed   cyd reports   cyd's upheld   cyd's reopened   ann's reopened
    review state    -             waiting       cleared           "             upheld         cleared          waiting
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from shoal.consumers.context import Effects
from shoal.consumers.notifications import forget, note
from shoal.consumers.relationships import settle_links
from shoal.core import events
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import HELD, Member, Post, Report, Review
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Assoc, Batch, Cursor, find_object
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.payloads.posts import reports_of
from shoal.graph.schema import POST_REPORTED_BY, REPORT_DISMISSED, REPORT_UPHELD, REPORTS_POST

_MOST = 1_000
"""Maximum number of reporters of a post that are considered, newest first."""
_OFTEN = 3
"""Reporters with at least this many dismissed reports are ignored if they have more dismissed than upheld reports."""


async def review_reported(effects: Effects, event: events.ReportFiled, mark: int) -> None:
    await _review_posts(effects, event.report_id, filed=True)


async def review_closed(effects: Effects, event: events.ReportOutcomeChanged, mark: int) -> None:
    await _review_posts(effects, event.report_id)


async def _review_posts(effects: Effects, report_id: int, *, filed: bool = False) -> None:
    report = await find_object(effects.graph, Report, report_id)
    # Members who report their own account do not cause a review of the reported posts.
    if report is None or report.reporter_id == report.target_id:
        return
    # Write missing inverses first, through which `_review` finds the reports of a post. If two reports are filed concurrently in
    # two stores, the consumer that runs later then finds both.
    await settle_links(effects, report.reporter_id, REPORTS_POST, report.post_ids)
    for post_id in report.post_ids:
        await _review(effects, post_id, report.id, filed=filed)


async def _review(effects: Effects, post_id: int, report_id: int, *, filed: bool = False) -> None:
    """Update the review state of a post. A new report changes nothing if the post already has a state."""

    async def attempt() -> bool:
        post = await find_object(effects.graph, Post, post_id)
        if post is None or (filed and post.review is not Review.NONE):
            return False
        review = await _reviewed(effects, post, report_id)
        if review is post.review:
            return False
        batch = Batch(shard_of(post.id))
        batch.obj_set(replace(post, review=review, version=post.version + 1))
        if review in HELD:
            batch.emit(events.PostHidden(post_id=post.id))
        await effects.graph.commit(batch)
        return True

    # Reports may have been closed or reopened after they were read, so repeat until nothing changes.
    while await retry_on_conflict(attempt):
        pass


async def _reviewed(effects: Effects, post: Post, report_id: int) -> Review:
    page = await effects.graph.assoc_range(post.id, POST_REPORTED_BY, Cursor(limit=_MOST))
    ids = {report_id, *(id_ for reporter in page for id_ in reports_of(reporter))}
    nodes = await effects.graph.obj_get([*ids, *(reporter.id2 for reporter in page)])
    reports = [node for id_ in ids if isinstance(node := nodes.get(id_), Report) and post.id in node.post_ids]
    if any(report.upheld for report in reports):
        return Review.UPHELD
    if any(report.upheld is False for report in reports):
        return Review.CLEARED
    if post.review is Review.WAITING:
        return Review.WAITING
    members = {reporter.id2: node for reporter in page if isinstance(node := nodes.get(reporter.id2), Member)}
    counting = await _counting(effects, page, members)
    return Review.WAITING if 0 < effects.holding.reports <= counting else Review.NONE


async def _counting(effects: Effects, page: Collection[Assoc], members: Mapping[int, Member]) -> int:
    """Return the number of reporters whose reports count; 0 if this number is below the threshold.

    A reporter counts if the account exists, is not suspended, was old enough at the report, and does not file wrong reports
    often.
    """
    old = [
        reporter.id2
        for reporter in page
        if (member := members.get(reporter.id2)) is not None
        and not member.suspended
        and milliseconds_of(reports_of(reporter)[0]) - member.created_at >= effects.holding.age_ms
    ]
    if not 0 < effects.holding.reports <= len(old):
        return 0
    counts = await effects.graph.assoc_count(old, (REPORT_UPHELD, REPORT_DISMISSED))
    upheld, dismissed = counts[REPORT_UPHELD], counts[REPORT_DISMISSED]
    return sum(not max(_OFTEN, upheld.get(id_, 0) + 1) <= dismissed.get(id_, 0) for id_ in old)


_OUTCOMES = (REPORT_UPHELD, REPORT_DISMISSED)


async def tell_reporter(effects: Effects, event: events.ReportOutcomeChanged, mark: int) -> None:
    """Notify the reporter if the report is still closed, otherwise retract the notification."""
    report = await find_object(effects.graph, Report, event.report_id)
    if report is None:
        return
    # The actor of this notification is the reporter, so that the moderator stays anonymous.
    notice = Notice(Kind.REPORT_RESOLVED, report.reporter_id, report.id)
    time = await _closed(effects, report)
    while True:
        if time is None:
            await forget(effects, report.reporter_id, (notice,))
        else:
            await note(effects, report.reporter_id, notice, time)
        time, before = await _closed(effects, report), time
        if time == before:
            return


async def _closed(effects: Effects, report: Report) -> int | None:
    """Return the time at which the report was closed; None if it is open."""
    found = await effects.graph.assoc_get(report.reporter_id, _OUTCOMES, (report.id,))
    times = [assocs[report.id].time for assocs in found.values() if report.id in assocs]
    return max(times, default=None)
