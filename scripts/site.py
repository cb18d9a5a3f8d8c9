"""Hooks of mkdocs (see mkdocs.yml): put CHANGELOG.md on the site, with its links relative to `docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the text of a page."""
    if page.file.src_uri != "changelog.md":
        return markdown
    return CHANGELOG.read_text("utf-8").replace("](docs/", "](")
