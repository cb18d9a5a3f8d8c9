"""The costs of one thing each, measured on one machine on one day (`shoal_planner.measuring`), and kept as a file.

Times are seconds, of one core where nothing else is said; sizes are bytes.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from shoal.core.errors import InvalidInput, TooLarge

SHARED_SIZES = {"disk_member": 400.0, "disk_follow": 390.0, "disk_post": 1_100.0}
"""Bytes in PostgreSQL with indexes, before any vacuum; a post with its row for search.

Measured with real data (docs/operations.md): in a network that is made in a minute most pages are half empty.
"""
SEARCH_ROW = 600.0
"""Bytes of `disk_post` that are the post's row for search: a text of a hundred letters, after a vacuum."""
VERSION = 1
"""Grows when a cost gets another meaning: older files are refused."""
FILE = Path("shoal-calibration.json")
"""Where a calibration is kept unless another place is named."""
_MOST_BYTES = 65_536

Seconds = Annotated[float, msgspec.Meta(ge=0, le=3_600)]
Bytes = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where costs were measured."""

    processor: str
    cores: Annotated[int, msgspec.Meta(ge=1)]
    memory: Bytes
    disk: Bytes
    """Size of the file system that the measured store was on."""
    python: str
    kernel: str

    def shown(self) -> str:
        """Name it in one line."""
        return (
            f"{self.processor}, {self.cores} cores, {self.memory / (1 << 30):.0f} GiB, Linux {self.kernel},"
            f" Python {self.python}"
        )


class OneProcess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process on SQLite, timelines in its memory. Times are of its main thread, unless another is named."""

    post: Seconds
    """A post, up to its answer, without the part that a group commit shares."""
    group: Seconds
    """A group commit, however many posts are in it."""
    sync: Seconds
    """The writer thread: a group commit, from being handed over until it is on disk; the median."""
    sync_p90: Seconds
    sync_p99: Seconds
    """One group commit in ten, and in a hundred, takes longer: others use the disk too."""
    store: Seconds
    """The writer thread: a post of a group."""
    claim: Seconds
    """A turn of the jobs, however many are claimed."""
    job: Seconds
    """A job: a post to nobody."""
    delivery: Seconds
    """A delivery to one of a few thousand warm timelines, which the processor has in its caches."""
    delivery_far: Seconds
    """A delivery to one of hundreds of thousands, which it has to fetch."""
    audience: Seconds
    """A follower of an author who has not posted lately: who is warm must be read from the graph."""
    index: Seconds
    """A post's row in the search index."""
    index_write: Seconds
    """The search thread: a write, however many rows are in it."""
    index_row: Seconds
    """The search thread: a row."""
    contention: Annotated[float, msgspec.Meta(ge=1, le=10)]
    """Factor by which the main thread is slower while the writer or search works: they take turns with the interpreter."""
    change: Seconds
    """A like: commit, notice and counts; a group commit's share included."""
    page: Seconds
    """A warm home page of 20 posts in the library, by a member who has just read one."""
    page_fresh: Seconds
    """A warm home page by a member of whom the process remembers nothing."""
    request: Seconds
    """An HTTP request beside what it asks for."""
    rebuild: Seconds
    """A cold timeline, beside its sources."""
    rebuild_source: Seconds
    """A cold timeline: each followee."""
    pull: Seconds
    """A page: each loud followee."""
    log: Bytes
    """A post in the write-ahead log, among many of its group."""
    log_group: Bytes
    """A group commit in the write-ahead log, beside its posts: pages that they share."""
    log_size: Bytes
    """The size at which the log is copied into the file."""
    copy: Seconds
    """The writer thread: copying a page from a full log into the file."""
    written: Bytes
    """Written to disk for a post, copies of the log included."""
    memory: Bytes
    """The process with an empty network."""
    memory_warm: Bytes
    """A warm timeline with all that leads to it."""
    disk_member: Bytes
    disk_follow: Bytes
    disk_post: Bytes
    """A post in the file, its row in the search index included."""


class Shared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several processes on PostgreSQL, Redis and RabbitMQ. Times are of one core of the process that is named first."""

    web_post: Seconds
    web_change: Seconds
    """A like."""
    web_page: Seconds
    """A warm home page of which this process remembers everything."""
    web_page_fresh: Seconds
    """A warm home page of a member whom this process has not served lately."""
    web_request: Seconds
    """An HTTP request beside what it asks for."""
    web_rebuild: Seconds
    """A cold timeline, beside its sources."""
    web_rebuild_source: Seconds
    web_pull: Seconds
    """A page: each loud followee."""
    worker_job: Seconds
    """A post to nobody."""
    worker_delivery: Seconds
    worker_read: Seconds
    """A follower who is read to be pushed to, because the process does not remember the list."""
    store_post: Seconds
    """PostgreSQL: the commit and the outbox of a post, without its row in the search index."""
    store_change: Seconds
    store_index: Seconds
    """PostgreSQL: a post's row in the search index."""
    store_page_fresh: Seconds
    store_read: Seconds
    """PostgreSQL: a follower who is read to be pushed to, because no process remembers the list."""
    store_rebuild_source: Seconds
    store_written: Bytes
    """Written to disk by PostgreSQL for a post."""
    redis_post: Seconds
    redis_page: Seconds
    redis_page_fresh: Seconds
    redis_delivery: Seconds
    broker_job: Seconds
    commit: Seconds
    """Seconds from asking for a commit to its answer, when nothing else is going on."""
    arrival: Seconds
    """Seconds from the answer until the last timeline of a small audience has the post, when nothing else is going on."""
    memory_web: Bytes
    memory_worker: Bytes
    memory_broker: Bytes
    memory_entry: Bytes
    """Redis: an entry of a warm timeline, room to grow included."""
    memory_warm: Bytes
    """Redis: a warm timeline beside its entries."""
    disk_member: Bytes
    disk_follow: Bytes
    disk_post: Bytes


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All costs, and where and when they were measured."""

    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)] = VERSION
    machine: Machine
    day: str
    """The day, in UTC: 2026-11-24."""
    seconds: float
    """Seconds that measuring took."""
    one_process: OneProcess
    shared: Shared
    shared_elsewhere: str = ""
    """Where `shared` was measured, if the engines were not installed here."""

    def shown(self) -> str:
        """Name the machine and the day in one line."""
        return f"{self.machine.shown()}, {self.day}"


def shipped() -> Calibration:
    """Return the calibration that comes with Shoal: of another machine."""
    data = files("shoal_planner").joinpath("shipped_calibration.json").read_bytes()
    return msgspec.json.decode(data, type=Calibration)


def load(path: Path) -> Calibration:
    """Read a calibration. Raises `InvalidInput` (`TooLarge`) for a file that is none, or one of an older Shoal."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path} is not a calibration: more than {_MOST_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=Calibration)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{path} is no calibration of this Shoal ({error}): make it with `shoal plan --calibrate`"
        ) from error


def save(calibration: Calibration, path: Path) -> None:
    """Write a calibration, to be read by people too."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
