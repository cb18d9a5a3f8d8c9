"""Notifying moderators of new members and of reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.core.events import MemberRegistered, ProfileChanged, ReportFiled
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member, Report
from shoal.fanout.effects import Effects
from shoal.fanout.notifications import note
from shoal.graph.contract import MAX_TIME, Assoc, Cursor
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.schema import EVERYBODY, STAFF

_PAGE = 100
_NEW_MS = 86_400_000
"""How long a member is new, in milliseconds: a change of an older profile is not told."""


async def tell_of_member(effects: Effects, event: MemberRegistered | ProfileChanged, mark: int) -> int | None:
    """Notify moderators of a new member, once their address is confirmed. Imported members joined elsewhere, and are not told."""
    member = (await effects.graph.obj_get((event.member_id,))).get(event.member_id)
    if not isinstance(member, Member) or member.dated or member.unconfirmed:
        return None
    now = effects.new_id(shard_of(member.id))
    if milliseconds_of(now) - milliseconds_of(member.id) > _NEW_MS:
        return None
    return await _tell(effects, Notice(Kind.REGISTRATION, member.id), member.id, mark)


async def tell_of_report(effects: Effects, event: ReportFiled, mark: int) -> int | None:
    """Notify moderators of a report."""
    report = (await effects.graph.obj_get((event.report_id,))).get(event.report_id)
    if not isinstance(report, Report):
        return None
    return await _tell(effects, Notice(Kind.REPORT, report.reporter_id, report.id), report.id, mark)


async def _tell(effects: Effects, notice: Notice, time: int, mark: int) -> int | None:
    page = await effects.graph.assoc_range(EVERYBODY, STAFF, Cursor(before=mark or MAX_TIME, limit=_PAGE))
    await asyncio.gather(*(note(effects, member, notice, time) for member in _others(page, notice)))
    return page[-1].time if len(page) == _PAGE else None


def _others(page: Sequence[Assoc], notice: Notice) -> list[int]:
    return [member.id2 for member in page if member.id2 != notice.actor_id]
