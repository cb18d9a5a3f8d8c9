"""Shard placement: the published scheme with known values, and its distribution over real user names."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterable
from hashlib import md5
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.placement import DATA_SOURCES, SHARDS, SHARDS_PER_SOURCE, media_path, place, source_of

DATA = Path(__file__).parents[2].parent / "shared" / "data"
USER_NAMES = DATA / "usernames" / "fotolog_usernames.txt.gz"

KNOWN = [
    # Digest, then a, b, c: two hex digits each, mod 64, 64 and 128, by hand.
    ("frunk", "5d2ead6cb89b0b84103d8d2dd91abb0b", (29, 46, 45)),
    ("", "d41d8cd98f00b204e9800998ecf8427e", (20, 29, 12)),
    ("a", "0cc175b9c0f1b6a831c399e269772661", (12, 1, 117)),
]


@pytest.fixture(scope="module")
def user_names() -> list[str]:
    """Return 631,154 real user names."""
    if not USER_NAMES.exists():
        if os.environ.get("CI") and DATA.exists():
            pytest.fail(f"{USER_NAMES} is missing though {DATA} is there")
        pytest.skip(f"no real user names at {USER_NAMES}")
    with gzip.open(USER_NAMES, "rt", encoding="utf-8") as lines:
        return lines.read().split()


def chi_square(values: Iterable[int], bins: int) -> float:
    """Pearson's statistic of counts against equal shares: about `bins` for a random spread."""
    counts = Counter(values)
    expected = counts.total() / bins
    return sum((counts[n] - expected) ** 2 / expected for n in range(bins))


def chance(bins: int) -> float:
    """Return the mean of the statistic plus five standard deviations, exceeded once in a million runs."""
    return bins + 5 * sqrt(2 * bins)


@pytest.mark.parametrize(("name", "digest", "levels"), KNOWN)
def test_shard_placement_uses_first_six_digits_of_md5(name: str, digest: str, levels: tuple[int, int, int]) -> None:
    assert md5(name.encode(), usedforsecurity=False).hexdigest() == digest
    assert tuple(place(name)) == levels


@given(st.text(max_size=40))
def test_shard_placement_of_any_name_follows_published_scheme(name: str) -> None:
    digits = md5(name.lower().encode(), usedforsecurity=False).hexdigest()
    a, b, c = (int(digits[n : n + 2], 16) for n in (0, 2, 4))
    placement = place(name)
    assert placement == (a % 64, b % 64, c % 128)
    assert placement.shard == placement.a * 128 + placement.c < SHARDS
    assert source_of(placement.shard) == placement.a


def test_shard_placement_of_user_name_ignores_letter_case() -> None:
    assert place("FrUnk") == place("frunk")
    assert media_path("FrUnk") == media_path("frunk")


def test_media_path_is_three_levels_and_user_name() -> None:
    assert media_path("frunk") == "29/46/45/frunk"


def test_data_source_holds_128_consecutive_shards() -> None:
    assert [source_of(shard) for shard in (0, 127, 128, SHARDS - 1)] == [0, 0, 1, DATA_SOURCES - 1]
    assert SHARDS == DATA_SOURCES * SHARDS_PER_SOURCE == 8192


def test_shard_placement_spreads_real_user_names_evenly(user_names: list[str]) -> None:
    placements = [place(name) for name in user_names]
    assert len(placements) > 600_000
    assert chi_square((placement.a for placement in placements), DATA_SOURCES) < chance(DATA_SOURCES)
    assert chi_square((placement.shard for placement in placements), SHARDS) < chance(SHARDS)
    per_source = Counter(placement.a for placement in placements)
    mean = len(placements) / DATA_SOURCES
    assert max(abs(n - mean) for n in per_source.values()) < 0.05 * mean


def test_media_directories_of_real_user_names_hold_fewer_than_16_names_each(user_names: list[str]) -> None:
    placements = Counter(map(place, user_names))
    # 631,154 names over 524,288 directories: 1.2 each; at random the fullest holds 9 or 10.
    assert max(placements.values()) < 16
