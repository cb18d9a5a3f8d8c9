"""Heads of lists after a change of entries equal a new read of the list."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from shoal.graph.cache import entries as heads
from shoal.graph.cache.entries import ListPrefix
from shoal.graph.contract import Assoc

times = st.dictionaries(st.integers(1, 9), st.integers(1, 20), max_size=9)
"""Start times of entries by target object."""


def newest_first(entries: dict[int, int]) -> list[Assoc]:
    return sorted((Assoc(id2, time, b"") for id2, time in entries.items()), key=lambda a: (a.time, a.id2), reverse=True)


@example({1: 5, 2: 4}, 9, {3: 6})
@given(times, st.integers(1, 9), st.dictionaries(st.integers(1, 9), st.none() | st.integers(1, 20), max_size=3))
def test_cached_list_head_after_changes_equals_the_newest_entries_of_the_list(
    before: dict[int, int], size: int, changes: dict[int, int | None]
) -> None:
    listed = newest_first(before)
    whole = len(listed) < size or not listed
    head = ListPrefix(listed[:size], whole)
    after = before | {id2: time for id2, time in changes.items() if time is not None}
    left = newest_first({id2: time for id2, time in after.items() if changes.get(id2, 0) is not None})
    with patch.object(heads, "HEAD", 2):
        changed = head.changed({id2: None if time is None else (time, b"") for id2, time in changes.items()})
    if changed is None:
        assert not whole
        return
    assert changed.assocs is head.assocs
    assert changed.assocs == left[: len(changed.assocs)]
    assert not changed.whole or changed.assocs == left
    assert changed.assocs or changed.whole
