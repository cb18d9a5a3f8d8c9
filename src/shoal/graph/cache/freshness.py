"""When a process may use what it remembers of a graph, and when it may remember what it has read.

One process that owns its store knows of every change itself (`sole.SoleGuard`). Where several write to the same stores, each object
has a *stamp* in a place that all of them see: whoever changes it marks it before the commit and renews the stamp after
it, and whoever remembers it asks for the stamp first (`stamped.StampGuard`). What is remembered is then never older than the
request.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol

from shoal.graph.cache.stamps import MarkedChange


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
