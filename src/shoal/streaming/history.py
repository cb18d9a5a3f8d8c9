"""The recent updates of a hub, indexed by the sources and members that they concern, for viewers who connect again."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shoal.streaming.contract import Position
from shoal.streaming.subscriptions import PRESENCE, Interest
from shoal.streaming.updates import AnyUpdate, NamedFeedChanged, ViewerUpdate


class PlacedUpdate(NamedTuple):
    position: Position
    update: ViewerUpdate


class UpdateHistory:
    """The newest `length` updates since the position `start`, numbered consecutively."""

    def __init__(self, start: Position, length: int) -> None:
        self._length = length
        self._updates: deque[tuple[Position, AnyUpdate | None]] = deque()
        self._after: OrderedDict[Position, int] = OrderedDict({start: 0})
        # Lists of update numbers. The list under the id of a source has the updates for its followers; the list under a 1-tuple
        # of a member's id has the updates that name this member.
        self._numbers: dict[int | tuple[int], list[int]] = {}
        self.next = 0

    @property
    def first(self) -> int:
        return self.next - len(self._updates)

    def add(self, position: Position, update: AnyUpdate | None) -> None:
        """Append an update. `update` is None if it could not be decoded."""
        for name in _names(update):
            self._numbers.setdefault(name, []).append(self.next)
        self._updates.append((position, update))
        self.next += 1
        self._after[position] = self.next
        if len(self._updates) > self._length:
            self._forget()

    def _forget(self) -> None:
        self._after.popitem(last=False)
        _, update = self._updates.popleft()
        for name in _names(update):
            numbers = self._numbers[name]
            # Most lists have one or two numbers: a deque would take seven times as much memory.
            del numbers[0]
            if not numbers:
                del self._numbers[name]

    def after(self, position: Position) -> int | None:
        """Return the number of the first update after a position; None if some updates since then are no longer stored."""
        return self._after.get(position)

    def of(
        self, sources: Iterable[int], since: int, viewer: int = 0, interest: Interest = PRESENCE
    ) -> Iterator[tuple[int, PlacedUpdate]]:
        """Yield the updates from number `since` on, each once, that concern followers of these sources or the viewer.

        An update concerns the viewer if it names the viewer and matches `interest`.
        """
        named = self._updates_at(self._numbers_of([(viewer,)], since))
        found = self._numbers_of(sources, since)
        found |= {number for number, placed in named if interest.matches(placed.update)}
        yield from self._updates_at(found)

    def changes_of_feeds(self, sources: Iterable[int], since: int) -> list[NamedFeedChanged]:
        """Return the changes of feeds among these sources in the updates from number `since` on."""
        found = self._updates_at(self._numbers_of(sources, since))
        return [placed.update for _, placed in found if isinstance(placed.update, NamedFeedChanged)]

    def _numbers_of(self, names: Iterable[int | tuple[int]], since: int) -> set[int]:
        return {number for name in names for number in self._numbers.get(name, ()) if number >= since}

    def _updates_at(self, numbers: Iterable[int]) -> Iterator[tuple[int, PlacedUpdate]]:
        for number in sorted(numbers):
            position, update = self._updates[number - self.first]
            if isinstance(update, ViewerUpdate):
                yield number, PlacedUpdate(position, update)


def _names(update: AnyUpdate | None) -> list[int | tuple[int]]:
    return [] if update is None else [*update.sources(), *((member,) for member in update.named())]
