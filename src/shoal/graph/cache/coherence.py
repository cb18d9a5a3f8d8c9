"""Cache coherence: when a process may use and store cached graph data.

Three guards implement `Guard`; with each of them, cached data is never older than the request:

- `SoleGuard`: one process owns the store and makes every change itself.
- `LogGuard`: one process writes, and the others follow its change log in shared memory. The owner writes the entries, then the
  position, before it acknowledges the commit. A reader process at position 70 that sees 71 invalidates what changed, then reads;
  if the position is 72 afterwards, it does not cache the result.
- `VersionTokenGuard`: several processes write. Each object has a version token in shared storage (`VersionTokens`). Before the
  commit, the writer replaces the token by a *change mark*, which says that the object is being changed; afterwards it sets a new
  token. A reader asks for the token before it uses cached data.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
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
    """The version tokens of an object before and after a change that no other process interfered with.

    `before` is empty if the object had no token.
    """

    before: bytes
    after: bytes


class MarkedChange(Protocol):
    """A change in progress, whose objects have change marks in the shared storage of version tokens."""

    @property
    def before(self) -> Mapping[int, bytes]:
        """The tokens that the objects had before the change.

        The token is empty for an object that had none. Objects that another process was changing are omitted.
        """
        ...


class VersionTokens(Protocol):
    """Shared version tokens, one for each object, replaced whenever the object may have changed."""

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the tokens of these objects; an object without a token gets one. Raises `Unavailable`.

        Objects that are being changed are missing from the result.
        """
        ...

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        """Set change marks on objects that are about to change. Raises `Unavailable`.

        The change marks of a process expire some time after it died. With `reading`, the tokens from before the change
        (`MarkedChange.before`) are the result that `read` would have returned at that moment.
        """
        ...

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        """Replace the change marks of objects by new tokens. Never fails: a failed call is retried in the background.

        If `changed` is false, the previous tokens are restored. `begun` is None if `begin` failed. Returns the old and new tokens
        of the objects that no other process was changing at the same time. Cached data of the other objects is invalid.
        """
        ...


class _UnsharedChange(NamedTuple):
    before: Mapping[int, bytes] = {}


class UnsharedTokens:
    """Version tokens for several processes without shared storage: each query returns new tokens.

    So a request uses only data that it has cached itself.
    """

    def __init__(self) -> None:
        self._queries = itertools.count(1)

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        return dict.fromkeys(ids, next(self._queries).to_bytes(8, "little"))

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> _UnsharedChange:
        return _UnsharedChange(await self.read(ids) if reading else {})

    async def end(
        self,
        ids: Sequence[int],  # noqa: ARG002
        begun: MarkedChange | None,  # noqa: ARG002
        *,
        changed: bool = True,  # noqa: ARG002
    ) -> dict[int, Renewal]:
        return {}


class _RequestTokens(dict[int, bytes]):
    """The version tokens that a request has read. Its next query also reads the tokens of the objects in `foreseen`."""

    __slots__ = ("foreseen", "foreseen_change")

    def __init__(self) -> None:
        super().__init__()
        self.foreseen: set[int] = set()
        self.foreseen_change: _ForeseenChange | None = None


@dataclass(slots=True, eq=False)
class _ForeseenChange:
    """A likely change, by this request, of the objects `ids`, of the object `of`, and of the owner of `of`.

    Once a `guard` has begun to set change marks on these objects, `marking` is the future of the change marks (its result is None
    if the tokens are unavailable), and `give_up` removes them.
    """

    ids: set[int]
    of: int
    guard: object = None
    give_up: Callable[[], None] | None = None
    marking: asyncio.Future[MarkedChange | None] | None = None


_VERIFIED: ContextVar[_RequestTokens | None] = ContextVar("shoal_verified", default=None)


def foresee(*ids: int) -> None:
    """Let the request's next query for version tokens include the tokens of these objects, which it will need later."""
    if (verified := _VERIFIED.get()) is not None:
        verified.foreseen.update(ids)


@contextmanager
def foreseen_change(*ids: int, of: int = 0) -> Iterator[None]:
    """Declare that the `with` block will most likely change the objects `ids`, the object `of` and the owner of `of` in one commit.

    If the owner is cached, the request's next query for version tokens also sets change marks on all these objects, which saves
    a round trip. If the block does not make the change, the previous tokens are restored.
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
"""A callback that invalidates what a commit changed.

