"""A browser for tests: Debian's Chromium without a window, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

_PATIENCE_MS = 60_000
"""How long a loaded machine may take for one step."""
_ARGUMENTS = (
    # In a container there are no rights for its sandbox, and little shared memory; the pages are our own.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    # It looks for nobody but the server of the test.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def installed() -> str:
    """Return where the browser is. Without it the test is skipped; in CI it must not be missing."""
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI"):
            raise FileNotFoundError("chromium")
        pytest.skip("chromium is not installed: scripts/engines installs it")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser, for as long as the block runs.

    Inside, the thread belongs to Playwright's event loop: nothing else in it may start one.
    """
    path = installed()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield found
        finally:
            found.close()


@contextmanager
def window(
    of: Browser, width: int = 1_280, height: int = 900, *, dark: bool = False, scripts: bool = True, touch: bool = False
) -> Iterator[BrowserContext]:
    """A window with nothing remembered in it."""
    context = of.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        has_touch=touch,
        is_mobile=touch,
        locale="en-GB",
    )
    context.set_default_timeout(_PATIENCE_MS)
    try:
        yield context
    finally:
        context.close()
