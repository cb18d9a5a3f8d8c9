"""Figures for admins, as they stand on the wire of the Mastodon API. Numbers are texts there."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

Frequency = Literal["day", "month"]


class MeasureDay(msgspec.Struct):
    """One day of a measure; `date` is its beginning, UTC."""

    date: str
    value: str


class Measure(msgspec.Struct, kw_only=True):
    """A number by day. `previous_total` is of the period of the same length before; null where that is not known any more."""

    key: str
    unit: str | None
    total: str
    human_value: str | UnsetType = UNSET
    previous_total: str | None
    data: list[MeasureDay]


class DimensionValue(msgspec.Struct, kw_only=True):
    """One row of a dimension."""

    key: str
    human_key: str
    value: str
    unit: str | UnsetType = UNSET
    human_value: str | UnsetType = UNSET


class Dimension(msgspec.Struct):
    """A ranking: the values that occur most, the most frequent first."""

    key: str
    data: list[DimensionValue]


class CohortPeriod(msgspec.Struct):
    """How many of a cohort posted in the period that begins on `date`; `rate` is which part of it, 0 to 1."""

    date: str
    rate: float
    value: str


class Cohort(msgspec.Struct):
    """Members who joined in the period that begins on `period`, and how many of them posted in it and in those that follow."""

    period: str
    frequency: Frequency
    data: list[CohortPeriod]
