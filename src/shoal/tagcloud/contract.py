"""Contracts of a tag cloud store and its transport; the increments that travel, and the rows that databases store.

The cloud is derived from the graph and can be dropped and recounted at any time. A merge reads what it touches and writes all
its changes as the next version in one step, unless another merge has written it. A `Use` states which tags one event added to
or removed from a post, identified by post and version, so it is counted once however often it is sent. One suite
(`tests/contracts/test_tag_stores.py`) runs on every store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from shoal.core.errors import Conflict
from shoal.tagcloud.heat import COLD, Heat

LOCK_SECONDS = 30.0
"""How long a collector that has died keeps others from merging."""


_NOISE = 1e-9
"""The rounding error that is left of a heat, relative to its hottest use, when everything added has been taken back."""


class Overtaken(Conflict):
    """Somebody else has written this version: nothing was written."""


class Day(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One day of a tag: uses, how many members used it, and the uses of the one who used it most."""

    uses: int = 0
    members: int = 0
    loudest: int = 0


class TagRow(msgspec.Struct, frozen=True, array_like=True):
    """The counts of one tag. The name is canonical; `forms` are spellings with how often each is used."""

    id: int
    name: str
    n: int = 0
    """Live uses: posts that have it, are public, and are not hidden."""
    heats: tuple[Heat, Heat, Heat] = (COLD, COLD, COLD)
    """In the windows of `heat`: hour, day, week."""
    forms: dict[str, int] = {}
    days: dict[int, Day] = {}
    """The last days, by days since 1970-01-01 UTC."""

    @property
    def blank(self) -> bool:
        """Whether nothing is to be kept of it. With `n` 0 alone, the end of a use may have come before its beginning."""
        cold = all(abs(heat.value) < _NOISE for heat in self.heats)
        return cold and not self.n and not self.days and not self.forms


class TagRule(msgspec.Struct, frozen=True, array_like=True):
    """An admin's rule on a tag: it is hidden (`denied`), or counts as another one (`target`, canonical)."""

    name: str
    denied: bool = False
    target: str = ""


AuthorKey = tuple[int, int, int]
"""A tag, a day, a member."""


class Head(msgspec.Struct, frozen=True):
    """The newest version. `state` is the collectors' own (rankings); `cloud` what readers get. Version 0 is empty."""

    version: int = 0
    at: int = 0
    """When it was merged (Unix ms)."""
    complete_to: int = 0
    """Uses that happened before this moment (Unix ms), as far as emitters had been given them, are in it."""
    cloud: bytes = b""
    state: bytes = b""


class Merge(msgspec.Struct, frozen=True):
    """All that one version changes. Rows and numbers are final, not differences; a number may be below 0 for a while, where
    the end of a use came before its beginning."""

    head: Head
    """The new one; `head.version - 1` must be the stored one."""
    increments: Sequence[bytes]
    """The ids of the increments that this version contains."""
    marks: Mapping[int, bytes]
    """By bucket: the marks of the uses that this version contains (`increment.pack_marks`)."""
    rows: Sequence[TagRow]
    """Tags as they are now; one that is `blank` is forgotten."""
    authors: Mapping[AuthorKey, int]
    """How often a member used a tag on a day; 0 is forgotten."""
    before_day: int
    """Authors of days before this one are forgotten. It never goes back."""
    rules: Sequence[TagRule] = ()
    """Rules that this version brings; one that says nothing (neither denied nor a target) is forgotten."""


class CloudStore(Protocol):
    """Keeps one tag cloud. Raises `Unavailable` when it cannot be reached."""

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        """Take the one lock of the cloud, or hold it longer; False while another holder has it. It ends by itself."""
        ...

    async def unlock(self, holder: bytes) -> None:
        """Let go of the lock; nothing happens when another holder has it."""
        ...

    async def version(self) -> int:
        """The newest version; 0 when nothing was ever merged."""
        ...

    async def head(self) -> Head:
        """The newest version, whole."""
        ...

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        """Version, moment (Unix ms) and cloud of the newest versions, newest first; about a hundred are kept."""
        ...

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        """Which of these increments some version contains. They are kept for `KEEP_INCREMENTS_MS` at least."""
        ...

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        """By bucket, the marks that versions after this one brought; a bucket without any is absent. Kept for good."""
        ...

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        """Rows by the id of the tag (`graph.schema.tag_id`)."""
        ...

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        """How often these members used these tags on these days; 0 is left out."""
        ...

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        """All members who used these tags on these days (pairs of tag and day), and how often; 0 is left out."""
        ...

    async def top(self, window: int, limit: int) -> list[TagRow]:
        """The tags with the most uses (`window` -1) or the greatest heat in a window, greatest first, ties by id.

        It may read every tag: it is asked when a ranking has run dry.
        """
        ...

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        """Rows with an id above `after` (ids of tags are negative), in order of id: for checks."""
        ...

    async def rules(self) -> dict[str, TagRule]:
        """All rules, by name."""
        ...

    async def write(self, merge: Merge) -> None:
        """Make a version durable, whole or not at all, also when this process dies half-way. Raises `Overtaken`."""
        ...

    async def put(self, id_: bytes, body: bytes) -> None:
        """Lay an increment into the inbox, durably; an id that lies there already is no change."""
        ...

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        """Id and body of increments that lie in the inbox, oldest first. A merge that contains one takes it out."""
        ...

    async def discard(self, increments: Collection[bytes]) -> None:
        """Take these out of the inbox."""
        ...

    async def waiting(self) -> int:
        """How many increments lie in the inbox."""
        ...

    async def close(self) -> None:
        """Finish what was begun, and let go of every resource."""
        ...


