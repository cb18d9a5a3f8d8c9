"""Cache coherence: when a process may use and store cached graph data.

Three guards implement `Guard`; in all three cached data is never older than the request:
- `SoleGuard`: one process owns the store and sees every change itself.
- `LogGuard`: one process writes, the others follow its change log in shared memory. The owner writes the entries, then the
  position, before it answers the commit. A reader at 70 that sees 71 invalidates what changed, then reads; if the position has
  moved to 72 meanwhile, it does not cache the result.
- `StampGuard`: several processes write. Each object has a version token in shared storage (`Stamps`). A writer marks it before
  the commit and renews it afterwards; a reader asks for the token before it uses cached data.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from shoal.core.errors import Unavailable
from shoal.graph.cache.lru import Recent
from shoal.graph.cache.responses import COMPARED, ChangeLog, list_mark


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

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        """These are about to change; gives what `end` wants. A mark ends by itself when its process died. Raises `Unavailable`.

        `reading`: the stamps from before are as `read` would have given them at the same moment.
        """
        ...

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        """They have changed, or may have: their stamps are gone. Never fails: what cannot be done now is done later.

        An object that nobody else was changing since `begin` has a new stamp at once, and is in the answer. Where nothing is
        `changed`, it has its stamp from before.
        """
        ...


class Verified(dict[int, bytes]):
    """The stamps that a request has asked for, and objects whose stamps it is to ask for with the next."""

    __slots__ = ("foreseen", "foreseen_change")

    def __init__(self) -> None:
        super().__init__()
        self.foreseen: set[int] = set()
        self.foreseen_change: ForeseenChange | None = None


class ForeseenChange:
    """A change that the request will most likely make: of these, and of an object and of whoever it belongs to.

    `marking` sets the mark, once a `guard` has begun to, and gives None where the stamps cannot be reached; then `give_up` takes
    it away.
    """

    __slots__ = ("give_up", "guard", "ids", "marking", "of")

    def __init__(self, ids: Sequence[int], of: int) -> None:
        self.ids: set[int] = set(ids)
        self.of = of
        self.guard: object = None
        self.give_up: Callable[[], None] | None = None
        self.marking: asyncio.Future[MarkedChange | None] | None = None


VERIFIED: ContextVar[Verified | None] = ContextVar("shoal_verified", default=None)


def foresee(*ids: int) -> None:
    """Have the stamps of these come along when the request asks for the next: it will ask for them too."""
    if (verified := VERIFIED.get()) is not None:
        verified.foreseen.update(ids)


@contextmanager
def foreseen_change(*ids: int, of: int = 0) -> Iterator[None]:
    """Within this block the request most likely changes these, the object `of` and whoever that belongs to, by one commit.

    Where the process remembers whose it is, all of them are marked together with the next question for stamps, which the mark
    answers as well: a round trip less. Where the change is not made, the stamps from before come back.
    """
    verified = VERIFIED.get()
    if verified is None or verified.foreseen_change is not None:
        yield
        return
    verified.foreseen_change = change = ForeseenChange(ids, of)
    try:
        yield
    finally:
        if verified.foreseen_change is change:
            verified.foreseen_change = None
            if change.give_up is not None:
                change.give_up()


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


class _Request:
    """A block of its own. A generator would cost three times as much, for each request."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = VERIFIED.set(Verified())

    def __exit__(self, *_failure: object) -> None:
        VERIFIED.reset(self._token)


_GOING_ON: AbstractContextManager[None] = nullcontext()


def one_request() -> AbstractContextManager[None]:
    """Within this block each stamp is asked for once: what was fresh after the request began is fresh enough for it."""
    return another_request() if VERIFIED.get() is None else _GOING_ON


def another_request() -> AbstractContextManager[None]:
    """As `one_request`, begun now also inside another: for what goes on long after that."""
    return _Request()


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


T = TypeVar("T")

