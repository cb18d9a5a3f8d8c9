"""The placement study: names with known answers, the real names, batches of any size, and the results of its checks."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pytest

from shoal.core.errors import InvalidInput
from shoal.core.placement import place
from shoal_study import map_schemes
from shoal_study.counting import SCHEMES, StudyOptions
from shoal_study.name_schemes import Md5Levels
from shoal_study.names import FileOptions, NameBatch, batch_of, file_batches, generated_batches
from shoal_study.statistics import MappingFigures, Outcome, StudyResult
from shoal_study.study import Study
from tests.real_data import real_data


def untold(_done: int, _total: int) -> None:
    """Ignore progress."""


def studied(batches: Iterable[NameBatch], **options: object) -> StudyResult:
    study = Study(StudyOptions(**options))  # type: ignore[arg-type]  # options by name
    for batch in batches:
        study.add(batch)
    return study.result("a test")


@pytest.fixture(scope="module")
def made_up() -> StudyResult:
    """A study of enough generated names that random differences are not attributed to a scheme."""
    return studied(generated_batches(200_000, 1, untold))


@pytest.fixture(scope="module")
def real() -> StudyResult:
    """A study of the real names."""
    path = real_data("usernames") / "usernames" / "fotolog_usernames.txt.gz"
    return studied(file_batches(path, FileOptions(), 0, untold))


def outcomes(result: StudyResult, name: str) -> dict[str, bool | None]:
    found: Sequence[Outcome] = next(each for each in result.constraints if each.name == name).outcomes
    return {outcome.scheme: outcome.met for outcome in found}


def test_placement_study_of_real_names_shows_letters_uneven_and_md5_uniform(real: StudyResult) -> None:
    assert real.names == 631_154
    letters, sums, hashes = real.schemes
    assert [path.graph for scheme in real.schemes for path in scheme.paths] == [
        *("D1", "D2", "D3"),
        *("N1", "N2"),
        *("M1", "M2", "M3"),
    ]
    for level in letters.levels:
        assert level.fullest > 2.5 * level.mean
        assert level.emptiest < 0.05 * level.mean
        assert level.deviation > 100 * level.uniform
    assert letters.paths[2].empty > letters.paths[2].buckets / 2
    for level in hashes.levels:
        assert level.furthest < 0.1
        assert level.p > 1e-6
        assert level.deviation == pytest.approx(level.uniform, rel=0.2)
    # Each sum is evenly distributed, but their combination is not: the sums share all letters except one.
    assert all(level.furthest < 0.1 for level in sums.levels)
    assert sums.paths[1].p < 1e-100 < hashes.paths[2].p
    assert outcomes(real, "Even") == {
        "letters": False,
        "ascii-sum": True,
        "mapping": False,
        "md5": True,
        "shoal": False,
    }


def test_placement_study_counts_equal_placing_names_individually() -> None:
    names = [f"name{number}" for number in range(2_000)]
    result = studied([batch_of(names)], schemes=("md5", "letters"))
    letters, hashes = result.schemes
    placed = [place(name) for name in names]
    for level, found in zip(hashes.levels, zip(*placed, strict=True), strict=True):
        assert level.counts == [Counter(found)[bucket] for bucket in range(level.buckets)]
    directories = Counter(map(tuple, placed))
    assert hashes.paths[2].fullest == max(directories.values())
    assert hashes.paths[2].empty == 64 * 64 * 128 - len(directories)
    assert letters.levels[0].counts == [2_000 if letter == "n" else 0 for letter in letters.levels[0].labels]
    assert letters.paths[2].fullest_bucket == "n/a/m"


def test_placement_study_result_is_independent_of_batch_boundaries(made_up: StudyResult) -> None:
    whole = next(iter(generated_batches(3_000, 2, untold)))
    names = [name.decode() for batch in generated_batches(3_000, 2, untold) for name in batch.encoded()]
    assert whole.size < len(names)
    once = studied([batch_of(names)])
    pieces = studied(batch_of(names[at : at + 97], at) for at in range(0, 3_000, 97))
    assert plain(once) == plain(pieces)


def plain(result: StudyResult) -> object:
    """Return the figures without run-dependent measurements."""
    found = msgspec.to_builtins(result)
    for key in ("seconds", "processor_seconds", "peak_bytes", "bare_loop", "checked", "constraints"):
        del found[key]
    for scheme in (*found["schemes"], *found["servers"]):
        del scheme["nanoseconds"]
    return rounded(found)


def rounded(value: object) -> object:
    """Round floats: the last digits of a sum depend on the order of its terms."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def test_placement_study_hash_schemes_have_specified_evenness_and_moved_member_counts(made_up: StudyResult) -> None:
    moved = {each.key: {change.after: change for change in each.changes} for each in made_up.servers}
    assert list(moved) == ["shoal", "modulo", "jump", "rendezvous", "ring", "bounded"]
    assert {tuple(changes) for changes in moved.values()} == {(21, 19, 24)}
    for key in ("jump", "rendezvous"):
        for change in moved[key].values():
            assert change.moved == pytest.approx(change.least, rel=0.05)
    assert moved["modulo"][21].moved > 0.9 * made_up.names
    for key in ("shoal", "ring", "bounded"):
        assert moved[key][21].moved < 1.3 * moved[key][21].least
    fullest = {each.key: each.servers.fullest / each.servers.mean for each in made_up.servers}
    assert fullest["bounded"] <= 1.1001 < fullest["ring"]
    assert fullest["shoal"] == pytest.approx(4 / 3.2, rel=0.02)


