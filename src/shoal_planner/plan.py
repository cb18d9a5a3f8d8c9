"""A plan: the load of a network, the deployment that carries it, its first bottleneck, and the most sensitive assumption.

Includes the model of several processes on PostgreSQL, Redis and RabbitMQ: how many of each a load needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from shoal.core.placement import DATA_SOURCES
from shoal_planner.calibration import SEARCH_ROW, Calibration, Shared
from shoal_planner.one_process import (
    GIB,
    LENGTH,
    LOUD_FROM,
    NAME,
    NetworkShape,
    ShapeLimit,
    ShapePart,
    Waits,
    one_process,
    outside,
    tightest_first,
    waiting,
    waiting_p99,
)
from shoal_planner.workload import Assumptions, Load, Prices, changed, load_of, spreads

DATABASE_CORES = 16
DATABASE_MEMORY = 128 * GIB
DATABASE_DISK = 4_096 * GIB
SEARCH_DISK = 32_768 * GIB
"""The most that one table of PostgreSQL may have: the search index is in one."""
REDIS_MEMORY = 24 * GIB
REDIS_SPARE = 1.1
"""A tenth of the memory of a Redis stays free."""
BROKER_CORES = 4
_BROKER_DISK = 100 * GIB
BROKER_FROM = 8
"""Workers above which jobs go through a broker: up to then they are claimed from the stores."""
_BROKER_NODES = 3
PAGE_FOLLOWERS = 20_000
"""Lists up to this length are remembered by the workers, longer ones are read for each post."""
_HOT_DAYS = 30
"""Days of posts and changes that a database should have in memory."""
SLOTS = 64
"""Jobs that a worker has in hand."""
LINK_SECONDS = 0.0005
"""Seconds of a round trip in a data centre, which the calibration's own machine does not have."""
TRIPS_OF_A_POST, TRIPS_OF_A_PAGE = 8, 4
CLUSTER_NAME = "PostgreSQL, Redis, web processes and workers"


class BusyCores(NamedTuple):
    """Busy cores of each part."""

    web: float
    workers: float
    store: float
    search: float
    """The search index, which one store keeps for all."""
    redis: float
    broker: float


class Size(NamedTuple):
    """How many of each there are."""

    web: int
    workers: int
    stores: int
    redis: int
    own_search: bool = False
    """Whether the search index has a database of its own: the setting `search`."""


def cluster(of: Assumptions, calibration: Calibration, size: Size | None = None) -> NetworkShape:
    """Return the shape with as many parts as the load takes, or with a given size."""
    costs = calibration.shared
    load = load_of(of, LOUD_FROM, warm_only=False)
    size = size or needed(load, of, costs)
    work = work_of(load, of, costs, size.web)
    memory, room = redis_memory(load, costs), of.headroom
    disk, search = _disks(load, costs, size)
    limits = [
        ShapeLimit("web processes", work.web / (size.web * room)),
        ShapeLimit("workers", work.workers / (size.workers * room)),
        ShapeLimit("processors of the databases", store_work(work, size) / (size.stores * DATABASE_CORES * room)),
        ShapeLimit("disks of the databases", disk / (size.stores * DATABASE_DISK)),
        ShapeLimit("the search index, in one database", work.search / (DATABASE_CORES * room)),
        ShapeLimit("Redis", work.redis / (size.redis * room)),
        ShapeLimit("memory of Redis", memory / (size.redis * REDIS_MEMORY)),
        ShapeLimit("databases: 64 at most", size.stores / DATA_SOURCES),
    ]
    if size.own_search:
        limits.append(ShapeLimit("disk of the search index, in one database", search / SEARCH_DISK))
    broker = size.workers > BROKER_FROM
    if broker:
        limits.append(ShapeLimit("the broker's queue", work.broker / (BROKER_CORES * room)))
    ordered = tightest_first(limits)
    waits = _waits(load, costs, work, size) if ordered[0].use <= 1 else None
    return NetworkShape(CLUSTER_NAME, _parts(load, of, costs, work, size, broker=broker), ordered, waits)