Its argument is the objects that no other commit was changing concurrently. For these objects the values of this commit are current,
and other cached data is valid.
"""


class Guard(Protocol):
    """Decides whether cached data may be used and whether data may be cached, and invalidates data around changes."""

    async def enter(self, ids: Collection[int]) -> Any:
        """Invalidate outdated data of these objects, so that the remaining data may be used. Returns a ticket for `keeps`."""
        ...

    def keeps(self, ticket: Any, id_: int) -> bool:
        """Return whether data of this object may be cached, if it was read from the store after `enter` returned the ticket."""
        ...

    def change(self, ids: Collection[int], settle: Settle) -> AbstractAsyncContextManager[Awaitable[object] | None]:
        """Return a context manager for a block that commits changes to these objects, and call `settle` at its end.

        If the value of the context is an awaitable, the block must await it before it stores anything.
        """
        ...

    async def close(self) -> None:
        """Wait for the background tasks that give the objects of committed changes new tokens."""
        ...


class _Request:
    # This context manager is a class, because a generator would cost three times as much for each request.

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _VERIFIED.set(_RequestTokens())

    def __exit__(self, *_failure: object) -> None:
        _VERIFIED.reset(self._token)


_SAME_REQUEST: AbstractContextManager[None] = nullcontext()


def one_request() -> AbstractContextManager[None]:
    """Return a context manager whose block reads each version token at most once.

    Within a request this is correct, because data that was current after the request began is current enough.
    """
    return another_request() if _VERIFIED.get() is None else _SAME_REQUEST


def another_request() -> AbstractContextManager[None]:
    """Return a context manager whose block counts as a new request, for work that continues long after the current one."""
    return _Request()


class SoleGuard:
    """Decides what a process that makes every change itself may cache.

    The ticket that `enter` returns is the number of commits so far.
    """

    def __init__(self) -> None:
        self._commits = 0
        # Number of commits in progress by object. Data read during a commit is not cached, because it may be the state before
        # the commit.
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
        """Exclude the results of all reads and commits in progress from the cache."""
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
    # This context manager is a class, because a generator would cost several times as much for each commit.

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
    """Decides when a reader process may use its cached objects, by the change log of the store's owner.

    The ticket that `enter` returns is a position in this log.

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
        raise Unavailable("this process cannot change the store: it only reads")

    async def close(self) -> None:
        pass


T = TypeVar("T")

_OWN = b"own"
"""Stands for the token of an object that this process has created, while its token is not known yet."""


class _Ticket(NamedTuple):
    """The version tokens that a request has read so far, and the number of changes this process had made when it read them."""

    versions: dict[int, bytes]
    changes: int


