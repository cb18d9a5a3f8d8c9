"""A calibration: the cost of each elementary operation, measured on one machine (`measuring`) and stored in a file.

Times are seconds of a core unless stated otherwise; sizes are bytes.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from shoal.core.errors import InvalidInput, TooLarge

SHARED_SIZES = {"disk_member": 400.0, "disk_follow": 390.0, "disk_post": 1_100.0}
"""Bytes in PostgreSQL including indexes, before any vacuum; a post includes its row in the search index.

Measured with real data (docs/operations.md), since most pages of a network generated within a minute are half empty.
"""
SEARCH_ROW = 600.0
"""Bytes of a post's row in the search index, which `disk_post` includes: a text of a hundred characters, after a vacuum."""
VERSION = 1
"""Incremented when the meaning of a cost changes; files of older versions are refused."""
FILE = Path("shoal-calibration.json")
_MOST_BYTES = 65_536

Seconds = Annotated[float, msgspec.Meta(ge=0, le=3_600)]
Bytes = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    processor: str
    cores: Annotated[int, msgspec.Meta(ge=1)]
    memory: Bytes
    disk: Bytes
    """Size of the file system that held the measured store."""
    python: str
    kernel: str

    def shown(self) -> str:
        return (
            f"{self.processor}, {self.cores} cores, {self.memory / (1 << 30):.0f} GiB, Linux {self.kernel},"
            f" Python {self.python}"
        )


class OneProcess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of a network of one process on SQLite with timelines in memory.

    Times are of the main thread unless stated otherwise.
    """

    post: Seconds
    """A post until its response, without its fraction of a group commit."""
    group: Seconds
    """A group commit, for any number of posts."""
    sync: Seconds
    """Writer thread: a group commit from submission until it is on disk; the median."""
    sync_p90: Seconds
    sync_p99: Seconds
    """The 90th and 99th percentile of `sync`, which varies because other programs use the disk too."""
    store: Seconds
    """Writer thread: each post of a group commit."""
    claim: Seconds
    job: Seconds
    """The job of a post whose author has no followers."""
    delivery: Seconds
    """A delivery to one of a few thousand warm timelines, which fit into the processor's caches."""
    delivery_far: Seconds
    """A delivery to one of hundreds of thousands of warm timelines, which do not fit into the processor's caches."""
    follower_set: Seconds = msgspec.field(name="audience")
    """Reading the follower set of an author without recent posts from the graph, per follower."""
    index: Seconds
    """A post's row in the search index."""
    index_write: Seconds
    """Search thread: a write, for any number of rows."""
    index_row: Seconds
    """Search thread: each row of a write."""
    contention: Annotated[float, msgspec.Meta(ge=1, le=10)]
    """Slowdown of the main thread while the writer or search thread works, because they share the interpreter lock."""
    change: Seconds
    """A like: its commit (with its part of the group commit), notification and counts."""
    page: Seconds
    """A warm home page of 20 posts through the library, for a member who read one a moment ago."""
    page_fresh: Seconds
    """A warm home page for a member who is not in any cache."""
    request: Seconds
    """The overhead of an HTTP request."""
    rebuild: Seconds
    """Rebuilding a cold timeline, without its sources."""
    rebuild_source: Seconds
    pull: Seconds
    """The additional cost of a page for each high fan-out followee."""
    log: Bytes
    """Bytes in the write-ahead log for each post of a large group commit."""
    log_group: Bytes
    """Additional bytes in the write-ahead log for each group commit: the pages that its posts share."""
    log_size: Bytes
    """The size at which the log is checkpointed."""
    copy: Seconds
    """Writer thread: checkpointing a page of a full log."""
    written: Bytes
    """Bytes written to disk for a post, checkpoints included."""
    memory: Bytes
    """Memory of the process with an empty network."""
    memory_warm: Bytes
    """Memory of a warm timeline without its entries, with everything that references it."""
    disk_member: Bytes
    disk_follow: Bytes
    disk_post: Bytes
    """A post in the file, including its row in the search index."""


class Shared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of a network of several processes on PostgreSQL, Redis and RabbitMQ.

    The prefix of a field names the process whose time it is.
    """

    web_post: Seconds
    web_change: Seconds
    web_page: Seconds
    """A warm home page for a member who is in this process's caches."""
    web_page_fresh: Seconds
    """A warm home page for a member whom this process has not served recently."""
    web_request: Seconds
    """The overhead of an HTTP request."""
    web_rebuild: Seconds
    """Rebuilding a cold timeline, without its sources."""
    web_rebuild_source: Seconds
    web_pull: Seconds
    """The additional cost of a page for each high fan-out followee."""
    worker_job: Seconds
    """The job of a post whose author has no followers."""
    worker_delivery: Seconds
    worker_read: Seconds
    """Reading a follower list that the worker has not cached, per follower."""
    store_post: Seconds
    """PostgreSQL: the commit and outbox of a post, without its row in the search index."""
    store_change: Seconds
    store_index: Seconds
    """PostgreSQL: a post's row in the search index."""
    store_page_fresh: Seconds
    store_read: Seconds
    """PostgreSQL: reading a follower list that no worker has cached, per follower."""
    store_rebuild_source: Seconds
    store_written: Bytes
    """Bytes written to disk by PostgreSQL for a post."""
    redis_post: Seconds
    redis_page: Seconds
    redis_page_fresh: Seconds
    redis_delivery: Seconds
    broker_job: Seconds
    commit: Seconds
    """Seconds from requesting a commit to its confirmation on an idle system."""
    arrival: Seconds
    """Seconds from the response until the last timeline of a small follower set has the post, on an idle system."""
    memory_web: Bytes
    memory_worker: Bytes
    memory_broker: Bytes
    memory_entry: Bytes
    """Redis: an entry of a warm timeline, including spare capacity."""
    memory_warm: Bytes
    """Redis: a warm timeline without its entries."""
    disk_member: Bytes
    disk_follow: Bytes
    disk_post: Bytes


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All costs, with the machine and day of their measurement."""

    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)] = VERSION
    machine: Machine
    day: str
    seconds: float
    one_process: OneProcess
    shared: Shared
    shared_elsewhere: str = ""
    """The machine on which `shared` was measured, if the engines were not installed here."""

    def shown(self) -> str:
        return f"{self.machine.shown()}, {self.day}"


def shipped() -> Calibration:
    data = files("shoal_planner").joinpath("shipped_calibration.json").read_bytes()
    return msgspec.json.decode(data, type=Calibration)


def load(path: Path) -> Calibration:
    """Read a calibration. Raises `InvalidInput` (or `TooLarge`) for an invalid file or one of an older version."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path} is too large for a calibration: at most {_MOST_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=Calibration)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{path} is not a calibration of this version ({error}): create one with `shoal plan --calibrate`"
        ) from error


def save(calibration: Calibration, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
