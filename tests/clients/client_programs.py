"""Client programs that tests run. `make setup` installs them. A missing program fails the test in CI and skips it elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

_BIN = Path(sys.executable).parent
_MASTO = Path(__file__).resolve().parent / "masto"
_OIDC = Path(__file__).resolve().parent / "oidc"


def toot_command() -> list[str]:
    """Return the command of the terminal client."""
    return [_there(_BIN / "toot", "toot")]


def masto_command(script: Path) -> list[str]:
    """Return the command that runs a script with masto."""
    _there(_MASTO / "node_modules" / "masto", "masto")
    return [_there(_BIN / "node", "Node"), str(script)]


def oidc_command() -> list[str]:
    """Return the command that runs a login provider."""
    _there(_OIDC / "node_modules" / "oidc-provider", "oidc-provider")
    return [_there(_BIN / "node", "Node"), str(_OIDC / "provider.mjs")]


def python_generator() -> str:
    """Return the command that generates Python clients from an OpenAPI document."""
    return _there(_BIN / "openapi-python-client", "openapi-python-client")


def _there(path: Path, name: str) -> str:
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed: make setup")
        pytest.skip(f"{name} is not installed: make setup")
    return str(path)