def needed(load: Load, of: Assumptions, costs: Shared) -> Size:
    """Return how many of each part carry the load."""
    room = of.headroom
    web = of.copies
    # More web processes know less of each member, so a page costs more: a few rounds settle it.
    for _ in range(20):
        web = max(of.copies, math.ceil(work_of(load, of, costs, web).web / room))
    work = work_of(load, of, costs, web)
    redis = max(work.redis / room, redis_memory(load, costs) / REDIS_MEMORY, 1.0)
    size = Size(web, max(of.copies, math.ceil(work.workers / room)), 1, math.ceil(redis))
    if (together := _stores(load, of, costs, work, size)) <= 1:
        return size._replace(stores=together)
    alone = size._replace(own_search=True)
    return alone._replace(stores=min(DATA_SOURCES, _stores(load, of, costs, work, alone)))


def _stores(load: Load, of: Assumptions, costs: Shared, work: BusyCores, size: Size) -> int:
    """Return how many databases carry the work and the data."""
    disk, _ = _disks(load, costs, size)
    return math.ceil(max(store_work(work, size) / (DATABASE_CORES * of.headroom), disk / DATABASE_DISK, 1.0))


def store_work(work: BusyCores, size: Size) -> float:
    """Return the cores that all databases keep busy, without that of search if search has one of its own."""
    return work.store - work.search if size.own_search else work.store


def _disks(load: Load, costs: Shared, size: Size) -> tuple[float, float]:
    """Return the bytes of all databases but that of the search index, and of that: 0 if the index lies in one of the others."""
    disk, search = _disk(load, costs), load.all_posts * SEARCH_ROW
    return (disk - search, search) if size.own_search else (disk, 0.0)


def work_of(load: Load, of: Assumptions, costs: Shared, web: int) -> BusyCores:
    """Return how many cores each part keeps busy."""
    fresh = fresh_share(of, web)
    long = _long_deliveries(load)
    return BusyCores(
        web=load.posts * (costs.web_request + costs.web_post)
        + load.changes * (costs.web_request + costs.web_change)
        + load.pages * (costs.web_request + between(fresh, costs.web_page, costs.web_page_fresh))
        + load.pages * load.loud_followees * costs.web_pull
        + load.returns * (costs.web_rebuild + of.follows * costs.web_rebuild_source),
        workers=(load.posts + load.changes) * costs.worker_job
        + _pushed(load, of) * costs.worker_delivery
        + long * costs.worker_read,
        store=load.posts * (costs.store_post + costs.store_index)
        + load.changes * costs.store_change
        + load.pages * fresh * costs.store_page_fresh
        + long * costs.store_read
        + load.returns * of.follows * costs.store_rebuild_source,
        search=load.posts * costs.store_index,
        redis=(load.posts + load.changes) * costs.redis_post
        + _pushed(load, of) * costs.redis_delivery
        + load.pages * between(fresh, costs.redis_page, costs.redis_page_fresh),
        broker=(load.posts + load.changes) * costs.broker_job,
    )


def between(share: float, one: float, other: float) -> float:
    """Return the mean of two values, of which the other has this share."""
    return one + share * (other - one)


def fresh_share(of: Assumptions, web: int) -> float:
    """Return the share of pages that are read in a process which has not served the member on this day."""
    if of.pages <= 1:
        return 1.0
    return min(1.0, web * (1 - math.pow(1 - 1 / web, of.pages)) / of.pages)


def _pushed(load: Load, of: Assumptions) -> float:
    """Return the followers whose timelines a second's posts try to write: none knows which of them are warm."""
    return load.deliveries / of.warm if of.warm else 0.0


def _long_deliveries(load: Load) -> float:
    """Return those of them who stand in lists that are read anew for each post."""
    return load.posts * sum(
        one.posts * one.followers for one in load.by_class if PAGE_FOLLOWERS < one.followers <= LOUD_FROM
    )


