"""The guard of a process among several that share stores: it asks for the stamp of an object before it uses what it remembers.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from shoal.core.errors import Unavailable
from shoal.graph.cache.freshness import VERIFIED, ForeseenChange, Settle, Verified
from shoal.graph.cache.recent import Recent
from shoal.graph.cache.stamps import MarkedChange, Renewal, Stamps

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
