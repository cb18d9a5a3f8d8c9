"""Reports, and what those do who look after the place."""

from __future__ import annotations

from functools import partial

from shoal.api import reports
from shoal.api.admin import accounts
from shoal.api.admin import reports as admin_reports
from shoal.api.entities.moderation import AdminAccount, AdminReport, Report
from shoal.api.http.calls import Route
from shoal.api.listing import One
from shoal.api.rows import route
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
        _look(_ACCOUNTS, accounts.several, params=accounts.Wanted, answer=list[AdminAccount]),
        _look(
            "/api/v2/admin/accounts",
            accounts.several_now,
            params=accounts.WantedNow,
            answer=list[AdminAccount],
        ),
        _look(_ACCOUNTS + "/{id}", accounts.one, params=One, answer=AdminAccount),
        _staff(
            "DELETE",
            _ACCOUNTS + "/{id}",
            accounts.delete,
            role=Role.ADMIN,
            scope="admin:write:accounts",
            params=One,
            answer=AdminAccount,
        ),
        _staff(
            "POST",
            _ACCOUNTS + "/{id}/action",
            accounts.act,
            scope="admin:write:accounts",
            params=accounts.Act,
            answer=dict,
        ),
        _act(_ACCOUNTS + "/{id}/enable", accounts.enable),
        _act(_ACCOUNTS + "/{id}/unsilence", accounts.unsilence),
        _act(_ACCOUNTS + "/{id}/unsensitive", accounts.unsensitive),
        _act(_ACCOUNTS + "/{id}/unsuspend", accounts.unsuspend),
        _act(_ACCOUNTS + "/{id}/approve", accounts.approve),
        _act(_ACCOUNTS + "/{id}/reject", accounts.reject),
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
