"""A plan: the load of a network, the deployment that carries it, its first bottleneck, and the most sensitive assumption.

Includes the model of several processes on PostgreSQL, Redis and RabbitMQ: how many of each a load needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from shoal.core.placement import DATA_SOURCES, SHARDS
from shoal.graph.shard_map import heartbeat_seconds, round_seconds
from shoal_planner.calibration import SEARCH_ROW, Calibration, Shared
from shoal_planner.one_process import (
    GIB,
    HIGH_FAN_OUT_FROM,
    LENGTH,
    NAME,
    NetworkShape,
    ShapeLimit,
    ShapePart,
    Waits,
    one_process,
    outside,
    stored_bytes,
    tightest_first,
    waiting,
    waiting_p99,
)
from shoal_planner.workload import Assumptions, Load, Prices, changed, load_of, spreads

DATABASE_CORES = 16
DATABASE_MEMORY = 128 * GIB
DATABASE_DISK = 4_096 * GIB
SEARCH_DISK = 32_768 * GIB
"""Maximum size of a table in PostgreSQL; the search index is one table."""
REDIS_MEMORY = 24 * GIB
REDIS_SPARE = 1.1
"""A tenth of the memory of a Redis stays free."""
REDIS_NODES = 1_000
"""Nodes up to which a Redis Cluster scales, according to its specification."""
BROKER_CORES = 4
"""Cores of each broker node for a queue."""
BROKER_NODE_CORES = 32
_BROKER_DISK = 100 * GIB
BROKER_FROM = 8
"""Number of workers above which jobs go through a broker; up to it, workers claim them from the stores."""
_BROKER_NODES = 3
PAGE_FOLLOWERS = 20_000
"""Follower lists up to this length are cached by workers; longer ones are read for each post."""
_HOT_DAYS = 30
"""Days of posts and changes that should fit into the memory of a database."""
SLOTS = 64
"""Jobs that a worker runs concurrently."""
LINK_SECONDS = 0.0005
"""Round-trip time in a data center in seconds, which the calibration on one machine does not include."""
TRIPS_OF_A_POST, TRIPS_OF_A_PAGE = 8, 4
POLL_WEB, POLL_STORE = 0.00022, 0.00038
"""Processor time of a process and of PostgreSQL for a heartbeat, measured with 130 stores (`tests/ops/test_many_stores.py`).

