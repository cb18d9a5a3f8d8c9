"""Writes the tables of terms and reasons into `docs/ranking.md`: `python -m tests.ranking_page`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from shoal.core.ranking.people import WEIGHTS
from shoal.core.ranking.recipes import BALANCED
from shoal.core.ranking.terms import TERMS, Term

PAGE = Path(__file__).parents[1] / "docs" / "ranking.md"

REASONS = (
    Term(
        "friends",
        "63 followees who follow no other members",
        "min(1, log2(1 + sum of 1 / sqrt(follows of a followee who follows them)) / 6)",
        "between Adamic and Adar (2003) and the resource allocation of Zhou, Lü and Zhang (2009), by measurement",
    ),
    Term(
        "followers",
        "1,048,575 followers",
        "min(1, log2(1 + followers) / 20)",
        "the preferential attachment of Barabási and Albert (1999); each doubling counts equally",
    ),
    Term(
        "follows_you", "the candidate follows the member", "1 or 0", "reciprocity: most ties among people go both ways"
    ),
    Term(
        "liked",
        "the member's favorite author",
        "affinity of the member to the author, 0 to 1",
        "the relevance feedback of Rocchio (1971), with authors instead of words",
    ),
    Term(
        "tags",
        "an unlimited number of tags that the member cares about",
        "sum / (sum + 1) of the affinities to the tags that both use",
        "as `liked`, with tags weighted by inverse document frequency (Sparck Jones 1972)",
    ),
    Term(
        "nearby",
        "a post near where the member lives or last posted",
        "1 / (1 + (distance / scale)^2) of the nearest post; 0 where a place is not known",
        "the Cauchy kernel: one half at the scale, with a long tail like the distances between friends (Liben-Nowell 2005)",
    ),
)


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
