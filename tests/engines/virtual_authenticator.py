"""A software authenticator for passkeys, which responds like a browser with a security key or forges responses."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from fido2.cose import ES256, RS256, EdDSA
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

_FLAGS = AuthenticatorData.FLAG
Private = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass
class SoftPasskey:
    """A passkey of a device."""

    credential: bytes
    private: Private
    handle: bytes
    count: int = 0


@dataclass
class SoftDevice:
    """An authenticator and the browser that uses it."""

    origin: str = "https://shoal.test"
    counts: bool = False
    """Whether the device counts its signatures."""
    verifies: bool = True
    """Whether the device verifies its user, for example by a PIN."""
    algorithm: str = "ES256"
    held: list[SoftPasskey] = field(default_factory=list)

    def make(self, asked: dict[str, Any], **cheat: Any) -> str:
        """Create a passkey and return the response of `navigator.credentials.create`. `cheat` overrides parts of the response."""
        taken = {websafe_decode(one["id"]) for one in asked.get("excludeCredentials", [])}
        assert not taken & {one.credential for one in self.held}, "InvalidStateError"
        private = _private(self.algorithm)
        made = SoftPasskey(secrets.token_bytes(cheat.get("id_bytes", 32)), private, websafe_decode(asked["user"]["id"]))
        public = cheat.get("public") or _public(private)
        credential = AttestedCredentialData.create(b"\0" * 16, made.credential, public)
        said = self._said(asked["rp"]["id"], made, credential, cheat)
        self.held.append(made)
        client = self._client("webauthn.create", asked, cheat)
        return _written(made, clientDataJSON=client, attestationObject=AttestationObject.create("none", said, {}))

    def answer(self, asked: dict[str, Any], passkey: SoftPasskey | None = None, **cheat: Any) -> str:
        """Return the response of `navigator.credentials.get`, signed by `passkey` or else the first allowed passkey."""
        allowed = {websafe_decode(one["id"]) for one in asked.get("allowCredentials", [])}
        used = passkey or next(one for one in self.held if not allowed or one.credential in allowed)
        said = self._said(asked["rpId"], used, b"", cheat)
        client = self._client("webauthn.get", asked, cheat)
        signature = _signed(used.private, said + sha256(client))
        if "signature" in cheat:
            signature = cheat["signature"]
        handle = cheat.get("handle", used.handle)
        more = {"userHandle": handle} if handle else {}
        return _written(used, clientDataJSON=client, authenticatorData=said, signature=signature, **more)

    def _said(self, host: str, passkey: SoftPasskey, credential: bytes, cheat: dict[str, Any]) -> Any:
        if self.counts:
            passkey.count += 1
        flags = _FLAGS.UP if cheat.get("present", True) else _FLAGS(0)
        if cheat.get("verified", self.verifies):
            flags |= _FLAGS.UV
        if credential:
            flags |= _FLAGS.AT
        count = cheat.get("count", passkey.count)
        return AuthenticatorData.create(sha256(cheat.get("host", host).encode()), flags, count, credential)

    def _client(self, kind: str, asked: dict[str, Any], cheat: dict[str, Any]) -> CollectedClientData:
        challenge = cheat.get("challenge") or websafe_decode(asked["challenge"])
        origin, across = cheat.get("origin", self.origin), cheat.get("across", False)
        return CollectedClientData.create(cheat.get("kind", kind), challenge, origin, across)


def _private(algorithm: str) -> Private:
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "RS256":
        return rsa.generate_private_key(65_537, 2_048)
    return ec.generate_private_key(ec.SECP256R1())


def _public(private: Private) -> Any:
    kinds: dict[type, Any] = {ed25519.Ed25519PrivateKey: EdDSA, rsa.RSAPrivateKey: RS256}
    kind = next((one for of, one in kinds.items() if isinstance(private, of)), ES256)
    return kind.from_cryptography_key(private.public_key())


def _signed(private: Private, data: bytes) -> bytes:
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return private.sign(data)
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(data, padding.PKCS1v15(), hashes.SHA256())
    return private.sign(data, ec.ECDSA(hashes.SHA256()))


def _written(passkey: SoftPasskey, **response: bytes) -> str:
    id_ = websafe_encode(passkey.credential)
    said = {name: websafe_encode(value) for name, value in response.items()}
    return json.dumps({"id": id_, "rawId": id_, "type": "public-key", "response": said, "clientExtensionResults": {}})
