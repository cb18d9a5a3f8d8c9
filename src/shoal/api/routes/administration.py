"""The network as a whole, for those who look after it: what trends, and whether it may; and figures."""

from __future__ import annotations

from functools import partial
from typing import Any

from shoal.api import admin_statistics, admin_trends, suggestions
from shoal.api.admin_statistics import Dimensions, Measures, Retention
from shoal.api.admin_trends import AdminStatus, AdminTag
from shoal.api.calls import Route
from shoal.api.listing import One
from shoal.api.routes.making import route
from shoal.api.statistics_entities import Cohort, Dimension, Measure
from shoal.core.model import Role
from shoal.settings import Settings

_staff = partial(route, role=Role.MODERATOR)
_read = partial(_staff, "GET", scope="admin:read")
_ask = partial(_staff, "POST", scope="admin:read")
_rule = partial(_staff, "POST", scope="admin:write")

_TRENDS = "/api/v1/admin/trends"
_TAGS = f"{_TRENDS}/tags"
_STATUSES = f"{_TRENDS}/statuses"


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        _read(_TAGS, admin_trends.tags, params=admin_trends.Trending, answer=list[AdminTag]),
        _rule(_TAGS + "/{id}/approve", admin_trends.approve, params=admin_trends.Which, answer=AdminTag),
        _rule(_TAGS + "/{id}/reject", admin_trends.reject, params=admin_trends.Which, answer=AdminTag),
        _read(_STATUSES, admin_trends.statuses, params=suggestions.Position, answer=list[AdminStatus]),
        _rule(_STATUSES + "/{id}/approve", admin_trends.approve_status, params=One, answer=AdminStatus),
        _rule(_STATUSES + "/{id}/reject", admin_trends.reject_status, params=One, answer=AdminStatus),
        _read(
            f"{_TRENDS}/links",
            suggestions.no_links,
            params=suggestions.Position,
            answer=list[dict[str, Any]],
            stub=True,
        ),
        _ask("/api/v1/admin/measures", admin_statistics.measures, params=Measures, answer=list[Measure]),
        _ask("/api/v1/admin/dimensions", admin_statistics.dimensions, params=Dimensions, answer=list[Dimension]),
        _ask("/api/v1/admin/retention", admin_statistics.retention, params=Retention, answer=list[Cohort]),
    )
