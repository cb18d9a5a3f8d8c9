"""Cache coherence: when a process may use and store cached graph data.

Three guards implement `Guard`; with each of them, cached data is never older than the request:

- `SoleGuard`: one process owns the store and makes every change itself.
- `LogGuard`: one process writes, and the others follow its change log in shared memory. The owner writes the entries, then the
  position, before it acknowledges the commit. A reader at position 70 that sees 71 invalidates what changed, then reads; if the
  position is 72 afterwards, it does not cache the result.
- `VersionTokenGuard`: several processes write. Each object has a version token in shared storage (`VersionTokens`). A writer
  marks the token before the commit and replaces it afterwards; a reader asks for the token before it uses cached data.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from shoal.core.errors import Unavailable
from shoal.graph.cache.change_log import FollowedLog
from shoal.graph.cache.lru import Recent


class Renewal(NamedTuple):
    """The version tokens of an object before and after an exclusive change. `before` is empty if there was none."""

    before: bytes
    after: bytes


class MarkedChange(Protocol):
    """A change whose objects are marked."""

    @property
    def before(self) -> Mapping[int, bytes]:
        """The tokens of the objects that no other process was changing when it began; empty if an object had none."""
        ...


class VersionTokens(Protocol):
    """Shared version tokens, one for each object, replaced whenever the object may have changed."""

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the tokens; an object without one gets one. Objects that are being changed are absent. Raises `Unavailable`."""
        ...

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        """Mark objects that are about to change. A mark expires if its process dies. Raises `Unavailable`.

        With `reading`, the tokens from before are the result that `read` would have returned at that moment.
        """
        ...

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        """Invalidate the tokens of objects that have or may have changed. Never fails: it is retried in the background.

        Returns the objects that no other process was changing since `begin`: they have new tokens at once, or, without `changed`,
        the tokens from before.
        """
        ...


class _RequestTokens(dict[int, bytes]):
    """The tokens that a request has read, and the objects whose tokens it reads with the next query."""

    __slots__ = ("foreseen", "foreseen_change")

    def __init__(self) -> None:
        super().__init__()
        self.foreseen: set[int] = set()
        self.foreseen_change: _ForeseenChange | None = None


@dataclass(slots=True, eq=False)
class _ForeseenChange:
    """A change that the request will most likely make: of `ids`, the object `of` and its owner.

    Once a `guard` has begun to set the mark, `marking` is its result (None if the tokens are unavailable), and `give_up` removes
    it.
    """

    ids: set[int]
    of: int
    guard: object = None
    give_up: Callable[[], None] | None = None
    marking: asyncio.Future[MarkedChange | None] | None = None


_VERIFIED: ContextVar[_RequestTokens | None] = ContextVar("shoal_verified", default=None)


def foresee(*ids: int) -> None:
    """Read the version tokens of these objects with the request's next query for tokens: it will need them, too."""
    if (verified := _VERIFIED.get()) is not None:
        verified.foreseen.update(ids)


@contextmanager
def foreseen_change(*ids: int, of: int = 0) -> Iterator[None]:
    """Declare that the block will most likely change these objects, the object `of` and its owner, in one commit.

    If the owner is cached, all of them are marked by the request's next query for tokens, which saves a round trip. If the change
    is not made, the tokens from before are restored.
    """
    verified = _VERIFIED.get()
    if verified is None or verified.foreseen_change is not None:
        yield
        return
    verified.foreseen_change = change = _ForeseenChange(set(ids), of)
    try:
        yield
    finally:
        if verified.foreseen_change is change:
            verified.foreseen_change = None
            if change.give_up is not None:
                change.give_up()


Settle = Callable[[Collection[int]], None]
"""Invalidates what a commit changed. Its argument is the objects that no other commit was changing concurrently: this commit's
values of them are current, and other cached data of them is valid.
"""


class Guard(Protocol):
    """Decides about cached data before it is used, before it is stored, and around changes."""

    async def enter(self, ids: Collection[int]) -> Any:
        """Invalidate outdated data of these objects, so that the rest may be used. Returns a ticket for `keeps`."""
        ...

    def keeps(self, ticket: Any, id_: int) -> bool:
        """Return whether data read from the store since `enter` may be cached."""
        ...

    def change(self, ids: Collection[int], settle: Settle) -> AbstractAsyncContextManager[Awaitable[object] | None]:
        """Surround a commit that may change these objects. Await the value, if any, before anything is stored."""
        ...

    async def close(self) -> None:
        """Wait for the background work of changes."""
        ...


class _Request:
    # A class, because a generator would cost three times as much for each request.

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _VERIFIED.set(_RequestTokens())

    def __exit__(self, *_failure: object) -> None:
        _VERIFIED.reset(self._token)


