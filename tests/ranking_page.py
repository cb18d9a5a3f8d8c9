"""Writes the tables of terms and reasons into `docs/ranking.md`: `python -m tests.ranking_page`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from shoal.core.ranking.people import REASONS, WEIGHTS
from shoal.core.ranking.recipes import BALANCED
from shoal.core.ranking.terms import TERMS, Term

PAGE = Path(__file__).parents[1] / "docs" / "ranking.md"


def _table(kind: str, terms: Sequence[Term], weights: Sequence[float]) -> str:
    rows = [f"| {kind} | weight | meaning of 1 | formula | source |", "|---|---|---|---|---|"]
    for term, weight in zip(terms, weights, strict=True):
        formula = term.formula.replace("|", "\\|")
        rows.append(f"| `{term.name}` | {weight:g} | {term.unit} | `{formula}` | {term.source} |")
    return "\n".join(rows) + "\n"


def _in_place(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    place = re.compile(f"{re.escape(begin)}(?:.*{re.escape(end)})?", re.DOTALL)
    return place.sub(lambda _: f"{begin}\n{table}\n{end}", text, count=1)


def with_tables(text: str) -> str:
    """Return the page with both tables updated."""
    text = _in_place(text, "terms", _table("term", TERMS, BALANCED.row()))
    return _in_place(text, "reasons", _table("reason", REASONS, WEIGHTS.row()))


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
