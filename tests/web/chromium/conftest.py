"""Fixtures for each module: a browser, and a network for it to visit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from scripts.web_pages import Subjects
from tests.web.chromium.browser_sessions import LiveServer, browser
from tests.web.chromium.crawler import cast, network_of_pages


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with network_of_pages(tmp_path_factory.mktemp("mail").as_uri()) as made:
        yield made


@pytest.fixture(scope="module")
def subjects(at: LiveServer) -> Subjects:
    """The members and objects that the pages are about."""
    return cast(at)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found
