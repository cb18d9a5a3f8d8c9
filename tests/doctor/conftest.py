"""Fixtures for tests of the doctor."""

from __future__ import annotations

import pytest

from shoal.monitoring import doctor, preflight

PATIENT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor wait a minute for servers on a busy machine, unless a test uses `usual_patience`.

    The check of uploads keeps its timeout, which it reaches if a proxy is configured correctly.
    """
    monkeypatch.setattr(doctor, "_SKEW_SECONDS", PATIENT_SECONDS)
    if "usual_patience" not in request.fixturenames:
        for module in (doctor, preflight):
            monkeypatch.setattr(module, "SECONDS", PATIENT_SECONDS)


@pytest.fixture
def usual_patience() -> None:
    """Keep the usual timeouts, for tests of servers that do not answer."""
