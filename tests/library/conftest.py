"""Stories are told a millisecond at a time, as in `tests/flows`."""

from tests.flows.conftest import _every_id_has_its_own_millisecond

__all__ = ["_every_id_has_its_own_millisecond"]