A claim that finds no event is assumed to cost as much.
"""
_MOST_ROUNDS = 20.0
"""Rounds of claims from all stores per second: the poll interval of a relay is at least 0.05 s."""
CLUSTER_NAME = "PostgreSQL, Redis, web processes and workers"


class BusyCores(NamedTuple):
    web: float
    workers: float
    store: float
    search: float
    """The part of `store` for the search index, which is in a single database."""
    redis: float
    broker: float


class Size(NamedTuple):
    """The size of a deployment: the number of instances of each part."""

    web: int
    workers: int
    stores: int
    redis: int
    searches: int = 0
    """Databases of the search index (the setting `search`); 0 if it is in the only database of the graph."""

    @property
    def poll_rate(self) -> float:
        return 1 / heartbeat_seconds(self.stores) + min(_MOST_ROUNDS, 1 / round_seconds(self.stores))

    @property
    def polls(self) -> float:
        return (self.web + self.workers) * self.stores * self.poll_rate

    @property
    def apart(self) -> float:
        """The fraction of members on another store than the list of their public posts.

        The public timeline has one such list per data source.
        """
        return max(0.0, 1 - DATA_SOURCES / self.stores)


def cluster(of: Assumptions, calibration: Calibration, size: Size | None = None) -> NetworkShape:
    """Return the deployment of several processes, with the parts that the load needs or in the given size."""
    costs = calibration.shared
    load = load_of(of, HIGH_FAN_OUT_FROM, warm_only=False)
    size = size or needed(load, of, costs)
    work = work_of(load, of, costs, size)
    memory, headroom = redis_memory(load, costs), of.headroom
    disk, search = _disks(load, costs, size)
    limits = [
        ShapeLimit("web processes", work.web / (size.web * headroom)),
        ShapeLimit("workers", work.workers / (size.workers * headroom)),
        ShapeLimit("CPU of the databases", store_work(work, size) / (size.stores * DATABASE_CORES * headroom)),
        ShapeLimit("disks of the databases", disk / (size.stores * DATABASE_DISK)),
        ShapeLimit("the search index", work.search / (max(1, size.searches) * DATABASE_CORES * headroom)),
        ShapeLimit("Redis", work.redis / (size.redis * headroom)),
        ShapeLimit("memory of Redis", memory / (size.redis * REDIS_MEMORY)),
        ShapeLimit("number of databases, at most 8,192", size.stores / SHARDS),
        ShapeLimit("nodes of Redis, at most 1,000", size.redis * of.copies / REDIS_NODES),
    ]
    if size.searches:
        limits.append(ShapeLimit("disk of the search index", search / (size.searches * SEARCH_DISK)))
    broker = size.workers > BROKER_FROM
    if broker:
        queues = broker_queues(work, headroom)
        limits.append(ShapeLimit("the broker's queues", work.broker / (queues * BROKER_CORES * headroom)))
        limits.append(ShapeLimit("cores of the broker, at most 32", queues * BROKER_CORES / BROKER_NODE_CORES))
    ordered = tightest_first(limits)
    waits = _waits(load, costs, work, size) if ordered[0].use <= 1 else None
    return NetworkShape(CLUSTER_NAME, _parts(load, of, costs, work, size, broker=broker), ordered, waits)


def broker_queues(work: BusyCores, headroom: float) -> int:
    return max(1, math.ceil(work.broker / (BROKER_CORES * headroom)))


def needed(load: Load, of: Assumptions, costs: Shared) -> Size:
    size = Size(of.copies, of.copies, 1, 1)
    # The sizes depend on each other: with more web processes, fewer pages find the member's data in the cache, and all
    # processes poll all stores. Iterate to a fixed point.
    for iteration in range(20):
        found = _sized(load, of, costs, size)
        # The iteration may alternate between two sizes, because a process polls each store less often if there are more stores.
        # After ten iterations, therefore, the number of stores may only grow.
        size = found if iteration < 10 else found._replace(stores=max(found.stores, size.stores))
    return size


def _sized(load: Load, of: Assumptions, costs: Shared, before: Size) -> Size:
    work = work_of(load, of, costs, before)
    headroom, polls = of.headroom, before.stores * before.poll_rate
    # If polling all stores takes most of the capacity of a process, more processes do not help. So at least a tenth of
    # the capacity counts as available for other work.
    each = max(headroom - polls * POLL_WEB, 0.1 * headroom)
    web = max(of.copies, math.ceil((work.web - before.web * polls * POLL_WEB) / each))
    workers = max(of.copies, math.ceil((work.workers - before.workers * polls * POLL_WEB) / each))
    redis = math.ceil(max(work.redis / headroom, redis_memory(load, costs) / REDIS_MEMORY, 1.0))
    size = Size(web, workers, 1, redis)
    busy, polled = work.store - before.polls * POLL_STORE, (web + workers) * before.poll_rate * POLL_STORE
    if _stores(load, of, costs, busy, polled, size) <= 1:
        return size
    searches = max(1.0, load.all_posts * SEARCH_ROW / SEARCH_DISK, work.search / (DATABASE_CORES * headroom))
    size = size._replace(searches=math.ceil(searches))
    return size._replace(stores=min(SHARDS, _stores(load, of, costs, busy - work.search, polled, size)))


def _stores(load: Load, of: Assumptions, costs: Shared, busy: float, polled: float, size: Size) -> int:
    """Return the number of databases that `busy` cores of work need, if polling takes `polled` cores of each database."""
    disk, _ = _disks(load, costs, size)
    cores = max(DATABASE_CORES * of.headroom - polled, 0.1 * DATABASE_CORES * of.headroom)
    return math.ceil(max(busy / cores, disk / DATABASE_DISK, 1.0))


def store_work(work: BusyCores, size: Size) -> float:
    """Return the busy cores of the graph's databases. They include the search index, unless it has its own databases."""
    return work.store - work.search if size.searches else work.store


def _disks(load: Load, costs: Shared, size: Size) -> tuple[float, float]:
    """Return the bytes of the databases without the search index, and of the search databases (0 if there are none)."""
    disk, search = stored_bytes(load, costs), load.all_posts * SEARCH_ROW
    return (disk - search, search) if size.searches else (disk, 0.0)


