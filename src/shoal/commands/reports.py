"""Commands for reports to the moderators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core.audit import AuditVerb, report_target
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import ReportFiled, ReportOutcomeChanged
from shoal.core.ids import shard_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Post, Report
from shoal.core.text import check_text
from shoal.core.visibility import may_see
from shoal.graph.access import access_member, get_object, relation
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, Reader
from shoal.graph.payloads.posts import encode_reports
from shoal.graph.schema import EVERYBODY, FILED, REPORT_DISMISSED, REPORT_UPHELD, REPORTS_POST, AssocType

MAX_COMMENT = 1_000
MAX_POSTS = 100


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    post_ids: Sequence[int] = ()
    comment: str = ""
    category: str = "other"
    rule_ids: Sequence[str] = ()


async def file(
    writes: Writes, member_id: int, target_id: int, complaint: Complaint, *, rules: Collection[str] = ()
) -> Report:
    """Report a member, and hide the reported posts from the reporter. `rules` are the ids of the server's rules.

    Raises `NotFound` for an unknown member, `Gone` for a suspended one, `NotFound` for posts that are by another member or that the
    reporter may not see, and `InvalidInput` for invalid values.
    """
    target = await access_member(writes.graph, target_id)
    comment = check_text(complaint.comment, field="comment", maximum=MAX_COMMENT)
    rule_ids = _checked_rules(complaint.rule_ids, rules)
    post_ids = await _checked_posts(writes.graph, member_id, target, complaint.post_ids)
    earlier = (await writes.graph.assoc_get(member_id, (REPORTS_POST,), post_ids))[REPORTS_POST] if post_ids else {}
    shard = shard_of(member_id)

    def build(id_: int) -> tuple[Report, Batch]:
        report = Report(
            id=id_,
            reporter_id=member_id,
            target_id=target_id,
            post_ids=post_ids,
            comment=comment,
            category=_category(complaint.category, rule_ids),
            rule_ids=rule_ids,
        )
        batch = Batch(shard)
        batch.obj_add(report)
        batch.assoc_add(id_, FILED, EVERYBODY, id_)
        if target_id != member_id:
            for post_id in post_ids:
                batch.assoc_add(member_id, REPORTS_POST, post_id, id_, encode_reports(id_, earlier.get(post_id)))
                batch.expect(post_id)
        batch.emit(ReportFiled(report_id=id_))
        return report, batch

    return await add_node(writes, shard, build)


async def assign(writes: Writes, report_id: int, to: int) -> Report:
    """Assign the report to a moderator, or unassign it (0)."""
    verb = AuditVerb.REPORT_ASSIGNED if to else AuditVerb.REPORT_UNASSIGNED
    return await _change(writes, report_id, verb, lambda report: replace(report, assigned_to=to))


async def resolve(writes: Writes, report_id: int, by: int, *, upheld: bool | None = None) -> Report:
    """Close the report as `upheld` or dismissed, and notify the reporter. A closed report does not change.

    If `upheld` is None, the report is upheld if moderators took action or a reported post was deleted.
    """
    if upheld is None:
        upheld = await _was_acted_on(writes.graph, await access_report(writes.graph, report_id))

    def change(report: Report) -> Report:
        if report.closed_at:
            return report
        now = writes.new_id.now()
        return replace(report, closed_at=now, closed_by=by, upheld=upheld)

    return await _change(writes, report_id, AuditVerb.REPORT_RESOLVED, change)


async def reopen(writes: Writes, report_id: int) -> Report:
    return await _change(
        writes,
        report_id,
        AuditVerb.REPORT_REOPENED,
        lambda report: replace(report, closed_at=0, closed_by=0, upheld=None),
    )


async def _was_acted_on(graph: Reader, report: Report) -> bool:
    nodes = await graph.obj_get((report.target_id, *report.post_ids))
    target = nodes.get(report.target_id)
    if not isinstance(target, Member):
        return True
    posts = [nodes.get(id_) for id_ in report.post_ids]
    return (
        target.suspended
        or target.silenced
        or target.disabled
        or target.sensitized
        or any(not isinstance(post, Post) or post.hidden & HIDDEN_BY_MODERATION for post in posts)
    )


async def sort(
    writes: Writes,
    report_id: int,
    *,
    category: str | None = None,
    rule_ids: Sequence[str] | None = None,
    rules: Collection[str] = (),
) -> Report:
    """Change the category of a report, and the server rules that were broken according to the report.

    If rules are given, the category becomes `violation`. A category other than `violation`, given without rules, removes the
    rules.
    """
    checked = None if rule_ids is None else _checked_rules(rule_ids, rules)
    changes: dict[str, Any] = {}
    if checked is not None:
        changes["rule_ids"] = checked
        changes["category"] = _category(category or "other", checked)
    elif category is not None:
        changes["category"] = category
        if category != "violation":
            changes["rule_ids"] = ()
    return await _change(writes, report_id, AuditVerb.REPORT_CATEGORIZED, lambda report: replace(report, **changes))


async def access_report(graph: Reader, report_id: int, *, about: int = 0) -> Report:
    """Return a report.

    Raises `NotFound` if the report does not exist, or if it is not about the member `about` (0: any member).
    """
    report = await get_object(graph, Report, report_id)
    if about not in {0, report.target_id}:
        raise NotFound("Record not found")
    return report


def _category(category: str, rule_ids: Collection[str]) -> str:
    return "violation" if rule_ids else category


def _checked_rules(rule_ids: Sequence[str], rules: Collection[str]) -> tuple[str, ...]:
    if not set(rule_ids) <= set(rules):
        raise InvalidInput("Rule ids does not reference valid rules", field="rule_ids")
    return tuple(dict.fromkeys(rule_ids))


async def _checked_posts(graph: Reader, member_id: int, target: Member, post_ids: Sequence[int]) -> tuple[int, ...]:
    requested = tuple(dict.fromkeys(post_ids))
    if len(requested) > MAX_POSTS:
        raise InvalidInput(f"a report may include at most {MAX_POSTS} posts", field="status_ids")
    if not requested:
        return ()
    nodes = await graph.obj_get(requested)
    current = await relation(graph, member_id, target.id)
    for id_ in requested:
        post = nodes.get(id_)
        if not isinstance(post, Post) or post.author_id != target.id or not may_see(member_id, post, target, current):
            raise NotFound("Record not found")
    return requested


async def _change(writes: Writes, report_id: int, verb: AuditVerb, change: Callable[[Report], Report]) -> Report:
    """Apply a change to the current state of a report, and store it if it makes a difference."""

    def extra(batch: Batch, before: Report, after: Report) -> None:
        note(writes, batch, verb, report_target(after), **_audit_details(verb, after))
        if bool(before.closed_at) is bool(after.closed_at):
            return
        time = writes.new_id(batch.shard)
        if (was := _outcome(before)) is not None:
            batch.assoc_del(before.reporter_id, was, before.id, time)
        if (now := _outcome(after)) is not None:
            batch.assoc_add(after.reporter_id, now, after.id, time)
        batch.emit(ReportOutcomeChanged(report_id=after.id))

    return await change_object(writes.graph, lambda: access_report(writes.graph, report_id), change, extra)


def _audit_details(verb: AuditVerb, report: Report) -> dict[str, str | int]:
    about: dict[str, str | int] = {"about": str(report.target_id)}
    if verb is AuditVerb.REPORT_RESOLVED:
        return {**about, "verdict": "upheld" if report.upheld else "dismissed"}
    if verb is AuditVerb.REPORT_ASSIGNED:
        return {**about, "to": str(report.assigned_to)}
    return {**about, "category": report.category} if verb is AuditVerb.REPORT_CATEGORIZED else about


def _outcome(report: Report) -> AssocType | None:
    """Return the type of the association that records for the reporter whether the report was upheld; None without an outcome."""
    if not report.closed_at or report.upheld is None:
        return None
    return REPORT_UPHELD if report.upheld else REPORT_DISMISSED
