"""The answers of every tag cloud store match the memory store after random merges."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.graph.schema import tag_id
from shoal.tagcloud.contract import AuthorKey, CloudStore, Day, Merge, Overtaken, TagRow, TagRule
from shoal.tagcloud.heat import Heat
from shoal.tagcloud.memory import MemoryCloud
from tests.async_runner import run
from tests.example_counts import examples
from tests.tagcloud.stores import AT, DAY, FIRST, CloudBackend, increment_id, merge

NAMES = ("dawn", "reef", "surf", "tide", "wind", "salt")
TAGS = {tag_id(name): name for name in NAMES}
DAYS = range(DAY - 3, DAY + 2)
BUCKETS = range(3)
INCREMENTS = [increment_id(number) for number in range(12)]

numbers = st.integers(-3, 5)
heats = st.builds(Heat, st.sampled_from((0.0, 1.0, 1.5, -0.25, 3.0)), st.integers(-2, 3))
rows = st.builds(
    TagRow,
    st.sampled_from(sorted(TAGS)),
    st.just(""),
    numbers,
    st.tuples(heats, heats, heats),
    st.dictionaries(st.sampled_from(("Dawn", "☂", "")), numbers, max_size=2),
    st.dictionaries(st.sampled_from(DAYS), st.builds(Day, numbers, numbers, numbers), max_size=2),
) | st.builds(TagRow, st.sampled_from(sorted(TAGS)), st.just(""))
keys = st.tuples(st.sampled_from(sorted(TAGS)), st.sampled_from(DAYS), st.integers(1, 3))
rules = st.builds(TagRule, st.sampled_from(NAMES), st.booleans(), st.sampled_from(("", *NAMES)))


@st.composite
def merges(draw: st.DrawFn) -> Merge:
    """The version is set when the merge is written."""
    found = {
        row.id: TagRow(row.id, TAGS[row.id], row.n, row.heats, row.forms, row.days) for row in draw(st.lists(rows))
    }
    return merge(
        1,
        rows=list(found.values()),
        authors=draw(st.dictionaries(keys, st.integers(-1, 4), max_size=8)),
        increments=draw(st.lists(st.sampled_from(INCREMENTS), unique=True, max_size=3)),
        marks=draw(st.dictionaries(st.sampled_from(BUCKETS), st.binary(min_size=1, max_size=20), max_size=2)),
        rules=list({rule.name: rule for rule in draw(st.lists(rules, max_size=2))}.values()),
        before_day=draw(st.sampled_from(DAYS)),
        cloud=draw(st.binary(max_size=9)),
        state=draw(st.binary(max_size=9)),
    )


steps = st.lists(
    st.tuples(st.just("merge"), merges())
    | st.tuples(st.sampled_from(("put", "discard", "late")), st.sampled_from(INCREMENTS)),
    max_size=12,
)


async def everything(store: CloudStore) -> dict[str, Any]:
    """The answers of a store to all queries."""
    every: list[AuthorKey] = [(tag, day, member) for tag in TAGS for day in DAYS for member in range(1, 4)]
    return {
        "version": await store.version(),
        "head": await store.head(),
        "clouds": await store.clouds(5),
        "merged": await store.merged(INCREMENTS),
        **{f"marks after {version}": await store.marks(BUCKETS, version) for version in range(3)},
        "tags": await store.tags(TAGS),
        "scan": await store.scan(FIRST, 4),
        "authors": await store.authors(every),
        "crowds": await store.author_counts({key[:2] for key in every[::2]}),
        **{f"top {window}": await store.top(window, 4) for window in range(-1, 3)},
        "rules": await store.rules(),
        "inbox": await store.inbox(4),
        "waiting": await store.waiting(),
    }


async def same(backend: CloudBackend, taken: list[tuple[str, Any]]) -> None:
    memory = MemoryCloud()
    before_day = 0
    async with backend.open() as store:
        for what, value in taken:
            for each in (memory, store):
                if what == "put":
                    await each.put(value, b"body of " + value)
                elif what == "discard":
                    await each.discard([value])
                elif what == "late":
                    with pytest.raises(Overtaken):
                        await each.write(merge(await each.version(), increments=[value]))
                else:
                    # The day never decreases.
                    before_day = max(before_day, value.before_day)
                    version = await each.version() + 1
                    await each.write(
                        merge(
                            version,
                            rows=value.rows,
                            authors=value.authors,
                            increments=value.increments,
                            marks=value.marks,
                            rules=value.rules,
                            before_day=before_day,
                            at=AT + version,
                            cloud=value.head.cloud,
                            state=value.head.state,
                        )
                    )
            assert await everything(store) == await everything(memory)
    async with backend.open() as store:
        assert await everything(store) == await everything(memory)


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@settings(deadline=None, max_examples=examples(20, full=40))
@given(taken=steps)
def test_tag_store_query_results_match_memory_store(name: str, taken: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        run(same(CloudBackend(name, Path(folder)), taken))


# DynamoDB needs many requests, so use fewer examples.
@settings(deadline=None, max_examples=examples(5, full=10))
@given(taken=steps)
def test_dynamodb_tag_store_query_results_match_memory_store(taken: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        run(same(CloudBackend("dynamodb", Path(folder)), taken))
