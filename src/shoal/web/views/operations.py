"""The state of the network and of this process, as operators see it: figures, and charts as shapes with all their numbers."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Sequence

import msgspec

from shoal.core.errors import Unavailable
from shoal.graph.schema import EVERYBODY, LOUD
from shoal.observability.request_metrics import Slot
from shoal.ops.jobs import Work, survey
from shoal.timelines.memory import MemoryTimelines
from shoal.web.views.engines import EngineCard, Figure, engine_cards, size
from shoal.web.visit import Visit
from shoal.words.languages import Translated, When

_WIDTH, _HEIGHT = 600.0, 120.0
_MOST_ROUTES = 12
_KIB = 1024
_ENTRY_BYTES = 8


class Column(msgspec.Struct, frozen=True):
    """A column of a chart: where it stands and how high it is, in units of the drawing."""

    x: float
    y: float
    width: float
    height: float
    words: str


class ColumnChart(msgspec.Struct, frozen=True):
    """Ten minutes as columns, and a line above them."""

    title: str
    columns: tuple[Column, ...]
    line: str
    """Points of the line."""
    most: str
    """The value at the upper edge."""


class RouteRow(msgspec.Struct, frozen=True):
    """A route, with how often it was asked for and how long it took."""

    route: str
    count: str
    failed: str
    p50: str
    p99: str


class SlowRow(msgspec.Struct, frozen=True):
    """A slow request, and where its time went; parts in percent."""

    when: When
    route: str
    status: int
    request_id: str
    total: str
    stages: tuple[tuple[str, str, float], ...]


class SetAside(msgspec.Struct, frozen=True):
    """A job that failed again and again and was set aside."""

    job: str
    event: str
    step: int
    attempts: int
    error: str


class Operations(msgspec.Struct, frozen=True):
    """Everything on the page of operators."""

    figures: tuple[Figure, ...]
    parts: tuple[tuple[str, bool], ...]
    charts: tuple[ColumnChart, ...]
    routes: tuple[RouteRow, ...]
    slow: tuple[SlowRow, ...]
    aside: tuple[SetAside, ...]
    engines: tuple[EngineCard, ...]
    stores: tuple[tuple[str, str], ...]
    """Each store, and the data sources that it has."""


async def operations(visit: Visit) -> Operations:
    """Return how the network and this process stand now."""
    front, words = visit.front, visit.words
    work = await _work(visit)
    loud = await _loud(visit)
    history = front.meter.history()
    parts, engines = await asyncio.gather(front.readiness.parts(), front.engines.look())
    return Operations(
        figures=tuple(_figures(visit, work, loud, history)),
        parts=tuple(parts.items()),
        charts=(
            _chart(
                visit,
                words.text("Requests in ten seconds"),
                [slot.number for slot in history],
                [slot.failed + slot.refused for slot in history],
                "",
            ),
            _chart(
                visit,
                words.text("Milliseconds: half of the requests, and 99 of 100"),
                [slot.p50 for slot in history],
                [slot.p99 for slot in history],
                "ms",
            ),
        ),
        routes=tuple(
            RouteRow(
                one.route,
                words.number(one.number),
                words.number(one.failed) if one.failed else "",
                _ms(words, one.p50),
                _ms(words, one.p99),
            )
            for one in front.meter.routes()[:_MOST_ROUTES]
        ),
        slow=tuple(_slow(visit)),
        aside=tuple(SetAside(one.job, one.event, one.step, one.attempts, one.error) for one in work.buried)
        if work
        else (),
        engines=engine_cards(words, engines),
        stores=tuple(_stores(front.settings.store)),
    )


async def _work(visit: Visit) -> Work | None:
    """Return how the work stands; None where it cannot be asked."""
    try:
        return await survey({"store": visit.front.store}, visit.front.writes.pressure.most)
    except Unavailable:
        return None


async def _loud(visit: Visit) -> int | None:
    """Return of how many members and tags nothing is pushed, since very many follow them; None where it cannot be asked."""
    try:
        return (await visit.front.graph.assoc_count((EVERYBODY,), (LOUD,)))[LOUD].get(EVERYBODY, 0)
    except Unavailable:
        return None


def _figures(visit: Visit, work: Work | None, loud: int | None, history: Sequence[Slot]) -> list[Figure]:
    _, words, front = visit.words.text, visit.words, visit.front
    asked = sum(slot.number for slot in history)
    failed = sum(slot.failed for slot in history)
    refused = sum(slot.refused for slot in history)
    latest = next((slot for slot in reversed(history[:-1]) if slot.number), history[-1])
    found = [
        Figure(_("Requests in ten minutes"), words.number(asked)),
        Figure(_("Half of them in"), _ms(words, latest.p50), _("99 of 100 in %(ms)s") % {"ms": _ms(words, latest.p99)}),
        Figure(_("Failed"), words.number(failed), _("answers 500 and above"), wrong=failed > 0),
        Figure(_("Refused"), words.number(refused), _("too many at once, or too late"), wrong=refused > asked / 100),
    ]
    if work is not None:
        oldest = work.oldest_seconds or 0.0
        late = f"{words.decimal(oldest, '.1f')} s"
        behind = work.most_seconds > 0 and oldest > work.most_seconds / 3
        found += [
            Figure(_("Deliveries behind by"), late, _("the oldest event that is not done"), wrong=behind),
            Figure(_("Events waiting"), words.number(work.waiting)),
            Figure(
                _("Posts refused as too late"),
                words.number(front.writes.pressure.refused),
                wrong=front.writes.pressure.refused > 0,
            ),
            Figure(_("Jobs set aside"), words.number(len(work.buried)), wrong=bool(work.buried)),
        ]
    found += _pushes(visit, loud)
    timelines = front.reads.timelines
    if isinstance(timelines, MemoryTimelines):
        held = len(timelines) * timelines.length * _ENTRY_BYTES
        found.append(Figure(_("Warm home timelines"), words.number(len(timelines)), size(words, held)))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
    found += [
        Figure(_("Listening now"), words.number(front.streams.number)),
        Figure(_("Memory of this process, at most"), size(words, used)),
    ]
    return found


def _pushes(visit: Visit, loud: int | None) -> list[Figure]:
    """Return what was pushed when it was posted, beside what is pulled when somebody reads."""
    _, words, tally = visit.words.text, visit.words, visit.front.reads.tally
    found = [Figure(_("Pushed into home timelines"), words.number(tally.pushed), _("entries, by this process"))]
    if loud is not None:
        said = _("lists of theirs read for home pages: %(n)s") % {"n": words.number(tally.pulled)}
        found.append(Figure(_("Members and tags too popular to push"), words.number(loud), said))
    return found


def _chart(visit: Visit, title: str, columns: Sequence[float], line: Sequence[float], unit: str) -> ColumnChart:
    most = max((1.0, *columns, *line))
    width = _WIDTH / len(columns)
    drawn = []
    for n, value in enumerate(columns):
        height = value / most * (_HEIGHT - 8)
        drawn.append(
            Column(
                round(n * width, 1),
                round(_HEIGHT - height, 1),
                round(width - 2, 1),
                round(height, 1),
                f"{visit.words.decimal(value, ',.0f')} {unit}".strip(),
            )
        )
    points = " ".join(
        f"{n * width + width / 2 - 1:.1f},{_HEIGHT - value / most * (_HEIGHT - 8):.1f}" for n, value in enumerate(line)
    )
    return ColumnChart(title, tuple(drawn), points, f"{visit.words.number(round(most))} {unit}".strip())


def _slow(visit: Visit) -> list[SlowRow]:
    _, words = visit.words.text, visit.words
    names = (_("let in"), _("answered"), _("sent"))
    return [
        SlowRow(
            visit.when(one.at_ms),
            one.route,
            one.status,
            one.request_id,
            _ms(words, one.stages.total),
            tuple(
                (name, _ms(words, ms), round(100 * ms / one.stages.total, 1))
                for name, ms in zip(names, one.stages, strict=True)
            ),
        )
        for one in reversed(visit.front.meter.slow)
    ]


def _ms(words: Translated, value: float) -> str:
    return f"{words.decimal(value, ',.0f' if value >= 10 else '.1f')} ms"


def _stores(store: str | dict[str, str]) -> list[tuple[str, str]]:
    """Return the stores without what is secret in their addresses, each with its data sources."""
    if isinstance(store, str):
        return [(store.partition("://")[0], "0-63")]
    return [(f"{url.partition('://')[0]} {n}", sources) for n, (sources, url) in enumerate(store.items(), 1)]
