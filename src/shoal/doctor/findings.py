"""Findings of checks: good or not, and what to do about it."""

from __future__ import annotations

from typing import Literal

import msgspec

SECONDS = 3.0
"""How long a check waits for another machine."""

Grade = Literal["ok", "warn", "bad"]
"""`bad`: something does not work, or secrets are open. `warn`: it works, but not as it should, or not for long."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The outcome of a check."""

    check: str
    grade: Grade
    said: str
    """The finding in one line, without any password."""
    advice: str = ""
    """Action to take; empty where nothing is to be done."""


def ok(check: str, said: str) -> Diagnosis:
    """Return that all is well."""
    return Diagnosis(check, "ok", said)


def warn(check: str, said: str, advice: str) -> Diagnosis:
    """Return something that is not as it should be."""
    return Diagnosis(check, "warn", said, advice)


def bad(check: str, said: str, advice: str) -> Diagnosis:
    """Return something that does not work, or is dangerous."""
    return Diagnosis(check, "bad", said, advice)
