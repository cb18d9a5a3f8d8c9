"""Reports, and what those do who look after the place."""

from __future__ import annotations

from functools import partial

from shoal.api import admin_accounts, admin_reports, reports
from shoal.api.calls import Route
from shoal.api.listing import One
from shoal.api.moderation_entities import AdminAccount, AdminReport, Report
from shoal.api.routes.making import route
from shoal.core.model import Role
from shoal.settings import Settings

_staff = partial(route, role=Role.MODERATOR)
_look = partial(_staff, "GET", scope="admin:read:accounts")
_act = partial(_staff, "POST", scope="admin:write:accounts", params=One, answer=AdminAccount)
_read = partial(_staff, "GET", scope="admin:read:reports")
_see_to = partial(_staff, "POST", scope="admin:write:reports", params=One, answer=AdminReport)

_ACCOUNTS = "/api/v1/admin/accounts"
_REPORTS = "/api/v1/admin/reports"


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        route(
            "POST", "/api/v1/reports", reports.create, scope="write:reports", params=reports.NewReport, answer=Report
        ),
        _look(_ACCOUNTS, admin_accounts.several, params=admin_accounts.Wanted, answer=list[AdminAccount]),
        _look(
            "/api/v2/admin/accounts",
            admin_accounts.several_now,
            params=admin_accounts.WantedNow,
            answer=list[AdminAccount],
        ),
        _look(_ACCOUNTS + "/{id}", admin_accounts.one, params=One, answer=AdminAccount),
        _staff(
            "DELETE",
            _ACCOUNTS + "/{id}",
            admin_accounts.delete,
            role=Role.ADMIN,
            scope="admin:write:accounts",
            params=One,
            answer=AdminAccount,
        ),
        _staff(
            "POST",
            _ACCOUNTS + "/{id}/action",
            admin_accounts.act,
            scope="admin:write:accounts",
            params=admin_accounts.Act,
            answer=dict,
        ),
        _act(_ACCOUNTS + "/{id}/enable", admin_accounts.enable),
        _act(_ACCOUNTS + "/{id}/unsilence", admin_accounts.unsilence),
        _act(_ACCOUNTS + "/{id}/unsensitive", admin_accounts.unsensitive),
        _act(_ACCOUNTS + "/{id}/unsuspend", admin_accounts.unsuspend),
        _act(_ACCOUNTS + "/{id}/approve", admin_accounts.approve),
        _act(_ACCOUNTS + "/{id}/reject", admin_accounts.reject),
        _read(_REPORTS, admin_reports.several, params=admin_reports.Wanted, answer=list[AdminReport]),
        _read(_REPORTS + "/{id}", admin_reports.one, params=One, answer=AdminReport),
        _staff(
            "PUT",
            _REPORTS + "/{id}",
            admin_reports.sort,
            scope="admin:write:reports",
            params=admin_reports.Sorted,
            answer=AdminReport,
        ),
        _see_to(_REPORTS + "/{id}/assign_to_self", admin_reports.assign_to_self),
        _see_to(_REPORTS + "/{id}/unassign", admin_reports.unassign),
        _see_to(_REPORTS + "/{id}/resolve", admin_reports.resolve),
        _see_to(_REPORTS + "/{id}/reopen", admin_reports.reopen),
    )
