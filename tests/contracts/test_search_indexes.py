"""The contract of a search index, tested on every index; the answers of each must match the memory index."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import ShoalError
from shoal.core.ids import EPOCH_MS, compose
from shoal.core.placement import SHARDS
from shoal.core.tokenizer import Clause, clause_of, words_of
from shoal.graph.contract import MAX_TIME
from shoal.graph.sqlite.sql import for_rows
from shoal.search import postgres as postgres_index
from shoal.search import sqlite, sqlite_sql
from shoal.search.contract import (
    FORM,
    PUBLIC,
    Ask,
    FillState,
    IndexChange,
    MemberRow,
    PostRow,
    SearchIndex,
    TagUses,
    by,
    to,
    within,
)
from shoal.search.divided import DividedIndex
from shoal.search.memory import MemoryIndex
from shoal.search.postgres import PostgresIndex
from shoal.search.sqlite import SqliteIndex
from tests.async_runner import in_loop, run
from tests.engines import postgres
from tests.example_counts import examples

ANN, BEN, CYD = 101, 102, 103


class IndexBackend:
    """One index of the suite. `open` may be called again; durable data is kept."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._path = folder / "shoal.db.search"
        self._url = ""

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    @asynccontextmanager
    async def open(self, *, read_only: bool = False) -> AsyncIterator[SearchIndex]:
        index = await self._opened(read_only=read_only)
        try:
            yield index
        finally:
            await index.close()

    async def _opened(self, *, read_only: bool) -> SearchIndex:
        if self.name == "memory":
            return MemoryIndex()
        if self.name == "sqlite":
            return await SqliteIndex.open(self._path, read_only=read_only)
        self._url = self._url or await postgres.database(self)
        return await PostgresIndex.open(self._url, read_only=read_only, patience=postgres.PATIENT_SECONDS)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> IndexBackend:
    return IndexBackend(request.param, tmp_path)


def post(id_: int, text: str = "", author: int = ANN, *marks: str, tags: Sequence[str] = ()) -> PostRow:
    """A public post, unless marks are given."""
    return PostRow(id_, author, id_ * 10, (*(marks or (PUBLIC,)), by(author)), tuple(words_of(text)), tuple(tags))


def member(id_: int, name: str, display: str = "", note: str = "", **more: Any) -> MemberRow:
    """A member whose join time equals the id."""
    return MemberRow(id_, name, id_, tuple(words_of(f"{name} {display}")), tuple(words_of(note)), **more)


def asked(text: str = "", **more: Any) -> Ask:
    """A query for posts with each of these words."""
    clauses = [clause_of(word) for word in text.split()]
    return Ask(every=tuple(clause for clause in clauses if clause), **more)


def names(text: str) -> list[Clause]:
    """Clauses for members with each of these words as prefixes."""
    return [clause for word in text.split() if (clause := clause_of(word, open_ended=True))]


@in_loop
async def test_search_index_word_finds_posts_newest_first(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, "Low tide"), post(3, "High TIDE"), post(2, "Tides")]))
        assert await index.posts(asked("tide"), 10) == [3, 1]
        assert await index.posts(asked("tide"), 1) == [3]
        assert await index.posts(asked("low tide"), 10) == [1]
        assert await index.posts(asked("nothing"), 10) == []


@in_loop
async def test_search_index_phrase_matches_adjacent_words(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, "blue hour"), post(2, "hour of blue"), post(3, "the blue hour.")]))
        assert await index.posts(Ask(every=(Clause(("blue", "hour")),)), 10) == [3, 1]


@in_loop
async def test_search_index_query_with_excluded_word_omits_posts_with_that_word(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, "blue sea"), post(2, "blue sky"), post(3, "red sky")]))
        assert await index.posts(asked("blue", none=(Clause(("sky",)),)), 10) == [1]
        assert await index.posts(Ask(none=(Clause(("sky",)), Clause(("gray", "sea")))), 10) == [1]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Das Café am Fluß", "cafe fluss"),
        ("東京の夜景を撮る", "夜景"),
        ("東京の夜景", "景"),
        ("서울에서 만나요", "서울"),
        ("สวัสดีครับ", "สวัสดี"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("ПРИВЕТ, мир", "привет"),
        ("مَرْحَبًا بالعالم", "مرحبا"),
        ("sunset 🌅!", "🌅"),
        ("ΟΔΟΣ ΑΘΗΝΑΣ", "οδος"),
    ],
)
@in_loop
async def test_search_index_matches_words_of_every_script(backend: IndexBackend, text: str, query: str) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, text), post(2, "something else")]))
        assert await index.posts(asked(query), 10) == [1]


