"""The graph in a PostgreSQL database, for networks of several processes and servers.

A read is one statement on a pooled connection; a commit is part of a group (`writer`). The tables are in a separate schema,
so a database may be shared with other applications. Any number of processes may have the store open, unless one has it
exclusively (`owner`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import starmap
from typing import Any

from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.ids import now_ms
from shoal.graph.bulk import KeyRow, LoadPart, Rows, Spread
from shoal.graph.contract import (
    MAX_TIME,
    Assoc,
    AssocRow,
    Batch,
    BlockRow,
    Cursor,
    LogPlace,
    LogSource,
    PendingInverses,
    StorePage,
)
from shoal.graph.failover import Histories
from shoal.graph.postgres import bulk, event_log, ranks, sql
from shoal.graph.postgres.connections import LONG_PATIENCE, PATIENCE, ConnectionPool
from shoal.graph.postgres.migrations import check_version, migrate
from shoal.graph.postgres.outbox import PostgresOutbox
from shoal.graph.postgres.owner import Owner
from shoal.graph.postgres.writer import GROUPS, Writer
from shoal.graph.resolve import Owns, every_shard
from shoal.graph.schema import ASSOC_TYPES, AnyNode, AssocType, Key, decode_node
from shoal.observability.tracing import timed

_READERS = 8
_SWEEP_PAGE = 5_000


class PostgresGraph:
    """The whole graph of a store in one PostgreSQL database. Create it with `open`."""

    loads = True

    def __init__(self, reading: ConnectionPool, writing: ConnectionPool | None, owner: Owner, owns: Owns) -> None:
        self._read_only = writing is None
        self._reading = reading
        self._writing = writing or reading
        self._owner = owner
        self._outbox = outbox = PostgresOutbox(reading, self._writing, owner.id, self._check)
        self._writer = Writer(self._writing, owner.mark, owns, outbox.woken)
        self.claim = outbox.claim
        self.ack = outbox.ack
        self.put_back = outbox.put_back
        self.park = outbox.park
        self.parked = outbox.parked
        self.unpark = outbox.unpark
        self.backlog = outbox.backlog
        self.lag = outbox.lag
        self.on_event = outbox.on_event

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        owns: Owns = every_shard,
        read_only: bool = False,
        sole: bool = False,
        readers: int = _READERS,
        patience: float = PATIENCE,
        histories: Histories | None = None,
        logs: bool | None = None,
    ) -> PostgresGraph:
        """Open the store in this database, or create it. Raises `Unavailable`.

        Args:
            sole: Exclude all other writers. Raises `Unavailable` if there are any.
            readers: Number of connections for reading.
            patience: Seconds that a request waits for the server.
            logs: Turn the event log on or off, for all processes, unless this is None or the store is opened read-only.
        """
        histories = histories or Histories()
        owner = Owner(url, sole=sole, patience=patience, histories=histories)
        async with AsyncExitStack() as undo:
            # No synchronous commits: this pool only writes claims and acknowledgments, which a crash of the server may lose.
            settings = {"default_transaction_read_only": "on"} if read_only else {"synchronous_commit": "off"}
            reading = ConnectionPool(url, readers, settings, patience, histories=histories)
            undo.push_async_callback(reading.close)
            writing = None
            if not read_only:
                durable = {"synchronous_commit": "on"}
                writing = ConnectionPool(url, GROUPS + 1, durable, patience, writes=True, histories=histories)
                undo.push_async_callback(writing.close)
                await writing.use(migrate, patience=LONG_PATIENCE)
                await owner.open()
                undo.push_async_callback(owner.close)
                if logs is not None:
                    await writing.use(partial(event_log.switch, on=logs), patience=LONG_PATIENCE)
            await reading.use(check_version)
            undo.pop_all()
        return cls(reading, writing, owner, owns)

    @property
    def round_trips(self) -> int:
        return self._reading.asked + (0 if self._read_only else self._writing.asked)

    @property
    def overtaken(self) -> int:
        return self._writer.overtaken

    def _check(self) -> None:
        if self._read_only:
            raise ShoalError("the store was opened read-only")
        self._owner.check()

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        if not ids:
            return {}
        nodes = [decode_node(data) for (data,) in await self._reading.ask(sql.OBJ_GET, ids)]
        return {node.id: node for node in nodes}

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        # PostgreSQL cannot store a null character, so no such name exists.
        by_name = {(key.space, key.name): key for key in keys if "\0" not in key.name}
        if not by_name:
            return {}
        now = now_ms()
        spaces, names = zip(*by_name, strict=True)
        rows = await self._reading.ask(sql.KEY_GET, spaces, names)
        return {by_name[space, name]: id_ for space, name, id_, until in rows if not 0 < until <= now}

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await self._links(sql.ASSOC_GET, id1, atypes, id2s)

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await self._links(sql.ASSOC_ENDED, id1, atypes, id2s)

    async def _links(
        self, statement: str, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        answer: dict[AssocType, dict[int, Assoc]] = {atype: {} for atype in atypes}
        if id2s:
            numbers = [atype.number for atype in atypes]
            for number, id2, moment, data in await self._reading.ask(statement, id1, numbers, id2s):
                answer[ASSOC_TYPES[number]][id2] = Assoc(id2, moment, data)
        return answer

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        statement = sql.ASSOC_RANGE[atype.covered, at.oldest_first]
        rows = await self._reading.ask(statement, id1, atype.number, at.before, at.after, at.limit)
        return list(starmap(Assoc, rows))

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        statement = sql.ASSOC_ENDED_RANGE_OLDEST if at.oldest_first else sql.ASSOC_ENDED_RANGE
        rows = await self._reading.ask(statement, id1, atype.number, at.before, at.after, at.limit)
        return list(starmap(Assoc, rows))

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        if not id1s:
            return {}
        statement = sql.ASSOC_RANGES[atype.covered, at.oldest_first]
        # Read each list once, even if it was named twice.
        distinct = list(dict.fromkeys(id1s))
        lists: dict[int, list[Assoc]] = {}
        for id1, *entry in await self._reading.ask(statement, distinct, atype.number, at.before, at.after, at.limit):
            lists.setdefault(id1, []).append(Assoc(*entry))
        return lists

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        answer: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        if id1s:
            numbers = [atype.number for atype in atypes]
            for number, id1, n in await self._reading.ask(sql.COUNT_GET, id1s, numbers):
                answer[ASSOC_TYPES[number]][id1] = n
        return answer

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        if not atype.ranked:
            walked = ranks.WALKED[atype.covered]
            rows = await self._reading.ask(walked, id1s, atype.number, times, patience=LONG_PATIENCE)
            return _by_list(id1s, len(times), rows)
        rows = await self._reading.ask(ranks.RANKS, id1s, atype.number, times, ranks.OPEN + 1)
        found = _by_list(id1s, len(times), rows)
        if overfull := list({id1 for id1, _, _, within in rows if within > ranks.OPEN}):
            if not self._read_only:
                await self._divide(overfull, atype)
            rows = await self._reading.ask(ranks.RANKS, overfull, atype.number, times, MAX_TIME, patience=LONG_PATIENCE)
            found |= _by_list(overfull, len(times), rows)
        return found

    async def _divide(self, id1s: Iterable[int], atype: AssocType) -> None:
        sizes = (ranks.BLOCK, ranks.FAN, ranks.OPEN, ranks.AT_ONCE)
        for id1 in id1s:
            more, afresh = True, True
            while more:
                done = await self._writing.ask(ranks.DIVIDE, id1, atype.number, *sizes, afresh, patience=LONG_PATIENCE)
                more, afresh = done[0][0], False

    def store_of(self, _shard: int) -> int:
        return 0

    async def commit(self, batch: Batch) -> None:
        await self._submit(batch, settles=False)

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        return await self._submit(batch, settles=True)

    async def _submit(self, batch: Batch, *, settles: bool) -> PendingInverses:
        self._check()
        if any("\0" in op.key.name for op in batch.keys):
            raise InvalidInput("a name must not contain a null character")
        # If the caller is cancelled, the group is committed nevertheless.
        return await timed("postgres", "commit", self._writer.submit(batch, settles=settles))

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        rows = await self._reading.ask(sql.OBJ_SCAN, after, limit, patience=LONG_PATIENCE)
        return [decode_node(data) for (data,) in rows]

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        return list(starmap(AssocRow, await self._reading.ask(sql.ASSOC_SCAN, *after, limit, patience=LONG_PATIENCE)))

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        return list(map(tuple, await self._reading.ask(sql.COUNT_SCAN, *after, limit, patience=LONG_PATIENCE)))

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._change(sql.COUNT_SET, id1, atype, n)

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:
        return list(starmap(BlockRow, await self._reading.ask(ranks.SCAN, *after, limit, patience=LONG_PATIENCE)))

    async def block_drop(self, id1: int, atype: int) -> None:
        await self._change(ranks.DROP, id1, atype)

    async def sweep(self, before: int, now: int) -> int:
        return await self._swept(sql.ASSOC_SWEEP, before) + await self._swept(sql.KEY_SWEEP, now)

    async def sweep_history(self, before: int) -> int:
        return await self._swept(sql.HISTORY_SWEEP, before)

    async def _swept(self, statement: str, upto: int) -> int:
        swept, page, at = 0, _SWEEP_PAGE, -MAX_TIME
        while page == _SWEEP_PAGE:
            self._check()
            ((page, last),) = await self._writing.ask(statement, at, upto, _SWEEP_PAGE, patience=LONG_PATIENCE)
            at = at if last is None else last
            swept += page
        return swept

    async def _change(self, statement: str, *values: Any) -> int:
        self._check()
        rows = await self._writing.ask(statement, *values, patience=LONG_PATIENCE)
        return int(rows[0][0]) if rows else 0

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        return list(starmap(KeyRow, await self._reading.ask(bulk.KEYS_SCAN, *after, limit, patience=LONG_PATIENCE)))

    async def put_rows(self, rows: Rows) -> None:
        self._check()
        await bulk.put_rows(self._writing, rows)

    async def remove_rows(self, rows: Rows) -> None:
        self._check()
        await bulk.remove_rows(self._writing, rows)

    async def load(self, part: LoadPart) -> None:
        self._check()
        await bulk.load(self._writing, self._owner.mark, part)

    async def spread(self) -> dict[int, Spread]:
        return await bulk.spread(self._reading)

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return (self,)

    async def log_page(self, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        return await event_log.page(self._reading, places, limit)

    async def log_end(self) -> StorePage:
        return await event_log.end(self._reading)

    async def log_trim(self, before: int) -> int:
        self._check()
        return await event_log.trim(self._writing, before)

    async def close(self) -> None:
        if not self._read_only:
            await self._writer.close()
            await self._outbox.close()
            await self._owner.close()
            await self._writing.close()
        await self._reading.close()


def _by_list(id1s: Iterable[int], times: int, rows: Iterable[Sequence[int]]) -> dict[int, list[int]]:
    """Return, for each list, the ranks of the requested times.

    `rows` are the result of `ranks.RANKS` or `ranks.WALKED`. Each has the id of a list, the position of a time in the request
    (from 1), and two counts of entries, whose difference is the rank.
    """
    found = {id1: [0] * times for id1 in id1s}
    for id1, rank, behind, within in rows:
        found[id1][rank - 1] = behind - within
    return found
