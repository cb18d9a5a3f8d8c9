"""Reading the audit log in tests."""

from __future__ import annotations

from shoal.graph.contract import Reader
from shoal.queries import moderation
from shoal.queries.moderation import DatedEntry


async def entries(graph: Reader, *verbs: str) -> list[DatedEntry]:
    """Return the entries with these verbs, or all entries if none is given, oldest first."""
    return [one async for one in moderation.everything(graph) if not verbs or one.entry.verb in verbs]


async def acts(graph: Reader) -> list[str]:
    """Return the verbs of all entries, oldest first."""
    return [one.entry.verb.value for one in await entries(graph)]
