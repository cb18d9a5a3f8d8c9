"""Certificates for servers of tests: of this machine, signed by nobody but themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class SelfSigned(NamedTuple):
    """The files of a certificate and of its key. Whoever trusts the certificate trusts the server."""

    certificate: Path
    key: Path


def self_signed(folder: Path) -> SelfSigned:
    """Make a certificate for `localhost` and 127.0.0.1, good for two days, in a folder."""
    made = SelfSigned(folder / "cert.pem", folder / "key.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    return made