def test_placement_study_with_store_count_dividing_64_fills_stores_equally() -> None:
    result = studied(generated_batches(50_000, 1, untold), servers=16, grown=32, schemes=("shoal",))
    (shoal,) = result.servers
    assert shoal.servers.fullest < 1.05 * shoal.servers.mean
    assert [change.after for change in shoal.changes] == [17, 15, 32]
    assert shoal.changes[2].moved == pytest.approx(shoal.changes[2].least, rel=0.02)
    assert [scheme.key for scheme in result.schemes] == ["md5"]


def mapped(count: int, **options: object) -> MappingFigures:
    found = studied(generated_batches(count, 1, untold), schemes=("mapping",), **options).mapping
    assert found is not None
    return found


def test_placement_study_mapping_scheme_with_24_servers_and_ranges_of_50_000_leaves_four_idle() -> None:
    found = mapped(1_000_000, range_size=50_000, servers=24, grown=25)
    assert found.members == [50_000] * 20 + [0] * 4
    assert (found.ranges, found.idle, found.furthest) == (20, 4, 1.0)


def test_placement_study_mapping_scheme_puts_member_1_000_001_on_first_of_20_servers() -> None:
    found = mapped(1_000_001, range_size=50_000, servers=20)
    assert found.members == [50_001] + [50_000] * 19
    # At some point, a single server has 99,999 members, and the other 19 have 50,000.
    assert (found.next_count, found.next_members) == (1_049_999, [99_999] + [50_000] * 19)


def test_placement_study_mapping_scheme_assigns_small_ranges_to_servers_in_rotation() -> None:
    found = mapped(1_000_000, range_size=10_000, servers=20)
    assert (found.ranges, found.members, found.idle) == (100, [50_000] * 20, 0)
    assert (found.next_count, found.next_members) == (1_009_999, [59_999] + [50_000] * 19)


