"""When a process may use what it remembers of a graph, and when it may remember what it has read.

One process that owns its store knows of every change itself (`SoleGuard`). Where several write to the same stores, each object
has a *stamp* in a place that all of them see: whoever changes it marks it before the commit and renews the stamp after
it, and whoever remembers it asks for the stamp first (`StampGuard`). What is remembered is then never older than the request.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from shoal.core.errors import Unavailable
from shoal.graph.cache.recent import Recent

_log = logging.getLogger(__name__)

_OWN = b"own"
"""Instead of a stamp: this process has made the object, and its stamp is on the way."""


class _Verified(dict[int, bytes]):
    """The stamps that a request has asked for, and objects whose stamps it is to ask for with the next."""

    __slots__ = ("foreseen",)

    def __init__(self) -> None:
        super().__init__()
        self.foreseen: set[int] = set()


_VERIFIED: ContextVar[_Verified | None] = ContextVar("shoal_verified", default=None)


def foresee(*ids: int) -> None:
    """Have the stamps of these come along when the request asks for the next: it will ask for them too."""
    if (verified := _VERIFIED.get()) is not None:
        verified.foreseen.update(ids)


class Renewal(NamedTuple):
    """The stamps of an object before and after a change in which nobody else had a part. Without one before, it is empty."""

    before: bytes
    after: bytes


class MarkedChange(Protocol):
    """A change that is marked."""

    @property
    def before(self) -> Mapping[int, bytes]:
        """The stamps of what nobody else was changing when it began; empty where there was none."""
        ...


class Stamps(Protocol):
    """One stamp an object, seen by every process: it is new whenever the object may have changed."""

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        """The stamps; an object without one is given one. Those that are being changed are left out. Raises `Unavailable`."""
        ...

    async def begin(self, ids: Sequence[int]) -> MarkedChange:
        """These are about to change; gives what `end` wants. A mark ends by itself when its process died. Raises `Unavailable`."""
        ...

    async def end(self, ids: Sequence[int], begun: MarkedChange | None) -> dict[int, Renewal]:
        """They have changed, or may have: their stamps are gone. Never fails: what cannot be done now is done later.

        An object that nobody else was changing since `begin` has a new stamp at once, and is in the answer.
        """
        ...


Settle = Callable[[Collection[int]], None]
"""Drops from memory what a commit changes. It is told of what nobody else was changing when it began: that is as the commit
left it, for all that this process can know, and what is remembered of it was true until then."""


class Guard(Protocol):
    """Asked by a memory before it answers, before it remembers, and around what it changes."""

    async def enter(self, ids: Collection[int]) -> Any:
        """From now on what is remembered of these may be used; gives a ticket for `keeps`."""
        ...

    def keeps(self, ticket: Any, id_: int) -> bool:
        """Whether what was read since `enter` may be remembered."""
        ...

    def change(self, ids: Collection[int], settle: Settle) -> AbstractAsyncContextManager[Awaitable[object] | None]:
        """Around a commit that may change these. Nothing may be stored before what this gives is done, if it gives anything."""
        ...

    async def close(self) -> None:
        """Wait for what changes have left under way."""
        ...


class SoleGuard:
    """For a process that makes every change itself."""

    def __init__(self) -> None:
        self._commits = 0
        # What is read of an object while a commit changes it may be older than an event that is out already: so many do.
        self._changing: dict[int, int] = {}
        # What several have been changing since it was last at rest.
        self._mixed: set[int] = set()

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # of all ids it is true
        return self._commits

    def keeps(self, ticket: int, id_: int) -> bool:
        return ticket == self._commits and id_ not in self._changing

    def change(self, ids: Collection[int], settle: Settle) -> _Change:
        return _Change(self, ids, settle)

    async def close(self) -> None:
        pass

    def renew(self) -> None:
        """Have nothing remembered that is being read or changed at this moment."""
        self._commits += 1
        self._mixed.update(self._changing)

    def begin(self, ids: Collection[int]) -> None:
        """A commit that may change these begins."""
        for id_ in ids:
            others = self._changing.get(id_, 0)
            if others:
                self._mixed.add(id_)
            self._changing[id_] = others + 1

    def end(self, ids: Collection[int]) -> Collection[int]:
        """It is done, or has failed. Returns those of these that no other commit was changing meanwhile."""
        self._commits += 1
        mixed = self._mixed.intersection(ids) if self._mixed else ()
        for id_ in ids:
            others = self._changing.pop(id_) - 1
            if others:
                self._changing[id_] = others
            else:
                self._mixed.discard(id_)
        return ids if not mixed else [id_ for id_ in ids if id_ not in mixed]


class _Change:
    """One commit of a process that makes every change itself. A generator would cost several times as much, for each post."""

    __slots__ = ("_guard", "_ids", "_settle")

    def __init__(self, guard: SoleGuard, ids: Collection[int], settle: Settle) -> None:
        self._guard = guard
        self._ids = ids
        self._settle = settle

    async def __aenter__(self) -> None:
        self._guard.begin(self._ids)

    async def __aexit__(self, *_failure: object) -> None:
        self._settle(self._guard.end(self._ids))


class _Ticket(NamedTuple):
    """The stamps that a request has verified so far, and how many changes this process had made when it asked."""

    stamps: dict[int, bytes]
    changes: int


class StampGuard:
    """For one process among several. `forget` is told of every object whose memory is worth nothing any more.

    For example, this process remembers member 7 under the stamp s1, and another process changes the member:

    1. It marks 7. Asked now, the stamps leave 7 out: we forget it, read it from the graph, and remember nothing.
    2. It commits, and puts s2 in the place of s1.
    3. Our next request meets s2, reads the new value from the graph, and remembers it under s2.

    A slow request that verified s1 before the mark may get the old value after the commit. It is remembered under s1 at
    most, and only if no request has asked since: the next one meets s2, which is not s1, and forgets it.

    The process that made the change knows what it was. If nobody else changed 7 meanwhile, all else that it remembers under
    s1 is still true, and is remembered under s2 from then on.

    Nobody waits until s2 is there: as long as the mark is, no process uses what it remembers of 7. The request that made the
    change goes on under s1, which was fresh after it began, with what it changed itself. Another one of this process that
    asks for 7 waits for s2.
    """

    def __init__(
        self,
        stamps: Stamps,
        size: int,
        forget: Callable[[int], None],
        companions: Callable[[Sequence[int]], Collection[int]],
    ) -> None:
        self._stamps = stamps
        self._forget = forget
        # Objects that are likely to be asked for after some, by the same request: their stamps come along.
        self._companions = companions
        # Under which stamp each object is remembered.
        self._seen: Recent[int, bytes] = Recent(size)
        # How many changes this process has made, and which of them was the last of each object.
        self._changes = 0
        self._changed: Recent[int, int] = Recent(size)
        # Changes that are committed, and whose end is being told.
        self._ending: dict[int, asyncio.Task[dict[int, Renewal]]] = {}

    async def enter(self, ids: Collection[int]) -> _Ticket:
        verified = _VERIFIED.get()
        if verified is None:
            return _Ticket(await self._verify(list(ids)), self._changes)
        asked = [id_ for id_ in ids if id_ not in verified]
        if asked:
            if verified.foreseen:
                asked += [id_ for id_ in verified.foreseen.difference(asked) if id_ not in verified]
                verified.foreseen.clear()
            asked += [id_ for id_ in self._companions(asked) if id_ not in verified]
            verified.update(await self._verify(asked))
        return _Ticket(verified, self._changes)

    async def _verify(self, ids: Sequence[int]) -> dict[int, bytes]:
        try:
            reading = self._stamps.read(ids)
            stamps = await (self._read_beside_ends(ids, reading) if self._ending else reading)
        except Unavailable:
            # Nothing can be known: everything is read from the graph until it can.
            stamps = {}
        for id_ in ids:
            stamp = stamps.get(id_)
            if stamp is None or self._seen.get(id_) != stamp:
                self._forget(id_)
                if stamp is None:
                    self._seen.forget(id_)
                else:
                    self._seen.put(id_, stamp)
        return stamps

    async def are_still(self, stamps: Mapping[int, bytes]) -> bool:
        """Return whether these are the stamps of the objects now, or were at some moment since the request began."""
        verified = _VERIFIED.get()
        if verified is None:
            return stamps.items() <= (await self._verify(list(stamps))).items()
        if asked := [id_ for id_ in stamps if id_ not in verified]:
            verified.update(await self._verify(asked))
        return stamps.items() <= verified.items()

    async def _read_beside_ends(
        self, ids: Sequence[int], reading: Coroutine[Any, Any, dict[int, bytes]]
    ) -> dict[int, bytes]:
        """Return the stamps that are read, and those that own changes bring which are ending at this moment."""
        ends = {end for id_ in ids if (end := self._ending.get(id_))}
        read = asyncio.ensure_future(reading)
        await asyncio.gather(read, *ends)
        stamps = read.result()
        for renewed in [end.result() for end in ends]:
            stamps.update({id_: renewed[id_].after for id_ in ids if id_ in renewed and id_ not in stamps})
        return stamps

    def keeps(self, ticket: _Ticket, id_: int) -> bool:
        # Another request may have met a newer stamp meanwhile, or this one may have made a change beside what it reads.
        stamp = ticket.stamps.get(id_)
        return stamp is not None and self._seen.get(id_) == stamp and (self._changed.get(id_) or 0) <= ticket.changes

    @asynccontextmanager
    async def change(self, ids: Collection[int], settle: Settle) -> AsyncIterator[Awaitable[object]]:
        changed = list(ids)
        # Under which stamps all is remembered that the change leaves true.
        held = [self._seen.get(id_) for id_ in changed]
        marking = asyncio.ensure_future(self._mark(changed))
        try:
            yield marking
        finally:
            (marked,) = await asyncio.gather(marking, return_exceptions=True)
            begun = None if isinstance(marked, BaseException) else marked
            settle(self._go_on(changed, held, begun.before if begun is not None else {}))
            ending = asyncio.ensure_future(self._end(changed, begun))
            self._ending.update(dict.fromkeys(changed, ending))
            if begun is None:
                # Others may use what they remember until it is told.
                await ending

    async def _mark(self, changed: Sequence[int]) -> MarkedChange | None:
        try:
            return await self._stamps.begin(changed)
        except Unavailable:
            # Others cannot ask for stamps either, so they remember nothing; the stamps go as soon as they can be reached.
            _log.warning("%d objects change without a mark: the stamps cannot be reached", len(changed))
            return None

    def _go_on(self, changed: Sequence[int], held: Sequence[bytes | None], before: Mapping[int, bytes]) -> set[int]:
        """Go on under the stamps from before an own change. Returns the objects that were remembered under these already.

        All of a new object, which had no stamp yet, is remembered under one of our own until it has one.
        """
        verified = _VERIFIED.get()
        self._changes += 1
        alone: set[int] = set()
        for id_, under in zip(changed, held, strict=True):
            self._changed.put(id_, self._changes)
            stamp = before.get(id_)
            seen = self._seen.get(id_)
            if stamp and stamp == seen:
                # Otherwise it was seen only after the change began, and what we knew by then was of another.
                if under == stamp:
                    alone.add(id_)
            else:
                self._forget(id_)
                if stamp == b"" and under is None and seen is None:
                    alone.add(id_)
            if stamp is None:
                self._seen.forget(id_)
                if verified is not None:
                    verified.pop(id_, None)
                continue
            self._seen.put(id_, stamp or _OWN)
            if verified is not None:
                verified[id_] = stamp or _OWN
        return alone

    async def _end(self, changed: Sequence[int], begun: MarkedChange | None) -> dict[int, Renewal]:
        """Tell that a change has ended. What was remembered is kept under the new stamps, where nobody else had a part in it."""
        verified = _VERIFIED.get()
        try:
            renewed = await self._stamps.end(changed, begun)
        finally:
            this = asyncio.current_task()
            for id_ in changed:
                if self._ending.get(id_) is this:
                    del self._ending[id_]
        for id_ in changed:
            stamps = renewed.get(id_)
            seen = self._seen.get(id_)
            if stamps is None:
                self._forget(id_)
                self._seen.forget(id_)
                continue
            under = stamps.before or _OWN
            if seen not in {under, stamps.after}:
                self._forget(id_)
            self._seen.put(id_, stamps.after)
            if verified is not None and verified.get(id_) == under:
                verified[id_] = stamps.after
        return renewed

    async def close(self) -> None:
        while self._ending:
            await asyncio.gather(*set(self._ending.values()))


class _Request:
    """A block of its own. A generator would cost three times as much, for each request."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _VERIFIED.set(_Verified())

    def __exit__(self, *_failure: object) -> None:
        _VERIFIED.reset(self._token)


_GOING_ON: AbstractContextManager[None] = nullcontext()


def one_request() -> AbstractContextManager[None]:
    """Within this block each stamp is asked for once: what was fresh after the request began is fresh enough for it."""
    return another_request() if _VERIFIED.get() is None else _GOING_ON


def another_request() -> AbstractContextManager[None]:
    """As `one_request`, begun now also inside another: for what goes on long after that."""
    return _Request()
