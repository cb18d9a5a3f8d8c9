"""Dependency tracking: everything that a response was computed from, recorded while it is computed.

`CachedGraph` records the objects, lists and counts that it returns, as marks and version tokens. Code that reads anything else
calls one of the functions below. `shoal.response_cache` keeps a response as long as its dependencies are unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar

from shoal.graph.cache.change_log import list_marks
from shoal.graph.schema import AssocType

T = TypeVar("T")
P = ParamSpec("P")

_FOREVER = 1 << 62


class Dependence(NamedTuple):
    """A dependency of a response: a query to a source outside the graph, and its result."""

    ask: Callable[[], Awaitable[Any]]
    answer: Any


class ReadSet:
    """The dependencies of a response."""

    __slots__ = ("checks", "marks", "until", "versions", "whole")

    def __init__(self) -> None:
        self.marks: set[int] = set()
        self.versions: dict[int, bytes] = {}
        """Where several processes write: the version token that each object had before any of its data was read."""
        self.checks: list[Dependence] = []
        self.until = _FOREVER
        """When the response expires, in Unix milliseconds."""
        self.whole = True
        """Whether all dependencies are known. If not, the response is not cached."""

    def note_objects(self, ids: Iterable[int]) -> None:
        self.marks.update(ids)

    def note_lists(self, id1s: Iterable[int], atypes: Iterable[AssocType]) -> None:
        self.marks.update(list_marks(id1s, atypes))

    def note_versions(self, ids: Iterable[int], versions: Mapping[int, bytes]) -> None:
        """Record that the response depends on objects or their lists as of these version tokens.

        The response is not cached if one of the objects has no token, because it is being changed.
        """
        for id_ in ids:
            version = versions.get(id_)
            if version is None or self.versions.setdefault(id_, version) != version:
                self.whole = False


_READ: ContextVar[ReadSet | None] = ContextVar("shoal_read_set", default=None)

current_read_set = _READ.get
"""Returns the read set of the response in progress; None if the response will not be cached."""


@contextmanager
def track_dependencies() -> Iterator[ReadSet]:
    """Return a context manager that records what the code of its block, and of tasks started in it, reads from the graph."""
    read = ReadSet()
    token = _READ.set(read)
    try:
        yield read
    finally:
        _READ.reset(token)


def good_until(moment: int, now: int) -> None:
    """Let the response in progress expire at `moment`; ignored if that is past. Both arguments are in Unix milliseconds."""
    if moment > now and (read := _READ.get()) is not None:
        read.until = min(read.until, moment)


def depends_on(ask: Callable[[], Awaitable[Any]], answer: Any) -> None:
    """Let the response in progress be cached only as long as `ask` returns `answer`."""
    if (read := _READ.get()) is not None:
        read.checks.append(Dependence(ask, answer))


async def compared(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a query outside the graph, and let the response be cached only while the result stays equal.

    The query runs again whenever the cached response is looked up, so it should be cheap and its result must not change with every
    tick of the clock. Reads of the query itself are not recorded. Errors of the query are raised.
    """
    read = _READ.get()
    if read is None:
        return await ask()
    token = _READ.set(None)
    try:
        answer = await ask()
    except BaseException:
        # Do not cache the response: if the caller handles this error, the response lacks the result of the query.
        read.whole = False
        raise
    finally:
        _READ.reset(token)
    read.checks.append(Dependence(ask, answer))
    return answer


def do_not_cache() -> None:
    """Do not cache the response in progress: it depends on something that cannot be tracked."""
    if (read := _READ.get()) is not None:
        read.whole = False


def untracked(ask: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a query so that responses computed from its results are not cached."""

    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        do_not_cache()
        return await ask(*args, **kwargs)

    return asked