class VersionTokenGuard:
    """Decides when this process may use its cached objects, if several processes write to the store.

    `forget` is called to invalidate one object.

    Example: this process has cached member 7 under the token s1, and another process changes the member:

    1. The other process sets a change mark on 7. A query for tokens now omits 7, so this process invalidates it, reads it
       from the store, and caches nothing.
    2. The other process commits, and replaces the change mark by the token s2.
    3. The next request of this process finds s2, reads the new value from the store, and caches it under s2.

    A slow request that read s1 before the change mark was set may read the old value even after the commit. It caches this value
    only under s1, and only if no other request has read the token in between. The next request finds s2 instead of s1 and
    invalidates the value.

    The process that made the change knows the new value. If no other process changed 7 concurrently, everything else that it has
    cached under s1 is still valid, and is kept under s2.

    The request that made the change does not wait until s2 is set: no other request uses cached data of 7 while the change mark is
    set. It continues with the data cached under s1, which was current after the request began, and its own changes. Another request
    of this process that needs the token of 7 waits for s2. If its query found a change mark, it reads the token again, because
    another process may have set that mark.

    A request that is about to change 7 first reads its token, to check whether the change is allowed. The same query also sets the
    change mark (`foreseen_change`), and returns s1.
    """

    def __init__(
        self,
        versions: VersionTokens,
        size: int,
        forget: Callable[[int], None],
        prefetch_hints: Callable[[Sequence[int]], Collection[int]],
    ) -> None:
        self._versions = versions
        self.shared = not isinstance(versions, UnsharedTokens)
        """Whether data that one request has cached may be used by another one."""
        self._forget = forget
        # Function that returns the objects that a request usually reads next; their tokens are read along with the others.
        self._prefetch_hints = prefetch_hints
        # The token under which each object is cached.
        self._seen: Recent[int, bytes] = Recent(size)
        # Number of changes by this process, and for each object the number of its last change.
        self._changes = 0
        self._changed: Recent[int, int] = Recent(size)
        # For each object, the task that writes its new token after a commit.
        self._ending: dict[int, asyncio.Task[dict[int, Renewal]]] = {}

    async def enter(self, ids: Collection[int]) -> _Ticket:
        verified = _VERIFIED.get()
        if verified is None:
            return _Ticket(await self._verify(list(ids)), self._changes)
        change = verified.foreseen_change
        if change is not None and change.marking is not None and not change.marking.done():
            # Another query of this request is setting change marks, and its result may include the requested tokens. Wait for it.
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
        """Return whether this request has yet to read the token of any of these objects."""
        verified = _VERIFIED.get()
        return verified is not None and any(id_ not in verified for id_ in ids)

    def has_seen(self, id_: int) -> bool:
        """Return whether this process knows a token of the object, current or not. Always false with `UnsharedTokens`."""
        return self.shared and self._seen.get(id_) not in {None, _OWN}

    async def enter_with(self, ids: Sequence[int], query: Awaitable[T]) -> tuple[T, _Ticket]:
        """Run a query while the tokens of these objects are read, and return its result with a ticket.

        Raises the errors of the query. The ticket has only the tokens that this process knew before the query and that are still
        current. Such a token was valid during the whole query, so its result may be cached under the token.
        """
        seen = {id_: self._seen.get(id_) for id_ in ids if self.has_seen(id_)}
        changes = self._changes
        answer, ticket = await asyncio.gather(query, self.enter(ids))
        same = {id_: version for id_, version in seen.items() if version and ticket.versions.get(id_) == version}
        return answer, _Ticket(same, changes)

    def _mark_in_advance(
        self, verified: _RequestTokens, change: _ForeseenChange
    ) -> asyncio.Future[MarkedChange | None] | None:
        """Start to set change marks on the objects of a likely change.

        Returns None if the owner of the object `change.of` is not cached.
        """
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
            # Wait for previous changes of these objects by this process: an object with a change mark has no token to read.
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
            # The tokens are unavailable, so no cached data can be verified: read everything from the store until they are
            # available again.
            versions = {}
        return self._accept(ids, versions)

    def _accept(self, ids: Sequence[int], versions: dict[int, bytes]) -> dict[int, bytes]:
        """Invalidate the cached data of objects whose token is missing or differs from the last known one; return the tokens."""
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
        """Return whether the objects had these tokens at some moment since the request began."""
        verified = _VERIFIED.get()
        if verified is None:
            return versions.items() <= (await self._verify(list(versions))).items()
        if asked := [id_ for id_ in versions if id_ not in verified]:
            verified.update(await self._verify(asked))
        return versions.items() <= verified.items()

    async def _read_with_own_changes(
        self, ids: Sequence[int], reading: Coroutine[Any, Any, dict[int, bytes]]
    ) -> dict[int, bytes]:
        """Return the tokens that `reading` reads, after waiting for this process's changes of these objects to end."""
        ends = {end for id_ in ids if (end := self._ending.get(id_))}
        read = asyncio.ensure_future(reading)
        await asyncio.gather(read, *ends)
        versions = read.result()
        # If a token is missing, read it again instead of using the new token from this process's own change: another process may
        # have set a change mark after that change, before this process received the response.
        if hidden := {id_ for end in ends for id_ in end.result() if id_ not in versions}.intersection(ids):
            versions.update(await self._versions.read(list(hidden)))
        return versions

    def keeps(self, ticket: _Ticket, id_: int) -> bool:
        # Do not cache if another request has found a newer token, or if this process has changed the object after the ticket was
        # issued.
        version = ticket.versions.get(id_)
        return (
            version is not None and self._seen.get(id_) == version and (self._changed.get(id_) or 0) <= ticket.changes
        )

    @asynccontextmanager
    async def change(self, ids: Collection[int], settle: Settle) -> AsyncIterator[Awaitable[object]]:
        changed = list(ids)
        # The tokens under which this process had cached data of these objects before the change.
        known = [self._seen.get(id_) for id_ in changed]
        marking = self._advance_mark(changed) or asyncio.ensure_future(self._mark(changed))
        try:
            yield marking
        finally:
            (marked,) = await asyncio.gather(marking, return_exceptions=True)
            begun = None if isinstance(marked, BaseException) else marked
            settle(self._keep_valid(changed, known, begun.before if begun is not None else {}))
            ending = asyncio.ensure_future(self._end(changed, begun))
            self._ending.update(dict.fromkeys(changed, ending))
            if begun is None:
                # The change marks could not be set, so other processes may still use outdated cached data. Wait until the tokens
                # are replaced.
                await ending

    def _advance_mark(self, changed: Sequence[int]) -> asyncio.Future[MarkedChange | None] | None:
        """Return the change marks that the request set in advance; None if they are not on exactly the `changed` objects."""
        verified = _VERIFIED.get()
        change = verified.foreseen_change if verified is not None else None
        if verified is None or change is None or change.guard is not self or change.ids != set(changed):
            return None
        marking = change.marking
        if marking is None or not marking.done() or marking.exception() is not None or marking.result() is None:
            # These change marks cannot be used. `foreseen_change` removes them at the end of its block.
            return None
        verified.foreseen_change = None
        return marking

    async def _mark(self, changed: Sequence[int]) -> MarkedChange | None:
        try:
            return await self._versions.begin(changed)
        except Unavailable:
            # While tokens are unavailable, other processes cache nothing. `end` replaces the tokens once they are available.
            return None

    def _keep_valid(
        self, changed: Sequence[int], known: Sequence[bytes | None], before: Mapping[int, bytes]
    ) -> set[int]:
        """Keep data that was cached under the tokens from before this process's change; return the objects with such data.

        A new object, which has no token yet, is cached under `_OWN` until it has one.
        """
        verified = _VERIFIED.get()
        self._changes += 1
        exclusive: set[int] = set()
        for id_, token in zip(changed, known, strict=True):
            self._changed.put(id_, self._changes)
            version = before.get(id_)
            seen = self._seen.get(id_)
            if version and version == seen:
                # `token` is the version token that was known before this change, and `version` the one that was valid when the
                # change marks were set. If they differ, data cached under `token` may be older than `version` and is invalidated.
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
        """Give the objects new tokens after a change, and keep data that is still valid under the new tokens."""
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
