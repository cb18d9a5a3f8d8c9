"""The documentation lists each web page exactly once, and no unknown pages."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.web_pages import MEMBERS, STRANGERS

PAGE = Path(__file__).parents[2] / "docs" / "web-pages.md"


def test_documentation_of_web_pages_lists_each_page_once() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert sorted(named) == sorted([*STRANGERS, *MEMBERS])
    assert [row for row in rows if not re.search(r"\| (yes|no|[^|]*: (yes|no))[^|]*\|$", row)] == []
