"""Polls, which become text: their time is over, and nobody can vote again."""

from __future__ import annotations

from collections.abc import Sequence


def with_options(text: str, options: Sequence[str]) -> str:
    """Return a text with the options of its poll below it, one on a line."""
    return "\n\n".join(filter(None, (text, "\n".join(f"- {option}" for option in options))))
