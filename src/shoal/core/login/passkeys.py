"""Passkeys (WebAuthn, level 3): a key pair in a device for one site, whose private half never leaves it.

A device signs a challenge of ours, the site it was asked by, and a count of its signatures. Where it has such a count it grows with
each: one that does not was made by a copy of the key.

    stored 7, signed 8      good; 8 is stored
    stored 7, signed 7      a copy
    stored 0, signed 0      the device keeps no count, as those that share their passkeys with other devices
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import idna
import msgspec
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialParameters,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from shoal.core.ids import MAX_ID

MOST_CHARACTERS = 8_000
"""Characters of an answer of a device, as JSON."""
MOST_NAME = 50
"""Characters of the name of a passkey."""
_MOST_CREDENTIAL = 1_023
"""Bytes of a credential's id, as WebAuthn has it."""
_MOST_KEY = 1_024
_HANDLE_BYTES = 8
_PORTS = {"http": 80, "https": 443}
"""Ports that browsers leave out of an origin."""
_ALGORITHMS = (-7, -8, -257)
"""ES256, EdDSA and RS256: every device has one of them."""


class Passkey(msgspec.Struct, frozen=True, array_like=True):
    """The public half of a passkey, and how it was used."""

    credential: bytes
    """The id that the device gave it."""
    key: bytes
    """The public key as COSE (RFC 9052)."""
    name: str
    made_at: int
    """Unix milliseconds, as `used_at`."""
    used_at: int = 0
    """When it was last used; 0: never."""
    count: int = 0
    """Signatures that its device has counted; 0 where it does not count."""

    @property
    def id(self) -> str:
        """A short text that names it on pages, made of the credential's id."""
        return sha256(self.credential).digest()[:8].hex()


class Site(NamedTuple):
    """The site that passkeys are for: they answer to no other."""

    origin: str
    """Scheme, host and port, as browsers tell it."""
    host: str
    """The host alone: WebAuthn's `rp.id`."""
    title: str


class BadAnswer(Exception):
    """The answer of a device that does not prove anything."""


class Assertion(NamedTuple):
    """A signed challenge, not yet checked."""

    member_id: int
    """The member that the device says it is of; 0 where it says none."""
    credential: bytes
    challenge: bytes
    signatures: int
    """How many the device has counted, with this one; 0 where it does not count."""
    verified: bool
    """Whether the device has made sure that its owner holds it: by a PIN, a finger or a face."""
    raw: Any


class NewKey(NamedTuple):
    """A passkey that was just made in a device, not yet checked."""

    challenge: bytes
    raw: Any


def site_of(root: str, title: str) -> Site:
    """Return the site of the root of all addresses, as browsers spell it, however it was typed.

    https://Bücher.Example.org:443      https://xn--bcher-kva.example.org, xn--bcher-kva.example.org
    """
    parts = urlsplit(root)
    host = _in_ascii(parts.hostname or "")
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return Site(f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}", host, title)


def _in_ascii(host: str) -> str:
    """Return a host, in lower case, as DNS has it. One that is no name of a host stays as it is."""
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        return host


def handle_of(member_id: int) -> bytes:
    """Return what a device keeps as the user of a passkey."""
    return member_id.to_bytes(_HANDLE_BYTES)


def is_answer(text: str) -> bool:
    """Return whether a text is an answer of a device, and not a code that somebody typed."""
    return text.startswith("{")


def asking_options(site: Site, challenge: bytes, known: Sequence[Passkey], *, verified: bool) -> dict[str, Any]:
    """Return what `navigator.credentials.get` is called with, as JSON values; without `known` passkeys for any of this site.

    `verified`: the device must make sure that its owner holds it.
    """
    wanted = UserVerificationRequirement.REQUIRED if verified else UserVerificationRequirement.PREFERRED
    asked, _ = _server(site).authenticate_begin(_known(known) or None, wanted, challenge)
    return dict(asked.public_key)


def making_options(
    site: Site, challenge: bytes, known: Sequence[Passkey], member_id: int, name: str, display_name: str
) -> dict[str, Any]:
    """Return what `navigator.credentials.create` is called with, as JSON values, for a device that has no `known` passkey."""
    user = PublicKeyCredentialUserEntity(id=handle_of(member_id), name=name, display_name=display_name or name)
    asked, _ = _server(site).register_begin(
        user,
        _known(known),
        ResidentKeyRequirement.PREFERRED,
        UserVerificationRequirement.PREFERRED,
        challenge=challenge,
    )
    return dict(asked.public_key)


