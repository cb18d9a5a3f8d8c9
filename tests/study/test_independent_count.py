"""All figures of the study, on lists that it was not written with, against a count in plain Python."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import md5
from itertools import pairwise, product
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal_study.counting import StudyOptions
from shoal_study.names import batch_of
from shoal_study.statistics import LevelFigures, StudyResult
from shoal_study.study import Study
from tests.real_data import real_data
from tests.study.test_names import line_names

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz_"
Level = Callable[[str], int | None]


def letter(at: int) -> Level:
    return lambda name: ALPHABET.index(name[at]) if len(name) > at and name[at] in ALPHABET else None


def hex_digits(at: int, modulus: int) -> Level:
    return lambda name: int(md5(name.encode(), usedforsecurity=False).hexdigest()[at : at + 2], 16) % modulus


SCHEMES: dict[str, list[tuple[Level, int]]] = {
    "letters": [(letter(at), 37) for at in range(3)],
    "ascii-sum": [(lambda name: sum(name.encode()) % 31, 31), (lambda name: sum(name.encode()[1:]) % 33, 33)],
    "md5": [(hex_digits(0, 64), 64), (hex_digits(2, 64), 64), (hex_digits(4, 128), 128)],
}
GRAPHS = {"letters": ["D1", "D2", "D3"], "ascii-sum": ["N1", "N2"], "md5": ["M1", "M2", "M3"]}


def github_names() -> list[str]:
    with (real_data("graph") / "graph" / "nodes.csv").open(encoding="utf-8", newline="") as lines:
        return [row["name"].lower() for row in csv.DictReader(lines)]


def fotolog_names() -> list[str]:
    with gzip.open(real_data("usernames") / "usernames" / "fotolog_usernames.txt.gz", "rt") as lines:
        return [name.strip() for name in lines][3::20]


def studied(names: Sequence[str], **options: object) -> StudyResult:
    study = Study(StudyOptions(**options))  # type: ignore[arg-type]  # options by name
    for begin in range(0, max(len(names), 1), 10_000):
        study.add(batch_of(names[begin : begin + 10_000], begin))
    return study.result("a test")


def check(found: LevelFigures, counted: Counter[tuple[int, ...]], sizes: Sequence[int], names: int) -> None:
    """Compare the figures of a level with the counts of its buckets."""
    buckets = 1
    for size in sizes:
        buckets *= size
    counts = sorted(counted.values()) if len(counted) == buckets else [0, *sorted(counted.values())]
    placed, empty = sum(counts), buckets - len(counted)
    mean = placed / buckets
    deviation = ((sum((count - mean) ** 2 for count in counted.values()) + empty * mean**2) / buckets) ** 0.5
    assert (found.buckets, found.members, found.without) == (buckets, placed, names - placed)
    assert (found.fullest, found.emptiest, found.empty) == (counts[-1], counts[0], empty)
    assert found.mean == pytest.approx(mean)
    assert found.deviation == pytest.approx(deviation)
    assert found.relative == pytest.approx(deviation / mean if mean else 0)
    in_order = [counted[key] for key in product(*map(range, sizes))] if buckets < 10_000 else []
    if found.counts:
        assert found.counts == in_order
        assert found.deviation == pytest.approx(pstdev(found.counts))
        assert found.mean == pytest.approx(fmean(found.counts))
    elif in_order:
        cuts = [at * buckets // 128 for at in range(129)]
        runs = [in_order[begin:end] for begin, end in pairwise(cuts)]
        assert found.extremes == [(min(run), max(run)) for run in runs]


def check_all(result: StudyResult, names: Sequence[str]) -> None:
    for scheme in result.schemes:
        levels = SCHEMES[scheme.key]
        placed = [tuple(level(name) for level, _ in levels) for name in names]
        sizes = [size for _, size in levels]
        assert [path.graph for path in scheme.paths] == GRAPHS[scheme.key]
        assert [level.graph for level in scheme.levels] == [GRAPHS[scheme.key][0], *[""] * (len(levels) - 1)]
        for at, size in enumerate(sizes):
            single = Counter((key[at],) for key in placed if key[at] is not None)
            check(scheme.levels[at], single, [size], len(names))  # type: ignore[arg-type]  # None is excluded
            whole = Counter(key[: at + 1] for key in placed if None not in key[: at + 1])
            check(scheme.paths[at], whole, sizes[: at + 1], len(names))  # type: ignore[arg-type]  # the same
    for each in result.paper:
        path = next(path for scheme in result.schemes for path in scheme.paths if path.graph == each.graph)
        assert (each.mean, each.deviation, each.ratio) == (path.mean, path.deviation, path.relative)


@pytest.mark.parametrize("names", [github_names, fotolog_names])
def test_placement_study_figures_of_test_list_equal_independent_count(names: Callable[[], list[str]]) -> None:
    listed = names()
    check_all(studied(listed, schemes=tuple(SCHEMES)), listed)


@given(st.lists(line_names, min_size=1, max_size=30))
def test_placement_study_figures_of_random_names_equal_independent_count(names: list[str]) -> None:
    check_all(studied(names, schemes=("letters", "ascii-sum")), [name.lower() for name in names])
