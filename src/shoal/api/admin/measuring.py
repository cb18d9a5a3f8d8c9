"""Measures: one number for each day of a period."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET

from shoal.api.admin.statistics_subjects import FigureQuestion
from shoal.api.entities import presenter
from shoal.api.entities.statistics import Measure, MeasureDay
from shoal.core.errors import InvalidInput
from shoal.ops.statistics.figures import DAY_MS, Figures, Period, by_day
from shoal.ops.statistics.tags import TaggedPost, TagUseReader

MeasureKey = Literal[
    "active_users",
    "new_users",
    "interactions",
    "opened_reports",
    "resolved_reports",
    "tag_accounts",
    "tag_uses",
    "tag_servers",
    "instance_accounts",
    "instance_media_attachments",
    "instance_reports",
    "instance_statuses",
    "instance_follows",
    "instance_followers",
]


class _Series(NamedTuple):
    """A number for each day, and what they come to: members who were active on two days count once in it."""

    days: Sequence[int]
    total: int


async def measured(question: FigureQuestion, key: MeasureKey) -> Measure:
    """One measure, with that of the period before. Raises `InvalidInput` where what it is about is missing."""
    front, figures, tags, period, subjects = question
    before: int | None
    if key.startswith("tag_"):
        tag = subjects.tag(key)
        here = _of_tag(key, await tags.of(tag, period), period)
        before = await _of_tag_before(tags, key, tag, period.before)
    elif key.startswith("instance_"):
        # Nobody is from elsewhere.
        subjects.check_elsewhere(key, front)
        here, before = _Series([0] * len(period.days), 0), 0
    else:
        here = await asyncio.to_thread(_of_network, figures, key, period)
        known = figures.knows(period.before)
        before = (await asyncio.to_thread(_of_network, figures, key, period.before)).total if known else None
    in_bytes = key == "instance_media_attachments"
    return Measure(
        key=key,
        unit="bytes" if in_bytes else None,
        total=str(here.total),
        human_value=f"{here.total} Bytes" if in_bytes else UNSET,
        previous_total=None if before is None else str(before),
        data=[MeasureDay(day_text(day), str(number)) for day, number in zip(period.days, here.days, strict=True)],
    )


def day_text(day: int) -> str:
    """The beginning of a day."""
    return presenter.moment(day * DAY_MS)


def _of_network(figures: Figures, key: MeasureKey, period: Period) -> _Series:
    if key == "active_users":
        return _Series(figures.active_by_day(period), figures.active_in(period))
    if key == "new_users":
        return _summed(figures.newcomers(period))
    tables = {
        "interactions": figures.interactions,
        "opened_reports": figures.opened,
        "resolved_reports": figures.resolved,
    }
    return _summed(by_day(tables[key], period))


def _summed(days: Sequence[int]) -> _Series:
    return _Series(days, sum(days))


async def _of_tag_before(tags: TagUseReader, key: MeasureKey, tag: int, period: Period) -> int | None:
    try:
        return _of_tag(key, await tags.of(tag, period), period).total
    except InvalidInput:
        # Too many to be counted; the period that was asked for has few enough.
        return None


def _of_tag(key: MeasureKey, found: Sequence[TaggedPost], period: Period) -> _Series:
    used = Counter(use.day for use in found)
    if key == "tag_uses":
        return _summed([used[day] for day in period.days])
    if key == "tag_servers":
        # This one, where anybody used it.
        return _Series([int(day in used) for day in period.days], int(bool(used)))
    authors = Counter(day for day, _ in {(use.day, use.author_id) for use in found})
    return _Series([authors[day] for day in period.days], len({use.author_id for use in found}))
