"""Every entity comes with exactly the keys, types and values that it always had: a change is seen, and meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.entities.golden import FOLDER, answers, small_world, steady, written

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.fixture(scope="module")
def given() -> Iterator[dict[str, Any]]:
    """The answers of a new world."""
    with small_world() as shoal:
        yield answers(shoal)


def test_every_answer_has_a_file_and_the_reverse(given: dict[str, Any]) -> None:
    assert sorted(given) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_what_it_was(given: dict[str, Any], name: str) -> None:
    assert written(given[name]) == (FOLDER / f"{name}.json").read_text()


def test_what_differs_is_told_apart_and_the_rest_is_kept() -> None:
    one, other = "123456789012345678", "223456789012345678"
    value = {
        "id": one,
        "in_reply_to_id": other,
        "url": f"http://a/@ann/{one}",
        "created_at": "2026-11-22T01:02:03.004Z",
    }
    assert steady(value) == {
        "id": "ID-1",
        "in_reply_to_id": "ID-2",
        "url": "http://a/@ann/ID-1",
        "created_at": "MOMENT",
    }
    assert steady({"limit": 16777216, "size": "160x90", "created_at": 1_700_000_000}) == {
        "limit": 16777216,
        "size": "160x90",
        "created_at": 0,
    }
