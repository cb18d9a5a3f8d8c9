"""Utilization of the parts of a network, and the model of one process on SQLite.

One process has one main thread, a writer thread and a search thread, on one machine.
"""

from __future__ import annotations

import math

import msgspec

from shoal_planner.calibration import Calibration, OneProcess, Shared
from shoal_planner.workload import Assumptions, Load, Prices, load_of

GIB = float(1 << 30)


class ShapePart(msgspec.Struct, frozen=True):
    """A part of a deployment: identical machines or processes. Cores, memory and disk are per machine or process."""

    name: str
    count: int
    cores: float
    memory: float
    disk: float = 0.0
    busy: float = 0.0
    """Cores that all machines or processes of the part together keep busy in the busiest hour."""
    objects: float = 0.0
    """Bytes of media files."""
    traffic: float = 0.0
    """Bytes per month."""

    def money(self, prices: Prices) -> float:
        each = self.cores * prices.core + self.memory / GIB * prices.memory_gib + self.disk / GIB * prices.disk_gib
        return self.count * each + self.objects / GIB * prices.object_gib + self.traffic / GIB * prices.traffic_gib


class ShapeLimit(msgspec.Struct, frozen=True):
    """A limit of a deployment, which is reached when `use` is 1."""

    what: str
    use: float


class Waits(msgspec.Struct, frozen=True):
    lag: float
    """Median time from a post of an author with few followers until it is in their home timelines."""
    lag_p99: float
    largest: float
    """Time until a post reaches all followers of the most-followed member whose posts are pushed."""
    page: float
    """Median time of a home page in the server."""
    page_p99: float


class NetworkShape(msgspec.Struct, frozen=True):
    """One way to deploy a network, with its limits and waits under a given load."""

    name: str
    parts: list[ShapePart]
    limits: list[ShapeLimit]
    waits: Waits | None
    """None if the shape does not carry the load."""

    @property
    def carries(self) -> bool:
        return self.limits[0].use <= 1

    def money(self, prices: Prices) -> float:
        return sum(part.money(prices) for part in self.parts)


def tightest_first(limits: list[ShapeLimit]) -> list[ShapeLimit]:
    return sorted(limits, key=lambda limit: -limit.use)


def waiting(busy: float, service_time: float) -> float:
    """Return the mean time in the queue of a server with utilization `busy` (0 to 1) and constant `service_time`.

    This is the M/D/1 queue (Pollaczek-Khinchine formula).
    """
    return service_time * busy / (2 * (1 - busy)) if busy < 1 else float("inf")


def waiting_p99(busy: float, service_time: float) -> float:
    """Return the 99th percentile of the time in the queue, from the exponential tail of an M/D/1 queue.

    The result is at least the mean wait, which plans show as the median. Otherwise it would be lower if fewer than one request
    in a hundred waits.
    """
    # A fraction `busy` of the requests waits, on average for `waiting / busy`. The 99th percentile of all is ln(100 * busy)
    # times that.
    return waiting(busy, service_time) * max(1.0, math.log(100 * busy) / busy) if busy > 0 else 0.0


LENGTH = 800
"""Entries of a timeline: the setting `timeline_length`."""
HIGH_FAN_OUT_FROM = 500_000
"""The setting `high_fan_out_from`."""
_SOURCES = 500_000
"""Authors whose follower sets a process caches."""
_SLOT_BYTES = 4
_CACHE_BYTES = 400e6
"""Memory of decoded objects (the setting `object_cache`), and of counts and lists (three times as much)."""
_LISTED, _LISTS = 400_000, 30
"""Maximum number of cached associations of short lists; number of associations in a reader's lists besides the followees."""
_LOG_PAGE = 1_024
_TIME_SLICE = 0.002
"""Time slice of jobs on the event loop, in seconds."""
_FAR_FROM, _FAR = 4_000, 400_000
"""Numbers of warm timelines between which deliveries begin to miss the processor's caches."""
_DISK_BYTES_A_SECOND = 150e6
NAME = "one process on SQLite"


def delivery(costs: OneProcess, warm: float) -> float:
    """Return the seconds per delivery if `warm` timelines are materialized: they grow with the logarithm of that number."""
    far = math.log(max(warm, _FAR_FROM) / _FAR_FROM) / math.log(_FAR / _FAR_FROM)
    return costs.delivery + (costs.delivery_far - costs.delivery) * min(1.0, far)