_SAME_REQUEST: AbstractContextManager[None] = nullcontext()


def one_request() -> AbstractContextManager[None]:
    """Read each version token at most once in the block: data that was current after the request began is current enough."""
    return another_request() if _VERIFIED.get() is None else _SAME_REQUEST


def another_request() -> AbstractContextManager[None]:
    """Begin a new request even inside another one, for work that continues long after it."""
    return _Request()


class SoleGuard:
    """The guard of a process that makes every change itself. A ticket is the number of commits so far."""

    def __init__(self) -> None:
        self._commits = 0
        # Number of commits in progress by object: data read during a commit may predate an event that is published already.
        self._changing: dict[int, int] = {}
        # Objects that several overlapping commits are changing.
        self._mixed: set[int] = set()

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # invalidation is immediate
        return self._commits

    def keeps(self, ticket: int, id_: int) -> bool:
        return ticket == self._commits and id_ not in self._changing

    def change(self, ids: Collection[int], settle: Settle) -> _Change:
        return _Change(self, ids, settle)

    async def close(self) -> None:
        pass

    def renew(self) -> None:
        """Discard the results of all reads and commits in progress."""
        self._commits += 1
        self._mixed.update(self._changing)

    def begin(self, ids: Collection[int]) -> None:
        for id_ in ids:
            others = self._changing.get(id_, 0)
            if others:
                self._mixed.add(id_)
            self._changing[id_] = others + 1

    def end(self, ids: Collection[int]) -> Collection[int]:
        """End a commit, successful or not, and return the objects that no other commit was changing concurrently."""
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
    # A class, because a generator would cost several times as much for each commit.

    __slots__ = ("_guard", "_ids", "_settle")

    def __init__(self, guard: SoleGuard, ids: Collection[int], settle: Settle) -> None:
        self._guard = guard
        self._ids = ids
        self._settle = settle

    async def __aenter__(self) -> None:
        self._guard.begin(self._ids)

    async def __aexit__(self, *_failure: object) -> None:
        self._settle(self._guard.end(self._ids))


class LogGuard:
    """The guard of a process that reads alongside the owner. A ticket is a position in the owner's change log.

    `forget` invalidates one object, `clear` everything.
    """

    def __init__(self, log: FollowedLog, forget: Callable[[int], None], clear: Callable[[], None]) -> None:
        self._log = log
        self._forget = forget
        self._clear = clear

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # the log covers all objects
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
        pass


T = TypeVar("T")

_OWN = b"own"
"""In place of a token: this process has created the object, and its token is not known yet."""


class _Ticket(NamedTuple):
    """The tokens that a request has read so far, and the number of changes by this process at that moment."""

    versions: dict[int, bytes]
    changes: int


