"""Statistics of the network for admins: daily measures, ranked dimensions and retention. Numbers are strings in JSON."""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from importlib.metadata import version
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.admin.statistics import PERIOD_DAYS, Figures, Period, TaggedPost, TagUseReader, by_day, summed
from shoal.commands.scheduled_posts import moment_of_text
from shoal.core.errors import InvalidInput
from shoal.core.ids import now_ms
from shoal.core.model import DAY_MS, App, Role
from shoal.core.text import check_tag
from shoal.graph.schema import tag_id
from shoal.mastodon_api.context import AppContext, Context, Router
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.instance import LANGUAGES

router = Router(role=Role.MODERATOR)

Frequency = Literal["day", "month"]


class MeasureDay(msgspec.Struct):
    """One day of a measure; `date` is its start, UTC."""

    date: str
    value: str


class Measure(msgspec.Struct, kw_only=True):
    """A measure by day. `previous_total` is the total of the preceding period of equal length; null if it is unknown."""

    key: str
    unit: str | None
    total: str
    human_value: str | UnsetType = UNSET
    previous_total: str | None
    data: list[MeasureDay]


class DimensionValue(msgspec.Struct, kw_only=True):
    """One value of a dimension, such as a language, with its count."""

    key: str
    human_key: str
    value: str
    unit: str | UnsetType = UNSET
    human_value: str | UnsetType = UNSET


class Dimension(msgspec.Struct):
    """A ranking of the values of a dimension, such as languages, most frequent first."""

    key: str
    data: list[DimensionValue]


class CohortPeriod(msgspec.Struct):
    """How many members of a cohort posted in the period that begins on `date`. `rate` is their fraction of the cohort, 0 to 1."""

    date: str
    rate: float
    value: str


class Cohort(msgspec.Struct):
    """Members who joined in the period that begins on `period`, and how many of them posted in that period and in later ones."""

    period: str
    frequency: Frequency
    data: list[CohortPeriod]


_Text = Annotated[str, Meta(min_length=1, max_length=400)]
_Moment = Annotated[str, Meta(max_length=100)]
_MAX_ID = 2**63


class OfTag(msgspec.Struct, frozen=True):
    """The tag that a measure or dimension is about, by id or name."""

    id: _Text


class OfServer(msgspec.Struct, frozen=True):
    """The server of the fediverse that a measure or dimension is about, by its domain."""

    domain: _Text


class StatisticsPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A period of whole days (UTC), from `start_at` to `end_at`, both included. By default, it is the 30 days that end today."""

    start_at: _Moment = ""
    end_at: _Moment = ""


class Subjects(StatisticsPeriod, frozen=True, kw_only=True):
    """A period, and the tag or server that each requested measure or dimension is about, if any."""

    tag_servers: OfTag | None = None
    instance_accounts: OfServer | None = None

    def by_key(self) -> dict[str, OfTag | OfServer | None]:
        return {"tag_servers": self.tag_servers, "instance_accounts": self.instance_accounts}

    def tag(self, key: str) -> int:
        """Return the id of the tag of a measure or dimension. Raises `InvalidInput` if the tag is missing."""
        subject = self.by_key()[key]
        if not isinstance(subject, OfTag):
            raise InvalidInput(f"{key}: the id of a tag is missing: {key}[id]", field=key)
        if subject.id.isascii() and subject.id.isdecimal():
            return -min(int(subject.id), _MAX_ID)
        return tag_id(check_tag(subject.id))

    def check_elsewhere(self, key: str, app_context: AppContext) -> None:
        """Raise `InvalidInput` unless the request names a server other than this one."""
        subject = self.by_key()[key]
        if not isinstance(subject, OfServer):
            raise InvalidInput(f"{key}: the domain of a server is missing: {key}[domain]", field=key)
        if subject.domain.lower() == app_context.at.netloc.lower():
            raise InvalidInput(
                f"{key}: must be the domain of another server; for this server, use keys without instance_", field=key
            )


class FigureQuestion(NamedTuple):
    """The parameters of a request for statistics (measures or dimensions), and the data to compute them from."""

    app_context: AppContext
    figures: Figures
    tags: TagUseReader
    period: Period
    subjects: Subjects


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
    """A number for each day, and a number for the whole period.

    A member active on two days counts once in the whole period.
    """

    days: Sequence[int]
    total: int


async def measured(question: FigureQuestion, key: MeasureKey) -> Measure:
    """Return a measure, with its total in the previous period.

    Raises `InvalidInput` if the measure needs a tag or server and the request has none.
    """
    app_context, figures, tags, period, subjects = question
    before: int | None
    if key.startswith("tag_"):
        tag = subjects.tag(key)
        here = _of_tag(key, await tags.of(tag, period), period)
        before = await _of_tag_before(tags, key, tag, period.before)
    elif key.startswith("instance_"):
        # This server has no remote accounts, so every measure about another server is 0.
        subjects.check_elsewhere(key, app_context)
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
    return serializers.moment(day * DAY_MS)


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
        # The tag has too many uses in the preceding period to count them, so their total is unknown.
        return None


def _of_tag(key: MeasureKey, found: Sequence[TaggedPost], period: Period) -> _Series:
    used = Counter(use.day for use in found)
    if key == "tag_uses":
        return _summed([used[day] for day in period.days])
    if key == "tag_servers":
        # Tags are used on this server only: the number of servers is 1 if the tag was used, and otherwise 0.
        return _Series([int(day in used) for day in period.days], int(bool(used)))
    authors = Counter(day for day, _ in {(use.day, use.author_id) for use in found})
    return _Series([authors[day] for day in period.days], len({use.author_id for use in found}))


DimensionKey = Literal[
    "languages",
    "sources",
    "servers",
    "space_usage",
    "software_versions",
    "tag_servers",
    "tag_languages",
    "instance_accounts",
    "instance_languages",
]

_NAMES = {language.code: language.name for language in LANGUAGES}


async def ranked(question: FigureQuestion, key: DimensionKey, limit: int) -> Dimension:
    """Return the most frequent values of a dimension.

    Raises `InvalidInput` if the dimension needs a tag or server and the request has none.
    """
    return Dimension(key, (await _rows(question, key, limit))[:limit])


async def _rows(question: FigureQuestion, key: DimensionKey, limit: int) -> list[DimensionValue]:
    app_context, figures, tags, period, subjects = question
    match key:
        case "languages":
            return _languages(summed(figures.languages, period))
        case "sources":
            return await _apps(app_context, Counter(dict(summed(figures.apps, period).most_common(limit))))
        case "servers":
            return _here(app_context, sum(by_day(figures.posts, period)))
        case "space_usage":
            return [_space("media", "Media", figures.media_bytes)]
        case "software_versions":
            return [
                _row("shoal", "Shoal", version("shoal")),
                _row("python", "Python", platform.python_version()),
            ]
        case "tag_servers":
            return _here(app_context, len(await tags.of(subjects.tag(key), period)))
        case "tag_languages":
            found = await tags.of(subjects.tag(key), period)
            return _languages(Counter(use.language for use in found if use.language))
        case "instance_accounts" | "instance_languages":
            # This server has no remote accounts, so a dimension about another server has no values.
            subjects.check_elsewhere(key, app_context)
            return []


def _languages(posts: Counter[str]) -> list[DimensionValue]:
    return [_row(code, _NAMES.get(code, code), str(number)) for code, number in posts.most_common()]


async def _apps(app_context: AppContext, posts: Counter[int]) -> list[DimensionValue]:
    """Return the number of posts of each app, including deleted apps, from the app ids in `posts`."""
    apps = await app_context.graph.obj_get([id_ for id_ in posts if id_])

    def name(id_: int) -> str:
        if not id_:
            return "No app"
        return app.name if isinstance(app := apps.get(id_), App) else "A deleted app"

    return [_row(str(id_), name(id_), str(number)) for id_, number in posts.most_common()]


def _here(app_context: AppContext, number: int) -> list[DimensionValue]:
    """Return the counts by server: `number` for this server, which is the only one; no row if it is 0."""
    return [_row(app_context.at.netloc, app_context.at.netloc, str(number))] if number else []


def _space(key: str, name: str, size: int) -> DimensionValue:
    return DimensionValue(key=key, human_key=name, value=str(size), unit="bytes", human_value=_human(size))


def _human(size: int) -> str:
    amount, units = float(size), ["Bytes", "KB", "MB", "GB", "TB", "PB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}" if amount < 1000 else f"{amount:.0f} {units[0]}"


def _row(key: str, name: str, value: str) -> DimensionValue:
    return DimensionValue(key=key, human_key=name, value=value)


_COHORT_DAYS = 92
"""Maximum number of days in a retention request by day. A request by month has the general limit of statistics."""
_DEFAULT_DAYS = 30
_EPOCH = date(1970, 1, 1)
_LAST_MS = 8_000 * 365 * DAY_MS
"""The latest time that a request may name. It is well below the maximum of `datetime`."""


class Measures(Subjects, frozen=True, kw_only=True):
    keys: Annotated[tuple[MeasureKey, ...], Meta(min_length=1, max_length=20)]
    tag_accounts: OfTag | None = None
    tag_uses: OfTag | None = None
    instance_media_attachments: OfServer | None = None
    instance_reports: OfServer | None = None
    instance_statuses: OfServer | None = None
    instance_follows: OfServer | None = None
    instance_followers: OfServer | None = None

    def by_key(self) -> dict[str, OfTag | OfServer | None]:
        return {
            **super().by_key(),
            "tag_accounts": self.tag_accounts,
            "tag_uses": self.tag_uses,
            "instance_media_attachments": self.instance_media_attachments,
            "instance_reports": self.instance_reports,
            "instance_statuses": self.instance_statuses,
            "instance_follows": self.instance_follows,
            "instance_followers": self.instance_followers,
        }


class Dimensions(Subjects, frozen=True, kw_only=True):
    keys: Annotated[tuple[DimensionKey, ...], Meta(min_length=1, max_length=20)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    tag_languages: OfTag | None = None
    instance_languages: OfServer | None = None

    def by_key(self) -> dict[str, OfTag | OfServer | None]:
        return {
            **super().by_key(),
            "tag_languages": self.tag_languages,
            "instance_languages": self.instance_languages,
        }


class Retention(StatisticsPeriod, frozen=True, kw_only=True):
    frequency: Frequency = "day"


@router.post("/api/v1/admin/measures", scope="admin:read", answer=list[Measure])
async def measures(context: Context, params: Measures) -> list[Measure]:
    """Return measures by day: active members (who posted), interactions, reports and tag uses."""
    question = await _question(context.app, params)
    return [await measured(question, key) for key in dict.fromkeys(params.keys)]


@router.post("/api/v1/admin/dimensions", scope="admin:read", answer=list[Dimension])
async def dimensions(context: Context, params: Dimensions) -> list[Dimension]:
    """Return rankings of languages, apps, storage and software versions, largest first."""
    question = await _question(context.app, params)
    return [await ranked(question, key, params.limit) for key in dict.fromkeys(params.keys)]


@router.post("/api/v1/admin/retention", scope="admin:read", answer=list[Cohort])
async def retention(context: Context, params: Retention) -> list[Cohort]:
    """Return how many of the members who joined in a day or month posted in that period, and in each later period."""
    period = _period(params)
    if params.frequency == "day" and len(period.days) > _COHORT_DAYS:
        raise InvalidInput(f"end_at: with frequency=day, a period has at most {_COHORT_DAYS} days", field="end_at")
    if params.frequency == "month":
        period = Period(_month(period.first), _month(_month(period.last) + 31) - 1)
    starts = [day for day in period.days if params.frequency == "day" or day == _month(day)]
    figures = await _known(context.app, period)
    # In a thread, because with a million members this takes a second and would block other requests.
    cohorts = await asyncio.to_thread(figures.retention, starts, period.last)
    return [
        Cohort(
            day_text(cohort.began),
            params.frequency,
            [
                CohortPeriod(day_text(cohort_period.began), cohort_period.rate, str(cohort_period.members))
                for cohort_period in cohort.held
            ],
        )
        for cohort in cohorts
    ]


async def _question(app_context: AppContext, params: Subjects) -> FigureQuestion:
    period = _period(params)
    return FigureQuestion(
        app_context, await _known(app_context, period), TagUseReader(app_context.graph), period, params
    )


async def _known(app_context: AppContext, period: Period) -> Figures:
    figures = await app_context.ledger.figures()
    if not figures.knows(period):
        since = _EPOCH + timedelta(days=figures.since)
        raise InvalidInput(f"start_at: must not be before {since.isoformat()}, when statistics begin", field="start_at")
    return figures


def _period(params: StatisticsPeriod) -> Period:
    today = now_ms() // DAY_MS
    last = _day(params.end_at, "end_at") if params.end_at else today
    first = _day(params.start_at, "start_at") if params.start_at else last - _DEFAULT_DAYS + 1
    if last < first:
        raise InvalidInput("end_at: must be after start_at", field="end_at")
    if last - first >= PERIOD_DAYS:
        raise InvalidInput(f"end_at: a period has at most {PERIOD_DAYS} days", field="end_at")
    return Period(first, last)


def _day(text: str, field: str) -> int:
    moment = moment_of_text(text)
    if moment is None or not 0 <= moment < _LAST_MS:
        raise InvalidInput(f"{field}: expected an ISO 8601 date, 1970 or later", field=field)
    return moment // DAY_MS


def _month(day: int) -> int:
    return ((_EPOCH + timedelta(days=day)).replace(day=1) - _EPOCH).days