@in_loop
async def test_search_index_returns_only_posts_visible_to_viewer(backend: IndexBackend) -> None:
    rows = [
        post(1, "tide"),
        post(2, "tide", ANN, ":private"),
        post(3, "tide", ANN, ":private", to(BEN)),
        post(4, "tide", CYD),
    ]
    async with backend.open() as index:
        await index.write(IndexChange(posts=rows, members=[member(CYD, "cyd", shy=True), member(ANN, "ann")]))
        assert await index.posts(asked("tide"), 10) == [1]
        assert await index.posts(asked("tide", viewer=ANN), 10) == [3, 2, 1]
        assert await index.posts(asked("tide", viewer=BEN), 10) == [3, 1]
        assert await index.posts(asked("tide", viewer=CYD), 10) == [4, 1]
        assert await index.posts(asked("tide", viewer=ANN, public=False), 10) == [3, 2, 1]
        assert await index.posts(asked("tide", public=False), 10) == []


@in_loop
async def test_search_index_filters_posts_by_index_term_id_and_time(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(
            IndexChange(posts=[post(n, "tide", ANN, PUBLIC, *([":has:media"] * (n % 2))) for n in range(1, 7)])
        )
        assert await index.posts(Ask(every=(Clause((":has:media",)),)), 10) == [5, 3, 1]
        assert await index.posts(asked("tide", before=5, after=2), 10) == [4, 3]
        assert await index.posts(asked("tide", since=30, until=50), 10) == [4, 3]
        assert await index.posts(asked("tide", before=3), 1) == [2]


@in_loop
async def test_search_index_query_with_term_groups_requires_one_index_term_of_each_group(backend: IndexBackend) -> None:
    async with backend.open() as index:
        cells = {1: ("a",), 2: ("b", "c"), 3: ("d",), 4: ("a", "d"), 5: ()}
        rows = [post(n, "tide", ANN, PUBLIC, *map(within, some)) for n, some in cells.items()]
        await index.write(IndexChange(posts=rows))
        marks = {name: within(name) for name in "abcde"}
        assert await index.posts(Ask(some=((marks["a"], marks["c"]),)), 10) == [4, 2, 1]
        assert await index.posts(Ask(some=((marks["a"], marks["c"]), (marks["d"], marks["b"]))), 10) == [4, 2]
        assert await index.posts(asked("tide", some=((marks["a"],),), before=4), 10) == [1]
        assert await index.posts(asked("ebb", some=((marks["a"],),)), 10) == []
        assert await index.posts(Ask(some=((marks["e"],),)), 10) == []


@in_loop
async def test_search_index_write_of_indexed_post_replaces_its_words_and_tags(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, "tide", tags=["sea", "dawn"]), post(2, "tide", tags=["sea"])]))
        await index.write(IndexChange(posts=[post(1, "dusk", tags=["dusk"])]))
        await index.write(IndexChange(posts=[post(1, "dusk", tags=["dusk"])]))
        assert await index.posts(asked("tide"), 10) == [2]
        assert await index.posts(asked("dusk"), 10) == [1]
        assert await index.tags("", 10) == [TagUses("dusk", 1), TagUses("sea", 1)]


@in_loop
async def test_search_index_deleted_rows_are_not_found(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, "tide", tags=["sea"])], members=[member(ANN, "ann", note="sea")]))
        await index.write(IndexChange(gone=[1, ANN, 7]))
        assert await index.posts(asked("tide"), 10) == []
        assert await index.members(names("ann"), "ann", 10) == []
        assert await index.members(names("sea"), "sea", 10) == []
        assert await index.tags("", 10) == []
        assert await index.ids(-1, 10) == []


