"""Refuse new posts while the deliveries of earlier ones are too far behind: the queue must not grow unseen.

Reads and all other actions go on. Refusal begins when deliveries are too far behind and ends at half of that delay,
so that it does not start and stop with every post.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.core.errors import Unavailable

_RETRY_SECONDS = 1.0


def _never() -> float:
    return 0.0


@dataclass(slots=True)
class Pressure:
    """The seconds that deliveries are `behind`, and the `most` that they may be; 0: no limit."""

    behind: Callable[[], float] = _never
    most: float = 0.0
    refusing: bool = False
    refused: int = 0
    """Posts and shares, so far."""

    def check(self) -> None:
        """Raise `Unavailable` while deliveries are too far behind."""
        seconds = self.behind()
        self.refusing = bool(self.most) and seconds > (self.most / 2 if self.refusing else self.most)
        if self.refusing:
            self.refused += 1
            raise Unavailable(
                f"what follows from earlier posts is {seconds:.0f} seconds behind; try again in a moment",
                retry_after=_RETRY_SECONDS,
            )