def work_of(load: Load, of: Assumptions, costs: Shared, size: Size) -> BusyCores:
    fresh = fresh_share(of, size.web)
    polls = size.stores * size.poll_rate * POLL_WEB
    # `pushed` is the rate of attempted deliveries, including those to cold timelines. `long` is the rate of deliveries
    # to followers in lists that are too long to be cached, and are read for each post.
    pushed = load.deliveries / of.warm if of.warm else 0.0
    long = load.posts * sum(
        author_class.posts * author_class.followers
        for author_class in load.by_class
        if PAGE_FOLLOWERS < author_class.followers <= HIGH_FAN_OUT_FROM
    )
    return BusyCores(
        web=size.web * polls
        + load.posts * (costs.web_request + costs.web_post + size.apart * costs.web_change)
        + load.changes * (costs.web_request + costs.web_change)
        + load.pages * (costs.web_request + between(fresh, costs.web_page, costs.web_page_fresh))
        + load.pages * load.high_fan_out_followees * costs.web_pull
        + load.returns * (costs.web_rebuild + of.follows * costs.web_rebuild_source),
        workers=size.workers * polls
        + (load.posts + load.changes) * costs.worker_job
        + pushed * costs.worker_delivery
        + long * costs.worker_read,
        store=size.polls * POLL_STORE
        + load.posts * (costs.store_post + costs.store_index + size.apart * costs.store_change)
        + load.changes * costs.store_change
        + load.pages * fresh * costs.store_page_fresh
        + long * costs.store_read
        + load.returns * of.follows * costs.store_rebuild_source,
        search=load.posts * costs.store_index,
        redis=(load.posts + load.changes) * costs.redis_post
        + pushed * costs.redis_delivery
        + load.pages * between(fresh, costs.redis_page, costs.redis_page_fresh),
        broker=(load.posts + load.changes) * costs.broker_job,
    )


def between(share: float, one: float, other: float) -> float:
    return one + share * (other - one)


def fresh_share(of: Assumptions, web: int) -> float:
    """Return the fraction of pages read in a web process that has not served that member before on the same day."""
    if of.pages <= 1:
        return 1.0
    return min(1.0, web * (1 - math.pow(1 - 1 / web, of.pages)) / of.pages)


def redis_memory(load: Load, costs: Shared) -> float:
    """Return the bytes of all materialized timelines in Redis, with spare memory."""
    return REDIS_SPARE * load.warm * (LENGTH * costs.memory_entry + costs.memory_warm)


def _waits(load: Load, costs: Shared, work: BusyCores, size: Size) -> Waits:
    web, worker = work.web / size.web, work.workers / size.workers
    redis = work.redis / size.redis
    page = costs.web_request + costs.web_page + TRIPS_OF_A_PAGE * LINK_SECONDS
    push = min(load.per_post, PAGE_FOLLOWERS) * costs.worker_delivery
    alone = costs.commit + costs.arrival + TRIPS_OF_A_POST * LINK_SECONDS + push
    # The service time is that of the longest uninterrupted step: a page of a long list in a worker, a call with 300 keys in Redis.
    service_times = ((web, page), (worker, costs.worker_job + push), (redis, 300 * costs.redis_delivery))
    followers = max(
        (author_class.followers for author_class in load.by_class if author_class.followers <= HIGH_FAN_OUT_FROM),
        default=0.0,
    )
    one_by_one = followers * (costs.worker_delivery + costs.worker_read + costs.redis_delivery / size.redis)
    return Waits(
        lag=alone + sum(waiting(busy, service_time) for busy, service_time in service_times),
        lag_p99=alone + sum(waiting_p99(busy, service_time) for busy, service_time in service_times),
        largest=alone + one_by_one / (1 - worker),
        page=page + waiting(web, page),
        page_p99=page + (costs.web_page_fresh - costs.web_page) + waiting_p99(web, page),
    )


def _parts(load: Load, of: Assumptions, costs: Shared, work: BusyCores, size: Size, *, broker: bool) -> list[ShapePart]:
    disk, search = _disks(load, costs, size)
    recent = min(1.0, _HOT_DAYS / (of.years * 365))
    redis_bytes = redis_memory(load, costs)
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
        ShapePart("Redis", size.redis * of.copies, 1.0, max(0.5 * GIB, redis_bytes / size.redis), 0.0, work.redis),
    ]
    if size.searches:
        each = search / size.searches
        memory = min(DATABASE_MEMORY, max(2 * GIB, each * recent))
        cores = store_cores(work.search / size.searches / of.headroom)
        parts.append(ShapePart("PostgreSQL for search", size.searches * of.copies, cores, memory, each, work.search))
    if broker:
        queues = broker_queues(work, of.headroom)
        cores = float(queues * BROKER_CORES)
        parts.append(ShapePart("RabbitMQ", _BROKER_NODES, cores, cores * GIB, queues * _BROKER_DISK, work.broker))
    return [*parts, *outside(load)]


