"""Fixtures for the API tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.http.event_streams import USUAL
from tests.api.in_memory_network import NetworkFixture, network_fixture, served


@pytest.fixture
def shoal() -> Iterator[NetworkFixture]:
    """Return a new network."""
    with network_fixture() as made:
        yield made


@pytest.fixture
def forgetful() -> Iterator[NetworkFixture]:
    """Return a network without a response cache."""
    with network_fixture(answer_cache=0) as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[NetworkFixture]:
    """Return a network that the tests of a module share. Each test registers its own members."""
    with network_fixture() as made:
        yield made


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the URL of a server that the tests of a module share."""
    # Closing a stream client blocks until the next heartbeat.
    with served(USUAL._replace(heartbeat=0.3)) as address:
        yield address
