"""Contracts of a tag cloud store and its transport, the increments they carry, and the stored rows.

The cloud is derived from the graph and can be dropped and recounted at any time. A merge reads what it touches and writes all its
changes as the next version in one step, unless another merge has written it. A `Use` states which tags one event added to or
removed from a post, identified by post and version, so it is counted once however often it is sent. One suite
(`tests/contracts/test_tag_stores.py`) runs on every store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from shoal.core.errors import Conflict
from shoal.tagcloud.heat import COLD, Heat

LOCK_SECONDS = 3.0
"""How long a dead collector keeps others from merging. A live collector renews its lock (`lease.locked`)."""
CLOCK_SLACK = 1.5
"""A lock that has more time left than this multiple of its duration counts as free: since it was taken, the clock was set back."""


_NOISE = 1e-9
"""The rounding error that remains of a heat, relative to its hottest use, when everything added has been subtracted."""


class Overtaken(Conflict):
    """Another process wrote this version first, or took the lock. Nothing was written."""


class Day(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One day of a tag: uses, members who used it, and the uses of the member who used it most."""

    uses: int = 0
    members: int = 0
    loudest: int = 0


class TagRow(msgspec.Struct, frozen=True, array_like=True):
    """The counts of a tag. The name is canonical; `forms` counts the uses of each spelling."""

    id: int
    name: str
    n: int = 0
    """Number of public posts with the tag that are not hidden."""
    heats: tuple[Heat, Heat, Heat] = (COLD, COLD, COLD)
    """The heats in the windows of `heat`: hour, day, week."""
    forms: dict[str, int] = {}
    days: dict[int, Day] = {}
    """The last days, by days since 1970-01-01 UTC."""

    @property
    def blank(self) -> bool:
        """Whether the row can be deleted. If only `n` is 0, it cannot: a removal may have arrived before its addition."""
        cold = all(abs(heat.value) < _NOISE for heat in self.heats)
        return cold and not self.n and not self.days and not self.forms


class TagRule(msgspec.Struct, frozen=True, array_like=True):
    """An admin's rule on a tag: the tag is hidden if `denied`, and counts as the canonical tag `target` if that is not empty."""

    name: str
    denied: bool = False
    target: str = ""


AuthorKey = tuple[int, int, int]
"""A tag, a day, a member."""


class Head(msgspec.Struct, frozen=True):
    """The newest version of the tag cloud: `state` has the collectors' rankings, `cloud` is for readers. Version 0 is empty."""

    version: int = 0
    at: int = 0
    """When the version was merged (Unix ms)."""
    complete_to: int = 0
    """Uses before this time (Unix ms) are included, as far as emitters had received them."""
    cloud: bytes = b""
    state: bytes = b""


class Merge(msgspec.Struct, frozen=True):
    """All changes of a version. Rows and numbers are the new values, not differences.

    A number may temporarily be below 0, if the removal of a use arrived before its addition.
    """

    head: Head
    """The new version; `head.version - 1` must be the stored one."""
    increments: Sequence[bytes]
    marks: Mapping[int, bytes]
    """By bucket: the packed marks of the uses that this version contains (`pack_marks`)."""
    rows: Sequence[TagRow]
    """New rows; a `blank` one is deleted."""
    authors: Mapping[AuthorKey, int]
    """Number of uses of a tag by a member on a day. An entry of 0 is deleted."""
    before_day: int
    """Authors of days before this one are deleted. It never decreases."""
    rules: Sequence[TagRule] = ()
    """Rules that this version sets. A rule without effect (neither denied nor a target) is deleted."""


