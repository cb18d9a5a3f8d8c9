"""The response cache keeps an answer until the data that it was computed from changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import Unavailable
from shoal.core.ids import compose
from shoal.core.model import Member, Post
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.change_log import ChangeLog, list_mark, name_marks
from shoal.graph.cache.coherence import VersionTokenGuard, one_request
from shoal.graph.cache.dependencies import ReadSet, compared, current_read_set, depends_on, track_dependencies
from shoal.graph.contract import Batch, Cursor, KeyTaken
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, LOGGED_IN, PUBLISHED, USER_NAME, AssocType, Key
from shoal.response_cache import ResponseCache
from tests.async_runner import in_loop
from tests.example_counts import examples
from tests.graph.test_cached_graph import Slow
from tests.version_tokens import LocalVersionTokens

MEMBERS = [compose(1_767_225_600_000 + n, 3) for n in range(4)]
POSTS = [compose(1_767_225_700_000 + n, 3) for n in range(3)]
Question = Callable[[CachedGraph], Awaitable[Any]]


def questions() -> list[Question]:
    """Every way to read a graph."""
    a, b, c, d = MEMBERS
    return [
        lambda graph: graph.obj_get([a, POSTS[0]]),
        lambda graph: graph.assoc_count([a, b], (FOLLOWS, FOLLOWED_BY)),
        lambda graph: graph.assoc_get(a, (FOLLOWS, LIKES), [b, c, POSTS[1]]),
        lambda graph: graph.assoc_range(a, FOLLOWS, Cursor(limit=2)),
        lambda graph: graph.assoc_range(POSTS[0], LIKED_BY, Cursor(limit=2, oldest_first=True)),
        lambda graph: graph.assoc_range(a, LOGGED_IN, Cursor(limit=5)),
        lambda graph: graph.assoc_ranges([a, b, c], FOLLOWED_BY, Cursor(limit=2)),
        lambda graph: graph.assoc_common(a, (FOLLOWS,), d, FOLLOWED_BY),
        lambda graph: graph.key_get([Key(3, "name", f"n{a % 3}")]),
        lambda graph: graph.key_get([Key(3, USER_NAME, f"n{a % 3}")]),
        lambda graph: graph.assoc_ended(a, (FOLLOWS,), [b]),
    ]


def acts() -> st.SearchStrategy[tuple[str, int, int]]:
    member = st.sampled_from(MEMBERS)
    return st.one_of(
        st.tuples(st.sampled_from(("follow", "unfollow", "log in", "name")), member, member),
        st.tuples(st.sampled_from(("like", "unlike", "write")), member, st.sampled_from(POSTS)),
        st.tuples(st.just("join"), member, member),
    )


async def act(graph: CachedGraph, number: int, verb: str, one: int, other: int) -> None:
    batch = Batch(3)
    if verb == "join":
        held = (await graph.obj_get([one])).get(one)
        member = Member(id=one, name=f"m{number}", version=held.version + 1 if held else 1)
        (batch.obj_set if held else batch.obj_add)(member)
    elif verb == "write":
        held = (await graph.obj_get([other])).get(other)
        post = Post(id=other, author_id=one, text=f"t{number}", version=held.version + 1 if held else 1)
        (batch.obj_set if held else batch.obj_add)(post)
    elif verb == "name":
        for space in ("name", USER_NAME):
            batch.key_add(Key(3, space, f"n{one % 3}"), other)
    elif verb in {"follow", "like", "log in"}:
        batch.assoc_add(one, {"follow": FOLLOWS, "like": LIKES, "log in": LOGGED_IN}[verb], other, number)
    else:
        batch.assoc_del(one, FOLLOWS if verb == "unfollow" else LIKES, other, number)
    with suppress(KeyTaken):
        await graph.commit(batch)


async def kept(answers: ResponseCache[Any], graph: CachedGraph, number: int) -> Any:
    """Return the answer to a question, from the cache where possible."""

    async def ask() -> Any:
        return await questions()[number](graph)

    return await answers.get(number, ask)


def ready(answer: Any) -> tuple[Any, int]:
    return answer, 100


Story = list[tuple[str, int, int]]


@settings(max_examples=examples(75, full=150))
@given(st.lists(acts(), max_size=25))
@in_loop
async def test_response_cache_matches_fresh_reads_after_every_commit(story: Story) -> None:
    graph = CachedGraph(store := MemoryGraph())
    assert await told(story, graph, graph, store) == []


@settings(max_examples=examples(75, full=150))
@given(st.lists(acts(), max_size=25))
@in_loop
async def test_response_cache_matches_fresh_reads_when_another_process_commits(story: Story) -> None:
    store, versions = MemoryGraph(), LocalVersionTokens()
    ours, other = (CachedGraph(store, versions=versions) for _ in range(2))
    assert await told(story, ours, other, store) == []


async def told(story: Story, graph: CachedGraph, other: CachedGraph, store: MemoryGraph) -> list[str]:
    """Let two processes commit alternately; return cached answers that differ from a fresh read."""
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)
    wrong = []
    for number, (verb, one, another) in enumerate([("join", MEMBERS[0], 0), *story], 1):
        await act(graph if number % 3 == 0 else other, number, verb, one, another)
        for question, ask in enumerate(questions()):
            fresh = await ask(CachedGraph(store))
            for _ in range(3):
                with one_request():
                    if await kept(answers, graph, question) != fresh:
                        wrong.append(f"question {question} after act {number}")
    assert answers.missed < answers.asked
    return wrong


_EVERYTHING: Story = [
    ("follow", MEMBERS[0], MEMBERS[1]),
    ("follow", MEMBERS[1], MEMBERS[0]),
    ("join", MEMBERS[0], 0),
    ("like", MEMBERS[0], POSTS[0]),
    ("write", MEMBERS[1], POSTS[0]),
    ("unlike", MEMBERS[0], POSTS[0]),
    ("log in", MEMBERS[0], MEMBERS[1]),
    ("follow", MEMBERS[1], MEMBERS[3]),
    ("name", MEMBERS[0], MEMBERS[0]),
    ("unfollow", MEMBERS[0], MEMBERS[1]),
    ("follow", MEMBERS[0], MEMBERS[1]),
    ("unfollow", MEMBERS[0], MEMBERS[1]),
]


@pytest.mark.parametrize("left_out", ["nothing", "comparison", "objects", "lists", "keys", "names"])
@in_loop
async def test_response_cache_with_one_invalidation_check_disabled_returns_stale_answers(
    monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    async def always(_guard: object, _versions: object) -> bool:
        return True

    note = CachedGraph._note

    async def noted(graph: CachedGraph, read: ReadSet, ids: Sequence[int], atypes: Sequence[AssocType] = ()) -> None:
        if ("lists" if atypes else "objects") != left_out:
            await note(graph, read, ids, atypes)

    if left_out == "comparison":
        monkeypatch.setattr(VersionTokenGuard, "are_still", always)
    elif left_out == "keys":
        monkeypatch.setattr("shoal.graph.cache.cached_graph.do_not_cache", lambda: None)
    elif left_out == "names":
        # Reads record names and commits do not.
        def marks(keys: Sequence[Key]) -> list[int]:
            return name_marks(keys) if current_read_set() is not None else []

        monkeypatch.setattr("shoal.graph.cache.cached_graph.name_marks", marks)
    monkeypatch.setattr(CachedGraph, "_note", noted)
    store, versions = MemoryGraph(), LocalVersionTokens()
    ours, other = (CachedGraph(store, versions=versions) for _ in range(2))
    wrong = await told(_EVERYTHING, ours, other, store)
    assert bool(wrong) is (left_out != "nothing")


@in_loop
async def test_response_cache_hit_checks_all_version_tokens_once_and_reads_no_data() -> None:
    versions = LocalVersionTokens()
    graph = CachedGraph(store := MemoryGraph(), versions=versions)
    other = CachedGraph(store, versions=versions)
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)
    for number, verb in enumerate(("join", "follow", "like"), 1):
        await act(graph, number, verb, MEMBERS[0], POSTS[0] if verb == "like" else MEMBERS[1])

    async def page() -> Any:
        return [await ask(graph) for ask in questions()[:8]]

    async def look() -> list[Sequence[int]]:
        versions.asked.clear()
        with one_request():
            await answers.get("page", page)
        return list(versions.asked)

    await look()
    await look()
    missed = answers.missed
    (asked,) = await look()
    assert set(asked) == {*MEMBERS, POSTS[0]}
    assert answers.missed == missed
    # Another process changes unrelated data, then data of the answer. During the change, no version token is valid.
    await act(other, 4, "write", MEMBERS[3], POSTS[2])
    assert len(await look()) == 1
    assert answers.missed == missed
    await act(other, 5, "follow", MEMBERS[1], MEMBERS[2])
    await look()
    assert answers.missed == missed + 1
    begun = await versions.begin((MEMBERS[1],))
    await look()
    await look()
    assert answers.missed == missed + 3
    await versions.end((MEMBERS[1],), begun)
    versions.away = True
    await look()
    await look()
    assert answers.missed == missed + 5
    versions.away = False
    await look()
    missed = answers.missed
    await look()
    assert answers.missed == missed


@pytest.mark.parametrize("by_us", [True, False])
@in_loop
async def test_response_cache_next_answer_includes_change_made_during_computation(by_us: bool) -> None:
    store, versions = MemoryGraph(), LocalVersionTokens()
    graph, other = (CachedGraph(store, versions=versions) for _ in range(2))
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)

    async def ask() -> list[int]:
        return [one.id2 for one in await graph.assoc_range(MEMBERS[0], FOLLOWS, Cursor(limit=5))]

    async def overtaken() -> list[int]:
        found = await ask()
        change = act(graph if by_us else other, 1, "follow", MEMBERS[0], MEMBERS[1])
        # Runs in a separate request.
        await asyncio.create_task(change, context=Context())
        await ask()
        return found

    async def page(make: Callable[[], Awaitable[list[int]]]) -> list[int]:
        with one_request():
            found: list[int] = await answers.get("page", make)
            return found

    assert [await page(make) for make in (ask, overtaken, ask)] == [[], [], [MEMBERS[1]]]


@in_loop
async def test_response_cache_stores_no_answer_from_uncached_reads() -> None:
    graph = CachedGraph(MemoryGraph(), versions=LocalVersionTokens())
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)
    uncached = graph.uncached()

    async def page() -> Any:
        return await uncached.obj_get((MEMBERS[0],))

    for _ in range(3):
        assert await answers.get("page", page) == {}
    await act(graph, 1, "join", MEMBERS[0], 0)
    assert MEMBERS[0] in await answers.get("page", page)


@in_loop
async def test_response_cache_answer_from_uncounted_list_or_common_associations_follows_changes() -> None:
    graph = CachedGraph(MemoryGraph())
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)
    a, b, _, d = MEMBERS
    asked: dict[str, Question] = {
        "uncounted": lambda graph: graph.assoc_range(a, PUBLISHED, Cursor(limit=5)),
        "common": lambda graph: graph.assoc_common(a, (FOLLOWS,), d, FOLLOWED_BY),
    }
    await act(graph, 1, "follow", b, d)
    for name, ask in asked.items():
        for _ in range(3):
            await answers.get(name, partial(ask, graph))
    batch = Batch(3)
    batch.assoc_add(a, PUBLISHED, POSTS[0], 2)
    batch.assoc_add(a, FOLLOWS, b, 2)
    await graph.commit(batch)
    assert [one.id2 for one in await answers.get("uncounted", partial(asked["uncounted"], graph))] == [POSTS[0]]
    assert await answers.get("common", partial(asked["common"], graph)) == {FOLLOWS: frozenset({b})}


@in_loop
async def test_response_cache_keeps_answer_after_unrelated_change() -> None:
    graph = CachedGraph(MemoryGraph())
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)
    for _ in range(3):
        await kept(answers, graph, 0)
    assert (answers.asked, answers.missed) == (3, 2), "the first request records only the name"
    for number, verb in enumerate(("follow", "unfollow", "log in", "name"), 1):
        await act(graph, number, verb, MEMBERS[0], MEMBERS[1])
    await act(graph, 9, "like", MEMBERS[0], POSTS[0])
    await kept(answers, graph, 0)
    assert (answers.asked, answers.missed) == (4, 2), "the objects have not changed"
    await act(graph, 10, "write", MEMBERS[1], POSTS[0])
    await kept(answers, graph, 0)
    assert (answers.asked, answers.missed) == (5, 3)


@in_loop
async def test_response_cache_answer_computed_during_commit_is_computed_again() -> None:
    store = Slow()
    graph = CachedGraph(store)
    answers: ResponseCache[Any] = ResponseCache(graph.changes, 1_000, ready)
    await act(graph, 1, "follow", MEMBERS[0], MEMBERS[1])
    await kept(answers, graph, 3)
    # Before and after the write: the commit has not returned yet.
    for pause, other in ((store.may_store, MEMBERS[2]), (store.may_answer, MEMBERS[3])):
        for _ in range(6):
            # An answer that was used before is stored again immediately.
            await kept(answers, graph, 3)
        pause.clear()
        store.stored.clear()
        committing = asyncio.create_task(act(graph, 2, "follow", MEMBERS[0], other))
        await (asyncio.sleep(0) if pause is store.may_store else store.stored.wait())
        await kept(answers, graph, 3)
        pause.set()
        await committing
        assert other in [assoc.id2 for assoc in await kept(answers, graph, 3)]


@in_loop
async def test_response_cache_of_size_zero_stores_nothing_and_larger_cache_rechecks_dependencies() -> None:
    log = ChangeLog()
    none: ResponseCache[str] = ResponseCache(log, 0, ready)
    some: ResponseCache[str] = ResponseCache(log, 100, ready)
    says = "yes"

    async def other() -> str:
        return says

    async def make() -> str:
        depends_on(other, says)
        return says

    for answers in (none, some):
        assert [await answers.get("a", make) for _ in range(4)] == ["yes"] * 4
    assert (none.asked, some.asked, some.missed) == (0, 4, 2)
    says = "no"
    assert await some.get("a", make) == "no"


@in_loop
async def test_response_cache_keeps_answer_while_result_of_its_outside_query_is_unchanged() -> None:
    graph, said = MemoryGraph(), {"asked": 0}
    noted = CachedGraph(graph)
    await act(noted, 0, "join", MEMBERS[0], MEMBERS[0])

    async def even() -> bool:
        said["asked"] += 1
        held = (await noted.obj_get([MEMBERS[0]]))[MEMBERS[0]]
        return isinstance(held, Member) and int(held.name[1:]) % 2 == 0

    async def make() -> list[bool]:
        return [await compared(even), await compared(partial(compared, even))]

    answers: ResponseCache[list[bool]] = ResponseCache(noted.changes, 100, lambda answer: (answer, 1))
    for number, missed in ((0, 2), (2, 2), (4, 2), (5, 3)):
        await act(noted, number, "join", MEMBERS[0], MEMBERS[0])
        assert [await answers.get("a", make) for _ in range(3)] == [[number % 2 == 0] * 2] * 3
        assert answers.missed == missed
    with track_dependencies() as read:
        await make()
    assert not read.marks
    assert (read.checks[0].ask, read.checks[0].answer) == (even, False)
    assert len(read.checks) == 2
    before = said["asked"]
    assert await compared(even) is False
    assert said["asked"] == before + 1


@in_loop
async def test_response_cache_does_not_store_answer_when_reading_a_dependency_failed() -> None:
    away = True

    async def ask() -> str:
        if away:
            raise Unavailable("away")
        return "yes"

    async def make() -> str:
        try:
            return await compared(ask)
        except Unavailable:
            return "no"

    answers: ResponseCache[str] = ResponseCache(ChangeLog(), 100, lambda answer: (answer, 1))
    assert [await answers.get("a", make) for _ in range(4)] == ["no"] * 4
    assert answers.missed == 4
    away = False
    assert [await answers.get("a", make) for _ in range(4)] == ["yes"] * 4
    assert answers.missed == 5
    away = True
    assert await answers.get("a", make) == "no"


@in_loop
async def test_response_cache_stores_answer_less_often_each_time_it_is_invalidated_unused() -> None:
    says = 0
    remembered: list[int] = []

    def noted(answer: int) -> tuple[int, int]:
        remembered.append(answer)
        return answer, 1

    async def other() -> int:
        return says

    async def make() -> int:
        depends_on(other, says)
        return says

    answers: ResponseCache[int] = ResponseCache(ChangeLog(), 100, noted)
    for says in range(1, 80):
        assert await answers.get("a", make) == says
    assert remembered == [2, 6, 13, 26, 51, 76]
    for _ in range(24):
        assert await answers.get("a", make) == 79
    assert remembered[-1] == 79
    for says in range(80, 88):
        assert await answers.get("a", make) == says
    assert remembered[-3:] == [79, 80, 84], "the answer 79 was used"


@in_loop
async def test_response_cache_evicts_least_recently_used_answer_at_size_limit() -> None:
    answers: ResponseCache[int] = ResponseCache(ChangeLog(), 10, lambda answer: (answer, 3_000))

    async def ask(*names: int) -> int:
        """Request each name twice, which stores it; return the number of computed answers."""
        before = answers.missed
        for name in names:
            for _ in range(2):

                async def make(name: int = name) -> int:
                    return name

                assert await answers.get(name, make) == name
        return answers.missed - before

    assert await ask(1, 2, 3) == 6
    assert await ask(1, 2, 3) == 0
    assert await ask(4) == 2, "a fourth answer of 3 KB exceeds the limit of 10 KB"
    assert len(answers) == 3
    assert await ask(2, 3, 4) == 0
    assert await ask(1) == 1, "the least recently used answer was evicted, but its name was kept"


@in_loop
async def test_response_cache_oversized_answer_evicts_no_entry() -> None:
    answers: ResponseCache[int] = ResponseCache(
        ChangeLog(), 10, lambda answer: (answer, 30_000 if answer == 2 else 3_000)
    )

    async def one() -> int:
        return 1

    async def two() -> int:
        return 2

    for name, make in ((1, one), (1, one), (2, two), (2, two), (2, two)):
        assert await answers.get(name, make) == name
    before = answers.missed
    assert await answers.get(1, one) == 1
    assert (len(answers), answers.missed) == (1, before)


@in_loop
async def test_response_cache_does_not_store_errors() -> None:
    answers: ResponseCache[str] = ResponseCache(ChangeLog(), 100, ready)

    async def fail() -> str:
        raise ValueError("no")

    async def make() -> str:
        return "yes"

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await answers.get("a", fail)
    assert await answers.get("a", make) == "yes"


def test_change_log_is_bounded_and_reports_dropped_entries_as_changed() -> None:
    log = ChangeLog()
    began = log.position
    marks = [list_mark(MEMBERS[0], FOLLOWS.number)]
    log.note([MEMBERS[0]], [(MEMBERS[0], FOLLOWED_BY.number)])
    assert log.unchanged(marks, began)
    log.note(range(100_000), ())
    assert log.position == began + 100_002
    assert not log.unchanged(marks, began)
    assert log.unchanged(marks, log.position)
    now = log.position
    log.forget_all()
    assert not log.unchanged(marks, now)
    assert log.unchanged(marks, log.position)


def test_response_cache_dependencies_include_reads_of_child_tasks() -> None:
    async def story() -> set[int]:
        graph = CachedGraph(MemoryGraph())
        with track_dependencies() as read:
            await asyncio.gather(graph.obj_get([1]), asyncio.create_task(graph.obj_get([2])))
        await graph.obj_get([3])
        return read.marks

    assert asyncio.run(story()) == {1, 2}
