"""Fixtures for the API tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.http.event_streams import USUAL
from tests.api.in_memory_network import World, served, world


@pytest.fixture
def shoal() -> Iterator[World]:
    """Return a new network."""
    with world() as made:
        yield made


@pytest.fixture
def forgetful() -> Iterator[World]:
    """Return a network without a response cache."""
    with world(answer_cache=0) as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    """Return a network that the tests of a module share. Each test registers its own members."""
    with world() as made:
        yield made


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the URL of a server that the tests of a module share."""
    # Closing a stream client blocks until the next heartbeat.
    with served(USUAL._replace(thump=0.3)) as address:
        yield address