def read_assertion(text: str) -> Assertion:
    """Return the answer to `asking_options`. Raises `BadAnswer` for a malformed one."""
    try:
        raw = AuthenticationResponse.from_dict(_object(text))
        said, handle = raw.response.authenticator_data, raw.response.user_handle or b""
        member_id = int.from_bytes(handle) if len(handle) == _HANDLE_BYTES else 0
        return Assertion(
            member_id if member_id <= MAX_ID else 0,
            raw.raw_id,
            raw.response.client_data.challenge,
            said.counter,
            said.is_user_verified(),
            raw,
        )
    except Exception as error:
        raise BadAnswer("the answer of the device is malformed") from error


def check_assertion(site: Site, passkey: Passkey, found: Assertion, *, verified: bool) -> None:
    """Raise `BadAnswer` unless this passkey has signed, for this site; the challenge itself is for the caller to check.

    `verified`: the device must have made sure that its owner holds it.
    """
    wanted = UserVerificationRequirement.REQUIRED if verified else UserVerificationRequirement.PREFERRED
    server = _server(site)
    _, state = server.authenticate_begin([_credential(passkey)], wanted, found.challenge)
    try:
        _check_framing(found.raw)
        server.authenticate_complete(state, [_credential(passkey)], found.raw)
    except Exception as error:
        raise BadAnswer("the passkey has not signed this") from error


def is_copy(passkey: Passkey, found: Assertion) -> bool:
    """Return whether a good signature was made by a copy of the passkey, as its count tells."""
    return found.signatures <= passkey.count and (found.signatures, passkey.count) != (0, 0)


def read_new_key(text: str) -> NewKey:
    """Return the answer to `making_options`. Raises `BadAnswer` for a malformed one."""
    try:
        raw = RegistrationResponse.from_dict(_object(text))
        return NewKey(raw.response.client_data.challenge, raw)
    except Exception as error:
        raise BadAnswer("the answer of the device is malformed") from error


def made(site: Site, found: NewKey, name: str, now: int) -> Passkey:
    """Return the passkey of an answer. Raises `BadAnswer` unless it was made for this site, with a key that we can check.

    The challenge itself is for the caller to check.
    """
    server = _server(site)
    _, state = server.register_begin(
        PublicKeyCredentialUserEntity(id=b"\0", name="", display_name=""), challenge=found.challenge
    )
    try:
        _check_framing(found.raw)
        said = server.register_complete(state, found.raw)
        credential = said.credential_data
        public = {} if credential is None else dict(credential.public_key)
        key, id_ = cbor.encode(public), b"" if credential is None else bytes(credential.credential_id)
    except Exception as error:
        raise BadAnswer("the passkey was not made for this") from error
    if public.get(3) not in _ALGORITHMS:
        raise BadAnswer("the key is of no kind that is taken")
    if not 0 < len(id_) <= _MOST_CREDENTIAL or len(key) > _MOST_KEY:
        raise BadAnswer("the key is too large")
    return Passkey(id_, key, name, now, count=said.counter)


def _object(text: str) -> dict[str, Any]:
    if len(text) > MOST_CHARACTERS:
        raise BadAnswer("the answer of the device is too long")
    return msgspec.json.decode(text, type=dict[str, Any])


def _check_framing(raw: Any) -> None:
    """Refuse what was asked for by a page of ours inside one of another site."""
    if raw.response.client_data.cross_origin:
        raise BadAnswer("another site has asked for it")


def _server(site: Site) -> Fido2Server:
    server = Fido2Server(
        PublicKeyCredentialRpEntity(id=site.host, name=site.title), verify_origin=lambda origin: origin == site.origin
    )
    server.allowed_algorithms = [
        PublicKeyCredentialParameters(type=PublicKeyCredentialType.PUBLIC_KEY, alg=number) for number in _ALGORITHMS
    ]
    return server


def _known(passkeys: Sequence[Passkey]) -> list[AttestedCredentialData]:
    return [_credential(one) for one in passkeys]


def _credential(passkey: Passkey) -> AttestedCredentialData:
    return AttestedCredentialData.create(b"\0" * 16, passkey.credential, CoseKey.parse(_decoded(passkey.key)))


def _decoded(key: bytes) -> dict[int, Any]:
    found: Any = cbor.decode(key)
    return dict(found)
