"""Answers that are the same for everybody and may be a minute old."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Remembered(Generic[Key, Answer]):
    """The last answers, at most so many and so old. Moments are Unix milliseconds, as whoever asks has them."""

    def __init__(self, most: int = 2_000, keep_ms: int = 60_000) -> None:
        self._most = most
        self._keep_ms = keep_ms
        self._held: dict[Key, tuple[int, Answer]] = {}

    def get(self, key: Key, now: int) -> Answer | None:
        """What was answered within the time; None when it must be asked anew."""
        held = self._held.get(key)
        return held[1] if held is not None and abs(now - held[0]) < self._keep_ms else None

    def put(self, key: Key, answer: Answer, now: int) -> None:
        """Remember it; the oldest answers make room."""
        self._held.pop(key, None)
        self._held[key] = (now, answer)
        while len(self._held) > self._most:
            del self._held[next(iter(self._held))]
