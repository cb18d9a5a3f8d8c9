"""A recipe as it is stored: read back as it was, and no hindrance when it is not valid any more."""

from __future__ import annotations

import msgspec
import pytest

from shoal.core.ranking.preferences import FeedPreferences
from shoal.core.ranking.recipes import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_recipe_is_read_back_as_it_was(name: str) -> None:
    assert FeedPreferences(id=1, member_id=2, document=msgspec.json.encode(PRESETS[name])).recipe == PRESETS[name]


@pytest.mark.parametrize("document", [b"", b"x", b"[]", b'{"half_life_hours": 0}', b'{"weights": {"no_such": 1}}'])
def test_a_recipe_that_is_not_valid_is_none(document: bytes) -> None:
    assert FeedPreferences(id=1, member_id=2, document=document).recipe is None
