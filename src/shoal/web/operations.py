"""Operator pages: process and cluster statistics, parked jobs, and the balance of the data sources."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.admin import jobs
from shoal.admin.jobs import ParkedJob, Work, survey
from shoal.admin.resharding import Evenness, by_source, evenness, spread_of
from shoal.core.errors import Unavailable
from shoal.core.model import Role
from shoal.graph.bulk import Spread
from shoal.graph.schema import EVERYBODY, HIGH_FAN_OUT
from shoal.health.probes import EngineHealth, Measurement, MeasurementName
from shoal.i18n import Translated, When
from shoal.observability.requests import Slot
from shoal.timelines.memory import MemoryTimelines
from shoal.web import routing
from shoal.web.rendering import page, part
from shoal.web.request_context import Form, PageContext

_NAMES: Mapping[MeasurementName, str] = {
    "stored_bytes": "Stored",
    "log_bytes": "Write-ahead log",
    "disk_free_bytes": "Free disk space",
    "memory_bytes": "Memory",
    "memory_most_bytes": "Memory limit",
    "items": "Entries",
    "connections": "Connections",
    "connections_most": "Connection limit",
    "commits": "Commits",
    "deadlocks": "Deadlocks",
    "evicted": "Evicted entries",
    "operations_per_second": "Commands per second",
    "cache_hits": "Cache hits",
    "longest_transaction_seconds": "Longest transaction",
    "replica_behind_seconds": "Replication lag",
    "jobs_waiting": "Jobs waiting",
    "jobs_delayed": "Delayed jobs",
    "jobs_set_aside": "Parked jobs",
    "workers": "Workers",
}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Figure(msgspec.Struct, frozen=True):
    name: str
    value: str
    hint: str = ""
    wrong: bool = False


class EngineCard(msgspec.Struct, frozen=True):
    engine: str
    place: str
    version: str
    reached: bool
    figures: tuple[Figure, ...]


def _engine_card(words: Translated, engine: EngineHealth) -> EngineCard:
    figures = tuple(
        Figure(words.text(_NAMES[measurement.name]), _value(words, measurement), wrong=measurement.wrong)
        for measurement in engine.measurements
    )
    return EngineCard(engine.engine, engine.place, engine.version, engine.reached, figures)


def _value(words: Translated, vital: Measurement) -> str:
    if vital.name.endswith("_bytes"):
        return _size(words, vital.value)
    if vital.name.endswith("_seconds"):
        return f"{words.decimal(vital.value, '.1f')} s"
    if vital.name == "cache_hits":
        return f"{words.decimal(100 * vital.value, '.1f')} %"
    return words.compact(round(vital.value))


def _size(words: Translated, count: float) -> str:
    """Return a number of bytes in readable units, such as "3.2 GiB"."""
    unit = 0
    while count >= 1_000 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{words.decimal(count, '.1f' if unit and count < 100 else '.0f')} {_UNITS[unit]}"


_WIDTH, _HEIGHT = 600.0, 120.0
_MOST_ROUTES = 12
_KIB = 1024
_ENTRY_BYTES = 8


class Column(msgspec.Struct, frozen=True):
    x: float
    y: float
    width: float
    height: float
    words: str


class ColumnChart(msgspec.Struct, frozen=True):
    title: str
    columns: tuple[Column, ...]
    line: str
    """The `points` attribute of the line in the SVG."""
    most: str


class RouteRow(msgspec.Struct, frozen=True):
    route: str
    count: str
    failed: str
    p50: str
    p99: str


class SlowRow(msgspec.Struct, frozen=True):
    when: When
    route: str
    status: int
    request_id: str
    total: str
    stages: tuple[tuple[str, str, float], ...]


class Operations(msgspec.Struct, frozen=True):
    figures: tuple[Figure, ...]
    parts: tuple[tuple[str, bool], ...]
    charts: tuple[ColumnChart, ...]
    routes: tuple[RouteRow, ...]
    slow: tuple[SlowRow, ...]
    parked: Sequence[ParkedJob]
    engines: tuple[EngineCard, ...]
    stores: tuple[tuple[str, str], ...]


async def _operations(ctx: PageContext) -> Operations:
    app_context, words = ctx.app, ctx.words
    work = await _work(ctx)
    high_fan_out = await _count_high_fan_out(ctx)
    history = app_context.meter.history()
    parts, engines = await asyncio.gather(app_context.readiness.parts(), app_context.engines.look())
    return Operations(
        figures=tuple(_figures(ctx, work, high_fan_out, history)),
        parts=tuple(parts.items()),
        charts=(
            _chart(
                ctx,
                words.text("Requests per 10 seconds"),
                [slot.number for slot in history],
                [slot.failed + slot.refused for slot in history],
                "",
            ),
            _chart(
                ctx,
                words.text("Latency in milliseconds: median and 99th percentile"),
                [slot.p50 for slot in history],
                [slot.p99 for slot in history],
                "ms",
            ),
        ),
        routes=tuple(
            RouteRow(
                route.route,
                words.number(route.number),
                words.number(route.failed) if route.failed else "",
                _ms(words, route.p50),
                _ms(words, route.p99),
            )
            for route in app_context.meter.routes()[:_MOST_ROUTES]
        ),
        slow=tuple(_slow(ctx)),
        parked=work.parked if work else (),
        engines=tuple(_engine_card(words, engine) for engine in engines),
        stores=tuple(_stores(app_context.settings.store)),
    )


async def _work(ctx: PageContext) -> Work | None:
    try:
        return await survey({"store": ctx.app.store}, ctx.writes.pressure.most)
    except Unavailable:
        return None


async def _count_high_fan_out(ctx: PageContext) -> int | None:
    """Return how many members and tags are high fan-out sources; None if the store is unavailable."""
    try:
        return (await ctx.graph.assoc_count((EVERYBODY,), (HIGH_FAN_OUT,)))[HIGH_FAN_OUT].get(EVERYBODY, 0)
    except Unavailable:
        return None


def _figures(ctx: PageContext, work: Work | None, high_fan_out: int | None, history: Sequence[Slot]) -> list[Figure]:
    _, words, app_context = ctx.words.text, ctx.words, ctx.app
    asked = sum(slot.number for slot in history)
    failed = sum(slot.failed for slot in history)
    refused = sum(slot.refused for slot in history)
    latest = next((slot for slot in reversed(history[:-1]) if slot.number), history[-1])
    found = [
        Figure(_("Requests in 10 minutes"), words.number(asked)),
        Figure(
            _("Median latency"), _ms(words, latest.p50), _("99th percentile: %(ms)s") % {"ms": _ms(words, latest.p99)}
        ),
        Figure(_("Failed"), words.number(failed), _("status 500 and above"), wrong=failed > 0),
        Figure(_("Refused"), words.number(refused), _("overload or timeout"), wrong=refused > asked / 100),
    ]
    if work is not None:
        oldest = work.oldest_seconds or 0.0
        late = f"{words.decimal(oldest, '.1f')} s"
        behind = work.most_seconds > 0 and oldest > work.most_seconds / 3
        found += [
            Figure(_("Delivery lag"), late, _("age of the oldest unprocessed event"), wrong=behind),
            Figure(_("Pending events"), words.number(work.waiting)),
            Figure(
                _("Posts refused due to delivery lag"),
                words.number(app_context.writes.pressure.refused),
                wrong=app_context.writes.pressure.refused > 0,
            ),
            Figure(_("Parked jobs"), words.number(len(work.parked)), wrong=bool(work.parked)),
        ]
    found += _pushes(ctx, high_fan_out)
    timelines = app_context.reads.timelines
    if isinstance(timelines, MemoryTimelines):
        size = len(timelines) * timelines.length * _ENTRY_BYTES
        found.append(Figure(_("Materialized home timelines"), words.number(len(timelines)), _size(words, size)))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
    found += [
        Figure(_("Open streams"), words.number(app_context.streams.number)),
        Figure(_("Peak memory of this process"), _size(words, used)),
    ]
    return found


def _pushes(ctx: PageContext, high_fan_out: int | None) -> list[Figure]:
    _, words, push_counter = ctx.words.text, ctx.words, ctx.reads.push_counter
    found = [
        Figure(_("Fan-out writes"), words.number(push_counter.pushed), _("Timeline entries written by this process"))
    ]
    if high_fan_out is not None:
        hint = _("reads of their posts for Home: %(n)s") % {"n": words.number(push_counter.pulled)}
        found.append(Figure(_("High fan-out members and tags"), words.number(high_fan_out), hint))
    return found


def _chart(ctx: PageContext, title: str, columns: Sequence[float], line: Sequence[float], unit: str) -> ColumnChart:
    most = max((1.0, *columns, *line))
    width = _WIDTH / len(columns)
    bars = []
    for n, value in enumerate(columns):
        height = value / most * (_HEIGHT - 8)
        bars.append(
            Column(
                round(n * width, 1),
                round(_HEIGHT - height, 1),
                round(width - 2, 1),
                round(height, 1),
                f"{ctx.words.decimal(value, ',.0f')} {unit}".strip(),
            )
        )
    points = " ".join(
        f"{n * width + width / 2 - 1:.1f},{_HEIGHT - value / most * (_HEIGHT - 8):.1f}" for n, value in enumerate(line)
    )
    return ColumnChart(title, tuple(bars), points, f"{ctx.words.number(round(most))} {unit}".strip())


def _slow(ctx: PageContext) -> list[SlowRow]:
    _, words = ctx.words.text, ctx.words
    names = (_("admitted"), _("answered"), _("sent"))
    return [
        SlowRow(
            ctx.when(request.at_ms),
            request.route,
            request.status,
            request.request_id,
            _ms(words, request.stages.total),
            tuple(
                (name, _ms(words, ms), round(100 * ms / request.stages.total, 1))
                for name, ms in zip(names, request.stages, strict=True)
            ),
        )
        for request in reversed(ctx.app.meter.slow)
    ]


def _ms(words: Translated, value: float) -> str:
    return f"{words.decimal(value, ',.0f' if value >= 10 else '.1f')} ms"


def _stores(store: str | dict[str, str]) -> list[tuple[str, str]]:
    if isinstance(store, str):
        return [(store.partition("://")[0], "0-63")]
    return [(f"{url.partition('://')[0]} {n}", sources) for n, (sources, url) in enumerate(store.items(), 1)]


_ACROSS = 8
_CELL = 40
_SHADES = 5


class Cell(msgspec.Struct, frozen=True):
    """A data source in the grid of 64. Its shade is from 0 (few members) to 4 (many members)."""

    x: int
    y: int
    shade: int
    number: int
    words: str


class EvennessRow(msgspec.Struct, frozen=True):
    name: str
    mean: str
    deviation: str
    part: str
    least: str
    most: str


def _cells(words: Translated, spreads: Sequence[Spread]) -> list[Cell]:
    members = [each.members for each in spreads]
    low, high = min(members), max(members)
    return [
        Cell(
            n % _ACROSS * _CELL,
            n // _ACROSS * _CELL,
            round((each.members - low) / max(1, high - low) * (_SHADES - 1)),
            n,
            words.text("Data source %(n)d: %(members)s members, %(posts)s posts")
            % {"n": n, "members": words.number(each.members), "posts": words.number(each.posts)},
        )
        for n, each in enumerate(spreads)
    ]


def _evenness_rows(words: Translated, even: Mapping[str, Evenness]) -> list[EvennessRow]:
    names = {"members": words.text("Members"), "posts": words.text("Posts"), "bytes": words.text("Bytes")}
    return [
        EvennessRow(
            names[name],
            words.decimal(spread.mean, ",.1f"),
            words.decimal(spread.deviation, ",.1f"),
            f"{words.decimal(100 * spread.deviation / spread.mean, '.1f')} %" if spread.mean else "",
            words.number(spread.least),
            words.number(spread.most),
        )
        for name, spread in even.items()
    ]


_log = logging.getLogger("shoal.operations")


class ReplayForm(Form, frozen=True, kw_only=True):
    jobs: Annotated[tuple[Annotated[str, Meta(max_length=40)], ...], Meta(max_length=1_000)] = ()


class OpsQuery(msgspec.Struct, frozen=True):
    done: Annotated[str, Meta(max_length=40)] = ""


async def show(ctx: PageContext, query: OpsQuery) -> Response:
    """Show figures, and charts of the last ten minutes. A script reloads the page every few seconds."""
    ctx.staff(Role.ADMIN)
    found = await _operations(ctx)
    if ctx.partial:
        return part(ctx, "operations", ops=found)
    confirmation = ctx.words.text("The jobs are being retried.") if query.done else ""
    return await page(ctx, "ops", title=ctx.words.text("Operations"), ops=found, confirmation=confirmation)


async def replay(ctx: PageContext, asked: ReplayForm) -> Response:
    me = ctx.staff(Role.ADMIN)
    ctx.check_sent(asked)
    writes = ctx.writes
    number = await jobs.replay({"store": ctx.app.store}, asked.jobs or None, writes.graph, writes.new_id, writes.actor)
    _log.info("admin %s: retry %d parked jobs", me.id, number)
    return ctx.go("/ops", done="replay")


async def shards(ctx: PageContext, _params: None) -> Response:
    """Show how evenly members, posts and bytes are distributed over the 64 data sources.

    The count reads the whole network, so its result is cached for ten minutes, and only the request that computes it
    has to wait.
    """
    ctx.staff(Role.ADMIN)

    async def counted() -> tuple[int, list[Spread]]:
        return ctx.now_ms, by_source(await spread_of(ctx.app.store, lambda *_: None))

    at, spreads = await ctx.app.spread.get(ctx.now_ms, counted, outdated=True)
    return await page(
        ctx,
        "shards",
        title=ctx.words.text("Data sources"),
        cells=_cells(ctx.words, spreads),
        rows=_evenness_rows(ctx.words, evenness(spreads)),
        counted=ctx.when(at),
    )


ROUTES = (
    routing.page("/ops", show, OpsQuery),
    routing.form("/ops/jobs", replay, ReplayForm),
    routing.page("/ops/shards", shards),
)
