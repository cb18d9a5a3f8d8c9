"""All figures of the study, on lists that it was not written with, against a count in plain Python."""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_left
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
    assert found.uniform == pytest.approx((placed * (buckets - 1)) ** 0.5 / buckets)
    assert found.furthest == pytest.approx(max(counts[-1] / mean - 1, 1 - counts[0] / mean) if mean else 0)
    assert found.chi_square == pytest.approx(deviation**2 * buckets / mean if mean else 0)
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


Place = Callable[[int, int], int]
"""Returns the server of a hash, for a number of servers."""
MASK = 2**64 - 1


def jump(key: int, servers: int) -> int:
    """Return the server of a key, as the program in the paper of Lamping and Veach does."""
    server, then = -1, 0
    while then < servers:
        server = then
        key = (key * 2862933555777941757 + 1) & MASK
        then = int((server + 1) * (2**31 / ((key >> 33) + 1)))
    return server


def weight(key: int, server: int) -> int:
    """Return the weight of a server for a key: the output of SplitMix64 with the key as its state."""
    found = (key + (server + 1) * 0x9E3779B97F4A7C15) & MASK
    found = ((found ^ found >> 30) * 0xBF58476D1CE4E5B9) & MASK
    found = ((found ^ found >> 27) * 0x94D049BB133111EB) & MASK
    return found ^ found >> 31


def next_on_ring(hash_of: Callable[[bytes], int], most: int) -> Place:
    points = {
        servers: sorted((hash_of(f"{server}/{at}".encode()), server) for server in range(servers) for at in range(160))
        for servers in range(1, most + 1)
    }
    return lambda key, servers: points[servers][bisect_left(points[servers], (key, 0)) % len(points[servers])][1]


def test_placement_study_server_figures_of_test_list_equal_independent_count() -> None:
    hash_of = pytest.importorskip("xxhash").xxh3_64_intdigest
    names = github_names()[::5]
    hashes = [hash_of(name.encode()) for name in names]
    result = studied(names, schemes=("modulo", "jump", "rendezvous", "ring", "shoal", "mapping"), range_size=100)
    places: dict[str, Place] = {
        "modulo": lambda key, servers: key % servers,
        "jump": jump,
        "rendezvous": lambda key, servers: max(range(servers), key=lambda server: weight(key, server)),
        "ring": next_on_ring(hash_of, 24),
    }
    for key, place in places.items():
        figures = next(each for each in result.servers if each.key == key)
        placed = {servers: [place(each, servers) for each in hashes] for servers in (20, 21, 19, 24)}
        check(figures.servers, Counter((server,) for server in placed[20]), [20], len(names))
        assert [(change.after, change.moved) for change in figures.changes] == [
            (after, sum(map(int.__ne__, placed[20], placed[after]))) for after in (21, 19, 24)
        ]
    # A store has three or four adjacent data sources: store n begins with data source 64 n / 20.
    source = hex_digits(0, 64)
    stores = [max(store for store in range(20) if store * 64 // 20 <= (source(name) or 0)) for name in names]
    shoal = next(each for each in result.servers if each.key == "shoal")
    check(shoal.servers, Counter((store,) for store in stores), [20], len(names))
    numbered = Counter(at // 100 % 20 for at in range(len(names)))
    assert result.mapping is not None
    assert result.mapping.members == [numbered[server] for server in range(20)]
