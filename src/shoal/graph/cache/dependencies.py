"""Everything that an answer was made of, and what has changed since.

While an answer is made, its *read set* notes each object, list and count that is asked for, and how long what depends on the
clock stays so. A commit adds what it touched to the log of changes. An answer is as good as new while the log has nothing of its
read set. What is no part of the graph (a timeline, the tag cloud, a ranking) is noted as a question with its answer, and asked
again.

Where several processes write to the same stores, nobody has a log of all changes. There the read set notes the stamp that each
object had before anything of it was read, and the answer is as good as new while all of them have the same stamps
(`coherence.StampGuard`).

For example, the log has 70 entries when a page with post 5 is made, which reads the object 5 and the list of its likes:

1. Somebody likes post 6: the log has 71 entries, none of them the page's. The page is good, now as of entry 71.
2. Somebody likes post 5, while the page is asked for. Until that commit is answered, both pages are right.
3. Its entry 72 is the list of likes of 5: whoever asks from then on has the page made anew.

Glossary (`docs/glossary.md`): stamp.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar

from shoal.core.ids import named
from shoal.graph.contract import Batch
from shoal.graph.schema import ASSOC_TYPES, USER_NAME, AssocType, Key

T = TypeVar("T")
P = ParamSpec("P")

FOREVER = 1 << 62
COMPARED = 4_096
"""Changes that are compared with a read set, at most: more of them cost as much as a new answer."""
_TYPE_BITS = 40


def list_mark(id1: int, atype: int) -> int:
    """Return the mark of a list and its length. Two may share one: then an answer is made anew without need."""
    return id1 ^ atype << _TYPE_BITS


def name_marks(keys: Iterable[Key]) -> list[int]:
    """Return the marks of the user names among these keys, each on its shard as an id is, so that it may have a stamp.

    Two names may share one. Other keys have none, for some of them end by the clock.
    """
    return [named(key.space, key.name) for key in keys if key.space == USER_NAME]


class Dependence(NamedTuple):
    """A question to something else than the graph, and its answer."""

    ask: Callable[[], Awaitable[Any]]
    answer: Any


class ReadSet:
    """Everything that one answer is made of, as it is made."""

    __slots__ = ("checks", "marks", "stamps", "until", "whole")

    def __init__(self) -> None:
        self.marks: set[int] = set()
        self.stamps: dict[int, bytes] = {}
        """The stamp that each object had before anything of it was read, where changes are told by stamps."""
        self.checks: list[Dependence] = []
        self.until = FOREVER
        """When the answer becomes another by itself, in Unix milliseconds."""
        self.whole = True
        """Whether nothing was asked that cannot be noted."""

    def note_objects(self, ids: Iterable[int]) -> None:
        """Objects are asked for."""
        self.marks.update(ids)

    def note_lists(self, id1s: Iterable[int], atypes: Iterable[AssocType]) -> None:
        """Lists, or how long they are, are asked for."""
        masks = [atype.number << _TYPE_BITS for atype in atypes]
        self.marks.update([id1 ^ mask for id1 in id1s for mask in masks])

    def note_stamps(self, ids: Iterable[int], stamps: Mapping[int, bytes]) -> None:
        """Objects, or lists of theirs, are asked for. An answer made of one that is being changed is not to be remembered."""
        for id_ in ids:
            stamp = stamps.get(id_)
            if stamp is None or self.stamps.setdefault(id_, stamp) != stamp:
                self.whole = False


_READ: ContextVar[ReadSet | None] = ContextVar("shoal_read_set", default=None)

being_made = _READ.get
"""Return the read set of the answer that is being made; None where nobody will remember it."""


@contextmanager
def reading() -> Iterator[ReadSet]:
    """Note what is asked for within the block, also by tasks that begin in it."""
    made = ReadSet()
    token = _READ.set(made)
    try:
        yield made
    finally:
        _READ.reset(token)


def good_until(moment: int, now: int) -> None:
    """The answer that is being made becomes another at a moment, if that is to come. Both in Unix milliseconds."""
    if moment > now and (read := _READ.get()) is not None:
        read.until = min(read.until, moment)


def depends_on(ask: Callable[[], Awaitable[Any]], answer: Any) -> None:
    """The answer that is being made holds while a question to something else than the graph is answered alike."""
    read = _READ.get()
    if read is not None:
        read.checks.append(Dependence(ask, answer))


async def compared(ask: Callable[[], Awaitable[T]]) -> T:
    """Put a question to something without marks, and return its answer; raises as the question does.

    The answer that is being made holds while the question is answered alike: it is put again whenever that is looked up. Nothing
    that it reads itself is noted. It should be cheap to put, and its answer must not move with every look at the clock.
    """
    read = _READ.get()
    if read is None:
        return await ask()
    token = _READ.set(None)
    try:
        answer = await ask()
    except BaseException:
        # Something else may stand on a page in the place of an answer that could not be had.
        read.whole = False
        raise
    finally:
        _READ.reset(token)
    read.checks.append(Dependence(ask, answer))
    return answer


def not_noted() -> None:
    """The answer that is being made depends on something that has no mark, so it is not to be remembered."""
    read = _READ.get()
    if read is not None:
        read.whole = False


def unnoted(ask: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a question whose answer has no mark: what is made of it is not remembered."""

    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        not_noted()
        return await ask(*args, **kwargs)

    return asked


class ChangeLog:
    """Marks of what was changed, in order. Positions count from the beginning of the process; only the newest are kept."""

    def __init__(self) -> None:
        self._marks: list[int] = []
        self._first = 0

    @property
    def position(self) -> int:
        """Return where the next change will stand."""
        return self._first + len(self._marks)

    def add(self, marks: Iterable[int]) -> None:
        """These have changed, or may have."""
        self._marks.extend(marks)
        if len(self._marks) > 4 * COMPARED:
            gone = len(self._marks) - COMPARED
            del self._marks[:gone]
            self._first += gone

    def note(self, objects: Iterable[int], lists: Collection[tuple[int, int]]) -> None:
        """Objects have changed, or may have, and lists, each by its object and type."""
        self.add(objects)
        self.add([list_mark(id1, atype) for id1, atype in lists])

    def forget_all(self) -> None:
        """Anything may have changed."""
        self._first = self.position + 1
        self._marks.clear()

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """Return whether none of these is known to have changed since a position. It is false also where that is too long ago."""
        start = since - self._first
        if start < 0:
            return False
        new = self._marks[start:]
        if not new:
            return True
        return len(new) <= COMPARED and frozenset(marks).isdisjoint(new)


def packed(marks: Iterable[int]) -> array[int]:
    """Return marks in eight bytes each."""
    return array("q", list(marks))


def lists_of(batch: Batch) -> set[tuple[int, int]]:
    """The lists whose entries or lengths a batch may change, each by its object and type."""
    found: set[tuple[int, int]] = set()
    for op in batch.assocs:
        found.add((op.id1, op.atype))
        if inverse := ASSOC_TYPES[op.atype].inverse:
            found.add((op.id2, inverse))
        if op.tally:
            found.update(
                [(op.tally, number) for number in (op.atype, inverse) if number and ASSOC_TYPES[number].tallied]
            )
    return found