@pytest.mark.parametrize("size", [1, 7, 999, 50_000, 1_000_000_000])
def test_placement_study_mapping_scheme_uses_given_range_size_exactly(size: int) -> None:
    found = mapped(20_000, range_size=size, servers=3)
    assert found.range_size == size
    assert found.ranges == -(-20_000 // size)
    assert found.members == [sum(number // size % 3 == server for number in range(20_000)) for server in range(3)]


def test_placement_study_mapping_scheme_with_too_many_ranges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_schemes, "MOST_RANGES", 10)
    with pytest.raises(InvalidInput, match="at most 10 ranges"):
        mapped(2_000, range_size=100)


def test_placement_study_mapping_scheme_moves_busy_ranges_and_needs_two_lookups_for_them() -> None:
    # Ranges 0 and 5, on server 0, are hot in addition to the others.
    batch = batch_of([f"name{number}" for number in range(1_000)])
    hot = np.isin(np.arange(1_000) // 10, [0, 5])
    result = studied([batch._replace(activity=np.where(hot, 8.0, 1.0))], schemes=("mapping",), range_size=10, servers=5)
    mapping = result.mapping
    assert mapping is not None
    assert mapping.heat == pytest.approx([340 / 228, *[200 / 228] * 4], abs=1e-4)
    assert (mapping.moved_ranges, mapping.moved_members, mapping.lookups) == (1, 10, 2)
    assert mapping.heat_after == pytest.approx(280 / 228)
    assert mapping.reached


def test_placement_study_mapping_scheme_without_busy_servers_needs_one_lookup() -> None:
    found = mapped(10_000, range_size=10, servers=20, zipf=0.0)
    assert (found.heat, found.moved_ranges, found.lookups) == ([], 0, 1)


@pytest.mark.parametrize(
    ("count", "size", "servers", "even"),
    [
        (1_000_001, 50_000, 20, False),
        (1_000_000, 50_000, 24, False),
        (1_000_000, 10_000, 20, False),
        (1_000_000, 1_000, 20, True),
        (999_999, 500, 20, True),
    ],
)
def test_placement_study_mapping_scheme_evenness_is_computed_from_its_servers(
    count: int, size: int, servers: int, even: bool
) -> None:
    result = studied(
        generated_batches(count, 1, untold), schemes=("mapping",), range_size=size, servers=servers, grown=servers + 1
    )
    assert outcomes(result, "Even") == {"mapping": even}


@pytest.mark.parametrize(("servers", "grown", "moved"), [(20, 24, 800), (20, 40, 500), (2, 64, 970)])
def test_placement_study_mapping_scheme_growth_is_computed_from_moved_ranges(
    servers: int, grown: int, moved: int
) -> None:
    result = studied(
        generated_batches(10_000, 1, untold), schemes=("mapping",), range_size=10, servers=servers, grown=grown
    )
    elsewhere = sum(number % servers != number % grown for number in range(1_000))
    assert elsewhere == pytest.approx(moved, abs=30)
    (found,) = next(each for each in result.constraints if each.name == "Growth").outcomes
    assert f"{elsewhere / 1_000:.1%} of the members move" in found.words
    assert found.met == (elsewhere <= 1.5 * 1_000 * (grown - servers) / grown)


def test_placement_study_without_activity_has_no_hot_buckets() -> None:
    result = studied(generated_batches(10_000, 1, untold), zipf=0.0)
    assert result.cooling == []
    assert all(level.hottest == 0 for scheme in result.schemes for level in scheme.levels)
    assert result.mapping is not None
    assert (result.mapping.heat, result.mapping.lookups, result.mapping.moved_ranges) == ([], 1, 0)


def test_placement_study_activity_given_with_names_overrides_zipf_law() -> None:
    batch = batch_of(["ann", "bob", "cyd"])
    result = studied([batch._replace(activity=batch.lengths * 0.0 + [0.0, 5.0, 1.0])], schemes=("letters",))
    level = result.schemes[0].levels[0]
    assert result.activity == "taken from the source"
    assert (level.hottest_bucket, level.hottest_members) == ("b", 1)
    assert level.hottest == pytest.approx(37 * 5 / 6)


def test_placement_study_that_disagrees_with_server_placement_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Md5Levels.place
    monkeypatch.setattr(Md5Levels, "place", lambda self, batch: right(self, batch)[::-1])
    with pytest.raises(AssertionError, match="compute different MD5 buckets"):
        studied([batch_of(["frunk"])], schemes=("md5",))


def test_placement_study_result_contains_no_names(made_up: StudyResult) -> None:
    told = msgspec.json.encode(made_up)
    names = [name for batch in generated_batches(200, 1, untold) for name in batch.encoded() if len(name) > 4]
    assert [name for name in names if b'"' + name + b'"' in told] == []


def test_placement_study_memory_is_independent_of_name_count() -> None:
    peaks: list[int] = []
    for count in (300_000, 900_000):
        tracemalloc.start()
        studied(generated_batches(count, 1, untold), schemes=("md5",))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_placement_study_growth_to_fewer_servers_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"more than --servers \(20\)"):
        Study(StudyOptions(servers=20, grown=20))


def test_placement_study_without_names_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no names"):
        Study(StudyOptions()).result("nothing")


def test_placement_study_of_one_name_covers_all_schemes() -> None:
    result = studied([batch_of(["x"])])
    assert result.names == 1
    assert len(result.servers) + len(result.schemes) + 1 == len(SCHEMES)
