"""A server that the client tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.server import Served, a_shoal


@pytest.fixture(scope="module")
def shoal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server on an empty store."""
    with a_shoal(tmp_path_factory.mktemp("shoal")) as running:
        yield running
