"""Refuse a part of new posts while the deliveries of earlier ones are behind, so that what is taken on is delivered soon.

Reads and all other actions go on. The later deliveries are, the larger the part, so the queue stays as long as it is and the work
never stops: a limit that refuses all or nothing has it grow and shrink again and again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from shoal.core.errors import Unavailable
from shoal.core.queueing import refused_part

_RETRY_SECONDS = 1.0
_FIRST = 1 / 3
"""Where refusing begins, as a part of where it is complete."""


def _never() -> float:
    return 0.0


@dataclass(slots=True)
class Pressure:
    """The seconds that deliveries are `behind`, and the `most` that they may be; 0: no limit.

    Who takes posts and shares from members asks once for each, before anything else is done about it: the API at its door, and
    the library. Imports, and what is due at a moment, have been taken on before and ask nothing.
    """

    behind: Callable[[], float] = _never
    most: float = 0.0
    draw: Callable[[], float] = random.random
    """Gives a number from 0 to below 1."""
    refused: int = 0
    """Posts and shares, so far."""

    def check(self) -> None:
        """Raise `Unavailable` for the part that is to be refused now."""
        if (refusal := self.refusal()) is not None:
            raise refusal

    def refusal(self) -> Unavailable | None:
        """As `check`, but give the error."""
        seconds = self.behind() if self.most else 0.0
        part = refused_part(seconds, self.most * _FIRST, self.most) if seconds else 0.0
        if self.draw() >= part:
            return None
        self.refused += 1
        return Unavailable(
            f"what follows from earlier posts is {seconds:.0f} seconds behind; try again in a moment",
            retry_after=_RETRY_SECONDS,
        )
