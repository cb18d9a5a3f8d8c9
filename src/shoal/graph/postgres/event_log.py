"""The event log of a PostgreSQL store.

Concurrent transactions do not commit in the order in which they write. So an entry is at `(history, xid, n)`: the WAL timeline, the
id of its transaction, and its number there. A page ends before the oldest transaction that is still running, so nothing can appear
before an entry that was delivered. If a commit relies on an earlier commit, its rows were loaded after the earlier commit was
visible, so its transaction began later and has a greater id.

A place in a cursor is always the position of a delivered entry, and each row of the log is durable before a reader sees it. After a
crash, PostgreSQL uses the ids of transactions again that were not durable, which are greater than those of all durable ones.

A promoted standby may lack the last commits, and so may a server that is restored from a snapshot of its disk. The proof of a place
is the WAL timeline, and the end of the WAL on disk, when the entry was read, and the time of the entry. The place is valid if the
current timeline has that part of the WAL, and the log has that entry. The end of an empty log has no entry.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import asyncpg

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.contract import CursorTooOld, LogEntry, LogPlace, StorePage
from shoal.graph.event_log import OFF, place_in
from shoal.graph.migrations import readable_from
from shoal.graph.postgres import event_log_sql, sql
from shoal.graph.postgres.connections import LONG_PATIENCE, ConnectionPool
from shoal.graph.postgres.migrations import older_sessions
from shoal.graph.postgres.schema import MIGRATIONS

_TRIMMED_AT_ONCE = 5_000
_BEGINNING = LogPlace((0, 0, 0))
_SINCE = 9
"""The schema version that introduced the event log."""
_POSITION = 3
"""Numbers in a position."""
_PROOFS = (0, 2, 3)
"""Numbers in a proof: none, the timeline and the end of the WAL, and the time of the entry."""


async def switch(connection: asyncpg.Connection, *, on: bool) -> None:
    """Turn the event log on, with a new number, or off, which deletes it. No-op if it already is.

    While it is on, code that does not know it cannot use the store: its commits would be missing. Raises `Unavailable` if such code
    uses the store.
    """
    if bool(await connection.fetchval(event_log_sql.LOG)) is on:
        return
    async with connection.transaction():
        # A process that starts now waits, and then finds that the store has an event log.
        await connection.execute(sql.LOCK_MIGRATION)
        if on and (older := await older_sessions(connection, _SINCE)):
            raise Unavailable(
                f"event_log: processes of an older Shoal use the store (schema version {older[0]}; required: {_SINCE} or newer): "
                "stop them first"
            )
        # Waits for running commits. Later ones notice that the number has changed.
        await connection.execute(sql.OWNER_LOCK)
        if bool(await connection.fetchval(event_log_sql.LOG)) is on:
            return
        await connection.execute(event_log_sql.CLEAR)
        await connection.execute(event_log_sql.SWITCH, secrets.randbits(62) + 1 if on else 0)
        oldest = _SINCE if on else readable_from(MIGRATIONS, _SINCE)
        await connection.execute(event_log_sql.READABLE_FROM, oldest, _SINCE)


async def end(pool: ConnectionPool) -> StorePage:
    """Return an empty page at the end of the log."""
    state = (await pool.ask(event_log_sql.END))[0]
    if not state["log"]:
        raise InvalidInput(OFF)
    proof = (state["timeline"], state["wal_end"])
    newest = () if state["history"] is None else (state["history"], state["xid"], state["n"])
    if newest > tuple(state["trimmed"]):
        place = LogPlace(newest, (*proof, state["at"]))
    else:
        place = LogPlace(tuple(state["trimmed"]) or (state["timeline"], 0, 0), proof)
    return StorePage(state["log"], (), place, reached=(state["timeline"], state["horizon"], 0))


async def handover(pool: ConnectionPool) -> tuple[int, int, int] | None:
    """Return the log, the timeline and a transaction id above those of all commits so far; None if the log is off."""
    state = (await pool.ask(event_log_sql.STATE))[0]
    return (state["log"], state["timeline"], state["beyond"]) if state["log"] else None


async def page(pool: ConnectionPool, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
    known = [
        (log, *place.position, place.proof[0] if place.proof else 0)
        for log, place in (places or {}).items()
        if len(place.position) == _POSITION
    ]
    columns = zip(*known, strict=True) if known else ((),) * (_POSITION + 2)
    rows = await pool.ask(event_log_sql.PAGE, *columns, limit + 1)
    state = rows[0]
    log = state["log"]
    if not log:
        raise InvalidInput(OFF)
    proof = (state["timeline"], state["wal_end"])
    place = place_in(places, log, _BEGINNING)
    if place is None:
        start = LogPlace(tuple(state["trimmed"]), proof) if state["trimmed"] else _BEGINNING
    else:
        start = _checked(place, state)
    entries = [
        LogEntry(log, (row["history"], row["xid"], row["n"]), *row[-6:]) for row in rows if row["history"] is not None
    ]
    more = len(entries) > limit
    entries = entries[:limit]
    # All earlier transactions have ended, and their entries are in this page or were delivered before.
    reached = entries[-1].position if more else (state["timeline"], state["horizon"], 0)
    page = StorePage(log, entries, start, more=more, proof=proof, start=start, reached=reached)
    return page._replace(place=page.place_at(entries[-1])) if entries else page


def _checked(place: LogPlace, state: asyncpg.Record) -> LogPlace:
    """Return the place with a proof for the current timeline.

    Raises `CursorTooOld` if entries after the place were trimmed, or entries before it may be lost.
    """
    if len(place.position) != _POSITION or len(place.proof) not in _PROOFS:
        raise CursorTooOld.other_log()
    trimmed = tuple(state["trimmed"])
    if place.position < trimmed:
        raise CursorTooOld.trimmed()
    now = state["timeline"]
    history, wal_end, *at = place.proof or (now, 0)
    common = state["wal_end"] if history == now else state["proof_ended"]
    is_other = bool(at) and place.position > trimmed and at[0] != state["proof_at"]
    if is_other or max(history, place.position[0]) > now or common is None or wal_end > common:
        raise CursorTooOld.other_log()
    return place if history == now else place._replace(proof=(now, common, *at))


async def trim(pool: ConnectionPool, before: int) -> int:
    trimmed, page = 0, _TRIMMED_AT_ONCE
    while page == _TRIMMED_AT_ONCE:
        page = (await pool.ask(event_log_sql.TRIM, before, _TRIMMED_AT_ONCE, patience=LONG_PATIENCE))[0][0]
        trimmed += page
    return trimmed
