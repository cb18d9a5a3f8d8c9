"""Checks of the accessibility of pages against the WCAG rules of axe-core."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, Page

_AXE = Path(__file__).parents[2] / "clients/axe/node_modules/axe-core/axe.min.js"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_ALL_AT_ONCE = """new Promise((done) => requestAnimationFrame(() => {
    document.getAnimations().forEach((one) => one.finish());
    requestAnimationFrame(done);
}))"""
_GRAVE = ("moderate", "serious", "critical")


@cache
def _script() -> str:
    if not _AXE.exists():
        if os.environ.get("CI"):
            raise FileNotFoundError(_AXE)
        pytest.skip("axe-core is not installed: scripts/clients installs it")
    return _AXE.read_text("utf-8")


def hindrances(page: Page) -> list[str]:
    """Return the moderate, serious and critical violations on a page: the rule, the element and the reason of each."""
    return _found(page, f"{_TAGS}")


def pale(page: Page, *, dark: bool) -> list[str]:
    """Return the contrast violations of a page in another color scheme. Only contrast differs from the result of `hindrances`."""
    page.emulate_media(color_scheme="dark" if dark else "light")
    # The colors of buttons have a transition.
    page.evaluate(_ALL_AT_ONCE)
    return _found(page, "{type: 'rule', values: ['color-contrast']}")


def _found(page: Page, rules: str) -> list[str]:
    found: Any = None
    deadline = time.monotonic() + 60
    while found is None:
        assert time.monotonic() < deadline, f"{page.url} does not stop replacing itself"
        # The page's content security policy forbids other scripts, except from a debugger. A page that replaces itself, such as the
        # state of an import, loses them.
        page.context.new_cdp_session(page).send("Runtime.evaluate", {"expression": _script()})
        try:
            found = page.evaluate(f"axe.run(document, {{runOnly: {rules}, resultTypes: ['violations']}})")
        except Error as error:
            if not any(words in str(error) for words in ("axe is not defined", "context was destroyed")):
                raise
    return [
        f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in _GRAVE
        for node in one["nodes"][:3]
    ]