class CloudStore(Protocol):
    """A store of a tag cloud. All methods raise `Unavailable` if it cannot be reached."""

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        """Take or extend the lock of the cloud; return False while another holder has it.

        The lock expires after `seconds`. If the store's clock is changed, it may expire early,
        or up to `CLOCK_SLACK` times as late.

        Args:
            holder: The fencing token, unique to each time the lock is taken.
        """
        ...

    async def renew(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        """Extend the lock. Return False if it was released, or if another holder has had it in between."""
        ...

    async def unlock(self, holder: bytes) -> None:
        """Release the lock; does nothing if another holder has it."""
        ...

    async def version(self) -> int:
        """Return the newest version number; 0 if nothing was ever merged."""
        ...

    async def head(self) -> Head: ...

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        """Return version, time (Unix ms) and cloud of the newest versions, newest first; about a hundred are kept."""
        ...

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        """Return the ids of these increments that were merged already. Such ids are kept for at least `KEEP_INCREMENTS_MS`."""
        ...

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        """Return the marks (`Use.mark`) of the uses merged after this version, by `Use.bucket`. Buckets without marks are absent.

        Marks are never deleted.
        """
        ...

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        """Return the stored rows of these tags, by tag id (`graph.schema.tag_id`)."""
        ...

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        """Return how often these members used these tags on these days; a count of 0 is absent."""
        ...

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        """Return all members who used these tags on these days (pairs of tag and day), and how often; a count of 0 is absent."""
        ...

    async def top(self, window: int, limit: int) -> list[TagRow]:
        """Return the tags with the most uses (`window` -1) or the most warmth in a window, in descending order, ties by id.

        This may read every tag, so it is only called when a ranking needs to be refilled.
        """
        ...

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        """Return rows with an id above `after` (tag ids are negative), by id, for checks."""
        ...

    async def rules(self) -> dict[str, TagRule]: ...

    async def write(self, merge: Merge, holder: bytes = b"") -> None:
        """Make a version durable, atomically even if this process dies.

        Args:
            holder: The fencing token under which the merge was prepared; without one, only the version is checked.

        Raises:
            Overtaken: The version is not the next one, or another holder has taken the lock.
        """
        ...

    async def put(self, id_: bytes, body: bytes) -> None:
        """Add an increment to the inbox, durably. Idempotent by id."""
        ...

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        """Return id and body of increments in the inbox, oldest first. A merge deletes the increments that it contains."""
        ...

    async def discard(self, increments: Collection[bytes]) -> None: ...

    async def waiting(self) -> int: ...

    async def close(self) -> None:
        """Finish started work and release every resource."""
        ...


KEEP_INCREMENTS_MS = 30 * 86_400_000
KEEP_CLOUDS = 100


class Parcel(NamedTuple):
    id: bytes
    body: bytes


class Transport(Protocol):
    """Carries increments from every emitter to every collector, each at least once.

    One suite (`tests/contracts/test_tag_transports.py`) runs on every transport.
    """

    async def send(self, id_: bytes, body: bytes) -> None:
        """Send an increment; return when it is durable, so that no crash of a process loses it. Raises `Unavailable`."""
        ...

    def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        """Yield received increments to a collector, repeatedly until they are acknowledged; a batch may be empty."""
        ...

    def hurry(self) -> None:
        """Make `arrivals` yield its next batch at once, even an empty one."""
        ...

    async def done(self, parcels: Sequence[Parcel]) -> None:
        """Acknowledge increments that were merged or never will be; the others are delivered again. Never raises an error."""
        ...

    async def waiting(self) -> int:
        """Return how many increments are sent but in no version yet; with several queues, the number of the longest one."""
        ...

    async def close(self) -> None: ...


DAY_MS = 86_400_000
BUCKET_BITS = 19
"""Marks of uses are grouped by the 8.7 minutes (2**19 ms) in which they happened, so that a repeat is found in one bucket."""
_VERSION_BITS = 32


class TagChange(NamedTuple):
    """One tag of a post: its canonical name, its typed form, and +1 (added) or -1 (removed)."""

    name: str
    form: str
    by: int


class Use(msgspec.Struct, frozen=True, array_like=True):
    """The change that one event made to the tags of a post. The removal of a tag is a use, too."""

    post_id: int
    version: int
    """Version of the post after the change, unique among the uses of a post. 1 to 2**32 - 1."""
    author_id: int
    written: int
    """When the post was written (Unix ms): decides in which windows its tags count."""
    at: int
    changes: tuple[TagChange, ...]

    @property
    def day(self) -> int:
        """The day on which the post was written, in days since 1970-01-01 UTC."""
        return self.written // DAY_MS

    @property
    def bucket(self) -> int:
        return self.at >> BUCKET_BITS

    @property
    def mark(self) -> int:
        """The number (96 bits) that identifies a use: its post, and the version of the post."""
        return self.post_id << _VERSION_BITS | self.version


class Increment(msgspec.Struct, frozen=True, array_like=True):
    """Uses that one emitter sends together, with a unique id (16 bytes)."""

    id: bytes
    emitter: bytes
    through: int
    """All uses that the emitter received before this time (Unix ms) are in this or an earlier increment."""
    uses: tuple[Use, ...]

    @property
    def changes(self) -> int:
        return sum(len(use.changes) for use in self.uses)


_MARK_BYTES = 12
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Increment).decode
"""Decode an increment. Raises `msgspec.DecodeError` or `msgspec.ValidationError`."""