def store_cores(busy: float) -> float:
    return float(min(DATABASE_CORES, 2 ** max(1, math.ceil(math.log2(max(busy, 2.0))))))


_LEAST, _MOST = 10.0, 1e10
"""Range of members searched for the limit of a shape."""

SIZES = (Size(4, 2, 1, 1), Size(32, 16, 4, 4, 1), Size(1_000, 500, 64, 64, 1), Size(4_000, 500, 500, 500, 12))
"""Shapes shown in addition to the one that the load needs."""


class Break(msgspec.Struct, frozen=True):
    """A limit of a deployment, and the number of members that reaches it if all loads grow with the members."""

    what: str
    members: float
    """Infinite if never reached."""


class Carried(msgspec.Struct, frozen=True):
    """A deployment of fixed size, the number of members it carries, and its limits in the order in which they are reached."""

    shape: str
    members: float
    breaks: list[Break]


class Swing(msgspec.Struct, frozen=True):
    """The cost per month if one assumption turns out lower or higher."""

    assumption: str
    low: float
    high: float
    money_low: float
    money_high: float

    @property
    def width(self) -> float:
        return abs(self.money_high - self.money_low)


class Plan(msgspec.Struct, frozen=True):
    """The complete result of `shoal plan`. Money is per month."""

    assumptions: Assumptions
    prices: Prices
    calibration: str
    """Machine and day of the calibration."""
    load: Load
    shape: NetworkShape
    money: float
    carried: list[Carried]
    """Shapes by the members that they carry, smallest first."""
    swings: list[Swing]
    """The most sensitive assumption first."""
    affordable: float
    """Members that the budget pays for; 0 without a budget."""


def plan(of: Assumptions, prices: Prices, calibration: Calibration) -> Plan:
    shape = chosen(of, calibration)
    return Plan(
        assumptions=of,
        prices=prices,
        calibration=calibration.shown(),
        load=load_of(of, HIGH_FAN_OUT_FROM, warm_only=False),
        shape=shape,
        money=shape.money(prices),
        carried=carried(of, calibration),
        swings=swings(of, prices, calibration),
        affordable=affordable(of, prices, calibration) if of.budget else 0.0,
    )


def chosen(of: Assumptions, calibration: Calibration) -> NetworkShape:
    """Return the smallest deployment that carries the load, or the largest one if none does."""
    alone = one_process(of, calibration)
    return alone if alone.carries else cluster(of, calibration)


def carried(of: Assumptions, calibration: Calibration) -> list[Carried]:
    """Return how many members each deployment carries under the assumptions, and at which number each limit is reached."""
    shapes: list[tuple[str, Callable[[Assumptions], NetworkShape]]] = [
        (NAME, lambda given: one_process(given, calibration))
    ]
    shapes += [(_named(size), partial(cluster, calibration=calibration, size=size)) for size in SIZES]
    return sorted((_carried(name, of, shape) for name, shape in shapes), key=lambda capacity: capacity.members)


def _named(size: Size) -> str:
    stores = f"{size.stores} PostgreSQL{f' and {size.searches} for search' if size.searches else ''}"
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
    def fits(members: float) -> bool:
        return chosen(changed(of, "members", members), calibration).money(prices) <= of.budget

    return _largest(fits)


def swings(of: Assumptions, prices: Prices, calibration: Calibration) -> list[Swing]:
    """Return how changing each assumption by itself changes the cost, the largest effect first."""

    def money(name: str, value: float) -> float:
        return chosen(changed(of, name, value), calibration).money(prices)

    found = [
        Swing(spread.name, spread.low, spread.high, money(spread.name, spread.low), money(spread.name, spread.high))
        for spread in spreads(of)
    ]
    return sorted(found, key=lambda swing: -swing.width)


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the largest number of members for which `holds` is true.

    Infinite if it is true for every number, 0 if for no number.
    """
    if holds(_MOST):
        return math.inf
    if not holds(_LEAST):
        return 0.0
    low, high = _LEAST, _MOST
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
