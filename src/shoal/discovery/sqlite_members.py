"""Members by the words of their names and notes, in a search index on SQLite.

Of names that few have, every member is ranked. Of those that many have, it is the newest of them, and those who posted lately: the
members whom the ranking puts first, and a search that costs the same however many there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.words import Clause
from shoal.discovery import sqlite_sql as sql
from shoal.discovery.contract import MemberRow
from shoal.discovery.fitting import says

NEWEST = 256
"""So many members with the words are ranked, and the newest of more than that."""
LATEST = 256
"""So many of those who posted last are looked at besides, where there are more."""

_member_row = msgspec.msgpack.Decoder(MemberRow).decode


class MemberQuestion(NamedTuple):
    """The arguments of `SearchIndex.members`."""

    clauses: tuple[Clause, ...]
    name: str
    limit: int
    among: tuple[int, ...] | None


def found_members(read: sqlite3.Connection, question: MemberQuestion) -> list[int]:
    """Return what `SearchIndex.members` promises."""
    named = f"names : ({every(question.clauses)})"
    found = _found(read, named, question, noted=False)
    if len(found) < question.limit:
        closed = tuple(clause._replace(open=False) for clause in question.clauses)
        rest = question._replace(clauses=closed, name="", limit=question.limit - len(found))
        found += _found(read, f"note : ({every(closed)}) NOT {named}", rest, noted=True, but=frozenset(found))
    return found


def _found(
    read: sqlite3.Connection, match: str, question: MemberQuestion, *, noted: bool, but: frozenset[int] = frozenset()
) -> list[int]:
    values = {"name": question.name, "limit": question.limit}
    if question.among is not None:
        rows = read.execute(sql.MEMBERS_AMONG, {**values, "match": match, "among": _json(question.among)})
        return [id_ for (id_,) in rows]
    ids = [id_ for (id_,) in read.execute(sql.MEMBERS_NEWEST, (match, NEWEST + 1))]
    if len(ids) > NEWEST:
        ids = [*ids[:NEWEST], *(id_ for id_ in _latest(read, question.clauses, noted=noted) if id_ not in but)]
    return [id_ for (id_,) in read.execute(sql.MEMBERS_RANKED, {**values, "ids": _json(dict.fromkeys(ids))})]


def _latest(read: sqlite3.Connection, clauses: Sequence[Clause], *, noted: bool) -> list[int]:
    """Members among those who posted last who have the words."""
    rows = [_member_row(data) for (data,) in read.execute(sql.MEMBERS_LATEST, (LATEST, 0))]
    return [row.id for row in rows if all(says(row.note if noted else row.words, clause) for clause in clauses)]


def every(clauses: Iterable[Clause]) -> str:
    """Return a question for all of these, as FTS5 has it."""
    return " AND ".join(map(one, clauses))


def one(clause: Clause) -> str:
    """Return a question for one of them. No word has a quotation mark in it."""
    return f'"{" ".join(clause.words)}"{" *" if clause.open else ""}'


def _json(ids: Iterable[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
