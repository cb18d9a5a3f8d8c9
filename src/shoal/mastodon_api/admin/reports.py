"""Reports for moderators: list, categorize, assign and resolve them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from shoal.commands import reports
from shoal.core.model import Member, Report, Review, Role
from shoal.graph.access import members_by_id
from shoal.graph.contract import Reader
from shoal.http.pagination import LISTED_DATA, PageQuery
from shoal.http.params import Id
from shoal.http.responses import raw
from shoal.mastodon_api.admin.accounts import shown
from shoal.mastodon_api.context import Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities import moderation as moderation_entities
from shoal.mastodon_api.entities.moderation import AdminAccount, AdminReport
from shoal.mastodon_api.entities.presenter import Presenter
from shoal.mastodon_api.entities.serializers import moment
from shoal.mastodon_api.entities.statuses import Status
from shoal.mastodon_api.reports import Category, RuleIds, known_rules
from shoal.queries import moderation
from shoal.queries.hydration import Entry, hydrate_reported
from shoal.queries.moderation import ReportFilter
from shoal.settings import Settings

router = Router(role=Role.MODERATOR)

_log = logging.getLogger("shoal.moderation")


class ReportsQuery(PageQuery, frozen=True, kw_only=True):
    resolved: bool = False
    account_id: Id | None = None
    """Reports by this account."""
    target_account_id: Id | None = None
    """Reports about this account."""
    waiting: bool = False
    """Only reports about statuses that are hidden from public lists until a moderator resolves a report."""


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    category: Category | None = None
    rule_ids: RuleIds | None = None


class Resolving(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    upheld: bool | None = None
    """Whether the report is justified.

    By default, it is if the account or one of its reported statuses was moderated, or if a reported status was deleted.
    """


@router.get("/api/v1/admin/reports", scope="admin:read:reports", answer=list[AdminReport])
async def list_reports(context: Context, params: ReportsQuery) -> object:
    """List open reports, newest first; with `resolved`, list resolved reports."""
    cursor = cursor_of(params, 100, 200)
    query = ReportFilter(params.resolved, params.account_id, params.target_account_id, params.waiting)
    found, after = await moderation.reports_page(context.app.graph, cursor, query)
    return paged(context, await _shown(context, found), [report.id for report in found], after, cursor)


@router.get("/api/v1/admin/reports/{id}", scope="admin:read:reports", answer=AdminReport)
async def get_report(context: Context, params: One) -> object:
    """Show a report with its statuses."""
    return await _answer(context, await reports.access_report(context.app.graph, params.id))


@router.put("/api/v1/admin/reports/{id}", scope="admin:write:reports", answer=AdminReport)
async def categorize(context: Context, params: Sorted) -> object:
    """Change the category and rules of a report."""
    changed = await reports.sort(
        context.app.writes,
        params.id,
        category=params.category,
        rule_ids=params.rule_ids,
        rules=known_rules(context.app),
    )
    return await _done(context, "sort", changed)


@router.post("/api/v1/admin/reports/{id}/assign_to_self", scope="admin:write:reports", answer=AdminReport)
async def assign_to_self(context: Context, params: One) -> object:
    """Assign a report to the caller."""
    return await _done(context, "take", await reports.assign(context.app.writes, params.id, actor(context)))


@router.post("/api/v1/admin/reports/{id}/unassign", scope="admin:write:reports", answer=AdminReport)
async def unassign(context: Context, params: One) -> object:
    """Remove the assignee of a report."""
    return await _done(context, "leave", await reports.assign(context.app.writes, params.id, 0))


@router.post("/api/v1/admin/reports/{id}/resolve", scope="admin:write:reports", answer=AdminReport)
async def resolve(context: Context, params: Resolving) -> object:
    """Resolve a report and notify the reporter. If the report is not upheld, its statuses return to public lists."""
    writes = context.app.writes
    return await _done(
        context, "resolve", await reports.resolve(writes, params.id, actor(context), upheld=params.upheld)
    )


@router.post("/api/v1/admin/reports/{id}/reopen", scope="admin:write:reports", answer=AdminReport)
async def reopen(context: Context, params: One) -> object:
    """Reopen a resolved report."""
    return await _done(context, "reopen", await reports.reopen(context.app.writes, params.id))


async def _done(context: Context, what: str, report: Report) -> AdminReport:
    _log.info("moderator %s: %s report %s about member %s", actor(context), what, report.id, report.target_id)
    return await _answer(context, report)


async def _answer(context: Context, report: Report) -> AdminReport:
    return (await _shown(context, [report]))[0]


async def _shown(context: Context, found: Sequence[Report]) -> list[AdminReport]:
    app = context.app
    return await admin_reports(app.graph, app.present, app.settings, found, partial(shown, context))


async def admin_reports(
    graph: Reader,
    present: Presenter,
    settings: Settings,
    found: Sequence[Report],
    accounts_of: Callable[[Sequence[Member]], Awaitable[list[AdminAccount]]],
) -> list[AdminReport]:
    """Return the entities of reports. The accounts and statuses of all reports are read together."""
    ids = {id_ for report in found for id_ in _people(report) if id_}
    people = await members_by_id(graph, list(ids))
    accounts = {int(account.id): account for account in await accounts_of(list(people.values()))}
    entries = await hydrate_reported(graph, list({id_ for report in found for id_ in report.post_ids}))
    waiting = {entry.id for entry in entries if entry.post.review is Review.WAITING}
    statuses = {entry.id: await _status(present, entry) for entry in entries}
    rules = {rule.id: rule for rule in moderation_entities.rules_of(settings)}
    return [
        AdminReport(
            id=str(report.id),
            action_taken=bool(report.closed_at),
            action_taken_at=moderation_entities.closing(report),
            category=report.category,
            comment=report.comment,
            forwarded=report.forwarded,
            created_at=moderation_entities.created(report),
            updated_at=moment(report.closed_at) if report.closed_at else moderation_entities.created(report),
            account=accounts.get(report.reporter_id),
            target_account=accounts.get(report.target_id),
            assigned_account=accounts.get(report.assigned_to),
            action_taken_by_account=accounts.get(report.closed_by),
            statuses=[statuses[id_] for id_ in report.post_ids if id_ in statuses],
            waiting_status_ids=[str(id_) for id_ in report.post_ids if id_ in waiting],
            upheld=report.upheld,
            rules=[rules[id_] for id_ in report.rule_ids if id_ in rules],
        )
        for report in found
    ]


def _people(report: Report) -> tuple[int, ...]:
    return report.reporter_id, report.target_id, report.assigned_to, report.closed_by


async def _status(present: Presenter, entry: Entry) -> Status:
    made: Status = raw(await present.status(None, entry, LISTED_DATA))
    return made
