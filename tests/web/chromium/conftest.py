"""Fixtures for each module: a browser, and a network for it to visit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.chromium.browser_sessions import LiveServer, browser, live_server


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(mail=tmp_path_factory.mktemp("mail").as_uri(), invitations="members") as made:
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found