_OWN = b"own"
"""Instead of a stamp: this process has made the object, and its stamp is on the way."""


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
    asks for 7 waits for s2, and asks again if it met the mark: by then it may be somebody else's.

    A request that is going to change 7, and asks for its stamp to see whether it may, marks 7 by the same question
    (`foreseen_change`): the answer is s1, and the mark is there.
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
        verified = VERIFIED.get()
        if verified is None:
            return _Ticket(await self._verify(list(ids)), self._changes)
        change = verified.foreseen_change
        if change is not None and change.marking is not None and not change.marking.done():
            # Another question of this request is marking, and may answer this one.
            await asyncio.wait((change.marking,))
        asked = [id_ for id_ in ids if id_ not in verified]
        if asked:
            if verified.foreseen:
                asked += [id_ for id_ in verified.foreseen.difference(asked) if id_ not in verified]
                verified.foreseen.clear()
            asked += [id_ for id_ in self._companions(asked) if id_ not in verified]
            if change is not None and change.guard is None and (marking := self._foreseen_mark(verified, change)):
                asked = [id_ for id_ in asked if id_ not in change.ids]
                if asked:
                    verified.update(await self._verify(asked))
                await asyncio.shield(marking)
            else:
                verified.update(await self._verify(asked))
        return _Ticket(verified, self._changes)

    def waits(self, ids: Sequence[int]) -> bool:
        """Return whether this request is still to ask for the stamp of any of these."""
        verified = VERIFIED.get()
        return verified is not None and any(id_ not in verified for id_ in ids)

    def has_seen(self, id_: int) -> bool:
        """Return whether this process knows a stamp of the object, be it the one that it has now or not."""
        return self._seen.get(id_) not in {None, _OWN}

    async def enter_beside(self, ids: Sequence[int], asking: Coroutine[Any, Any, T]) -> tuple[T, _Ticket]:
        """Put a question to something else while the stamps of these are asked for; its errors are raised.

        The ticket has those of the stamps which this process had seen before the question was put: they have been the same
        all the time since, so they hold for its answer.
        """
        seen = {id_: self._seen.get(id_) for id_ in ids if self.has_seen(id_)}
        changes = self._changes
        answer, ticket = await asyncio.gather(asking, self.enter(ids))
        same = {id_: stamp for id_, stamp in seen.items() if stamp and ticket.stamps.get(id_) == stamp}
        return answer, _Ticket(same, changes)

    def _foreseen_mark(self, verified: Verified, change: ForeseenChange) -> asyncio.Future[MarkedChange | None] | None:
        """Begin to mark what the request is going to change; None where it is not remembered what that is."""
        if change.of:
            whose = self._companions((change.of,))
            if len(whose) != 1:
                return None
            change.ids.update((change.of, *whose))
        change.guard, change.give_up = self, partial(self._give_up, change)
        change.marking = asyncio.ensure_future(self._mark_and_verify(verified, list(change.ids)))
        return change.marking

    async def _mark_and_verify(self, verified: Verified, ids: Sequence[int]) -> MarkedChange | None:
        if ends := {end for id_ in ids if (end := self._ending.get(id_))}:
            # Marked before an own change has ended, they would have no stamp.
            await asyncio.wait(ends)
        try:
            begun = await self._stamps.begin(ids, reading=True)
        except Unavailable:
            begun = None
        verified.update(self._known(ids, dict(begun.before) if begun is not None else {}))
        return begun

    def _give_up(self, change: ForeseenChange) -> None:
        ending = asyncio.ensure_future(self._end_unmade(change))
        self._ending.update(dict.fromkeys(change.ids, ending))

    async def _end_unmade(self, change: ForeseenChange) -> dict[int, Renewal]:
        ids = list(change.ids)
        begun = None
        if change.marking is not None:
            with contextlib.suppress(Exception):
                begun = await change.marking
        return await self._end(ids, begun, made=False)

    async def _verify(self, ids: Sequence[int]) -> dict[int, bytes]:
        try:
            reading = self._stamps.read(ids)
            stamps = await (self._read_beside_ends(ids, reading) if self._ending else reading)
        except Unavailable:
            # Nothing can be known: everything is read from the graph until it can.
            stamps = {}
        return self._known(ids, stamps)

    def _known(self, ids: Sequence[int], stamps: dict[int, bytes]) -> dict[int, bytes]:
        """Forget what is not remembered under these stamps, and return them."""
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
        verified = VERIFIED.get()
        if verified is None:
            return stamps.items() <= (await self._verify(list(stamps))).items()
        if asked := [id_ for id_ in stamps if id_ not in verified]:
            verified.update(await self._verify(asked))
        return stamps.items() <= verified.items()

    async def _read_beside_ends(
        self, ids: Sequence[int], reading: Coroutine[Any, Any, dict[int, bytes]]
    ) -> dict[int, bytes]:
        """Return the stamps that are read, also of what own changes that are ending at this moment still hid."""
        ends = {end for id_ in ids if (end := self._ending.get(id_))}
        read = asyncio.ensure_future(reading)
        await asyncio.gather(read, *ends)
        stamps = read.result()
        # Such an end may have come to the stamps long before it is known here, and somebody else's mark since.
        if hidden := {id_ for end in ends for id_ in end.result() if id_ not in stamps}.intersection(ids):
            stamps.update(await self._stamps.read(list(hidden)))
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
        marking = self._taken(changed) or asyncio.ensure_future(self._mark(changed))
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

    def _taken(self, changed: Sequence[int]) -> asyncio.Future[MarkedChange | None] | None:
        """Return the mark of the change that the request foresaw, if this is the one."""
        verified = VERIFIED.get()
        change = verified.foreseen_change if verified is not None else None
        if verified is None or change is None or change.guard is not self or change.ids != set(changed):
            return None
        marking = change.marking
        if marking is None or not marking.done() or marking.exception() is not None or marking.result() is None:
            # It is given up where it was foreseen, after this one.
            return None
        verified.foreseen_change = None
        return marking

    async def _mark(self, changed: Sequence[int]) -> MarkedChange | None:
        try:
            return await self._stamps.begin(changed)
        except Unavailable:
            # Others cannot ask for stamps either, so they remember nothing; the stamps go as soon as they can be reached.
            return None

    def _go_on(self, changed: Sequence[int], held: Sequence[bytes | None], before: Mapping[int, bytes]) -> set[int]:
        """Go on under the stamps from before an own change. Returns the objects that were remembered under these already.

        All of a new object, which had no stamp yet, is remembered under one of our own until it has one.
        """
        verified = VERIFIED.get()
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

    async def _end(
        self, changed: Sequence[int], begun: MarkedChange | None, *, made: bool = True
    ) -> dict[int, Renewal]:
        """Tell that a change has ended. What was remembered is kept under the new stamps, where nobody else had a part in it."""
        verified = VERIFIED.get()
        try:
            renewed = await self._stamps.end(changed, begun, changed=made)
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


