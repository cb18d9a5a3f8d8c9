"""A logger for messages that an outage would repeat with each request, commit or job."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable

_SECONDS = 60.0


class ThrottledLog:
    """A logger that writes each message at most once a minute, with the number of repetitions that it left out.

    A message is identified by its format string and `name`, so `name` must have few different values.
    """

    def __init__(self, log: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._since: dict[Hashable, float] = {}
        self._left_out: Counter[Hashable] = Counter()

    def warning(self, message: str, *args: object, name: Hashable = None, exc_info: bool = False) -> None:
        """Log a warning, unless it was logged less than a minute ago."""
        self._put(logging.WARNING, message, args, name, exc_info=exc_info)

    def exception(self, message: str, *args: object, name: Hashable = None) -> None:
        self._put(logging.ERROR, message, args, name, exc_info=True)

    def _put(self, level: int, message: str, args: tuple[object, ...], name: Hashable, *, exc_info: bool) -> None:
        key, now = (message, name), self._clock()
        if now - self._since.get(key, -_SECONDS) < _SECONDS:
            self._left_out[key] += 1
            return
        self._since[key] = now
        if left_out := self._left_out.pop(key, 0):
            message, args = f"{message} (%d more like it since the last line)", (*args, left_out)
        self._log.log(level, message, *args, exc_info=exc_info, stacklevel=3)
