"""A consumer of the event log: the state that it rebuilds from entries alone, and the same facts in a graph."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.graph.contract import LogCursor, LogEntry, Store
from shoal.graph.event_log import OBJECTS, EventLog, LogKind
from shoal.graph.postgres import PostgresGraph, event_log
from shoal.graph.schema import FOLLOWS, LIKES, REACTS
from tests.async_runner import eventually
from tests.stores import all_links, all_objects

Fact = tuple[int, int, int]
"""The tens of the kind, and an object's id, or both ends of an association."""
_TENS = {FOLLOWS.number: 60, LIKES.number: 70, REACTS.number: 80}


class Replica:
    """A consumer that may read any page twice. `read` continues where the last one ended."""

    def __init__(self) -> None:
        self.cursor: LogCursor | None = None
        self.entries: list[LogEntry] = []
        self._known: dict[Fact, tuple[int, bool]] = {}
        self._newest: dict[tuple[int, Fact], tuple[int, ...]] = {}

    async def read(self, log: EventLog, limit: int = 100) -> list[LogEntry]:
        """Read all entries that are there, and return the new ones."""
        new: list[LogEntry] = []
        while True:
            page = await log.read(self.cursor, limit)
            assert len(page.entries) <= limit
            # A cursor is stored as text.
            self.cursor = LogCursor.decode(page.cursor.encode())
            self.apply(page.entries)
            new += page.entries
            if not page.more:
                self.entries += new
                return new

    def apply(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            if entry.kind == LogKind.AUDIT_CREATED:
                continue
            tens = entry.kind // 10 * 10
            fact = (
                (tens, entry.object, 0)
                if tens < LogKind.FOLLOW_CREATED // 10 * 10
                else (tens, entry.subject, entry.object)
            )
            stamp = (entry.version, entry.kind % 10 == 3)
            # Within a log, the entries of an object or association are in the order of its changes.
            before = self._newest.get((entry.log, fact), stamp)
            assert before <= stamp, (entry, before)
            self._newest[entry.log, fact] = stamp
            self._known[fact] = max(stamp, self._known.get(fact, stamp))

    @property
    def facts(self) -> dict[Fact, int]:
        """The objects with their versions, and the associations with 0, because a repeat may raise their times."""
        return {fact: version if fact[0] < 60 else 0 for fact, (version, deleted) in self._known.items() if not deleted}


async def settled(graph: Store) -> None:
    """Wait until readers get all commits so far: transactions of other tests on a PostgreSQL server delay them."""
    for source in graph.log_sources:
        if isinstance(source, PostgresGraph) and (end := await event_log.handover(source._reading)):

            async def is_past(source: PostgresGraph = source, end: tuple[int, ...] = end[1:]) -> bool:
                return (await event_log.end(source._reading)).reached >= end

            await eventually(is_past, True)


async def facts_of(graph: Store) -> dict[Fact, int]:
    """Return the facts of a graph that `Replica.facts` has to equal."""
    rules = ((OBJECTS.get(type(node)), node) for node in await all_objects(graph))
    facts: dict[Fact, int] = {(rule.tens, node.id, 0): node.version for rule, node in rules if rule}
    links = (row for row in await all_links(graph) if row.alive and row.atype in _TENS)
    return facts | {(_TENS[row.atype], row.id1, row.id2): 0 for row in links}
