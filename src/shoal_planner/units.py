"""Number formats of the planner, with short units."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BIG = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = (
    (float(1 << 50), "PiB"),
    (float(1 << 40), "TiB"),
    (float(1 << 30), "GiB"),
    (float(1 << 20), "MiB"),
    (1_024.0, "KiB"),
)
_PEOPLE = ((1e9, " billion"), (1e6, " million"))


def number(value: float) -> str:
    return _scaled(value, _BIG) or _digits(value)


def people(value: float) -> str:
    return _scaled(value, _PEOPLE) or f"{value:,.0f}"


def size(value: float) -> str:
    """Format a number of bytes: 2.5 GiB."""
    found = next(((unit, name) for unit, name in _BYTES if value >= unit), None)
    return f"{_digits(value / found[0])} {found[1]}" if found else f"{value:.0f} B"


def seconds(value: float) -> str:
    """Format a duration: 85 us, 3.2 ms, 1.5 s."""
    if math.isinf(value):
        return "never"
    if value >= 1:
        return f"{_digits(value)} s"
    return f"{_digits(value * 1e3)} ms" if value >= 1e-3 else f"{_digits(value * 1e6)} us"


def money(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.2f}"


def price(value: float, currency: str) -> str:
    return f"{money(value)} {currency} per month" if currency else f"{money(value)} per month"


def _scaled(value: float, scales: Sequence[tuple[float, str]]) -> str:
    """Format a number in the largest unit in which its rounded value is at least 1; empty if there is no such unit."""
    if math.isinf(value):
        return "unlimited"
    return next((f"{_digits(value / unit)}{name}" for unit, name in scales if value >= unit * 0.9995), "")


def _digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.3g}"
