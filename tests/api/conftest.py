"""Networks that the suites of the front end share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.http.event_streams import USUAL
from tests.api.world import World, served, world


@pytest.fixture
def shoal() -> Iterator[World]:
    """A network of its own."""
    with world() as made:
        yield made


@pytest.fixture
def forgetful() -> Iterator[World]:
    """A network whose front end makes every answer anew."""
    with world(answer_cache=0) as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    """A network that the tests of a module share: each brings members of its own."""
    with world() as made:
        yield made


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server that the tests of a module share."""
    # A client of streams that is closed waits for the next sign of life.
    with served(USUAL._replace(thump=0.3)) as address:
        yield address
