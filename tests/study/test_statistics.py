"""Statistics: the chi-square tail against tables, closed forms and samples, and the deviation of a uniform spread."""

from __future__ import annotations

from math import erfc, exp, inf, log10, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal_study.statistics import chi_square, log10_tail, shown_probability, tail, uniform_deviation

TABLE = [
    # Degrees of freedom, upper tail, and the value from published tables.
    (1, 0.05, 3.841),
    (1, 0.001, 10.828),
    (2, 0.05, 5.991),
    (5, 0.01, 15.086),
    (10, 0.05, 18.307),
    (10, 0.95, 3.940),
    (30, 0.01, 50.892),
    (60, 0.05, 79.082),
    (100, 0.05, 124.342),
    (100, 0.99, 70.065),
    (1000, 0.05, 1074.679),
]


@pytest.mark.parametrize(("degrees", "probability", "value"), TABLE)
def test_chi_square_tail_matches_published_tables(degrees: int, probability: float, value: float) -> None:
    assert tail(value, degrees) == pytest.approx(probability, rel=2e-3)


@given(st.integers(1, 400), st.floats(0.001, 1200))
def test_chi_square_tail_with_even_degrees_equals_poisson_sum(half: int, statistic: float) -> None:
    x = statistic / 2
    term, total = 1.0, 1.0
    for step in range(1, half):
        term *= x / step
        total += term
    assert tail(statistic, 2 * half) == pytest.approx(exp(-x) * total, rel=1e-9, abs=1e-300)


@given(st.floats(1e-6, 1400))
def test_chi_square_tail_with_one_degree_equals_squared_normal(statistic: float) -> None:
    assert tail(statistic, 1) == pytest.approx(erfc(sqrt(statistic / 2)), rel=1e-10)


@given(st.integers(1, 1_000_000), st.floats(0, 10))
def test_chi_square_tail_is_decreasing_and_matches_its_logarithm(degrees: int, part: float) -> None:
    statistic = part * degrees
    here, further = tail(statistic, degrees), tail(statistic * 1.01 + 0.01, degrees)
    assert 0 <= further <= here <= 1
    if here > 1e-290:
        assert log10_tail(statistic, degrees) == pytest.approx(log10(here), abs=1e-6)


def test_chi_square_tail_below_float_range_has_logarithm() -> None:
    assert tail(1e6, 36) == 0.0
    assert -217_200 < log10_tail(1e6, 36) < -217_000
    assert log10_tail(inf, 3) == -inf
    assert tail(0, 3) == 1.0


def test_chi_square_tail_with_many_degrees_is_nearly_normal() -> None:
    degrees = 524_287
    for deviations, probability in ((0.0, 0.5), (2.0, 0.02275), (-2.0, 0.97725)):
        assert tail(degrees + deviations * sqrt(2 * degrees), degrees) == pytest.approx(probability, abs=2e-3)


def test_chi_square_tail_with_zero_degrees_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        tail(1.0, 0)


def test_chi_square_statistic_equals_pearson_formula() -> None:
    assert chi_square([5, 5, 5]) == 0
    assert chi_square([6, 4]) == pytest.approx(0.4)
    assert chi_square([0, 0]) == 0


def test_expected_deviation_of_uniform_placement_matches_multinomial_samples() -> None:
    drawn = np.random.default_rng(1).multinomial(5_000, [1 / 64] * 64, size=400)
    assert uniform_deviation(5_000, 64) == pytest.approx(sqrt(float(drawn.var(axis=1).mean())), rel=0.01)
    assert uniform_deviation(5_000, 1) == 0


@pytest.mark.parametrize(("p", "shown"), [(0.41, "0.410"), (0.9999, "1.00"), (3e-7, "3e-07"), (0.0, "< 1e-300")])
def test_placement_study_formats_probability_with_readable_precision(p: float, shown: str) -> None:
    assert shown_probability(p, log10(p) if p else -5000.0) == shown
