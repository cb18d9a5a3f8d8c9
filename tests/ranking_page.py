"""Writes the table of terms into `docs/ranking.md`: python -m tests.ranking_page."""

from __future__ import annotations

import re
from pathlib import Path

from shoal.core.ranking.recipes import BALANCED
from shoal.core.ranking.terms import TERMS

PAGE = Path(__file__).parents[1] / "docs" / "ranking.md"
_BEGIN, _END = "<!-- terms -->\n", "<!-- end of terms -->\n"


def table() -> str:
    """Return the table as it should be."""
    rows = ["| term | weight | 1 means | formula | after |", "|---|---|---|---|---|"]
    for term, weight in zip(TERMS, BALANCED.row(), strict=True):
        formula = term.formula.replace("|", "\\|")
        rows.append(f"| `{term.name}` | {weight:g} | {term.unit} | `{formula}` | {term.source} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """Return the page with the table in its place."""
    place = re.compile(f"{re.escape(_BEGIN)}(?:.*{re.escape(_END)})?", re.DOTALL)
    return place.sub(lambda _: f"{_BEGIN}\n{table()}\n{_END}", text, count=1)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
