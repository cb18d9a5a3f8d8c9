"""Generates the tables of metrics in `docs/metrics.md`: `python -m tests.metrics.metrics_page`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from shoal.observability.metrics import SECTIONS, DescribedMetric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_BEGIN, _END = "<!-- metrics -->\n", "<!-- end of metrics -->\n"


def _table(metrics: Sequence[DescribedMetric]) -> str:
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for one in metrics:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{one.name}` | {one.kind} | {labels} | {one.meaning.removesuffix('.')} |")
    return "\n".join(rows) + "\n"


def with_tables(text: str) -> str:
    """Return the page with the current tables of all metrics."""
    tables = "\n".join(f"### {title}\n\n{_table(metrics)}" for title, metrics in SECTIONS.items())
    place = re.compile(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", re.DOTALL)
    return place.sub(lambda _: f"{_BEGIN}\n{tables}\n{_END}", text, count=1)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
