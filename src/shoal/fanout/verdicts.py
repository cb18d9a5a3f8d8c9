"""Notifying members that moderators closed a report of theirs."""

from __future__ import annotations

from shoal.core.events import VerdictChanged
from shoal.core.model import Report
from shoal.fanout.effects import Effects
from shoal.fanout.notifications import forget, note
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.schema import REPORT_DISMISSED, REPORT_UPHELD

_VERDICTS = (REPORT_UPHELD, REPORT_DISMISSED)


async def tell_reporter(effects: Effects, event: VerdictChanged, mark: int) -> int | None:
    """Notify the reporter exactly if the report is closed at this moment; one that is open again is not told of any more."""
    report = (await effects.graph.obj_get((event.report_id,))).get(event.report_id)
    if not isinstance(report, Report):
        return None
    # Nobody but the reporter: moderators do not sign what they decide.
    notice = Notice(Kind.VERDICT, report.reporter_id, report.id)
    time = await _closed(effects, report)
    while True:
        if time is None:
            await forget(effects, report.reporter_id, (notice,))
        else:
            await note(effects, report.reporter_id, notice, time)
        time, before = await _closed(effects, report), time
        if time == before:
            return None


async def _closed(effects: Effects, report: Report) -> int | None:
    """Return the time of the verdict; None when there is none, or none any more."""
    found = await effects.graph.assoc_get(report.reporter_id, _VERDICTS, (report.id,))
    times = [held[report.id].time for held in found.values() if report.id in held]
    return max(times, default=None)
