"""The seven constraints of the 2006 paper: each is decided for five schemes, by a check that can fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.core import placement
from shoal.core.placement_conformance import NAMES
from shoal_study import constraints, scripting
from shoal_study.counting import StudyOptions
from shoal_study.name_schemes import Letters, Md5Levels
from shoal_study.names import NameBatch, batch_of, generated_batches
from shoal_study.scripting import LANGUAGES, PLATFORMS, Language
from shoal_study.statistics import Outcome, StudyResult
from shoal_study.study import Study

FIVE = ["letters", "ascii-sum", "mapping", "md5", "shoal"]


def studied(count: int = 500, **options: object) -> StudyResult:
    study = Study(StudyOptions(**options))  # type: ignore[arg-type]  # options by name
    for batch in generated_batches(count, 1, lambda _done, _total: None):
        study.add(batch)
    return study.result("a test")


def outcomes(result: StudyResult, number: int) -> dict[str, Outcome]:
    found = next(each for each in result.constraints if each.number == number)
    return {outcome.scheme: outcome for outcome in found.outcomes}


@pytest.fixture(scope="module")
def result() -> StudyResult:
    """A study of generated names, whose first letters are uneven."""
    return studied(200_000, schemes=FIVE)


def test_placement_study_constraints_are_in_order_of_paper_and_cover_five_schemes(result: StudyResult) -> None:
    assert [each.number for each in result.constraints] == [1, 2, 3, 4, 5, 6, 7, 0, 0, 0]
    assert all([outcome.scheme for outcome in each.outcomes] == FIVE for each in result.constraints)


@pytest.mark.parametrize(
    ("number", "met"),
    [
        (1, [True, True, False, True, False]),
        (2, [True, True, False, True, True]),
        (3, [True] * 5),
        (5, [False, False, True, True, True]),
        # The sums of generated names are less even than those of real ones.
        (6, [False, False, True, True, True]),
        (7, [True] * 5),
    ],
)
def test_placement_study_constraint_is_evaluated_for_each_scheme(
    result: StudyResult, number: int, met: Sequence[bool]
) -> None:
    assert {key: outcome.met for key, outcome in outcomes(result, number).items()} == dict(zip(FIVE, met, strict=True))


@pytest.mark.parametrize("names", [["x"], ["ann", "bob"]])
def test_placement_study_constraint_results_of_very_short_list_equal_those_of_long_list(names: list[str]) -> None:
    study = Study(StudyOptions(schemes=FIVE))
    study.add(batch_of(names))
    found = study.result("a test")
    assert [outcomes(found, number)["md5"].met for number in (1, 2, 3, 5, 6, 7)] == [True] * 6
    assert [outcomes(found, number)["mapping"].met for number in (1, 2)] == [False, False]


def test_placement_study_external_data_constraint_fails_if_bucket_depends_on_order_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Letters.place

    def counted(self: Letters, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        return [np.arange(batch.size) % 37, *right(self, batch)[1:]]

    monkeypatch.setattr(Letters, "place", counted)
    assert outcomes(studied(schemes=["letters"]), 1)["letters"].met is False


def test_placement_study_lightweight_constraint_fails_for_slow_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Letters.place

    def slow(self: Letters, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        for _ in range(1_000):
            right(self, batch)
        return right(self, batch)

    monkeypatch.setattr(Letters, "place", slow)
    assert outcomes(studied(schemes=["letters"]), 2)["letters"].met is False


def programs(folder: Path, name: str, change: Callable[[str], str]) -> Path:
    """Copy the programs, and change one."""
    shutil.copytree(scripting.PROGRAMS, folder)
    source = (folder / name).read_text("utf-8")
    assert change(source) != source
    (folder / name).write_text(change(source), "utf-8")
    return folder


def test_placement_study_platform_constraint_fails_if_program_uses_built_in_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Section 3.3: a language's own hash function may differ between languages and processes.
    def built_in(source: str) -> str:
        return source.replace(
            "first, second, third = md5(name, usedforsecurity=False).digest()[:3]",
            "first, second, third = (hash(name) >> shift & 255 for shift in (0, 8, 16))",
        )

    monkeypatch.setattr(scripting, "PROGRAMS", programs(tmp_path / "programs", "place.py", built_in))
    met = {key: outcome.met for key, outcome in outcomes(studied(schemes=FIVE), 3).items()}
    assert met == {"letters": True, "ascii-sum": True, "mapping": True, "md5": False, "shoal": False}


def test_placement_study_scripting_constraint_fails_if_one_program_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = programs(tmp_path / "programs", "place.awk", lambda source: source.replace("sum % 31", "sum % 32"))
    monkeypatch.setattr(scripting, "PROGRAMS", changed)
    monkeypatch.setattr(constraints, "_LANGUAGES", 1)
    met = {key: outcome.met for key, outcome in outcomes(studied(schemes=FIVE), 4).items()}
    assert met == {"letters": True, "ascii-sum": False, "mapping": True, "md5": True, "shoal": True}


def test_placement_study_scripting_constraint_without_interpreters_is_not_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scripting, "LANGUAGES", (Language("None", ("no-such-interpreter",), "place.pl"),))
    found = outcomes(studied(schemes=["md5"]), 4)["md5"]
    assert (found.met, found.words) == (None, "0 interpreters are installed, and at least 3 are needed")


@pytest.mark.parametrize("language", [*LANGUAGES, *PLATFORMS], ids=lambda language: language.name)
def test_placement_program_places_every_conformance_name_like_server(language: Language) -> None:
    found = scripting.agreeing((language,))
    if not found:
        pytest.skip(f"{language.name} is not installed")
    assert found == {language.name: dict.fromkeys(FIVE, len(NAMES))}


def test_placement_programs_in_ci_run_in_at_least_three_languages() -> None:
    found = scripting.agreeing(LANGUAGES)
    if len(found) < 3 and not os.environ.get("CI"):
        pytest.skip(f"only {', '.join(found) or 'no language'} is installed")
    assert len(found) >= 3


def test_placement_study_directory_constraint_fails_for_large_ranges_and_for_many_ranges() -> None:
    for size, met in ((10_000, True), (64_001, False), (100, False)):
        assert outcomes(studied(schemes=["mapping"], range_size=size), 5)["mapping"].met is met
    found = outcomes(studied(schemes=["md5"]), 5)["md5"]
    assert (
        found.words == "8,256 directories below the first level, and 2,126 entries in the fullest at a billion members"
    )


def test_placement_study_billion_members_constraint_fails_for_uneven_or_slow_scheme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for size, met in ((10_000, True), (1_000_000_000, False)):
        assert outcomes(studied(schemes=["mapping"], range_size=size), 6)["mapping"].met is met
    monkeypatch.setattr(constraints, "lookup_nanoseconds", lambda _names: 90_000.0)
    slow = outcomes(studied(schemes=["mapping"]), 6)["mapping"]
    assert slow.met is False
    assert "a billion names take 90,0" in slow.words


def test_placement_study_billion_members_constraint_fails_if_a_bucket_overflows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Md5Levels.place
    monkeypatch.setattr(Md5Levels, "place", lambda self, batch: [level // 4 for level in right(self, batch)])
    monkeypatch.setattr(Study, "_compare", lambda _self, _batch: None)
    assert outcomes(studied(20_000, schemes=["md5"]), 6)["md5"].met is False


def test_placement_study_one_to_one_constraint_fails_if_path_omits_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcomes(studied(schemes=FIVE), 7)
    for outcome in found.values():
        shared = int(outcome.words.split()[0].replace(",", ""))
        assert shared > 0
        assert outcome.words.endswith(", and 0 a complete path")
    monkeypatch.setattr(placement, "media_path", lambda name: "/".join(map(str, placement.place(name))))
    assert {key: each.met for key, each in outcomes(studied(schemes=FIVE), 7).items()} == {
        "letters": True,
        "ascii-sum": True,
        "mapping": True,
        "md5": False,
        "shoal": False,
    }


@pytest.mark.parametrize(("servers", "even"), [(16, True), (20, False)])
def test_placement_study_even_constraint_of_shoal_scheme_holds_only_if_store_count_divides_64(
    result: StudyResult, servers: int, even: bool
) -> None:
    assert result.constraints[7].name == "Even"
    found = studied(200_000, schemes=["shoal"], servers=servers, grown=servers * 2)
    assert {outcome.scheme: outcome.met for outcome in found.constraints[7].outcomes} == {"md5": True, "shoal": even}


def test_placement_study_hot_spots_without_activity_data_are_not_evaluated() -> None:
    found = studied(schemes=FIVE, zipf=0.0)
    assert [outcome.met for outcome in found.constraints[9].outcomes] == [None] * 5
