"""The network as a whole, for those who look after it: what trends, and whether it may; and figures."""

from __future__ import annotations

from functools import partial
from typing import Any

from shoal.api import suggestions
from shoal.api.admin import statistics, trends
from shoal.api.admin.statistics import Dimensions, Measures, Retention
from shoal.api.admin.trends import AdminStatus, AdminTag
from shoal.api.entities.statistics import Cohort, Dimension, Measure
from shoal.api.http.calls import Route
from shoal.api.listing import One
from shoal.api.rows import route
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
        _read(_TAGS, trends.tags, params=trends.Trending, answer=list[AdminTag]),
        _rule(_TAGS + "/{id}/approve", trends.approve, params=trends.Which, answer=AdminTag),
        _rule(_TAGS + "/{id}/reject", trends.reject, params=trends.Which, answer=AdminTag),
        _read(_STATUSES, trends.statuses, params=suggestions.Position, answer=list[AdminStatus]),
        _rule(_STATUSES + "/{id}/approve", trends.approve_status, params=One, answer=AdminStatus),
        _rule(_STATUSES + "/{id}/reject", trends.reject_status, params=One, answer=AdminStatus),
        _read(
            f"{_TRENDS}/links",
            suggestions.no_links,
            params=suggestions.Position,
            answer=list[dict[str, Any]],
            stub=True,
        ),
        _ask("/api/v1/admin/measures", statistics.measures, params=Measures, answer=list[Measure]),
        _ask("/api/v1/admin/dimensions", statistics.dimensions, params=Dimensions, answer=list[Dimension]),
        _ask("/api/v1/admin/retention", statistics.retention, params=Retention, answer=list[Cohort]),
    )
