"""The search index in a separate SQLite file, with FTS5.

Member search ranks every member whose name matches a rare word. For a common word it ranks the newest members and the most recent
posters, which the ranking puts first, so the cost does not depend on the number of matches.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from shoal.core.tokenizer import Clause
from shoal.graph.sqlite.derived import DerivedFile, execute_rows
from shoal.graph.sqlite.files import transaction
from shoal.search import sqlite_sql as sql
from shoal.search.contract import (
    Ask,
    FillState,
    IndexChange,
    Making,
    MemberRow,
    Order,
    PostRow,
    TagUses,
    by,
    says,
    ways,
)

NEWEST = 256
"""Number of matching members up to which all are ranked; if more match, only the newest of them are."""
LATEST = 256
"""Number of the most recent posters whose matches are ranked in addition, if more than `NEWEST` members match."""

_member_row = msgspec.msgpack.Decoder(MemberRow).decode


class MemberQuestion(NamedTuple):
    """The arguments of `SearchIndex.members`."""

    clauses: tuple[Clause, ...]
    name: str
    limit: int
    among: tuple[int, ...] | None


class _Words(NamedTuple):
    """A full-text table of members, and the function that returns the words that it has of a member."""

    table: str
    of: Callable[[MemberRow], Sequence[str]]


_NAMES = _Words("member_names", lambda row: row.words)
_NOTES = _Words("member_notes", lambda row: row.note)


class _Candidates(NamedTuple):
    """Members to rank, and whether they include every match."""

    ids: dict[int, None]
    whole: bool


def found_members(read: sqlite3.Connection, question: MemberQuestion) -> list[int]:
    closed = tuple(clause._replace(open=False) for clause in question.clauses)
    bio_clauses = question._replace(clauses=closed, name="")
    if question.among is None:
        return _found(read, question, bio_clauses)
    found = dict.fromkeys(_among(read, _NAMES, question, question.among))
    if len(found) < question.limit:
        found |= dict.fromkeys(_among(read, _NOTES, bio_clauses, question.among))
    return list(found)[: question.limit]


def _found(read: sqlite3.Connection, question: MemberQuestion, bio_clauses: MemberQuestion) -> list[int]:
    named = _candidates(read, _NAMES, question.clauses)
    found = _ranked(read, named.ids, question)
    if len(found) < question.limit:
        ids = [id_ for id_ in _candidates(read, _NOTES, bio_clauses.clauses).ids if id_ not in named.ids]
        if not named.whole:
            ids = [row.id for row in _rows(read, ids) if not _have(row.words, question.clauses)]
        found += _ranked(read, ids, bio_clauses._replace(limit=question.limit - len(found)))
    return found


def _among(read: sqlite3.Connection, words: _Words, question: MemberQuestion, among: Sequence[int]) -> list[int]:
    values = {
        "name": question.name,
        "limit": question.limit,
        "match": every(question.clauses),
        "among": _json(among),
    }
    return [id_ for (id_,) in read.execute(sql.MEMBERS_AMONG.format(words=words.table), values)]


def _candidates(read: sqlite3.Connection, words: _Words, clauses: Sequence[Clause]) -> _Candidates:
    """Return the members who match all clauses; if more than `NEWEST` do, the newest of them and those who posted recently."""
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
    return " AND ".join(map(one, clauses))


def one(clause: Clause) -> str:
    return f'"{" ".join(clause.words)}"{" *" if clause.open else ""}'


LATELY = 4_096
"""Number of authors whose latest post is buffered before their rows are updated together, so that each page is written once."""
LAST_CHARACTER = "\U0010ffff"

_encode = msgspec.msgpack.Encoder().encode
_post_row = msgspec.msgpack.Decoder(PostRow).decode


class SqliteIndex(DerivedFile):
    title = "the search index"
    name = "search"
    migrations = sql.MIGRATIONS
    cache_kib = 32_768
    keeps = True

    async def write(self, change: IndexChange | Making) -> None:
        # Build the change in the writing thread, because a change from another thread would pass through the busy event loop.
        await self._write(lambda write: _write(write, change if isinstance(change, IndexChange) else change()))

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        values = {"before": ask.before, "after": ask.after, "since": ask.since, "until": ask.until, "limit": limit}

        def read(connection: sqlite3.Connection) -> list[int]:
            found: set[int] = set()
            for own, marks in ways(ask):
                match = _match(ask, marks)
                found.update(id_ for (id_,) in connection.execute(sql.POSTS, {**values, "match": match, "own": own}))
            return sorted(found, reverse=True)[:limit]

        return await self._read(read)

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        question = MemberQuestion(tuple(clauses), name, limit, None if among is None else tuple(among))
        return await self._read(partial(found_members, question=question))

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        values = {"prefix": prefix, "end": prefix + LAST_CHARACTER, "limit": limit}
        return await self._read(lambda read: [TagUses(*row) for row in read.execute(sql.TAGS, values)])

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        return await self._read(lambda read: [id_ for (id_,) in read.execute(sql.DIRECTORY[order], (limit, offset))])

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:
        requested = list(ids)
        return await self._read(lambda read: {**_held_posts(read, requested), **_held_members(read, requested)})

    async def ids(self, after: int, limit: int) -> list[int]:
        values = {"after": after, "limit": limit}
        return await self._read(lambda read: [id_ for (id_,) in read.execute(sql.IDS, values)])

    async def state(self) -> FillState:
        found = await self._read(lambda read: read.execute(sql.STATE).fetchone())
        return FillState(*found) if found else FillState()

    async def keep_state(self, state: FillState) -> None:
        await self._write(lambda write: write.execute(sql.STATE_PUT, state))

    async def clear(self) -> None:
        def clear(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                for statement in sql.CLEAR:
                    connection.execute(statement)

        await self._write(clear)


def _write(connection: sqlite3.Connection, change: IndexChange) -> None:
    with transaction(connection):
        uses: Counter[str] = Counter()
        newest, unsure = _write_posts(connection, change, uses)
        unsure |= _write_members(connection, change)
        counted = {name: n for name, n in uses.items() if n}
        execute_rows(connection, sql.TAG_COUNT, list(counted.items()), 2)
        connection.execute(sql.TAGS_DROP, (_json(name for name, n in counted.items() if n < 0),))
        execute_rows(connection, sql.LATELY, [(author, newest[author]) for author in newest.keys() - unsure], 2)
        connection.executemany(sql.LATELY_DROP, [(author,) for author in unsure])
        connection.executemany(sql.ACTIVE_RECOMPUTE, [(author, f'"{by(author)}"') for author in unsure])
        ((lately,),) = connection.execute(sql.LATELY_SIZE)
        if lately >= LATELY:
            connection.execute(sql.ACTIVE)
            connection.execute(sql.LATELY_CLEAR)


def _write_posts(
    connection: sqlite3.Connection, change: IndexChange, uses: Counter[str]
) -> tuple[dict[int, int], set[int]]:
    """Write posts. Return the newest written public post of each author, and the authors of replaced or deleted posts.

    Adds the change in the number of posts of each tag to `uses`.
    """
    put = {row.id: row for row in change.posts}
    stored = _held_posts(connection, [*put, *change.gone])
    new = [row for id_, row in put.items() if stored.get(id_) != row]
    old = [row for id_, row in stored.items() if put.get(id_) != row]
    for row in old:
        uses.subtract(row.tags)
    for row in new:
        uses.update(row.tags)
    connection.executemany(sql.WORDS_DROP, [(row.id, _text(row)) for row in old])
    connection.executemany(sql.POST_DROP, [(row.id,) for row in old])
    execute_rows(
        connection, sql.POST_PUT, [(row.id, row.author_id, row.written, row.public, _encode(row)) for row in new], 5
    )
    execute_rows(connection, sql.WORDS_PUT, [(row.id, _text(row)) for row in new], 2)
    newest = {row.author_id: row.id for row in sorted(new, key=lambda row: row.id) if row.public}
    return newest, {row.author_id for row in old}


def _write_members(connection: sqlite3.Connection, change: IndexChange) -> set[int]:
    put = {row.id: row for row in change.members}
    stored = _held_members(connection, [*put, *change.gone])
    new = [row for id_, row in put.items() if stored.get(id_) != row]
    old = [row for id_, row in stored.items() if put.get(id_) != row]
    connection.executemany(sql.NAMES_DROP, [(row.id, " ".join(row.words)) for row in old])
    connection.executemany(sql.NOTES_DROP, [(row.id, " ".join(row.note)) for row in old if row.note])
    connection.executemany(sql.MEMBER_DROP, [(row.id,) for row in old])
    connection.executemany(
        sql.MEMBER_PUT,
        [(row.id, row.name, row.joined, row.listed, row.shy, row.suspended, _encode(row)) for row in new],
    )
    connection.executemany(sql.NAMES_PUT, [(row.id, " ".join(row.words)) for row in new])
    connection.executemany(sql.NOTES_PUT, [(row.id, " ".join(row.note)) for row in new if row.note])
    return {row.id for row in new}


def _held_posts(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, PostRow]:
    found = connection.execute(sql.HELD.format(table="post"), (_json(ids),))
    return {id_: _post_row(data) for id_, data in found}


def _held_members(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, MemberRow]:
    found = connection.execute(sql.HELD.format(table="member"), (_json(ids),))
    return {id_: _member_row(data) for id_, data in found}


def _text(row: PostRow) -> str:
    return " ".join((*row.marks, *row.words))


def _match(ask: Ask, marks: Sequence[str]) -> str:
    every = " AND ".join((*map(_either, (marks, *ask.some)), *map(one, ask.every)))
    return f"({every}) NOT ({' OR '.join(map(one, ask.none))})" if ask.none else every


def _either(marks: Iterable[str]) -> str:
    return "({})".format(" OR ".join(f'"{mark}"' for mark in marks))


def _json(values: Iterable[int] | Iterable[str]) -> str:
    return msgspec.json.encode(list(values)).decode()
