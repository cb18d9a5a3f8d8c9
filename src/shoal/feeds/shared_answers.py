"""Cached answers that may be a minute old and are shared between requests."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Remembered(Generic[Key, Answer]):
    """The latest answers, limited in number and age. Moments are Unix milliseconds by the caller's clock."""

    def __init__(self, most: int = 2_000, keep_ms: int = 60_000) -> None:
        self._most = most
        self._keep_ms = keep_ms
        self._held: dict[Key, tuple[int, Answer]] = {}

    def get(self, key: Key, now: int) -> Answer | None:
        """Return the remembered answer; None when it is missing or too old."""
        held = self._held.get(key)
        return held[1] if held is not None and abs(now - held[0]) < self._keep_ms else None

    def put(self, key: Key, answer: Answer, now: int) -> None:
        """Remember an answer; the oldest ones make room."""
        self._held.pop(key, None)
        self._held[key] = (now, answer)
        while len(self._held) > self._most:
            del self._held[next(iter(self._held))]
