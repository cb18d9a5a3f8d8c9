"""A browser, and a network for it to look at; a module has each to itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.chromium.screens import Stage, browser, stage


@pytest.fixture(scope="module")
def at() -> Iterator[Stage]:
    with stage() as made:
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found
