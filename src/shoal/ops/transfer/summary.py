"""The result of an import: how many records of each kind were taken, were there already, or were refused, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

EXAMPLES = 5


class Reason(msgspec.Struct):
    """How many were refused for one reason, and the first few."""

    count: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class RecordCounts(msgspec.Struct):
    """The records of one kind."""

    taken: int = 0
    there: int = 0
    refused: dict[str, Reason] = msgspec.field(default_factory=dict)

    @property
    def refusals(self) -> int:
        """How many were refused in all."""
        return sum(reason.count for reason in self.refused.values())


class ImportReport(msgspec.Struct):
    """The result of a finished import."""

    tallies: dict[str, RecordCounts]
    """By kind of record."""
    notes: list[tuple[int, str, str]]
    """How often something was changed on the way in, and what it was, in words for one and for many."""
    seconds: float
    way: str = ""
    """How it went, and why: in bulk, or one by one."""
    phases: dict[str, float] = {}
    """How many seconds each phase took."""


class Summary:
    """Counts, and a file that takes every refusal in full: JSON lines of kind, record and reason."""

    def __init__(self, refusals: IO[bytes] | None = None) -> None:
        self.tallies: dict[str, RecordCounts] = {}
        self.way = ""
        """How it goes, and why: in bulk, or one by one."""
        self.seconds: dict[str, float] = {}
        """How long each phase took."""
        self.notes: dict[tuple[str, str], int] = {}
        """Changes made to records on the way in, in words for one and for many, and how often."""
        self._refusals = refusals

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Note how long the block takes."""
        began = time.monotonic()
        yield
        self.seconds[phase] = time.monotonic() - began

    def __getitem__(self, kind: str) -> RecordCounts:
        return self.tallies.setdefault(kind, RecordCounts())

    def report(self) -> ImportReport:
        """The counts, as they are told."""
        notes = [(count, one, many) for (one, many), count in self.notes.items()]
        return ImportReport(self.tallies, notes, sum(self.seconds.values()), self.way, self.seconds)

    def refuse(self, kind: str, record: str, reason: str) -> None:
        """One record is not taken."""
        found = self[kind].refused.setdefault(reason, Reason())
        found.count += 1
        if len(found.examples) < EXAMPLES:
            found.examples.append(record)
        if self._refusals is not None:
            line = {"kind": kind, "record": record, "reason": reason}
            self._refusals.write(msgspec.json.encode(line) + b"\n")

    def note(self, one: str, many: str) -> None:
        """Something was changed: `one` and `many` go on after the number, as in "text was cut" and "texts were cut"."""
        self.notes[one, many] = self.notes.get((one, many), 0) + 1
