"""A mail server, and letters that do not rest for long."""

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
    """Letters that were not taken are tried again soon."""
    monkeypatch.setattr("shoal.mail.sender._FIRST_SECONDS", 0.05)
    monkeypatch.setattr("shoal.mail.sender._LONGEST_SECONDS", 0.05)
