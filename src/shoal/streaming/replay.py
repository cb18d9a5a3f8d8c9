"""The updates that a hub has heard of late, so that a viewer who was away for a moment misses nothing."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shoal.streaming.contract import Position
from shoal.streaming.interests import PRESENCE, Interest
from shoal.streaming.updates import AnyUpdate, OfListening, Told


class PlacedUpdate(NamedTuple):
    """An update, and the position just after it."""

    position: Position
    update: Told


class UpdateHistory:
    """The newest `length` updates after `start`. Each has a number, which goes up by one."""

    def __init__(self, start: Position, length: int) -> None:
        self._length = length
        self._heard: deque[tuple[Position, AnyUpdate | None]] = deque()
        self._after: OrderedDict[Position, int] = OrderedDict({start: 0})
        # The numbers of what concerns the followers of a source; under a member in brackets, of what concerns them by name.
        self._numbers: dict[int | tuple[int], list[int]] = {}
        self.next = 0
        """The number of the update that comes next."""

    @property
    def first(self) -> int:
        """The number of the oldest update that is kept."""
        return self.next - len(self._heard)

    def add(self, position: Position, update: AnyUpdate | None) -> None:
        """One more; None for one that is not understood."""
        for name in _names(update):
            self._numbers.setdefault(name, []).append(self.next)
        self._heard.append((position, update))
        self.next += 1
        self._after[position] = self.next
        if len(self._heard) > self._length:
            self._forget()

    def _forget(self) -> None:
        self._after.popitem(last=False)
        _, update = self._heard.popleft()
        for name in _names(update):
            numbers = self._numbers[name]
            # Most are of one or two: a deque would take seven times as much.
            del numbers[0]
            if not numbers:
                del self._numbers[name]

    def after(self, position: Position) -> int | None:
        """The number of the first update after a position; None when what came after it is not all here."""
        return self._after.get(position)

    def of(
        self, sources: Iterable[int], since: int, viewer: int = 0, interest: Interest = PRESENCE
    ) -> Iterator[PlacedUpdate]:
        """Yield what concerns followers of these sources, or names this viewer who hears of it; each once, in order."""
        named = self._heard_at(self._numbers_of([(viewer,)], since))
        found = self._numbers_of(sources, since)
        found |= {number for number, heard in named if interest.hears(heard.update)}
        for _, heard in self._heard_at(found):
            yield heard

    def _numbers_of(self, names: Iterable[int | tuple[int]], since: int) -> set[int]:
        return {number for name in names for number in self._numbers.get(name, ()) if number >= since}

    def _heard_at(self, numbers: Iterable[int]) -> Iterator[tuple[int, PlacedUpdate]]:
        for number in sorted(numbers):
            position, update = self._heard[number - self.first]
            if update is not None and not isinstance(update, OfListening):
                yield number, PlacedUpdate(position, update)


def _names(update: AnyUpdate | None) -> list[int | tuple[int]]:
    return [] if update is None else [*update.sources(), *((member,) for member in update.named())]
