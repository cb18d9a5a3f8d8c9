"""Fixtures for mail: a server, and short retry delays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.smtp import PostOffice, post_office


@pytest.fixture
def office() -> Iterator[PostOffice]:
    with post_office() as made:
        yield made


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delays before mail is sent again."""
    monkeypatch.setattr("shoal.mail.sender._FIRST_SECONDS", 0.05)
    monkeypatch.setattr("shoal.mail.sender._LONGEST_SECONDS", 0.05)
