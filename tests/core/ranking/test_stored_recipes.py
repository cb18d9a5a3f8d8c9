"""Stored recipes: they round-trip, and invalid ones are ignored."""

from __future__ import annotations

import msgspec
import pytest

from shoal.core.ranking.preferences import FeedPreferences
from shoal.core.ranking.recipes import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_stored_recipe_is_read_back_unchanged(name: str) -> None:
    assert FeedPreferences(id=1, member_id=2, document=msgspec.json.encode(PRESETS[name])).recipe == PRESETS[name]


@pytest.mark.parametrize("document", [b"", b"x", b"[]", b'{"half_life_hours": 0}', b'{"weights": {"no_such": 1}}'])
def test_stored_recipe_that_cannot_be_parsed_is_ignored(document: bytes) -> None:
    assert FeedPreferences(id=1, member_id=2, document=document).recipe is None