KEEP_INCREMENTS_MS = 30 * 86_400_000
KEEP_CLOUDS = 100


class Parcel(NamedTuple):
    """An increment as it arrived."""

    id: bytes
    body: bytes


class Transport(Protocol):
    """Carries increments from every emitter to every collector, each at least once.

    One suite (`tests/contracts/test_tag_transports.py`) runs on every transport.
    """

    async def send(self, id_: bytes, body: bytes) -> None:
        """Return when it is safe: no death of any process loses it from now on. Raises `Unavailable`."""
        ...

    def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        """For a collector: what has come, as it comes, perhaps again and again until it is done; an empty batch now and then."""
        ...

    def hurry(self) -> None:
        """Let arrivals give their next batch at once, empty or not: somebody waits for it in this process."""
        ...

    async def done(self, parcels: Sequence[Parcel]) -> None:
        """These are in a version, or will never be: they need not come again. Raises nothing: what is not told comes again."""
        ...

    async def waiting(self) -> int:
        """How many increments are on their way, or have come and are in no version yet; of the collector that has most."""
        ...

    async def close(self) -> None:
        """Let go of every resource."""
        ...


DAY_MS = 86_400_000
BUCKET_BITS = 19
"""Uses are remembered by the 8.7 minutes (2**19 ms) in which they happened, so that a repeat is looked for in one place."""
_VERSION_BITS = 32


class TagChange(NamedTuple):
    """One tag of a post: its canonical name, as the author typed it, and +1 (it came) or -1 (it went)."""

    name: str
    form: str
    by: int


class Use(msgspec.Struct, frozen=True, array_like=True):
    """The change that one event made to the tags of one post."""

    post_id: int
    version: int
    """Version of the post after the change; at most one use of a post has it. 1 to 2**32 - 1."""
    author_id: int
    written: int
    """When the post was written (Unix ms): in which windows its tags count."""
    at: int
    """When the change was made (Unix ms)."""
    changes: tuple[TagChange, ...]

    @property
    def day(self) -> int:
        """The day on which the post was written, in days since 1970-01-01 UTC."""
        return self.written // DAY_MS

    @property
    def bucket(self) -> int:
        """Where the use is remembered."""
        return self.at >> BUCKET_BITS

    @property
    def mark(self) -> int:
        """Post and version in one number of 96 bits."""
        return self.post_id << _VERSION_BITS | self.version


class Increment(msgspec.Struct, frozen=True, array_like=True):
    """Uses that one emitter sends together, under an id of its own (16 bytes)."""

    id: bytes
    emitter: bytes
    through: int
    """Whatever the emitter was given before this moment (Unix ms) is in this or an earlier increment."""
    uses: tuple[Use, ...]

    @property
    def changes(self) -> int:
        """How many tags came or went."""
        return sum(len(use.changes) for use in self.uses)


_MARK_BYTES = 12
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Increment] = msgspec.msgpack.Decoder(Increment)


def encode(increment: Increment) -> bytes:
    """An increment as bytes, for a transport."""
    return _encoder.encode(increment)


def decode(data: bytes) -> Increment:
    """An increment from its bytes. Raises `msgspec.DecodeError`, or `msgspec.ValidationError`, for what is none."""
    return _decoder.decode(data)


def pack_marks(marks: Iterable[int]) -> bytes:
    """Marks of uses as bytes, 12 each."""
    return b"".join(mark.to_bytes(_MARK_BYTES, "big") for mark in sorted(marks))


def unpack_marks(data: bytes) -> set[int]:
    """The marks that `pack_marks` was given."""
    return {int.from_bytes(data[at : at + _MARK_BYTES], "big") for at in range(0, len(data), _MARK_BYTES)}


Rest = tuple[tuple[Heat, Heat, Heat], dict[str, int], dict[int, Day]]

ORDER_COLUMNS = ("hour", "day", "week", "n")
"""By the windows of `heat`; the last one is that of window -1."""

_rest_decoder = msgspec.msgpack.Decoder(Rest)


def row_values(row: TagRow) -> tuple[int, str, int, float, float, float, bytes]:
    """Id, name, uses, the ranks of the three heats, and the rest."""
    hour, day, week = row.heats
    rest = _encoder.encode((row.heats, row.forms, row.days))
    return row.id, row.name, row.n, hour.rank, day.rank, week.rank, rest


def rows_of(found: Iterable[Any]) -> list[TagRow]:
    """Rows from their id, name, uses and rest."""
    return [TagRow(id_, name, n, *_rest_decoder.decode(rest)) for id_, name, n, rest in found]


class Parts:
    """The changes of a merge to each table, in the order of the table's key: neighbours share a page.

    And two writers that change the same rows do so in one order, so that they never wait for each other in a circle.
    """

    def __init__(self, merge: Merge) -> None:
        rows = sorted({row.id: row for row in merge.rows}.items())
        self.rows = [row_values(row) for _, row in rows if not row.blank]
        self.gone = [id_ for id_, row in rows if row.blank]
        recent = sorted(
            (day, tag, member, n) for (tag, day, member), n in merge.authors.items() if day >= merge.before_day
        )
        self.authors = [author for author in recent if author[3]]
        """Day, tag, member, and how often."""
        self.silent = [author[:3] for author in recent if not author[3]]
        rules = {rule.name: rule for rule in merge.rules}.values()
        self.rules = [rule for rule in rules if says_something(rule)]
        self.revoked = [rule.name for rule in rules if not says_something(rule)]
        self.increments = sorted(set(merge.increments))
        self.marks = sorted(merge.marks.items())


def says_something(rule: TagRule) -> bool:
    """Whether a rule is to be kept."""
    return rule.denied or bool(rule.target)
