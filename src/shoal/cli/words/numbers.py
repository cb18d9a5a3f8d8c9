"""Numbers as people type them: 10M, 500k, 1_000_000, 0.25, 30%."""

from __future__ import annotations

import math
from typing import Any

import click

_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "%": 0.01}


class NumberOption(click.ParamType[float]):
    """A number that may have a unit at its end."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return it as a float; fail with what is allowed."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return parsed(value)
        except ValueError:
            self.fail(f"{value!r} is not a number such as 250000, 10M, 500k, 0.25 or 30%", param, ctx)


def parsed(text: str) -> float:
    """Return the number that a text stands for. Raises `ValueError`."""
    trimmed = text.strip().lower()
    unit = _UNITS.get(trimmed[-1:], 1.0)
    number = float(trimmed[:-1] if trimmed[-1:] in _UNITS else trimmed) * unit
    if not math.isfinite(number):
        raise ValueError(text)
    return number
