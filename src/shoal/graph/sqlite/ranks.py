"""Ranks in lists of an SQLite store in O(log n): entries are counted in blocks.

A block of level 0 consists of `BLOCK` consecutive entries, a block of a higher level of `FAN` blocks of the level below. The row of
a block has the time of its last entry and the number of its live entries; the block starts where the previous one ends. The newest
entries are in no block: their number is the length of the list minus the entries in blocks. So a new post, at the end, changes no
block. If an entry is deleted, or inserted late in the middle, triggers change one row of each level in the same commit.

    level 1   [        4,096 entries        ]
    level 0   [64][64] ... [64][63][64]   [64][64]   and up to 256 entries in no block

The blocks of a list are created when it is read by rank and more than `OPEN` entries are in no block. Other lists have no blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from shoal.graph.schema import AssocType
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.writer import fetched

BLOCK = 64
FAN = 64
OPEN = 4 * BLOCK
"""Maximum entries in one block, or after the last block. If there are more, they are split into blocks."""
_AT_ONCE = 256 * BLOCK

_TOP = sql.LEVELS[-1]


def _last(level: int, bound: str) -> str:
    """Return SQL for the end of the last block of a level that ends at or before the time `bound`; 0 if there is none."""
    return f"""coalesce((
            SELECT max(upto) FROM block AS b
            WHERE b.id1 = w.value AND b.atype = ?2 AND b.level = {level} AND b.upto <= {bound}), 0)"""


def _closed() -> str:
    """Return SQL for the number of entries in blocks: the large blocks, and the smaller ones after the last large one."""
    parts = []
    for level in sql.LEVELS:
        above = f"last{level + 1}" if level < _TOP else "0"
        parts.append(f"""coalesce((
            SELECT sum(n) FROM block AS b
            WHERE b.id1 = a.id1 AND b.atype = ?2 AND b.level = {level} AND b.upto > {above} AND b.upto <= last{level}), 0)""")
    return " + ".join(parts)


_LASTS = ", ".join(f"{_last(level, 't.value')} AS last{level}" for level in sql.LEVELS)
_TOTAL = f"""coalesce((
        SELECT time FROM association WHERE id1 = a.id1 AND atype = ?2 AND id2 = {sql.LAST} AND alive = {sql.COUNTS}), 0)"""
_ASKED = f"""
    WITH asked AS MATERIALIZED (
        SELECT w.value AS id1, t.key AS place, t.value AS upto, {_LASTS}
        FROM json_each(?1) AS w CROSS JOIN json_each(?3) AS t)"""
_RANKS = f"""{_ASKED}
    SELECT id1, place, {_TOTAL} - ({_closed()}) AS behind,
        (SELECT count(*) FROM (SELECT 1 FROM association AS e
            WHERE e.id1 = a.id1 AND e.atype = ?2 AND e.alive = {sql.IN_PLACE} AND e.id2 > last0 AND e.id2 <= a.upto LIMIT ?4))
        + (SELECT count(*) FROM (SELECT 1 FROM displaced AS e INDEXED BY displaced_by_time
            WHERE e.id1 = a.id1 AND e.atype = ?2 AND e.alive = 1 AND e.time > last0 AND e.time <= a.upto LIMIT ?4)) AS within
    FROM asked AS a"""


def _walked(*, by_id: bool) -> str:
    here, there = f"alive = {sql.IN_PLACE} AND id2", "alive = 1 AND time"
    parts = (("association", here), ("displaced", there)) if by_id else (("association", there),)
    counts = " + ".join(
        f"(SELECT count(*) FROM {table} WHERE id1 = w.value AND atype = ?2 AND {place} > t.value AND {place} <= {sql.FOREVER})"
        for table, place in parts
    )
    return f"SELECT w.value, t.key, {counts} FROM json_each(?1) AS w CROSS JOIN json_each(?3) AS t"


_WALKED = {by_id: _walked(by_id=by_id) for by_id in (False, True)}

_OVERFULL = "SELECT 1 FROM block WHERE id1 = ?1 AND atype = ?2 AND level = 0 AND n > ?3 LIMIT 1"
DROP = "DELETE FROM block WHERE id1 = ? AND atype = ?"
SCAN = """
    SELECT id1, atype, level, upto, n FROM block
    WHERE (id1, atype, level, upto) > (?, ?, ?, ?) ORDER BY id1, atype, level, upto LIMIT ?"""
_END = "SELECT coalesce(max(upto), 0) FROM block WHERE id1 = ? AND atype = ? AND level = ?"
_BELOW = "SELECT upto, n FROM block WHERE id1 = ? AND atype = ? AND level = ? AND upto > ? ORDER BY upto"
_PUT = "INSERT INTO block (id1, atype, level, upto, n) VALUES (?, ?, ?, ?, ?)"


def ranks(
    read: sqlite3.Connection, id1s: Iterable[int], atype: AssocType, times: Sequence[int], *, most: int
) -> tuple[dict[int, list[int]], set[int]]:
    """Return the ranks (see `Reader.assoc_ranks`), and the lists whose ranks are wrong because they need more blocks.

    At most `most` entries of a list that are in no block are counted one by one. For a list with more of them, call `divide`
    first, or call `ranks` again with a larger `most`.
    """
    found = {id1: [0] * len(times) for id1 in id1s}
    overfull: set[int] = set()
    values = (sql.json_list(list(found)), atype.number, sql.json_list(times))
    if not atype.ranked:
        for id1, rank, newer in fetched(read, _WALKED[atype.number in sql.BY_ID], values):
            found[id1][rank] = newer
        return found, overfull
    for id1, rank, behind, within in fetched(read, _RANKS, (*values, min(most + 1, sql.FOREVER))):
        found[id1][rank] = behind - within
        if within > most:
            overfull.add(id1)
    return found, overfull


def divide(write: sqlite3.Connection, id1: int, atype: AssocType, *, afresh: bool) -> bool:
    """Create blocks of the rank index for entries of a list that are in no block yet. Return whether more of them remain.

    With `afresh`, first delete all blocks of the list if insertions into its middle have made one of them too large.
    """
    pair = (id1, atype.number)
    if afresh and write.execute(_OVERFULL, (*pair, OPEN)).fetchone():
        write.execute(DROP, pair)
    end = write.execute(_END, (*pair, 0)).fetchone()[0]
    entries = sql.ASSOC_RANGE[atype.number in sql.BY_ID, True]
    times = [row[1] for row in write.execute(entries, (*pair, sql.FOREVER, end, _AT_ONCE + 1))]
    # The newest entry is put into no block, so that appending an entry does not change any block.
    ends = times[BLOCK - 1 : -1 : BLOCK]
    write.executemany(_PUT, [(*pair, 0, upto, BLOCK) for upto in ends])
    for level in sql.LEVELS[1:]:
        above = write.execute(_END, (*pair, level)).fetchone()[0]
        below = write.execute(_BELOW, (*pair, level - 1, above)).fetchall()
        for at in range(FAN, len(below) + 1, FAN):
            write.execute(_PUT, (*pair, level, below[at - 1][0], sum(n for _, n in below[at - FAN : at])))
    return len(times) > _AT_ONCE
