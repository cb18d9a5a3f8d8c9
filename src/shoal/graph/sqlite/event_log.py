"""The event log in an SQLite file. Rows are written in the commits of the single writer, so their positions have no gaps."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping

from shoal.core.errors import InvalidInput
from shoal.graph.contract import LogEntry, LogPlace, StorePage
from shoal.graph.event_log import BEGINNING, OFF, page_of, place_in
from shoal.graph.migrations import readable_from
from shoal.graph.sqlite.files import transaction
from shoal.graph.sqlite.sql import MIGRATIONS

_STATE = "SELECT log FROM event_log_state"
_SINCE = 9
"""The schema version that introduced the event log."""
_READABLE_FROM = "UPDATE version SET readable_from = ?1 WHERE applied = ?2 AND readable_from <> ?1"
_PAGE = """
    SELECT position, at, kind, subject, object, other, version FROM event_log
    WHERE position >= ? ORDER BY position LIMIT ?"""
_END = """
    SELECT position, at, kind, subject, object, other, version FROM event_log ORDER BY position DESC LIMIT 1"""
TRIM = """
    DELETE FROM event_log WHERE position < (
        SELECT min(position) FROM (
            SELECT position, at, max(position) OVER () AS last
            FROM (SELECT position, at FROM event_log ORDER BY position LIMIT ?2 + 1)
        ) WHERE at >= ?1 OR position = last)"""


def log_of(connection: sqlite3.Connection) -> int:
    """Return the number of the event log; 0 if it is off."""
    return int(connection.execute(_STATE).fetchone()[0])


def switch(write: sqlite3.Connection, *, on: bool | None) -> None:
    """Turn the event log on, with a new number, or off, which deletes it. None, or the state that it has, keeps it.

    While it is on, code that does not know it cannot use the file: its commits would be missing. Call this each time that the file
    is opened, because a migration allows the code of older versions again.
    """
    with transaction(write):
        was_on = bool(log_of(write))
        on = was_on if on is None else on
        if on is not was_on:
            write.execute("DELETE FROM event_log")
            write.execute("UPDATE event_log_state SET log = ?", (secrets.randbits(62) + 1 if on else 0,))
        write.execute(_READABLE_FROM, (_SINCE if on else readable_from(MIGRATIONS, _SINCE), _SINCE))


def page(read: sqlite3.Connection, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
    # One transaction, so that the rows are those of this log.
    read.execute("BEGIN")
    try:
        log = log_of(read)
        place = place_in(places, log, BEGINNING)
        after = place.position[0] if place is not None else 0
        rows = read.execute(_PAGE, (after, limit + 2)).fetchall()
    finally:
        read.execute("COMMIT")
    if not log:
        raise InvalidInput(OFF)
    return page_of(log, place, [LogEntry(log, (row[0],), *row[1:]) for row in rows], limit)


def end(read: sqlite3.Connection) -> StorePage:
    log = log_of(read)
    if not log:
        raise InvalidInput(OFF)
    rows = [LogEntry(log, (row[0],), *row[1:]) for row in read.execute(_END)]
    return page_of(log, None, rows, 1)._replace(entries=())