_EPOCH = 1 << 40
"""How far the position jumps when a new owner begins, or when anything may have changed."""


class LogMemory(Protocol):
    """Where the log is."""

    words: memoryview
    log_marks: memoryview
    log_ids: memoryview


class SharedLog(ChangeLog):
    """The log as every process sees it. `at` is where its position stands."""

    def __init__(self, memory: LogMemory, at: int) -> None:
        super().__init__()
        self._memory, self._at = memory, at
        self._size = len(memory.log_marks)

    @property
    def position(self) -> int:
        """Return where the next change will stand."""
        return int(self._memory.words[self._at])

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """Return whether none of these is known to have changed since a position. It is false also where that is too long ago."""
        position = self.position
        if position == since:
            return True
        new = self._between(self._memory.log_marks, since, position, COMPARED)
        return new is not None and frozenset(marks).isdisjoint(new)

    def _between(self, ring: memoryview, first: int, end: int, most: int) -> list[int] | None:
        """Return the entries of a part of the log; None where they are too many, or gone."""
        if not 0 <= end - first <= most:
            return None
        start, stop = first % self._size, end % self._size
        found = ring[start:stop].tolist() if start <= stop else ring[start:].tolist() + ring[:stop].tolist()
        # The owner may have come round meanwhile.
        return found if self.position - first < self._size else None


class OwnersLog(SharedLog):
    """The log as the owner of the store writes it, for itself and for its readers."""

    def __init__(self, memory: LogMemory, at: int, barrier: Callable[[], None]) -> None:
        super().__init__(memory, at)
        self._barrier = barrier
        self.forget_all()

    def note(self, objects: Iterable[int], lists: Collection[tuple[int, int]]) -> None:
        """Objects have changed, or may have, and lists, each by its object and type."""
        ids = list(objects)
        marks = [*ids, *(list_mark(id1, atype) for id1, atype in lists)]
        ids += [id1 for id1, _ in lists]
        if len(ids) > self._size // 2:
            self.forget_all()
            return
        log_marks, log_ids, size = self._memory.log_marks, self._memory.log_ids, self._size
        position = self.position
        for at, mark, id_ in zip(range(position, position + len(ids)), marks, ids, strict=True):
            log_marks[at % size], log_ids[at % size] = mark, id_
        self._barrier()
        self._memory.words[self._at] = position + len(ids)

    def forget_all(self) -> None:
        """Anything may have changed."""
        self._memory.words[self._at] = (self.position // _EPOCH + 1) * _EPOCH


class FollowedLog(SharedLog):
    """The log as a reader sees it. `alive` says whether the owner is known to write it."""

    def __init__(self, memory: LogMemory, at: int, alive: Callable[[], bool]) -> None:
        super().__init__(memory, at)
        self._alive = alive
        self._seen = 0

    @property
    def alive(self) -> bool:
        """Whether the owner is known to write the log."""
        return self._alive()

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """As in any log; without its owner nothing is known."""
        return self.alive and super().unchanged(marks, since)

    def newly_changed(self) -> list[int] | None:
        """Return the objects that have changed, or whose lists have, since this was asked last; None where it may be any."""
        position, seen = self.position, self._seen
        if position == seen:
            return []
        self._seen = position
        return self._between(self._memory.log_ids, seen, position, self._size // 2)


class LogGuard:
    """For a process that reads beside the owner. `forget` is told of every object that has changed, `clear` where it may be any."""

    def __init__(self, log: FollowedLog, forget: Callable[[int], None], clear: Callable[[], None]) -> None:
        self._log = log
        self._forget = forget
        self._clear = clear

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # of all ids it is true
        changed = self._log.newly_changed() if self._log.alive else None
        if changed is None:
            self._clear()
        else:
            for id_ in changed:
                self._forget(id_)
        return self._log.position

    def keeps(self, ticket: int, id_: int) -> bool:  # noqa: ARG002
        return ticket == self._log.position and self._log.alive

    def change(self, ids: Collection[int], settle: Settle) -> AbstractAsyncContextManager[Any]:  # noqa: ARG002
        raise Unavailable("this process only reads the store")

    async def close(self) -> None:
        """Nothing is under way."""
