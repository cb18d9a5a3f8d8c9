"""The index of decisions, as the pages of their areas have them. `python -m tests.decisions_page` writes it into docs/decisions."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "decisions" / "README.md"
AREAS = (
    "placement",
    "ideas",
    "layout",
    "graph",
    "stores",
    "processes",
    "process-protocol",
    "timelines",
    "fanout",
    "tags",
    "search",
    "ranking",
    "live",
    "notifications",
    "http",
    "api",
    "web",
    "library",
    "logins",
    "moderation",
    "media",
    "operations",
    "benchmarks",
    "dependencies",
)

_HEAD = """# Decisions

Short reasons, a page for each area. A measurement that says otherwise changes the code, and the page.

A new decision is a paragraph at the end of its area's page, which begins with its date and a sentence in bold:
`**2026-11-22. The log is copied at 32 MB.** Because ...`. Then `python -m tests.decisions_page` writes this list anew.
"""
_DECISION = re.compile(r"^\*\*\d{4}-\d\d-\d\d\. (.+?)\*\*|^## (.+?) \(\d{4}-\d\d-\d\d\)$", re.MULTILINE)


def index() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(area) for area in AREAS)


def decisions(text: str) -> list[str]:
    """The titles of the decisions on a page, without the full stop of a sentence."""
    return [(bold or heading).removesuffix(".") for bold, heading in _DECISION.findall(text)]


def _section(area: str) -> str:
    text = (PAGE.with_name(f"{area}.md")).read_text()
    title, lead = re.findall(r"\A# (.+)\n\n(.+)\n", text)[0]
    lines = "".join(f"- {decision}\n" for decision in decisions(text))
    return f"\n## [{title}]({area}.md)\n\n{lead}\n" + (f"\n{lines}" if lines else "")


if __name__ == "__main__":
    PAGE.write_text(index())
