"""Paths compared with their limits: the chart of stored figures, and the comparison with the last release."""

from __future__ import annotations

import pytest

from benchmarks import regression
from benchmarks.limits import LIMITS, chart, paths, rate, shown
from benchmarks.measure import Figure, benchmarks
from benchmarks.results import Result
from shoal.charts import TextLine


def result(benchmark: str, *figures: Figure) -> Result:
    return Result(benchmark, f"shoal bench {benchmark}", "quick", 0.0, 1.0, list(figures), [])


def test_benchmark_limits_chart_rows_refer_to_existing_benchmarks_and_unique_paths() -> None:
    assert {limit.benchmark for limit in LIMITS} <= set(benchmarks())
    assert len({limit.path for limit in LIMITS}) == len(LIMITS)


@pytest.mark.skipif(not regression.RATIOS.exists(), reason="no release has saved its ratios yet")
def test_benchmark_regression_baseline_refers_to_existing_paths() -> None:
    assert set(regression.load().shares) <= {limit.path for limit in LIMITS}


@pytest.mark.parametrize(("value", "unit", "wanted"), [(5.0, "1/s", 5.0), (2.0, "ms", 500.0), (4.0, "us", 250_000.0)])
def test_benchmark_rate_converts_times_to_rates(value: float, unit: str, wanted: float) -> None:
    assert rate(value, unit) == wanted


def test_benchmark_rate_with_unsupported_unit_raises_value_error() -> None:
    with pytest.raises(ValueError, match="'MiB' is neither"):
        rate(1.0, "MiB")


def test_benchmark_limits_chart_shows_rate_of_path_as_fraction_of_engine_rate_in_same_run() -> None:
    told = [
        result("fanout_memory", Figure("written deliveries", 6.0, "1/s", raw=8.0)),
        result("home_page", Figure("small: warm page, median", 4.0, "us", raw=1.0)),
        result("web_pages", Figure("home pages", 200.0, "1/s")),
    ]
    found = {path.limit.path: path.share for path in paths(told)}
    assert found == {"Deliveries in memory": 0.75, "Home page, library": 0.25}
    words = [shape.text for shape in chart(list(paths(told)), "").shapes if isinstance(shape, TextLine)]
    assert "250 k/s: 25% of the engine" in words
    assert "1 M/s" in words


@pytest.mark.parametrize(
    ("number", "words"), [(999.4, "999"), (1_000.0, "1 k"), (12_340.0, "12.3 k"), (2.5e6, "2.5 M")]
)
def test_benchmark_limits_chart_abbreviates_numbers(number: float, words: str) -> None:
    assert shown(number) == words


def test_benchmark_regression_check_reports_paths_ten_percent_slower_than_release() -> None:
    kept = {"steady": 0.5, "noisy": 0.5, "slower": 0.5, "faster": 0.5, "gone": 0.5}
    found = {"steady": [0.46], "noisy": [0.2, 0.51], "slower": [0.44, 0.4, 0.44], "faster": [0.9]}
    assert regression.worse(kept, found) == ["slower", "gone"]


def test_benchmark_regression_check_reruns_only_benchmarks_of_slower_paths() -> None:
    assert regression.benchmarks_of(["Post over HTTP", "Home page, unchanged", "For You"]) == [
        "http_network",
        "discovery",
    ]
