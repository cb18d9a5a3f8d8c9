"""Reading the audit log in tests."""

from __future__ import annotations

from shoal.feeds import audit
from shoal.feeds.audit import DatedEntry
from shoal.graph.contract import Reader


async def entries(graph: Reader, *verbs: str) -> list[DatedEntry]:
    """All entries of these acts (none: of all), oldest first."""
    return [one async for one in audit.everything(graph) if not verbs or one.entry.verb in verbs]


async def acts(graph: Reader) -> list[str]:
    """The acts of all entries, oldest first."""
    return [one.entry.verb.value for one in await entries(graph)]
