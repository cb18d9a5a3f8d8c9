"""Certificates for test servers: self-signed, or signed by a test authority."""

from __future__ import annotations

import functools
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.engines import postgres


class SelfSigned(NamedTuple):
    """The files of a certificate and its key. Clients that trust the certificate trust the server."""

    certificate: Path
    key: Path


def self_signed(folder: Path, *, days: int = 2) -> SelfSigned:
    """Create a certificate for `localhost` and 127.0.0.1 in a folder, valid for `days` days."""
    made = SelfSigned(folder / "cert.pem", folder / "key.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", str(days)]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    return made


class Authority(NamedTuple):
    """A folder of certificates signed by one authority. Engines, which run as other users, can read it."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """Return the authority's own certificate. Clients that trust it trust every certificate it has signed."""
        return self.folder / "ca.pem"

    def signed(self, name: str, host: str = "localhost", *, days: str = "2", user: str = "") -> SelfSigned:
        """Sign a certificate for a host, with 127.0.0.1 if it is `localhost`, or for a `user` as a client."""
        made = SelfSigned(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        names = f"DNS:{host}" + (",IP:127.0.0.1" if host == "localhost" else "")
        _openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            f"/CN={user or host}",
            "-keyout",
            made.key,
            "-out",
            made.key.with_suffix(".csr"),
        )
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        signing: list[str | Path] = [
            "-CA",
            self.certificate,
            "-CAkey",
            self.folder / "ca.key",
            "-CAcreateserial",
            "-extfile",
            extensions,
        ]
        _openssl("x509", "-req", "-in", made.key.with_suffix(".csr"), *signing, "-days", days, "-out", made.certificate)
        made.key.chmod(0o644)
        return made


def authority() -> Authority:
    """Create a new authority."""
    made = Authority(postgres.folder())
    made_by: list[str | Path] = ["-keyout", made.folder / "ca.key", "-out", made.certificate]
    constraints = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"]
    _openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=Shoal tests",
        "-days",
        "2",
        *constraints,
        *made_by,
    )
    return made


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@functools.cache
def trusted() -> Authority:
    """Return the authority that signs the certificates of the test servers."""
    return authority()


@functools.cache
def unknown() -> Authority:
    """Return a second authority, which signs no server certificates."""
    return authority()


def expired(folder: Path) -> SelfSigned:
    """Create a certificate for `localhost` that expired yesterday, which the openssl command cannot do."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=3)).not_valid_after(now - timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    files = SelfSigned(folder / "old-cert.pem", folder / "old-key.pem")
    files.certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    secret = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files.key.write_bytes(key.private_bytes(*secret))
    return files