def redis_memory(load: Load, costs: Shared) -> float:
    """Return the bytes of all warm timelines, with what stays free."""
    return REDIS_SPARE * load.warm * (LENGTH * costs.memory_entry + costs.memory_warm)


def _disk(load: Load, costs: Shared) -> float:
    return (
        load.members * costs.disk_member
        + (load.all_follows + load.all_changes) * costs.disk_follow
        + load.all_posts * costs.disk_post
    )


def _waits(load: Load, costs: Shared, work: BusyCores, size: Size) -> Waits:
    web, worker = work.web / size.web, work.workers / size.workers
    redis = work.redis / size.redis
    page = costs.web_request + costs.web_page + TRIPS_OF_A_PAGE * LINK_SECONDS
    push = min(load.per_post, PAGE_FOLLOWERS) * costs.worker_delivery
    alone = costs.commit + costs.arrival + TRIPS_OF_A_POST * LINK_SECONDS + push
    # A page of a long list is the longest turn of a worker, and of a Redis a call for 300 keys.
    turns = ((web, page), (worker, costs.worker_job + push), (redis, 300 * costs.redis_delivery))
    followers = max((one.followers for one in load.by_class if one.followers <= LOUD_FROM), default=0.0)
    one_by_one = followers * (costs.worker_delivery + costs.worker_read + costs.redis_delivery / size.redis)
    return Waits(
        lag=alone + sum(waiting(busy, turn) for busy, turn in turns),
        lag_p99=alone + sum(waiting_p99(busy, turn) for busy, turn in turns),
        largest=alone + one_by_one / (1 - worker),
        page=page + waiting(web, page),
        page_p99=page + (costs.web_page_fresh - costs.web_page) + waiting_p99(web, page),
    )


def _parts(load: Load, of: Assumptions, costs: Shared, work: BusyCores, size: Size, *, broker: bool) -> list[ShapePart]:
    disk, search = _disks(load, costs, size)
    recent = min(1.0, _HOT_DAYS / (of.years * 365))
    parts = [
        ShapePart("web process", size.web, 1.0, max(costs.memory_web, 0.5 * GIB), 0.0, work.web),
        ShapePart("worker", size.workers, 1.0, max(costs.memory_worker, 0.25 * GIB), 0.0, work.workers),
        ShapePart(
            "PostgreSQL",
            size.stores * of.copies,
            store_cores(store_work(work, size) / size.stores / of.headroom),
            min(DATABASE_MEMORY, max(2 * GIB, disk / size.stores * recent)),
            disk / size.stores,
            store_work(work, size),
        ),
        ShapePart(
            "Redis",
            size.redis * of.copies,
            1.0,
            max(0.5 * GIB, redis_memory(load, costs) / size.redis),
            0.0,
            work.redis,
        ),
    ]
    if size.own_search:
        held = min(DATABASE_MEMORY, max(2 * GIB, search * recent))
        cores = store_cores(work.search / of.headroom)
        parts.append(ShapePart("PostgreSQL for search", of.copies, cores, held, search, work.search))
    if broker:
        parts.append(ShapePart("RabbitMQ", _BROKER_NODES, BROKER_CORES, 4 * GIB, _BROKER_DISK, work.broker))
    return [*parts, *outside(load)]


def store_cores(busy: float) -> float:
    """Machines have 2, 4, 8 or 16 cores."""
    return float(min(DATABASE_CORES, 2 ** max(1, math.ceil(math.log2(max(busy, 2.0))))))


_LEAST, _MOST = 10.0, 1e10
"""Members between which it is looked for where a shape ends."""

SIZES = (Size(4, 2, 1, 1), Size(32, 16, 4, 4, own_search=True), Size(1_000, 500, 64, 64, own_search=True))
"""Shapes that are looked at beside the one that a load takes."""


class Break(msgspec.Struct, frozen=True):
    """A limit of a shape, and the members at which it is reached when everything grows with them."""

    what: str
    members: float
    """Infinite when it never is."""


