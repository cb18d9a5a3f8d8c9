"""Credentials of a member: passkeys (WebAuthn level 3), their challenges, TOTP codes, recovery codes, and the login object.

A challenge is not stored: it is valid for five minutes for one purpose and one member, protected by a MAC under the network's
key (8 bytes Unix ms | 16 random bytes | 16 bytes MAC). The caller makes it single-use, by a key in the commit of what it
proves.

A signature counter that does not grow reveals a copied key:

    stored 7, signed 8      valid; 8 is stored
    stored 7, signed 7      a copy
    stored 0, signed 0      the device keeps no counter

TOTP follows RFC 6238 (SHA-1, 30 seconds, 6 digits). A code is accepted in its own time step and the ones before and after it,
and only once: no code of an earlier or equal step is accepted after it.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence
from enum import StrEnum
from hashlib import blake2b, sha256
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import idna
import msgspec
import pyotp
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
from shoal.core.model import Node

GOOD_MS = 5 * 60_000
_AHEAD_MS = 120_000
"""Milliseconds by which the clock of another process may be ahead."""
KEY_BYTES = 32
_STAMP_BYTES, _RANDOM_BYTES, _MAC_BYTES = 8, 16, 16
_HEAD_BYTES = _STAMP_BYTES + _RANDOM_BYTES


class ChallengeKey(Node, frozen=True, tag="challenge_key"):
    """The key by which all processes of a network know their challenges. It is made once, and never changes."""

    secret: bytes


class Purpose(StrEnum):
    """The purpose of a challenge."""

    LOG_IN = "log_in"
    """A passkey alone, of a member who is not known before."""
    SECOND = "second"
    """A passkey besides the password."""
    CONFIRM = "confirm"
    """A passkey of a member who is logged in and changes how they log in."""
    ADD = "add"
    """A new passkey."""


def new_challenge(secret: bytes, purpose: Purpose, member_id: int, now: int) -> bytes:
    """Return a challenge, made at a moment in Unix milliseconds; `member_id` is 0 where the member is not known."""
    head = now.to_bytes(_STAMP_BYTES) + secrets.token_bytes(_RANDOM_BYTES)
    return head + _mac(secret, head, purpose, member_id)


def is_good(secret: bytes, challenge: bytes, purpose: Purpose, member_id: int, now: int) -> bool:
    """Return whether this is a challenge of the network for this purpose and member, and not too old."""
    head, mac = challenge[:_HEAD_BYTES], challenge[_HEAD_BYTES:]
    if len(mac) != _MAC_BYTES or not hmac.compare_digest(mac, _mac(secret, head, purpose, member_id)):
        return False
    return now - GOOD_MS < made_at(challenge) <= now + _AHEAD_MS


def made_at(challenge: bytes) -> int:
    """Return when a challenge was made, in Unix milliseconds."""
    return int.from_bytes(challenge[:_STAMP_BYTES])


def _mac(secret: bytes, head: bytes, purpose: Purpose, member_id: int) -> bytes:
    said = head + member_id.to_bytes(8) + purpose.encode()
    return blake2b(said, digest_size=_MAC_BYTES, key=secret).digest()


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


STEP_SECONDS = 30
_KEY_BYTES = 20
_DIGITS = 6
_AROUND = (0, -1, 1)
"""Steps beside that of the clock whose codes count."""
RECOVERY_CODES = 10
_RECOVERY_CHARACTERS = 10
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits that are not taken for each other: ten of them are 49 bits."""


class SecondFactor(msgspec.Struct, frozen=True, array_like=True):
    """A key for codes, and the recovery codes that are left."""

    key: bytes
    """The secret that the app and we share; empty where passkeys are the second factor, without an app."""
    used: int = 0
    """The newest step whose code was used."""
    recovery: tuple[bytes, ...] = ()
    """Hashes of the recovery codes that are left."""
    since: int = 0
    """When it was turned on, in Unix milliseconds."""


def new_key() -> str:
    """Return a new secret as apps take it: 32 characters of base32."""
    return base64.b32encode(secrets.token_bytes(_KEY_BYTES)).decode()


def key_of(text: str) -> bytes:
    """Return the secret of a text as `new_key` made it; none for another text."""
    try:
        found = base64.b32decode(text)
    except ValueError:
        return b""
    return found if len(found) == _KEY_BYTES else b""


def address_of(key: str, name: str, title: str) -> str:
    """Return what a QR code tells an app: the secret, whose it is and where (the `otpauth` scheme)."""
    return pyotp.TOTP(key, name=name, issuer=title).provisioning_uri()


def new_recovery_codes() -> tuple[list[str], tuple[bytes, ...]]:
    """Return ten recovery codes and their hashes; the codes are shown this once."""
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_CHARACTERS)) for _ in range(RECOVERY_CODES)]
    return [f"{code[:5]}-{code[5:]}" for code in codes], tuple(_hash(code) for code in codes)


def used(factor: SecondFactor, code: str, now: int) -> SecondFactor | None:
    """Return the factor after this code was used, in Unix milliseconds; None for a code that does not count (any more)."""
    typed = "".join(code.split()).replace("-", "").lower()
    if len(typed) == _DIGITS and typed.isascii() and typed.isdigit():
        return _by_app(factor, typed, now // 1000 // STEP_SECONDS)
    given = _hash(typed)
    left = tuple(one for one in factor.recovery if not hmac.compare_digest(one, given))
    return None if len(left) == len(factor.recovery) else msgspec.structs.replace(factor, recovery=left)


def _by_app(factor: SecondFactor, typed: str, step: int) -> SecondFactor | None:
    if not factor.key:
        return None
    app = pyotp.TOTP(base64.b32encode(factor.key).decode())
    for around in _AROUND:
        if step + around > factor.used and hmac.compare_digest(app.generate_otp(step + around), typed):
            return msgspec.structs.replace(factor, used=step + around)
    return None


def _hash(code: str) -> bytes:
    return sha256(code.encode("utf-8", "replace")).digest()[:16]


class Login(Node, frozen=True, tag="login"):
    """A member's credentials: an e-mail address (may be empty) and an argon2id hash (empty: cannot log in)."""

    member_id: int
    email: str = ""
    password: str = ""
    reason: str = ""
    """Why they want to join, in their own words, where new members need approval."""
    confirmed: bool = False
    """Whether a mail to the address was read: a link that only it had was opened."""
    needs_approval: bool = False
    """Whether a member who is `unconfirmed` waits for moderators too."""
    networks: tuple[bytes, ...] = ()  # hashes of those from which the member logged in, newest first
    kept: tuple[tuple[str, int], ...] = ()
    """Former addresses that can be brought back, oldest first, each with when it becomes free (Unix ms)."""
    voided: tuple[tuple[int, int], ...] = ()
    """Links that bring an address back are void whose ids lie between two of these: a thief who changed the address twice had one
    sent, too."""
    second: SecondFactor | None = None
    """The second factor that is asked for besides the password; None for none."""
    passkeys: tuple[Passkey, ...] = ()
    """Oldest first."""
    confirm_by: int = 0
    """Until when a member who is `unconfirmed` may confirm, where the mail was sent again; Unix milliseconds."""
