"""When a process may use what it remembers of a graph, and when it may remember what it has read.

One process that owns its store knows of every change itself (`SoleGuard`). Where several write to the same stores, each object
has a *stamp* in a place that all of them see: whoever changes it marks it before the commit and takes the stamp away after
it, and whoever remembers it asks for the stamp first (`StampGuard`). What is remembered is then never older than the request.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from shoal.core.errors import Unavailable
from shoal.graph.cache.recent import Recent

_log = logging.getLogger(__name__)

_VERIFIED: ContextVar[dict[int, bytes] | None] = ContextVar("shoal_verified", default=None)


class Stamps(Protocol):
    """One stamp an object, seen by every process: it is new whenever the object may have changed."""

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        """The stamps; an object without one is given one. Those that are being changed are left out. Raises `Unavailable`."""
        ...

    async def begin(self, ids: Sequence[int]) -> object:
        """These are about to change; gives what `end` wants. A mark ends by itself when its process died. Raises `Unavailable`."""
        ...

    async def end(self, ids: Sequence[int], begun: object) -> None:
        """They have changed, or may have: their stamps are gone. Never fails: what cannot be done now is done later."""
        ...


class Guard(Protocol):
    """Asked by a memory before it answers, before it remembers, and around what it changes."""

    async def enter(self, ids: Collection[int]) -> Any:
        """From now on what is remembered of these may be used; gives a ticket for `keeps`."""
        ...

    def keeps(self, ticket: Any, id_: int) -> bool:
        """Whether what was read since `enter` may be remembered."""
        ...

    def change(self, ids: Collection[int]) -> AbstractAsyncContextManager[None]:
        """Around a commit that may change these."""
        ...


class SoleGuard:
    """For a process that makes every change itself."""

    def __init__(self) -> None:
        self._commits = 0
        # What is read of an object while a commit changes it may be older than an event that is out already: so many do.
        self._changing: dict[int, int] = {}

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # of all ids it is true
        return self._commits

    def keeps(self, ticket: int, id_: int) -> bool:
        return ticket == self._commits and id_ not in self._changing

    def change(self, ids: Collection[int]) -> _Change:
        return _Change(self, ids)

    def renew(self) -> None:
        """Have nothing remembered that is being read at this moment."""
        self._commits += 1

    def begin(self, ids: Collection[int]) -> None:
        """A commit that may change these begins."""
        for id_ in ids:
            self._changing[id_] = self._changing.get(id_, 0) + 1

    def end(self, ids: Collection[int]) -> None:
        """It is done, or has failed."""
        self._commits += 1
        for id_ in ids:
            others = self._changing.pop(id_) - 1
            if others:
                self._changing[id_] = others


class _Change:
    """One commit of a process that makes every change itself. A generator would cost several times as much, for each post."""

    __slots__ = ("_guard", "_ids")

    def __init__(self, guard: SoleGuard, ids: Collection[int]) -> None:
        self._guard = guard
        self._ids = ids

    async def __aenter__(self) -> None:
        self._guard.begin(self._ids)

    async def __aexit__(self, *_failure: object) -> None:
        self._guard.end(self._ids)


class StampGuard:
    """For one process among several. `forget` is told of every object whose memory is worth nothing any more.

    For example, this process remembers member 7 under the stamp s1, and another process changes the member:

    1. It marks 7. Asked now, the stamps leave 7 out: we forget it, read it from the graph, and remember nothing.
    2. It commits, and takes s1 away.
    3. Our next request is given a new stamp, s2, reads the new value from the graph, and remembers it under s2.

    A slow request that verified s1 before the mark may get the old value after the commit. It is remembered under s1 at
    most, and only if no request has asked since: the next one meets s2, which is not s1, and forgets it.
    """

    def __init__(self, stamps: Stamps, size: int) -> None:
        self._stamps = stamps
        # Under which stamp each object is remembered.
        self._seen: Recent[int, bytes] = Recent(size)
        self.forget: Callable[[int], None] = _nothing

    async def enter(self, ids: Collection[int]) -> dict[int, bytes]:
        verified = _VERIFIED.get()
        if verified is None:
            verified = {}
        asked = [id_ for id_ in ids if id_ not in verified]
        if asked:
            verified.update(await self._verify(asked))
        return verified

    async def _verify(self, ids: Sequence[int]) -> dict[int, bytes]:
        try:
            stamps = await self._stamps.read(ids)
        except Unavailable:
            # Nothing can be known: everything is read from the graph until it can.
            stamps = {}
        for id_ in ids:
            stamp = stamps.get(id_)
            if stamp is None or self._seen.get(id_) != stamp:
                self.forget(id_)
                if stamp is None:
                    self._seen.forget(id_)
                else:
                    self._seen.put(id_, stamp)
        return stamps

    def keeps(self, ticket: dict[int, bytes], id_: int) -> bool:
        # Another request may have met a newer stamp meanwhile.
        stamp = ticket.get(id_)
        return stamp is not None and self._seen.get(id_) == stamp

    @asynccontextmanager
    async def change(self, ids: Collection[int]) -> AsyncIterator[None]:
        changed = list(ids)
        begun: object = None
        try:
            begun = await self._stamps.begin(changed)
        except Unavailable:
            # Others cannot ask for stamps either, so they remember nothing; the stamps go as soon as they can be reached.
            _log.warning("%d objects change without a mark: the stamps cannot be reached", len(changed))
        try:
            yield
        finally:
            await self._stamps.end(changed, begun)
            verified = _VERIFIED.get()
            for id_ in changed:
                self.forget(id_)
                self._seen.forget(id_)
                if verified is not None:
                    verified.pop(id_, None)


@contextmanager
def one_request() -> Iterator[None]:
    """Within this block each stamp is asked for once: what was fresh after the request began is fresh enough for it."""
    if _VERIFIED.get() is not None:
        yield
        return
    with another_request():
        yield


@contextmanager
def another_request() -> Iterator[None]:
    """As `one_request`, begun now also inside another: for what goes on long after that."""
    token = _VERIFIED.set({})
    try:
        yield
    finally:
        _VERIFIED.reset(token)


def _nothing(_id: int) -> None:
    """Nobody remembers."""
