"""The network in numbers, as admins see it: measures by day, what there is most of, and who stays."""

from __future__ import annotations

import asyncio
import time
from datetime import date, timedelta
from typing import Annotated

from msgspec import Meta

from shoal.api import rows
from shoal.api.admin.measuring import MeasureKey, day_text, measured
from shoal.api.admin.ranking import DimensionKey, ranked
from shoal.api.admin.statistics_subjects import FigureQuestion, OfServer, OfTag, StatisticsPeriod, Subjects
from shoal.api.context import Context, Front
from shoal.api.entities.statistics import Cohort, CohortPeriod, Dimension, Frequency, Measure
from shoal.commands.scheduled_posts import moment_of_text
from shoal.core.errors import InvalidInput
from shoal.ops.statistics.figures import DAY_MS, PERIOD_DAYS, Figures, Period
from shoal.ops.statistics.tags import TagUseReader

_COHORT_DAYS = 92
"""The longest period of retention by day; by month it is that of everything."""
_DEFAULT_DAYS = 30
_EPOCH = date(1970, 1, 1)
_LAST_MS = 8_000 * 365 * DAY_MS
"""Some time before dates end."""


class Measures(Subjects, frozen=True, kw_only=True):
    """Which measures of which period."""

    keys: Annotated[tuple[MeasureKey, ...], Meta(min_length=1, max_length=20)]
    tag_accounts: OfTag | None = None
    tag_uses: OfTag | None = None
    instance_media_attachments: OfServer | None = None
    instance_reports: OfServer | None = None
    instance_statuses: OfServer | None = None
    instance_follows: OfServer | None = None
    instance_followers: OfServer | None = None

    def of_tags(self) -> dict[str, OfTag | None]:
        """The tags that were named, by the key of the measure."""
        return {**super().of_tags(), "tag_accounts": self.tag_accounts, "tag_uses": self.tag_uses}

    def of_servers(self) -> dict[str, OfServer | None]:
        """The servers that were named, by the key of the measure."""
        return {
            **super().of_servers(),
            "instance_media_attachments": self.instance_media_attachments,
            "instance_reports": self.instance_reports,
            "instance_statuses": self.instance_statuses,
            "instance_follows": self.instance_follows,
            "instance_followers": self.instance_followers,
        }


class Dimensions(Subjects, frozen=True, kw_only=True):
    """Which dimensions of which period, with at most so many rows each."""

    keys: Annotated[tuple[DimensionKey, ...], Meta(min_length=1, max_length=20)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    tag_languages: OfTag | None = None
    instance_languages: OfServer | None = None

    def of_tags(self) -> dict[str, OfTag | None]:
        """The tags that were named, by the key of the dimension."""
        return {**super().of_tags(), "tag_languages": self.tag_languages}

    def of_servers(self) -> dict[str, OfServer | None]:
        """The servers that were named, by the key of the dimension."""
        return {**super().of_servers(), "instance_languages": self.instance_languages}


class Retention(StatisticsPeriod, frozen=True, kw_only=True):
    """Cohorts of members who joined in which days or months."""

    frequency: Frequency = "day"


async def measures(context: Context, params: Measures) -> list[Measure]:
    """Members, interactions, reports and uses of tags by day. Who posts is active."""
    question = await _question(context.deps, params)
    return [await measured(question, key) for key in dict.fromkeys(params.keys)]


async def dimensions(context: Context, params: Dimensions) -> list[Dimension]:
    """Languages, apps, space and versions, those there is most of first."""
    question = await _question(context.deps, params)
    return [await ranked(question, key, params.limit) for key in dict.fromkeys(params.keys)]


async def retention(context: Context, params: Retention) -> list[Cohort]:
    """How many of those who joined in a day or month posted then and later."""
    period = _period(params)
    if params.frequency == "day" and len(period.days) > _COHORT_DAYS:
        raise InvalidInput(f"end_at: by day, a period has at most {_COHORT_DAYS} days", field="end_at")
    if params.frequency == "month":
        period = Period(_month(period.first), _month(_month(period.last) + 31) - 1)
    starts = [day for day in period.days if params.frequency == "day" or day == _month(day)]
    figures = await _known(context.deps, period)
    # Of a million members this takes a second, in which others are to be served.
    cohorts = await asyncio.to_thread(figures.retention, starts, period.last)
    return [
        Cohort(
            day_text(cohort.began),
            params.frequency,
            [CohortPeriod(day_text(held.began), held.rate, str(held.members)) for held in cohort.held],
        )
        for cohort in cohorts
    ]


async def _question(front: Front, params: Subjects) -> FigureQuestion:
    period = _period(params)
    return FigureQuestion(front, await _known(front, period), TagUseReader(front.graph), period, params)


async def _known(front: Front, period: Period) -> Figures:
    figures = await front.ledger.figures()
    if not figures.knows(period):
        since = _EPOCH + timedelta(days=figures.since)
        raise InvalidInput(f"start_at: figures go back to {since.isoformat()}", field="start_at")
    return figures


def _period(asked: StatisticsPeriod) -> Period:
    today = time.time_ns() // 1_000_000 // DAY_MS
    last = _day(asked.end_at, "end_at") if asked.end_at else today
    first = _day(asked.start_at, "start_at") if asked.start_at else last - _DEFAULT_DAYS + 1
    if last < first:
        raise InvalidInput("end_at: a period ends after its beginning", field="end_at")
    if last - first >= PERIOD_DAYS:
        raise InvalidInput(f"end_at: a period has at most {PERIOD_DAYS} days", field="end_at")
    return Period(first, last)


def _day(text: str, field: str) -> int:
    moment = moment_of_text(text)
    if moment is None or not 0 <= moment < _LAST_MS:
        raise InvalidInput(f"{field}: a date as in ISO 8601, from 1970 on", field=field)
    return moment // DAY_MS


def _month(day: int) -> int:
    """The first day of the month of a day."""
    return ((_EPOCH + timedelta(days=day)).replace(day=1) - _EPOCH).days


_ask = rows.staff.having(scope="admin:read")

ROUTES = (
    _ask("POST", "/api/v1/admin/measures", measures, params=Measures, answer=list[Measure]),
    _ask("POST", "/api/v1/admin/dimensions", dimensions, params=Dimensions, answer=list[Dimension]),
    _ask("POST", "/api/v1/admin/retention", retention, params=Retention, answer=list[Cohort]),
)
