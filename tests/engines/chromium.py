"""A browser for tests: Debian's Chromium without a screen, driven by Playwright."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import sys
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, expect, sync_playwright

from tests.engines.shutdown import at_the_end

_PATIENCE_MS = 60_000
"""Timeout of a single step, long enough for a loaded machine."""
_ARGUMENTS = (
    # A container lacks the permissions for Chromium's sandbox and has little shared memory. Tests load trusted pages only.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    # Connect only to the server of the test.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def installed(*, whole: bool = False) -> str:
    """Return the path of Chromium's headless shell, or of the `whole` browser, which the tests also use where the shell is missing.

    The shell has the same engine without tab strip, profiles and notifications, so a window takes a fifth of the processor time.
    Without a browser, skip the test, or raise `FileNotFoundError` in CI.
    """
    # Debian's script /usr/bin/chromium adds options like --enable-gpu-rasterization, which cost a seventh of the processor time.
    names = ("chromium",) if whole else ("chromium-headless-shell", "chromium")
    paths = ("/usr/lib/chromium", None)
    found = next((found for name in names for path in paths if (found := shutil.which(name, path=path))), None)
    if found is None:
        if os.environ.get("CI"):
            raise FileNotFoundError("chromium")
        pytest.skip("chromium is not installed: scripts/engines installs it")
    return found


@functools.cache
def _playwright() -> tuple[Playwright, AbstractEventLoop]:
    """Start Playwright's driver for the rest of the run: a start takes 0.35 seconds of processor time."""
    manager = sync_playwright()
    started = manager.start()
    at_the_end.callback(started.stop)
    return started, manager._loop


@functools.cache
def _shared() -> Browser:
    return _launched(installed())


def _launched(path: str) -> Browser:
    playwright, _ = _playwright()
    return playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))


@contextmanager
def browser(*, whole: bool = False) -> Iterator[Browser]:
    """Return the headless shell that the tests of this process share, or a new `whole` browser, until the block ends.

    In the block, Playwright's event loop runs in this thread, so no other event loop can.
    """
    path = installed(whole=whole)
    expect.set_options(timeout=_PATIENCE_MS)
    hooks = sys.get_asyncgen_hooks()
    _, loop = _playwright()
    # Playwright's loop is paused between its calls. Outside of blocks, tests run other loops.
    asyncio._set_running_loop(loop)
    try:
        if whole:
            with _launched(path) as found:
                yield found
        else:
            yield _shared()
    finally:
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(*hooks)


@contextmanager
def window(
    of: Browser, width: int = 1_280, height: int = 900, *, dark: bool = False, scripts: bool = True, touch: bool = False
) -> Iterator[BrowserContext]:
    """Open a browser context without cookies or other stored data."""
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