class Carried(msgspec.Struct, frozen=True):
    """A shape of a fixed size, how many members it carries, and in which order its limits are reached."""

    shape: str
    members: float
    breaks: list[Break]


class Swing(msgspec.Struct, frozen=True):
    """The money a month if an assumption turned out lower or higher."""

    assumption: str
    low: float
    high: float
    money_low: float
    money_high: float

    @property
    def width(self) -> float:
        """How much there is between the two."""
        return abs(self.money_high - self.money_low)


class Plan(msgspec.Struct, frozen=True):
    """Everything that was worked out. Money is a month's."""

    assumptions: Assumptions
    prices: Prices
    calibration: str
    """The machine and the day of the costs."""
    load: Load
    shape: NetworkShape
    money: float
    carried: list[Carried]
    """Shapes by how many members they carry, the smallest first."""
    swings: list[Swing]
    """The assumption that matters most first."""
    affordable: float
    """Members that the budget pays for; 0 when there is none."""


def plan(of: Assumptions, prices: Prices, calibration: Calibration) -> Plan:
    """Work everything out."""
    shape = chosen(of, calibration)
    return Plan(
        assumptions=of,
        prices=prices,
        calibration=calibration.shown(),
        load=load_of(of, LOUD_FROM, warm_only=False),
        shape=shape,
        money=shape.money(prices),
        carried=carried(of, calibration),
        swings=swings(of, prices, calibration),
        affordable=affordable(of, prices, calibration) if of.budget else 0.0,
    )


def chosen(of: Assumptions, calibration: Calibration) -> NetworkShape:
    """Return the smallest shape that carries the load; when none does, the largest."""
    alone = one_process(of, calibration)
    return alone if alone.carries else cluster(of, calibration)


def carried(of: Assumptions, calibration: Calibration) -> list[Carried]:
    """Return how many members each shape carries, if all of them do what is assumed; and for each limit where it is reached."""
    shapes: list[tuple[str, Callable[[Assumptions], NetworkShape]]] = [
        (NAME, lambda given: one_process(given, calibration))
    ]
    shapes += [(_named(size), partial(cluster, calibration=calibration, size=size)) for size in SIZES]
    return sorted((_carried(name, of, shape) for name, shape in shapes), key=lambda one: one.members)


def _named(size: Size) -> str:
    stores = f"{size.stores} PostgreSQL{' and one for search' if size.own_search else ''}"
    return f"{stores}, {size.redis} Redis, {size.web:,} web processes, {size.workers} workers"


def _carried(name: str, of: Assumptions, shape: Callable[[Assumptions], NetworkShape]) -> Carried:
    def use(members: float, what: str) -> float:
        limits = shape(changed(of, "members", members)).limits
        return next((limit.use for limit in limits if limit.what == what), 0.0)

    names = [limit.what for limit in shape(of).limits]
    ends = [Break(what, _largest(lambda members, what=what: use(members, what) <= 1)) for what in names]  # type: ignore[misc]
    ends.sort(key=lambda end: end.members)
    return Carried(name, ends[0].members, [end for end in ends if math.isfinite(end.members)])


def affordable(of: Assumptions, prices: Prices, calibration: Calibration) -> float:
    """Return the members for whom the budget pays."""

    def fits(members: float) -> bool:
        return chosen(changed(of, "members", members), calibration).money(prices) <= of.budget

    return _largest(fits)


def swings(of: Assumptions, prices: Prices, calibration: Calibration) -> list[Swing]:
    """Return what each assumption would change alone."""

    def money(name: str, value: float) -> float:
        return chosen(changed(of, name, value), calibration).money(prices)

    found = [
        Swing(spread.name, spread.low, spread.high, money(spread.name, spread.low), money(spread.name, spread.high))
        for spread in spreads(of)
    ]
    return sorted(found, key=lambda swing: -swing.width)


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the number of members up to which something holds: infinite when it always does, 0 when it never does."""
    if holds(_MOST):
        return math.inf
    if not holds(_LEAST):
        return 0.0
    low, high = _LEAST, _MOST
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
