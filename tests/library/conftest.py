"""Fixtures for tests of whole networks: each id gets a new millisecond, as in `tests/flows`."""

from tests.flows.conftest import _every_id_has_its_own_millisecond

__all__ = ["_every_id_has_its_own_millisecond"]
