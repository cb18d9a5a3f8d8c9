"""Members by the words of their names and notes, in a search index on SQLite.

Of names that few have, every member is ranked. Of those that many have, it is the newest of them, and those who posted lately: the
members whom the ranking puts first, and a search that costs the same however many there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.tokenizer import Clause
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


class _Words(NamedTuple):
    """Where words are looked for: the table of them, and the words of a row."""

    table: str
    of: Callable[[MemberRow], Sequence[str]]


_NAMES = _Words("member_names", lambda row: row.words)
_NOTES = _Words("member_notes", lambda row: row.note)


class _Candidates(NamedTuple):
    """Members to be ranked, and whether they are all who have the words."""

    ids: dict[int, None]
    whole: bool


def found_members(read: sqlite3.Connection, question: MemberQuestion) -> list[int]:
    """Return what `SearchIndex.members` promises."""
    closed = tuple(clause._replace(open=False) for clause in question.clauses)
    noted = question._replace(clauses=closed, name="")
    if question.among is None:
        return _found(read, question, noted)
    found = dict.fromkeys(_among(read, _NAMES, question, question.among))
    if len(found) < question.limit:
        found |= dict.fromkeys(_among(read, _NOTES, noted, question.among))
    return list(found)[: question.limit]


def _found(read: sqlite3.Connection, question: MemberQuestion, noted: MemberQuestion) -> list[int]:
    named = _candidates(read, _NAMES, question.clauses)
    found = _ranked(read, named.ids, question)
    if len(found) < question.limit:
        ids = [id_ for id_ in _candidates(read, _NOTES, noted.clauses).ids if id_ not in named.ids]
        if not named.whole:
            ids = [row.id for row in _rows(read, ids) if not _have(row.words, question.clauses)]
        found += _ranked(read, ids, noted._replace(limit=question.limit - len(found)))
    return found


def _among(read: sqlite3.Connection, words: _Words, question: MemberQuestion, among: Sequence[int]) -> list[int]:
    values = {"name": question.name, "limit": question.limit, "match": every(question.clauses), "among": _json(among)}
    return [id_ for (id_,) in read.execute(sql.MEMBERS_AMONG.format(words=words.table), values)]


def _candidates(read: sqlite3.Connection, words: _Words, clauses: Sequence[Clause]) -> _Candidates:
    """Return the members with the words: where they are more than `NEWEST`, so many, and those who posted lately."""
    newest = sql.MEMBERS_NEWEST.format(words=words.table)
    ids = [id_ for (id_,) in read.execute(newest, (every(clauses), NEWEST + 1))]
    if len(ids) <= NEWEST:
        return _Candidates(dict.fromkeys(ids), whole=True)
    latest = (_member_row(data) for (data,) in read.execute(sql.MEMBERS_LATEST, (LATEST, 0)))
    ids[NEWEST:] = (row.id for row in latest if _have(words.of(row), clauses))
    return _Candidates(dict.fromkeys(ids), whole=False)


def _ranked(read: sqlite3.Connection, ids: Iterable[int], question: MemberQuestion) -> list[int]:
    values = {"name": question.name, "limit": question.limit, "ids": _json(ids)}
    return [id_ for (id_,) in read.execute(sql.MEMBERS_RANKED, values)]


def _rows(read: sqlite3.Connection, ids: Iterable[int]) -> list[MemberRow]:
    return [_member_row(data) for _, data in read.execute(sql.HELD.format(table="member"), (_json(ids),))]


def _have(words: Sequence[str], clauses: Sequence[Clause]) -> bool:
    return all(says(words, clause) for clause in clauses)


def every(clauses: Iterable[Clause]) -> str:
    """Return a question for all of these, as FTS5 has it."""
    return " AND ".join(map(one, clauses))


def one(clause: Clause) -> str:
    """Return a question for one of them. No word has a quotation mark in it."""
    return f'"{" ".join(clause.words)}"{" *" if clause.open else ""}'


def _json(ids: Iterable[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