@in_loop
async def test_search_index_members_are_found_by_name_prefix_and_note_words(backend: IndexBackend) -> None:
    people = [
        member(1, "ann_lee", "Anna Lee"),
        member(2, "joanna", "Ann of Cleves"),
        member(3, "bea", "Bea", "friends with ann"),
        member(4, "annette", listed=False),
        member(5, "annex", suspended=True, listed=False),
    ]
    async with backend.open() as index:
        await index.write(IndexChange(members=people, posts=[post(70, "hi", 2), post(71, "hi", 1)]))
        assert await index.members(names("ann"), "ann", 10) == [1, 2, 3]
        assert await index.members(names("ann"), "ann", 1) == [1]
        assert await index.members(names("lee ann"), "lee ann", 10) == [1]
        assert await index.members(names("friend"), "friend", 10) == []
        assert await index.members(names("ann"), "ann", 10, among=[2, 4, 5]) == [4, 2]
        assert await index.members(names("ann"), "ann", 10, among=[]) == []


@in_loop
async def test_sqlite_search_index_query_for_common_name_considers_only_newest_and_last_active_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "NEWEST", 5)
    monkeypatch.setattr(sqlite, "LATEST", 3)
    index = await SqliteIndex.open(tmp_path / "shoal.db.search")
    people = [member(id_, f"user{id_}", "Anna Sato", "likes tea") for id_ in range(1, 31)]
    await index.write(
        IndexChange(members=[*people, member(40, "ben", "Ben Sato"), member(41, "annabel", listed=False)])
    )
    await index.write(IndexChange(posts=[post(70, "x", 9), post(71, "x", 40), post(72, "x", 4), post(69, "x", 2)]))
    assert await index.members(names("anna"), "anna", 9) == [4, 9, 30, 29, 28, 27]
    assert await index.members(names("tea"), "tea", 3) == [4, 9, 30]
    assert await index.members(names("ben sato"), "ben", 9) == [40]
    assert await index.members(names("anna"), "anna", 9, among=[1, 2, 3, 41]) == [41, 2, 3, 1]
    await index.close()


@in_loop
async def test_search_index_tags_are_found_by_prefix_most_used_first(backend: IndexBackend) -> None:
    rows = [post(1, tags=["sea_z", "sea_a"]), post(2, tags=["sea_z", "sky"]), post(3, tags=["sea_b", "海辺"])]
    async with backend.open() as index:
        await index.write(IndexChange(posts=rows))
        assert await index.tags("sea", 10) == [TagUses("sea_z", 2), TagUses("sea_a", 1), TagUses("sea_b", 1)]
        assert await index.tags("sea", 1) == [TagUses("sea_z", 2)]
        assert await index.tags("海", 10) == [TagUses("海辺", 1)]
        assert await index.tags("xyz", 10) == []


@in_loop
async def test_search_index_profile_directory_is_sorted_by_last_post_or_join_time(backend: IndexBackend) -> None:
    people = [member(1, "ann"), member(2, "ben"), member(3, "cyd"), member(4, "dot", listed=False)]
    rows = [post(70, "x", 1), post(71, "x", 2), post(72, "x", 3, ":private"), post(73, "x", 4)]
    async with backend.open() as index:
        # A member and their posts may be indexed in any order.
        await index.write(IndexChange(posts=rows, members=people[:2]))
        await index.write(IndexChange(members=people[2:]))
        assert await index.directory("active", 10) == [2, 1, 3]
        assert await index.directory("new", 10) == [3, 2, 1]
        assert await index.directory("new", 1, 1) == [2]
        await index.write(IndexChange(gone=[71]))
        assert await index.directory("active", 10) == [1, 3, 2]


@in_loop
async def test_sqlite_search_index_migrated_from_older_version_sorts_members_by_last_post(tmp_path: Path) -> None:
    path = tmp_path / "old.search"
    rows = [post(70, "x", 1), post(71, "x", 2)]
    with closing(sqlite3.connect(path)) as old:
        old.executescript(sqlite_sql.MIGRATIONS[0].script)
        old.execute("PRAGMA user_version = 1")
        for row in rows:
            values = (row.id, row.author_id, row.written, row.public, msgspec.msgpack.encode(row))
            old.execute(for_rows(sqlite_sql.POST_PUT, 1, 5), values)
            old.execute(for_rows(sqlite_sql.WORDS_PUT, 1, 2), (row.id, " ".join((*row.marks, *row.words))))
        old.commit()
    index = await SqliteIndex.open(path)
    await index.write(IndexChange(members=[member(1, "ann"), member(2, "ben")]))
    assert await index.directory("active", 10) == [2, 1]
    await index.write(IndexChange(posts=[post(72, "y", 1)]))
    assert await index.directory("active", 10) == [1, 2]
    await index.write(IndexChange(gone=[72]))
    assert await index.directory("active", 10) == [2, 1]
    await index.close()


