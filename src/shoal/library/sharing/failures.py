"""Errors on their way between processes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from shoal.core.errors import ShoalError
from shoal.library.sharing.frames import CallFailed

_log = logging.getLogger(__name__)

_INTERNAL = "the process that has the store met an error of its own; its log says which"
_DETAILS = ("field", "retry_after")


def failure(call: int, error: Exception) -> CallFailed:
    """Return an error as a message. One that Shoal did not raise on purpose is logged, and shown as one fixed sentence."""
    if isinstance(error, TimeoutError):
        return CallFailed(call, ["TimeoutError"], "", {})
    if not isinstance(error, ShoalError):
        _log.error("a call of another process failed", exc_info=error)
        return CallFailed(call, [ShoalError.__name__], _INTERNAL, {})
    kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, ShoalError)]
    details = {name: getattr(error, name) for name in _DETAILS if hasattr(error, name)}
    return CallFailed(call, kinds, str(error), details)


def error_of(failed: CallFailed) -> Exception:
    """Return the error that the other process raised."""
    if failed.kinds == ["TimeoutError"]:
        return TimeoutError()
    known = {kind.__name__: kind for kind in _kinds(ShoalError)}
    kind = next((known[name] for name in failed.kinds if name in known), ShoalError)
    error = kind.__new__(kind, failed.message)
    for name, value in failed.details.items():
        if name in _DETAILS:
            setattr(error, name, value)
    return error


def _kinds(kind: type[ShoalError]) -> Iterator[type[ShoalError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)
