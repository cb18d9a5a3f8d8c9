"""A login provider for tests: the npm package oidc-provider, on https."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_programs import oidc_command
from tests.engines.certificates import self_signed

SECRET = "s3cret/&+%:"


class Provider:
    """A running provider. Any user in `users` can log in."""

    def __init__(self, issuer: str, certificate: Path, users: Path) -> None:
        self.issuer = issuer
        self.certificate = certificate
        self._users = users

    def know(self, **users: dict[str, Any]) -> None:
        """Replace the users: their claims by subject."""
        self._users.write_text(json.dumps(users))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of a server whose members log in with this provider."""
        provider = {"issuer": self.issuer, "client_id": "shoal", "client_secret": SECRET, "title": "Example"}
        return {"oidc_providers": {"example": provider}, "outgoing_networks": ["127.0.0.0/8"]}


@contextmanager
def oidc_provider(folder: Path) -> Iterator[Provider]:
    """Run a provider until the block ends. The requests of this process trust its certificate."""
    made, users = self_signed(folder), folder / "users.json"
    users.write_text("{}")
    paths = {"CERTIFICATE": str(made.certificate), "KEY": str(made.key), "USERS": str(users)}
    with (
        subprocess.Popen(
            oidc_command(), env={**os.environ, **paths}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SSL_CERT_FILE", str(made.certificate))
        assert program.stdout is not None
        issuer = next((line.strip() for line in program.stdout if line.startswith("https://")), "")
        assert issuer, "the provider did not start"
        # The program ends when its input is closed.
        yield Provider(issuer, made.certificate, users)
