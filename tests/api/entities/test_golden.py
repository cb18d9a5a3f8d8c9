"""API responses are compared with golden files, so that every change of keys, types or values is intentional."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.entities.golden import FOLDER, answers, small_network, steady, written

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.fixture(scope="module")
def given() -> Iterator[dict[str, Any]]:
    """Return the responses of a new server."""
    with small_network() as shoal:
        yield answers(shoal)


def test_api_golden_files_exist_for_exactly_the_tested_responses(given: dict[str, Any]) -> None:
    assert sorted(given) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_api_response_equals_its_golden_file(given: dict[str, Any], name: str) -> None:
    assert written(given[name]) == (FOLDER / f"{name}.json").read_text()


def test_api_golden_file_normalization_replaces_only_ids_and_times() -> None:
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