class VersionTokenGuard:
    """The guard of a process among several that write. `forget` invalidates one object.

    Example: this process has cached member 7 under the token s1, and another process changes the member:

    1. It marks 7. A query for tokens now omits 7, so this process invalidates it, reads it from the store, and caches nothing.
    2. It commits, and replaces the mark by the token s2.
    3. Our next request finds s2, reads the new value from the store, and caches it under s2.

    A slow request that read s1 before the mark may get the old value after the commit. It can only cache it under s1, and only if
    no request has read the token since: the next request finds s2 instead of s1 and invalidates it.

    The process that made the change knows the new value. If no other process changed 7 concurrently, everything else that it has
    cached under s1 is still valid, and is kept under s2.

    No request waits until s2 is set: while the mark is there, no process uses cached data of 7. The request that made the change
    continues under s1, which was current after it began, with the changed values. Another request of this process that reads
    the token of 7 waits for s2, and reads again if it found the mark, which may then belong to another process.

    A request that is about to change 7, and reads its token to check whether it may, marks 7 with that query
    (`foreseen_change`): the result is s1, and the mark is set.
    """

    def __init__(
        self,
        versions: VersionTokens,
        size: int,
        forget: Callable[[int], None],
        prefetch_hints: Callable[[Sequence[int]], Collection[int]],
    ) -> None:
        self._versions = versions
        self._forget = forget
        # Returns the objects that a request usually reads next; their tokens are read along with the others.
        self._prefetch_hints = prefetch_hints
        # The token under which each object is cached.
        self._seen: Recent[int, bytes] = Recent(size)
        # Number of changes by this process, and the number of the last one of each object.
        self._changes = 0
        self._changed: Recent[int, int] = Recent(size)
        # Committed changes whose new tokens are being written.
        self._ending: dict[int, asyncio.Task[dict[int, Renewal]]] = {}

    async def enter(self, ids: Collection[int]) -> _Ticket:
        verified = _VERIFIED.get()
        if verified is None:
            return _Ticket(await self._verify(list(ids)), self._changes)
        change = verified.foreseen_change
        if change is not None and change.marking is not None and not change.marking.done():
            # Another query of this request is setting the mark, and may read these tokens.
            await asyncio.wait((change.marking,))
        asked = [id_ for id_ in ids if id_ not in verified]
        if asked:
            if verified.foreseen:
                asked += [id_ for id_ in verified.foreseen.difference(asked) if id_ not in verified]
                verified.foreseen.clear()
            asked += [id_ for id_ in self._prefetch_hints(asked) if id_ not in verified]
            if change is not None and change.guard is None and (marking := self._mark_in_advance(verified, change)):
                asked = [id_ for id_ in asked if id_ not in change.ids]
                if asked:
                    verified.update(await self._verify(asked))
                await asyncio.shield(marking)
            else:
                verified.update(await self._verify(asked))
        return _Ticket(verified, self._changes)

    def waits(self, ids: Sequence[int]) -> bool:
        """Return whether this request has yet to read the token of any of these."""
        verified = _VERIFIED.get()
        return verified is not None and any(id_ not in verified for id_ in ids)

    def has_seen(self, id_: int) -> bool:
        """Return whether this process knows a token of the object, current or not."""
        return self._seen.get(id_) not in {None, _OWN}

    async def enter_with(self, ids: Sequence[int], query: Awaitable[T]) -> tuple[T, _Ticket]:
        """Run a query while the tokens of these are read; its errors are raised.

        The ticket has only the tokens that this process knew before the query: they were valid throughout, so they apply to its
        result.
        """
        seen = {id_: self._seen.get(id_) for id_ in ids if self.has_seen(id_)}
        changes = self._changes
        answer, ticket = await asyncio.gather(query, self.enter(ids))
        same = {id_: version for id_, version in seen.items() if version and ticket.versions.get(id_) == version}
        return answer, _Ticket(same, changes)

    def _mark_in_advance(
        self, verified: _RequestTokens, change: _ForeseenChange
    ) -> asyncio.Future[MarkedChange | None] | None:
        """Start marking what the request will change; None if the owner of the object is not cached."""
        if change.of:
            whose = self._prefetch_hints((change.of,))
            if len(whose) != 1:
                return None
            change.ids.update((change.of, *whose))
        change.guard, change.give_up = self, partial(self._start_restoring, change)
        change.marking = asyncio.ensure_future(self._mark_and_verify(verified, list(change.ids)))
        return change.marking

    async def _mark_and_verify(self, verified: _RequestTokens, ids: Sequence[int]) -> MarkedChange | None:
        if ends := {end for id_ in ids if (end := self._ending.get(id_))}:
            # Marked before our previous change has ended, they would have no token.
            await asyncio.wait(ends)
        try:
            begun = await self._versions.begin(ids, reading=True)
        except Unavailable:
            begun = None
        verified.update(self._accept(ids, dict(begun.before) if begun is not None else {}))
        return begun

    def _start_restoring(self, change: _ForeseenChange) -> None:
        ending = asyncio.ensure_future(self._restore(change))
        self._ending.update(dict.fromkeys(change.ids, ending))

    async def _restore(self, change: _ForeseenChange) -> dict[int, Renewal]:
        ids = list(change.ids)
        begun = None
        if change.marking is not None:
            with contextlib.suppress(Exception):
                begun = await change.marking
        return await self._end(ids, begun, made=False)

    async def _verify(self, ids: Sequence[int]) -> dict[int, bytes]:
        try:
            reading = self._versions.read(ids)
            versions = await (self._read_with_own_changes(ids, reading) if self._ending else reading)
        except Unavailable:
            # Read everything from the store until the tokens are available again.
            versions = {}
        return self._accept(ids, versions)

    def _accept(self, ids: Sequence[int], versions: dict[int, bytes]) -> dict[int, bytes]:
        """Invalidate data that is not cached under these tokens, and return them."""
        for id_ in ids:
            version = versions.get(id_)
            if version is None or self._seen.get(id_) != version:
                self._forget(id_)
                if version is None:
                    self._seen.forget(id_)
                else:
                    self._seen.put(id_, version)
        return versions

    async def are_still(self, versions: Mapping[int, bytes]) -> bool:
        """Return whether these are the objects' tokens now, or were at some moment since the request began."""
        verified = _VERIFIED.get()
        if verified is None:
            return versions.items() <= (await self._verify(list(versions))).items()
        if asked := [id_ for id_ in versions if id_ not in verified]:
            verified.update(await self._verify(asked))
        return versions.items() <= verified.items()

    async def _read_with_own_changes(
        self, ids: Sequence[int], reading: Coroutine[Any, Any, dict[int, bytes]]
    ) -> dict[int, bytes]:
        """Return the tokens, including tokens of objects whose changes by this process are just ending."""
        ends = {end for id_ in ids if (end := self._ending.get(id_))}
        read = asyncio.ensure_future(reading)
        await asyncio.gather(read, *ends)
        versions = read.result()
        # The change may have ended there long before we learn it, and another process may have set its mark since.
        if hidden := {id_ for end in ends for id_ in end.result() if id_ not in versions}.intersection(ids):
            versions.update(await self._versions.read(list(hidden)))
        return versions

    def keeps(self, ticket: _Ticket, id_: int) -> bool:
        # Another request may have found a newer token, or this one may have made a change during its read.
        version = ticket.versions.get(id_)
        return (
            version is not None and self._seen.get(id_) == version and (self._changed.get(id_) or 0) <= ticket.changes
        )

    @asynccontextmanager
    async def change(self, ids: Collection[int], settle: Settle) -> AsyncIterator[Awaitable[object]]:
        changed = list(ids)
        # The tokens under which unaffected data is cached.
        held = [self._seen.get(id_) for id_ in changed]
        marking = self._advance_mark(changed) or asyncio.ensure_future(self._mark(changed))
        try:
            yield marking
        finally:
            (marked,) = await asyncio.gather(marking, return_exceptions=True)
            begun = None if isinstance(marked, BaseException) else marked
            settle(self._keep_valid(changed, held, begun.before if begun is not None else {}))
            ending = asyncio.ensure_future(self._end(changed, begun))
            self._ending.update(dict.fromkeys(changed, ending))
            if begun is None:
                # Without a mark, other processes may use cached data until the tokens are replaced.
                await ending

    def _advance_mark(self, changed: Sequence[int]) -> asyncio.Future[MarkedChange | None] | None:
        """Return the mark that the request set in advance, if it is for this change."""
        verified = _VERIFIED.get()
        change = verified.foreseen_change if verified is not None else None
        if verified is None or change is None or change.guard is not self or change.ids != set(changed):
            return None
        marking = change.marking
        if marking is None or not marking.done() or marking.exception() is not None or marking.result() is None:
            # `foreseen_change` gives it up at the end of its block.
            return None
        verified.foreseen_change = None
        return marking

    async def _mark(self, changed: Sequence[int]) -> MarkedChange | None:
        try:
            return await self._versions.begin(changed)
        except Unavailable:
            # Other processes cannot read tokens either, so they cache nothing; `end` replaces the tokens once it can.
            return None

    def _keep_valid(
        self, changed: Sequence[int], held: Sequence[bytes | None], before: Mapping[int, bytes]
    ) -> set[int]:
        """Continue under the tokens from before our change. Returns the objects whose cached data was valid under these.

        A new object, which has no token yet, is cached under `_OWN` until it has one.
        """
        verified = _VERIFIED.get()
        self._changes += 1
        exclusive: set[int] = set()
        for id_, token in zip(changed, held, strict=True):
            self._changed.put(id_, self._changes)
            version = before.get(id_)
            seen = self._seen.get(id_)
            if version and version == seen:
                # Otherwise the token was found only after the change began, and older cached data belongs to another token.
                if token == version:
                    exclusive.add(id_)
            else:
                self._forget(id_)
                if version == b"" and token is None and seen is None:
                    exclusive.add(id_)
            if version is None:
                self._seen.forget(id_)
                if verified is not None:
                    verified.pop(id_, None)
                continue
            self._seen.put(id_, version or _OWN)
            if verified is not None:
                verified[id_] = version or _OWN
        return exclusive

    async def _end(
        self, changed: Sequence[int], begun: MarkedChange | None, *, made: bool = True
    ) -> dict[int, Renewal]:
        """Replace the tokens after a change, and keep valid cached data under the new ones."""
        verified = _VERIFIED.get()
        try:
            renewed = await self._versions.end(changed, begun, changed=made)
        finally:
            this = asyncio.current_task()
            for id_ in changed:
                if self._ending.get(id_) is this:
                    del self._ending[id_]
        for id_ in changed:
            versions = renewed.get(id_)
            seen = self._seen.get(id_)
            if versions is None:
                self._forget(id_)
                self._seen.forget(id_)
                continue
            token = versions.before or _OWN
            if seen not in {token, versions.after}:
                self._forget(id_)
            self._seen.put(id_, versions.after)
            if verified is not None and verified.get(id_) == token:
                verified[id_] = versions.after
        return renewed

    async def close(self) -> None:
        while self._ending:
            await asyncio.gather(*set(self._ending.values()))