def one_process(of: Assumptions, calibration: Calibration) -> NetworkShape:
    """Return the deployment of a single process on the machine of the calibration."""
    costs, machine = calibration.one_process, calibration.machine
    load = load_of(of, HIGH_FAN_OUT_FROM, warm_only=True)
    main, writer = main_thread(load, of, costs), writer_thread(load, costs)
    cores = main + writer + load.posts * costs.index_row
    memory = resident(costs, load.members, load.warm, LENGTH, of.follows)
    disk = stored_bytes(load, costs)
    limits = [
        ShapeLimit("the main thread", main / of.headroom),
        ShapeLimit("the writer thread", writer / of.headroom),
        ShapeLimit("CPU cores", cores / (machine.cores * of.headroom)),
        ShapeLimit("memory", memory / machine.memory),
        ShapeLimit("disk", disk / machine.disk),
        ShapeLimit("disk writes", load.posts * costs.written / _DISK_BYTES_A_SECOND),
    ]
    part = ShapePart("server", 1, float(machine.cores), max(memory, GIB), disk, cores)
    ordered = tightest_first(limits)
    waits = _waits(load, of, costs, main) if ordered[0].use <= 1 else None
    return NetworkShape(NAME, [part, *outside(load)], ordered, waits)


def outside(load: Load) -> list[ShapePart]:
    """Return the parts of a deployment that are paid for by the byte: media and traffic."""
    return [
        ShapePart("picture files", 1, 0.0, 0.0, objects=load.picture_bytes),
        ShapePart("traffic per month", 1, 0.0, 0.0, traffic=load.traffic),
    ]


def main_thread(load: Load, of: Assumptions, costs: OneProcess) -> float:
    forgotten = max(0.0, 1 - _SOURCES / max(1.0, load.authors))
    known = remembered(of.members * of.daily, of.follows)
    each = delivery(costs, load.warm) + forgotten * costs.follower_set
    return costs.contention * (
        load.posts * (costs.request + costs.post + costs.job + costs.index)
        + load.deliveries * each
        + groups(load, costs) * (costs.group + costs.claim)
        + load.changes * (costs.request + costs.change)
        + load.pages * (costs.request + page(costs, known) + load.high_fan_out_followees * costs.pull)
        + load.returns * (costs.rebuild + of.follows * costs.rebuild_source)
    )


def remembered(readers: float, follows: float) -> float:
    return min(1.0, _LISTED / max(1.0, readers * (follows + _LISTS)))


def page(costs: OneProcess, known: float) -> float:
    """Return the mean seconds for a page, if the data of a fraction `known` of the readers is cached."""
    return known * costs.page + (1 - known) * costs.page_fresh


def groups(load: Load, costs: OneProcess) -> float:
    """Return the group commits per second. A group contains the writes that arrived while the previous group was committed."""
    writes = load.posts + load.changes
    return max(0.0, min(writes, (1 - writes * costs.store) / costs.sync))


def writer_thread(load: Load, costs: OneProcess) -> float:
    """Return the utilization of the writer thread. It excludes the cost per group commit, which is small for large groups."""
    writes = load.posts + load.changes
    return writes * (costs.store + costs.copy * costs.log / _LOG_PAGE / 3)


def pause(costs: OneProcess) -> float:
    """Return the estimated seconds for checkpointing a full write-ahead log."""
    return costs.copy * costs.log_size / costs.log if costs.log else 0.0


def _waits(load: Load, of: Assumptions, costs: OneProcess, main: float) -> Waits:
    alone = costs.request + costs.post + costs.group + costs.sync + costs.store + costs.claim + costs.job
    alone += load.per_post * delivery(costs, load.warm)
    known = remembered(of.members * of.daily, of.follows)
    shown = costs.request + page(costs, known) + load.high_fan_out_followees * costs.pull
    service_time = _TIME_SLICE + shown
    logged = (load.posts + load.changes) * costs.log + groups(load, costs) * costs.log_group
    paused = logged / max(1.0, costs.log_size) * pause(costs)
    # Nothing is committed during a checkpoint, so checkpoints affect the 99th percentile if they take over a hundredth of the time.
    slow = pause(costs) * (1 - 0.01 / paused) if paused > 0.01 else 0.0
    largest = max(
        (
            author_class.followers
            for author_class in load.by_class
            if author_class.followers * of.warm <= HIGH_FAN_OUT_FROM
        ),
        default=0.0,
    )
    return Waits(
        lag=alone + waiting(main, service_time),
        lag_p99=max(alone - costs.sync + costs.sync_p99 + waiting_p99(main, service_time), slow),
        largest=alone + largest * of.warm * (delivery(costs, load.warm) + costs.follower_set) / max(0.05, 1 - main),
        page=shown + waiting(main, service_time),
        page_p99=shown + waiting_p99(main, service_time),
    )


def resident(costs: OneProcess, members: float, warm: float, length: float, follows: float) -> float:
    """Return the memory of the process in bytes: timelines, object caches, and slots of active followers."""
    remembered = min(1.0, _SOURCES / max(1.0, members))
    return (
        costs.memory
        + _CACHE_BYTES * min(1.0, members / 100_000)
        + warm * (8 * length + costs.memory_warm)
        + follows * warm * remembered * _SLOT_BYTES
    )


def stored_bytes(load: Load, costs: OneProcess | Shared) -> float:
    """Return the bytes of all stored data at the end of the planned period; a like takes as much space as a follow."""
    return (
        load.members * costs.disk_member
        + (load.all_follows + load.all_changes) * costs.disk_follow
        + load.all_posts * costs.disk_post
    )
