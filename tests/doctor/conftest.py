"""Fixtures for tests of the doctor."""

from __future__ import annotations

import pytest

from shoal.monitoring import doctor, preflight

PATIENT_SECONDS = 60.0


class _Patience(float):
    """A minute, but the check of uploads, for which a proxy that does not answer is right, waits half of the usual time."""

    def __truediv__(self, divisor: float) -> float:
        return _USUAL / divisor


_USUAL = preflight.SECONDS


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor wait a minute for servers on a busy machine, unless a test uses `usual_patience`."""
    monkeypatch.setattr(doctor, "_SKEW_SECONDS", PATIENT_SECONDS)
    if "usual_patience" not in request.fixturenames:
        for module in (doctor, preflight):
            monkeypatch.setattr(module, "SECONDS", _Patience(PATIENT_SECONDS))


@pytest.fixture
def usual_patience() -> None:
    """Let the doctor wait only as long as usual, for tests of servers that do not answer."""
