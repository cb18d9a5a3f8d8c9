"""Figures and errors of the 2006 paper: the printed figures, their comparison with a list, and a proof of each error."""

from __future__ import annotations

from math import sqrt

import pytest

from shoal_study import paper
from shoal_study.counting import LEVEL_SCHEMES, StudyOptions
from shoal_study.names import batch_of
from shoal_study.paper import GRAPHS, NAMES, comparison_cells, errata, fullest_text, random_ratio
from shoal_study.statistics import StudyResult
from shoal_study.study import Study

BUCKETS = {"D1": 37, "D2": 1_369, "D3": 50_653, "N1": 31, "N2": 1_023, "M1": 64, "M2": 4_096, "M3": 524_288}


def studied(names: list[str], **options: object) -> StudyResult:
    study = Study(StudyOptions(**options))  # type: ignore[arg-type]  # options by name
    study.add(batch_of(names))
    return study.result("a test")


@pytest.fixture(scope="module")
def result() -> StudyResult:
    """A study of a few names."""
    return studied([f"name{number}" for number in range(3_000)])


@pytest.mark.parametrize(
    ("graph", "cells"),
    [
        ("D1", ("35,651", "30,504", "0.8556")),
        ("D2", ("", "", "almost 4")),
        ("D3", ("", "", "nearly 10")),
        ("N1", ("38,353.80", "228.88", "0.0060")),
        ("N2", ("1,162.24", "102.76", "0.0884")),
        ("M1", ("~18,000", "", "0.007")),
        ("M2", ("290.28", "16.85", "0.0580")),
        ("M3", ("2.27", "1.51", "0.6652")),
    ],
)
def test_placement_paper_graph_figures_are_shown_as_printed(
    result: StudyResult, graph: str, cells: tuple[str, ...]
) -> None:
    assert NAMES == 1_188_968
    compared = next(each for each in result.paper if each.graph == graph)
    assert comparison_cells(compared)[:4] == (graph, *cells)


@pytest.mark.parametrize("graph", ["N1", "N2", "M2", "M3"])
def test_placement_paper_printed_mean_of_graph_equals_names_divided_by_cumulative_bucket_count(
    result: StudyResult, graph: str
) -> None:
    compared = next(each for each in result.paper if each.graph == graph)
    assert compared.buckets == BUCKETS[graph]
    assert compared.paper_mean == pytest.approx(NAMES / BUCKETS[graph], abs=0.01)


def test_placement_paper_printed_mean_of_inner_level_graph_cannot_be_mean_of_one_level() -> None:
    for key, made in LEVEL_SCHEMES.items():
        for at, level in enumerate(made().levels):
            printed = GRAPHS[level.graph].printed
            assert (GRAPHS[level.graph].scheme, GRAPHS[level.graph].levels) == (key, at + 1)
            if at and printed.mean is not None:
                assert NAMES / level.buckets > 10 * printed.mean


def test_placement_paper_comparison_states_random_deviation_for_name_counts_of_study_and_paper(
    result: StudyResult,
) -> None:
    for each in result.paper:
        assert each.buckets == BUCKETS[each.graph]
        assert each.ratio == pytest.approx(each.deviation / each.mean)
        assert each.random == pytest.approx(sqrt((each.buckets - 1) / 3_000))
        assert each.paper_random == pytest.approx(sqrt((each.buckets - 1) / 1_188_968))
    # The MD5 figures of the paper are those of a random distribution.
    for each in result.paper[-2:]:
        assert each.paper_ratio == pytest.approx(each.paper_random, rel=0.02)
    assert random_ratio(0, 37) == 0


def test_placement_paper_comparison_states_fullest_bucket_of_three_letters(result: StudyResult) -> None:
    texts = [text for each in result.paper if (text := fullest_text(each, result.names))]
    assert texts == ["D3's fullest bucket: almost 25,000 in the paper (2.10%), 3,000 here (100.00%)"]


def test_placement_paper_comparison_of_one_scheme_has_only_its_graphs() -> None:
    assert [each.graph for each in studied(["ann"], schemes=("ascii-sum",)).paper] == ["N1", "N2"]


PROOFS = [
    ("65 x 128 = 8192", ("65 x 128 is 8,320", "64 x 128 = 8,192")),
    ("255 buckets", ("256 values, 0 to 255",)),
    ("mean of 35,651", ("32,134", "0.95 instead of 0.86")),
    ("integers 0 - 37", ("numbers 0 to 36", "38 numbers")),
    ("third level mod 64", ("of 3,000 members in buckets 64 to 127", "262,144 directories instead of 524,288")),
    ("d268c8fe7f154537c2c9ed60a0b8f2fd", ("frank with a newline, in 18/40/72", "5d2ead6cb89b0b84103d8d2dd91abb0b")),
    ("Footnote 10", ("9,999 members ahead at 1,009,999", "5 servers have more")),
    ("prime numbers", ("33 is 3 x 11",)),
    ("almost half of the mean", ("0.67", "0.66")),
]


@pytest.mark.parametrize(("claim", "proofs"), PROOFS)
def test_placement_paper_error_with_valid_proof_is_reported_as_proved(
    result: StudyResult, claim: str, proofs: tuple[str, ...]
) -> None:
    (found,) = [each for each in result.errata if claim in each.claim]
    assert found.holds
    assert [words for words in proofs if words not in found.proof] == []
    assert len(result.errata) == len(PROOFS)


def test_placement_paper_error_with_failing_proof_is_reported_as_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "_PRINTED_DIGEST", "5d2ead6cb89b0b84103d8d2dd91abb0b")
    monkeypatch.setattr(paper, "NAMES", 35_651 * 37)
    monkeypatch.setattr(paper, "SHARDS_PER_SOURCE", 64)
    held = [each.holds for each in errata({}, 0)]
    assert held == [False, True, False, True, False, True, True]


def test_placement_paper_errors_of_unstudied_schemes_are_omitted() -> None:
    claims = [each.claim for each in studied(["ann"], schemes=("letters",)).errata]
    assert len(claims) == len(PROOFS) - 2
    assert not any("mod 64" in claim or "prime" in claim for claim in claims)
