"""The contracts of a store of the tag cloud, and of the transport that carries increments to the collectors.

The cloud is derived from the graph: it may be dropped at any time, and is counted again. It has *versions*: a merge reads what it
touches, and writes all that it changes with the next version in one step, if nobody else has written that version meanwhile.
One suite (`tests/contracts/test_tag_stores.py`) runs on every store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

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
