"""How much was pushed into home timelines, and how much was left to be pulled when somebody reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PushTally:
    """Counts of this process since it began.

    Glossary (`docs/glossary.md`): loud.
    """

    pushed: int = 0
    """Entries that were written into warm timelines."""
    pulled: int = 0
    """Lists of loud sources that were read for a page of a home timeline."""