def pack_marks(marks: Iterable[int]) -> bytes:
    """Encode marks, which identify uses that were merged, 12 bytes each."""
    return b"".join(mark.to_bytes(_MARK_BYTES, "big") for mark in sorted(marks))


def unpack_marks(data: bytes) -> set[int]:
    return {int.from_bytes(data[at : at + _MARK_BYTES], "big") for at in range(0, len(data), _MARK_BYTES)}


Rest = tuple[tuple[Heat, Heat, Heat], dict[str, int], dict[int, Day]]

ORDER_COLUMNS = ("hour", "day", "week", "n")
"""By the windows of `heat`; the last one is for window -1."""

_decode_rest = msgspec.msgpack.Decoder(Rest).decode


def row_values(row: TagRow) -> tuple[int, str, int, float, float, float, bytes]:
    """Return the columns of a row: id, name, uses, the ranks of the three heats, and the other fields encoded."""
    hour, day, week = row.heats
    rest = encode((row.heats, row.forms, row.days))
    return row.id, row.name, row.n, hour.rank, day.rank, week.rank, rest


def rows_of(found: Iterable[Any]) -> list[TagRow]:
    return [TagRow(id_, name, n, *_decode_rest(rest)) for id_, name, n, rest in found]


def rank_in(row: TagRow, window: int) -> tuple[float, int]:
    return (-row.n if window < 0 else -row.heats[window].rank, row.id)


def authors_of(found: Iterable[tuple[int, int, int, int]]) -> dict[AuthorKey, int]:
    return {(tag, day, member): n for tag, day, member, n in found}


class Parts:
    """The changes of a merge, by table and sorted by key.

    Sorted rows touch fewer database pages, and concurrent writers that use the same order do not deadlock.
    """

    def __init__(self, merge: Merge) -> None:
        rows = sorted({row.id: row for row in merge.rows}.items())
        self.rows = [row_values(row) for _, row in rows if not row.blank]
        self.gone = [id_ for id_, row in rows if row.blank]
        recent = sorted(
            (day, tag, member, n) for (tag, day, member), n in merge.authors.items() if day >= merge.before_day
        )
        self.authors = [author for author in recent if author[3]]
        """Day, tag, member, and count."""
        self.silent = [author[:3] for author in recent if not author[3]]
        rules = {rule.name: rule for rule in merge.rules}.values()
        self.rules = [rule for rule in rules if says_something(rule)]
        self.revoked = [rule.name for rule in rules if not says_something(rule)]
        self.increments = sorted(set(merge.increments))
        self.marks = sorted(merge.marks.items())


def says_something(rule: TagRule) -> bool:
    return rule.denied or bool(rule.target)
