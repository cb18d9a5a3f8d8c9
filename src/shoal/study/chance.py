"""How likely a spread is by chance: Pearson's chi-square with its exact tail, and the deviation of a uniform spread.

The tail of the chi-square distribution is the regularised upper incomplete gamma function Q(a, x / 2) with a = degrees / 2,
computed by its series below a + 1 and by its continued fraction above (DLMF 8.11.4 and 8.9.2, the fraction by Lentz's method).
Both give nine digits or more up to a million degrees of freedom, and the logarithm where the number is too small for a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, inf, lgamma, log, sqrt

import numpy as np

from shoal.study.names.batch import Numbers

_PRECISION = 1e-16
_TINY = 1e-300
_MOST_STEPS = 1_000_000


def uniform_deviation(members: int, buckets: int) -> float:
    """Return the population deviation of bucket sizes that chance gives if each member goes to any bucket alike.

    The number in a bucket is binomial, so its variance is n p (1 - p) with p = 1 / buckets, and that is also the mean of the
    population variance over all buckets.
    """
    return sqrt(members / buckets * (1 - 1 / buckets))


def chi_square(counts: Numbers | Sequence[int]) -> float:
    """Return Pearson's statistic of counts against equal shares; 0 for nothing counted."""
    found = np.asarray(counts, np.float64)
    mean = found.mean()
    return float(((found - mean) ** 2).sum() / mean) if mean else 0.0


def tail(statistic: float, degrees: int) -> float:
    """Return the probability that chance gives at least this chi-square. Raises `ValueError` for degrees below 1."""
    return exp(log_tail(statistic, degrees))


def log10_tail(statistic: float, degrees: int) -> float:
    """Return the decimal logarithm of `tail`, which may be far below what a float can hold."""
    return log_tail(statistic, degrees) / log(10)


def log_tail(statistic: float, degrees: int) -> float:
    """Return the natural logarithm of `tail`; minus infinity for an infinite statistic."""
    if degrees < 1:
        raise ValueError("a chi-square has at least one degree of freedom")
    if statistic <= 0:
        return 0.0
    if statistic == inf:
        return -inf
    a, x = degrees / 2, statistic / 2
    front = a * log(x) - x - lgamma(a)
    if x > a + 1:
        return min(0.0, front + log(_fraction(a, x)))
    lower = min(front + log(_series(a, x)), -1e-300)
    return log(-expm1(lower))


def _series(a: float, x: float) -> float:
    """Sum x^n / (a (a + 1) ... (a + n)), which is the lower function but for the front."""
    total = term = 1 / a
    for step in range(1, _MOST_STEPS):
        term *= x / (a + step)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Return the continued fraction of the upper function but for the front, by the modified method of Lentz."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    for step in range(1, _MOST_STEPS):
        an = step * (a - step)
        b += 2
        d = an * d + b
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = b + an / c
        c = c if abs(c) > _TINY else _TINY
        value *= d * c
        if abs(d * c - 1) < _PRECISION * 4:
            break
    return value


def shown_probability(p: float, log10_p: float) -> str:
    """Return a probability as people read it: `0.410`, `3e-07`, `< 1e-300`."""
    if p >= 1e-3:
        return f"{p:.3f}" if p < 0.995 else f"{p:.2f}"
    if log10_p > -300:
        return f"{p:.0e}"
    return "< 1e-300"