@in_loop
async def test_sqlite_search_index_writes_last_post_to_member_rows_only_after_several_members_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LATELY", 3)
    path = tmp_path / "shoal.db.search"
    steps = [(2, [2, 3, 1], [0, 0, 0]), (1, [1, 2, 3], [0, 0, 0]), (2, [2, 1, 3], [0, 0, 0])]
    steps += [(3, [3, 2, 1], [71, 72, 73]), (1, [1, 3, 2], [71, 72, 73])]
    index = await SqliteIndex.open(path)
    await index.write(IndexChange(members=[member(1, "ann"), member(2, "ben"), member(3, "cyd")]))
    with closing(sqlite3.connect(path)) as file:
        for number, (author, order, noted) in enumerate(steps, 70):
            await index.write(IndexChange(posts=[post(number, "x", author)]))
            assert await index.directory("active", 9) == order
            assert await index.directory("active", 1, 1) == order[1:2]
            assert [active for (active,) in file.execute("SELECT active FROM member ORDER BY id")] == noted
    await index.write(IndexChange(posts=[post(60, "x", 2)], gone=[74]))
    assert await index.directory("active", 9) == [3, 2, 1]
    await index.close()


@in_loop
async def test_sqlite_search_index_writes_posts_in_few_statements(tmp_path: Path) -> None:
    """After each statement the thread waits for the GIL, which a busy event loop holds."""
    index = await SqliteIndex.open(tmp_path / "index.db")
    await index.write(IndexChange(members=[member(n, f"m{n}") for n in range(7)]))
    told: list[str] = []
    assert index._writing is not None
    index._writing.set_trace_callback(told.append)
    rows = [post(1_000 + n, f"tide {n}", n % 7, tags=(f"t{n % 5}",)) for n in range(1, 513)]
    await index.write(IndexChange(posts=rows))
    # Lines with dashes are internal statements of FTS5.
    assert len([line for line in told if not line.startswith("--")]) < 20
    assert await index.rows([row.id for row in rows]) == {row.id: row for row in rows}
    assert await index.tags("t", 9) == [TagUses(f"t{n}", 512 // 5 + (0 < n <= 512 % 5)) for n in (1, 2, 0, 3, 4)]
    assert await index.directory("active", 9) == [1, 0, 6, 5, 4, 3, 2]
    await index.close()


@in_loop
async def test_search_index_written_posts_and_members_are_returned_by_id_and_in_id_order(backend: IndexBackend) -> None:
    async with backend.open() as index:
        row, ann = post(5, "tide", tags=["sea"]), member(ANN, "ann", "Ann", "by the sea")
        await index.write(IndexChange(posts=[row], members=[ann]))
        assert await index.rows([5, ANN, 9]) == {5: row, ANN: ann}
        assert await index.ids(-1, 10) == [5, ANN]
        assert await index.ids(5, 10) == [ANN]
        assert await index.ids(-1, 1) == [5]


@in_loop
async def test_search_index_fill_state_is_stored_and_clear_deletes_state_and_entries(backend: IndexBackend) -> None:
    async with backend.open() as index:
        assert await index.state() == FillState()
        await index.write(IndexChange(posts=[post(1, "tide", tags=["sea"])], members=[member(ANN, "ann")]))
        await index.keep_state(FillState(FORM, 7))
        await index.keep_state(FillState(FORM, 8))
        assert await index.state() == FillState(FORM, 8)
        await index.clear()
        assert (await index.state(), await index.ids(-1, 9), await index.tags("", 9)) == (FillState(), [], [])
        assert await index.posts(asked("tide"), 9) == []
        await index.write(IndexChange(posts=[post(1, "tide")]))
        assert await index.posts(asked("tide"), 9) == [1]


@in_loop
async def test_search_index_post_with_word_repeated_thousands_of_times_is_found(backend: IndexBackend) -> None:
    async with backend.open() as index:
        await index.write(IndexChange(posts=[post(1, "ha " * 3_000 + "x" * 5_000)]))
        assert await index.posts(asked("ha"), 9) == [1]


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@in_loop
async def test_search_index_data_survives_restart_and_read_only_index_refuses_writes(name: str, tmp_path: Path) -> None:
    kept = IndexBackend(name, tmp_path)
    async with kept.open() as index:
        await index.write(IndexChange(posts=[post(1, "tide")]))
    async with kept.open(read_only=True) as index:
        assert await index.posts(asked("tide"), 10) == [1]
        with pytest.raises(ShoalError):
            await index.write(IndexChange(gone=[1]))


@in_loop
async def test_search_index_missing_file_opened_read_only_is_empty_and_not_created(tmp_path: Path) -> None:
    kept = IndexBackend("sqlite", tmp_path)
    async with kept.open(read_only=True) as index:
        assert await index.posts(asked("tide"), 10) == []
    assert not kept.is_there


WORDS = ("tide", "tidal", "blue", "hour", "海", "海辺", "海辺の", "ö", "o")
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
ids = st.integers(1, 12)
people = st.sampled_from((ANN, BEN, CYD))
marks = st.lists(
    st.sampled_from((PUBLIC, to(ANN), to(BEN), ":has:media", ":in:en", ":cell:a", ":cell:b")), unique=True
).map(tuple)
posts = st.builds(
    lambda id_, author, written, some, text, tags: PostRow(
        id_, author, written, (*some, by(author)), tuple(words_of(text)), tuple(tags)
    ),
    ids,
    people,
    st.integers(0, 5),
    marks,
    texts,
    st.lists(st.sampled_from(("sea", "seal", "sky", "海")), unique=True, max_size=2),
)
members = st.builds(
    lambda id_, name, joined, display, note, listed, shy, suspended: MemberRow(
        id_, name, joined, tuple(words_of(f"{name} {display}")), tuple(words_of(note)), listed, shy, suspended
    ),
    people,
    st.sampled_from(("ann", "anna", "ben")),
    st.integers(0, 3),
    texts,
    texts,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
changes = st.builds(
    lambda found, some, gone: IndexChange(
        posts=list({row.id: row for row in found}.values()),
        members=list({row.id: row for row in some}.values()),
        gone=gone - {row.id for row in (*found, *some)},
    ),
    st.lists(posts, max_size=4),
    st.lists(members, max_size=2),
    st.sets(ids | people, max_size=2),
)
clauses = st.builds(
    lambda text, going_on: clause_of(text, open_ended=going_on) or Clause(("blue",)), texts, st.booleans()
)
clauses_and_marks = clauses | st.sampled_from((Clause((":has:media",)), Clause((by(ANN),))))
asks = st.builds(
    lambda every, none, some, before, after, since, viewer, public: Ask(
        every=tuple(every),
        none=tuple(none),
        some=tuple(some),
        before=before,
        after=after,
        since=since,
        viewer=viewer,
        public=public,
    ),
    st.lists(clauses_and_marks, max_size=2),
    st.lists(clauses_and_marks, max_size=1),
    st.lists(st.sampled_from(((":cell:a",), (":cell:a", ":cell:b"))), max_size=2),
    st.sampled_from((99, 9)),
    st.sampled_from((-1, 3)),
    st.sampled_from((0, 2)),
    st.none() | people,
    st.booleans(),
)
questions = st.tuples(st.lists(asks, min_size=3, max_size=5), st.lists(clauses, min_size=1, max_size=2))


async def _answers(index: SearchIndex, asked_for: tuple[list[Ask], list[Clause]]) -> list[Any]:
    wanted, called = asked_for
    who: Sequence[Collection[int] | None] = (None, (ANN, CYD))
    return [
        [await index.posts(ask, limit) for ask in wanted for limit in (2, 50)],
        [await index.members(called, "ann", limit, among=among) for among in who for limit in (1, 9)],
        [await index.tags(prefix, 9) for prefix in ("", "sea", "海")],
        [await index.directory(order, 9) for order in ("active", "new")],
        await index.ids(-1, 99),
        await index.rows([*range(13), ANN, BEN, CYD]),
    ]


@pytest.mark.parametrize(
    ("name", "few"), [("sqlite", 4_096), ("sqlite", 2), ("postgres", 2_000), ("postgres", 2), ("postgres", 0)]
)
def test_search_index_query_results_match_memory_index(
    name: str, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`few` limits on SQLite the posters not yet in member rows, and on PostgreSQL the posts that a query tries first."""
    monkeypatch.setattr(sqlite, "LATELY", few)
    monkeypatch.setattr(postgres_index, "_WINDOWS", (few, 2 * few) if few else ())
    shared = IndexBackend(name, tmp_path)

    @given(st.lists(changes, max_size=4), questions)
    @settings(max_examples=examples(30, full=60) if name == "postgres" else examples(50, full=150), deadline=None)
    def compare(steps: list[IndexChange], asked_for: tuple[list[Ask], list[Clause]]) -> None:
        async def both() -> None:
            reference = MemoryIndex()
            async with shared.open() as index:
                await index.clear()
                for change in steps:
                    await reference.write(change)
                    await index.write(change)
                    await index.write(change)
                assert await _answers(index, asked_for) == await _answers(reference, asked_for)

        run(both())

    compare()


def _on_shard(id_: int, author: int) -> int:
    """Return the id of a post on its author's shard; of a member (`id_` is `author`) too."""
    return compose(EPOCH_MS + id_, author)


def _spread(change: IndexChange) -> IndexChange:
    """Return the change with the ids of members, and of their posts, on a shard for each member."""
    return IndexChange(
        [msgspec.structs.replace(row, id=_on_shard(row.id, row.author_id)) for row in change.posts],
        [msgspec.structs.replace(row, id=_on_shard(row.id, row.id)) for row in change.members],
        {_on_shard(id_, author) for id_ in change.gone for author in (ANN, BEN, CYD)},
    )


def _divided(number: int) -> DividedIndex:
    return DividedIndex([MemoryIndex() for _ in range(number)], [shard % number for shard in range(SHARDS)])


@given(st.lists(changes.map(_spread), max_size=4), questions)
@settings(max_examples=examples(60, full=200), deadline=None)
def test_divided_search_index_query_results_match_undivided_index(
    steps: list[IndexChange], asked_for: tuple[list[Ask], list[Clause]]
) -> None:
    async def both() -> None:
        whole, divided = MemoryIndex(), _divided(3)
        for change in steps:
            await whole.write(change)
            await divided.write(partial(IndexChange, *change))
        every = await whole.ids(-1, 99)
        assert await divided.ids(-1, 99) == every
        assert [await divided.ids(after, 2) for after in every] == [await whole.ids(after, 2) for after in every]
        assert await divided.rows(every) == await whole.rows(every)
        asks, called = asked_for
        for ask in (msgspec.structs.replace(one, before=MAX_TIME, after=-1) for one in asks):
            assert [await divided.posts(ask, limit) for limit in (2, 50)] == [
                await whole.posts(ask, limit) for limit in (2, 50)
            ]
        assert [await divided.tags(prefix, 9) for prefix in ("", "sea")] == [
            await whole.tags(prefix, 9) for prefix in ("", "sea")
        ]
        assert await divided.directory("new", 2, 1) == await whole.directory("new", 2, 1)
        # Within a group, the order of members by latest post is that of each part.
        assert set(await divided.directory("active", 9)) == set(await whole.directory("active", 9))
        assert set(await divided.members(called, "ann", 9)) == set(await whole.members(called, "ann", 9))
        assert len(await divided.members(called, "ann", 1)) == len(await whole.members(called, "ann", 1))

    run(both())


@in_loop
async def test_divided_search_index_lists_members_by_prefix_then_name_then_note() -> None:
    index = _divided(3)
    rows = [
        member(ANN, "zed", "blue"),
        member(BEN, "bluebell"),
        member(CYD, "moon", note="blue"),
        member(104, "blueish"),
    ]
    await index.write(_spread(IndexChange(members=rows)))
    # The bits above the shard are the number of the member.
    found = [id_ >> 23 for id_ in await index.members(names("blue"), "blue", 9)]
    assert (set(found[:2]), found[2:]) == ({BEN, 104}, [ANN, CYD])
    assert await index.members(names("blue"), "blue", 1) in ([_on_shard(BEN, BEN)], [_on_shard(104, 104)])


@in_loop
async def test_divided_search_index_is_complete_when_all_parts_are_complete() -> None:
    parts = [MemoryIndex(), MemoryIndex()]
    index = DividedIndex(parts, [shard % 2 for shard in range(SHARDS)])
    await index.keep_state(FillState(FORM, 7))
    await parts[1].keep_state(FillState(FORM, 3))
    assert await index.state() == FillState(FORM, 3)
    await parts[1].keep_state(FillState())
    assert not (await index.state()).complete
    await index.keep_state(FillState(FORM, MAX_TIME))
    assert (await index.state()).complete
    await index.clear()
    assert await index.state() == FillState()
