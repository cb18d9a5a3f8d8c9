"""Credentials of a member: passkeys (WebAuthn level 3), their challenges, TOTP codes, recovery codes, and the login object.

A challenge is not stored: it is valid for five minutes for one purpose and one member, protected by a MAC under the network's key
(8 bytes Unix ms | 16 random bytes | 16 bytes MAC). To make it single-use, the caller stores it as a unique key, in the commit that
the challenge authorizes.

A signature counter that does not increase reveals a copied passkey:

    stored 7, signed 8      valid; 8 is stored
    stored 7, signed 7      a copy
    stored 0, signed 0      the device keeps no counter

TOTP follows RFC 6238 (SHA-1, 30 seconds, 6 digits). A code is accepted in its own time step, in the step before and in the step
after. Once a code is used, codes of its own step and of earlier steps are rejected.
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
_SKEW_MS = 120_000
"""Milliseconds by which the clock of the process that created a challenge may be ahead."""
KEY_BYTES = 32
_TIME_BYTES, _RANDOM_BYTES, _MAC_BYTES = 8, 16, 16
_HEAD_BYTES = _TIME_BYTES + _RANDOM_BYTES


class ChallengeKey(Node, frozen=True, tag="challenge_key"):
    """The key by which all processes of a server verify challenges. It is created once, and never changes."""

    secret: bytes


class Purpose(StrEnum):
    LOG_IN = "log_in"
    """Login with only a passkey, which identifies the member."""
    SECOND = "second"
    """Login with a passkey in addition to the password."""
    CONFIRM = "confirm"
    """Second factor of a logged-in member who changes how they log in, in addition to the password."""
    OWNER = "owner"
    """Confirmation by a logged-in member, in place of the password, that they own the account."""
    ADD = "add"
    """Registration of a new passkey."""


ALONE = frozenset({Purpose.LOG_IN, Purpose.OWNER})
"""Purposes for which a passkey is the only factor, so that the device must verify its owner."""


def new_challenge(secret: bytes, purpose: Purpose, member_id: int, now: int) -> bytes:
    """Return a challenge created at `now` (Unix milliseconds); `member_id` is 0 if the member is not known."""
    head = now.to_bytes(_TIME_BYTES) + secrets.token_bytes(_RANDOM_BYTES)
    return head + _mac(secret, head, purpose, member_id)


def is_good(secret: bytes, challenge: bytes, purpose: Purpose, member_id: int, now: int) -> bool:
    """Return whether this server issued the challenge for this purpose and member, and it is still valid at `now` (Unix ms)."""
    head, mac = challenge[:_HEAD_BYTES], challenge[_HEAD_BYTES:]
    if len(mac) != _MAC_BYTES or not hmac.compare_digest(mac, _mac(secret, head, purpose, member_id)):
        return False
    return now - GOOD_MS < made_at(challenge) <= now + _SKEW_MS


def made_at(challenge: bytes) -> int:
    """Return the creation time of a challenge, in Unix milliseconds."""
    return int.from_bytes(challenge[:_TIME_BYTES])


def _mac(secret: bytes, head: bytes, purpose: Purpose, member_id: int) -> bytes:
    auth_data = head + member_id.to_bytes(8) + purpose.encode()
    return blake2b(auth_data, digest_size=_MAC_BYTES, key=secret).digest()


MOST_CHARACTERS = 8_000
"""Maximum characters of a device's response, as JSON."""
MOST_NAME = 50
_MOST_CREDENTIAL = 1_023
"""Maximum bytes of a credential id, as limited by WebAuthn."""
_MOST_KEY = 1_024
_HANDLE_BYTES = 8
_PORTS = {"http": 80, "https": 443}
"""Default ports, which browsers omit from an origin."""
_ALGORITHMS = (-7, -8, -257)
"""ES256, EdDSA and RS256: every device supports one of them."""


class Passkey(msgspec.Struct, frozen=True, array_like=True):
    credential: bytes
    """The id that the device assigned."""
    key: bytes
    """The public key as COSE (RFC 9052)."""
    name: str
    made_at: int
    """Time of the registration, in Unix milliseconds."""
    used_at: int = 0
    """Time of the last use, in Unix milliseconds; 0 for never."""
    count: int = 0
    """The signature counter of the device; 0 if it has none."""

    @property
    def id(self) -> str:
        """A short identifier for pages, derived from the credential id."""
        return sha256(self.credential).digest()[:8].hex()


class Site(NamedTuple):
    origin: str
    """Scheme, host and port, as sent by browsers."""
    host: str
    """The host alone: WebAuthn's `rp.id`."""
    title: str


class BadAnswer(Exception):
    """An invalid response of a passkey device."""


class Assertion(NamedTuple):
    """A passkey's signature of a challenge, not yet verified."""

    member_id: int
    """The member that the device claims; 0 for none."""
    credential: bytes
    challenge: bytes
    signatures: int
    verified: bool
    """Whether the device verified its owner, by a PIN, fingerprint or face."""
    raw: Any


class NewKey(NamedTuple):
    challenge: bytes
    raw: Any


def site_of(root: str, title: str) -> Site:
    """Return the passkey site of a server's root URL: origin and host, normalized as in browsers.

    For example, `https://Bücher.Example.org:443` has the origin `https://xn--bcher-kva.example.org` and the host
    `xn--bcher-kva.example.org`.
    """
    parts = urlsplit(root)
    host = _in_ascii(parts.hostname or "")
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return Site(f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}", host, title)


def _in_ascii(host: str) -> str:
    """Return a host in lower case, as in DNS. An invalid host name is returned unchanged."""
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        return host


def handle_of(member_id: int) -> bytes:
    return member_id.to_bytes(_HANDLE_BYTES)


def is_answer(text: str) -> bool:
    return text.startswith("{")


def request_options(site: Site, challenge: bytes, known: Sequence[Passkey], *, verified: bool) -> dict[str, Any]:
    """Return the options of `navigator.credentials.get`, as JSON values.

    If `known` is empty, any passkey of this site is accepted. With `verified`, the device must verify its owner.
    """
    verification = UserVerificationRequirement.REQUIRED if verified else UserVerificationRequirement.PREFERRED
    asked, _ = _server(site).authenticate_begin(_known(known) or None, verification, challenge)
    return dict(asked.public_key)


def making_options(
    site: Site, challenge: bytes, known: Sequence[Passkey], member_id: int, name: str, display_name: str
) -> dict[str, Any]:
    """Return the options of `navigator.credentials.create`, as JSON values.

    Devices that already have one of the `known` passkeys are excluded.
    """
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
    """Parse the response to `request_options`. Raises `BadAnswer` if it is malformed."""
    try:
        raw = AuthenticationResponse.from_dict(_object(text))
        auth_data, handle = raw.response.authenticator_data, raw.response.user_handle or b""
        member_id = int.from_bytes(handle) if len(handle) == _HANDLE_BYTES else 0
        return Assertion(
            member_id if member_id <= MAX_ID else 0,
            raw.raw_id,
            raw.response.client_data.challenge,
            auth_data.counter,
            auth_data.is_user_verified(),
            raw,
        )
    except Exception as error:
        raise BadAnswer("the passkey device sent a malformed response") from error


def check_assertion(site: Site, passkey: Passkey, found: Assertion, *, verified: bool) -> None:
    """Raise `BadAnswer` unless this passkey signed the challenge for this site.

    The caller checks the challenge itself. If `verified`, the device must have verified its owner.
    """
    verification = UserVerificationRequirement.REQUIRED if verified else UserVerificationRequirement.PREFERRED
    server = _server(site)
    _, state = server.authenticate_begin([_credential(passkey)], verification, found.challenge)
    try:
        _check_framing(found.raw)
        server.authenticate_complete(state, [_credential(passkey)], found.raw)
    except Exception as error:
        raise BadAnswer("the signature of the passkey is invalid") from error


def is_copy(passkey: Passkey, found: Assertion) -> bool:
    """Return whether the signature counter of a valid response indicates that the passkey was copied."""
    return found.signatures <= passkey.count and (found.signatures, passkey.count) != (0, 0)


def read_new_key(text: str) -> NewKey:
    """Parse the response to `making_options`. Raises `BadAnswer` if it is malformed."""
    try:
        raw = RegistrationResponse.from_dict(_object(text))
        return NewKey(raw.response.client_data.challenge, raw)
    except Exception as error:
        raise BadAnswer("the passkey device sent a malformed response") from error


def made(site: Site, found: NewKey, name: str, now: int) -> Passkey:
    """Return the new passkey in a response. Raises `BadAnswer` unless it was created for this site, with a supported key type.

    The caller checks the challenge itself.
    """
    server = _server(site)
    _, state = server.register_begin(
        PublicKeyCredentialUserEntity(id=b"\0", name="", display_name=""), challenge=found.challenge
    )
    try:
        _check_framing(found.raw)
        auth_data = server.register_complete(state, found.raw)
        credential = auth_data.credential_data
        public = {} if credential is None else dict(credential.public_key)
        key, id_ = cbor.encode(public), b"" if credential is None else bytes(credential.credential_id)
    except Exception as error:
        raise BadAnswer("the registration of the passkey is invalid") from error
    if public.get(3) not in _ALGORITHMS:
        raise BadAnswer("the key uses an unsupported algorithm")
    if not 0 < len(id_) <= _MOST_CREDENTIAL or len(key) > _MOST_KEY:
        raise BadAnswer("the key is too large")
    return Passkey(id_, key, name, now, count=auth_data.counter)


def _object(text: str) -> dict[str, Any]:
    if len(text) > MOST_CHARACTERS:
        raise BadAnswer("the passkey device sent a response that is too long")
    return msgspec.json.decode(text, type=dict[str, Any])


def _check_framing(raw: Any) -> None:
    """Raise `BadAnswer` if the response was requested in a frame embedded in another site."""
    if raw.response.client_data.cross_origin:
        raise BadAnswer("the request came from a frame of another site")


def _server(site: Site) -> Fido2Server:
    server = Fido2Server(
        PublicKeyCredentialRpEntity(id=site.host, name=site.title), verify_origin=lambda origin: origin == site.origin
    )
    server.allowed_algorithms = [
        PublicKeyCredentialParameters(type=PublicKeyCredentialType.PUBLIC_KEY, alg=number) for number in _ALGORITHMS
    ]
    return server


def _known(passkeys: Sequence[Passkey]) -> list[AttestedCredentialData]:
    return [_credential(passkey) for passkey in passkeys]


def _credential(passkey: Passkey) -> AttestedCredentialData:
    return AttestedCredentialData.create(b"\0" * 16, passkey.credential, CoseKey.parse(_decoded(passkey.key)))


def _decoded(key: bytes) -> dict[int, Any]:
    found: Any = cbor.decode(key)
    return dict(found)


STEP_SECONDS = 30
_KEY_BYTES = 20
_DIGITS = 6
_OFFSETS = (0, -1, 1)
"""Offsets of the accepted time steps from the current one, in the order in which they are tried."""
RECOVERY_CODES = 10
_RECOVERY_CHARACTERS = 10
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Characters that are not easily confused. Ten random ones have 49 bits of entropy."""


class SecondFactor(msgspec.Struct, frozen=True, array_like=True):
    key: bytes
    """The secret shared with the authenticator app; empty if the member has only passkeys."""
    used: int = 0
    """The latest time step whose code was used."""
    recovery: tuple[bytes, ...] = ()
    since: int = 0
    """When the second factor was turned on, in Unix milliseconds."""


def new_key() -> str:
    return base64.b32encode(secrets.token_bytes(_KEY_BYTES)).decode()


def key_of(text: str) -> bytes:
    """Decode a TOTP secret from base32; empty for an invalid text."""
    try:
        found = base64.b32decode(text)
    except ValueError:
        return b""
    return found if len(found) == _KEY_BYTES else b""


def address_of(key: str, name: str, title: str) -> str:
    return pyotp.TOTP(key, name=name, issuer=title).provisioning_uri()


def new_recovery_codes() -> tuple[list[str], tuple[bytes, ...]]:
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_CHARACTERS)) for _ in range(RECOVERY_CODES)]
    return [f"{code[:5]}-{code[5:]}" for code in codes], tuple(_hash(code) for code in codes)


def used(factor: SecondFactor, code: str, now: int) -> SecondFactor | None:
    """Return the second factor after this code was used at `now` (Unix milliseconds); None for an invalid code."""
    typed = "".join(code.split()).replace("-", "").lower()
    if len(typed) == _DIGITS and typed.isascii() and typed.isdigit():
        return _by_app(factor, typed, now // 1000 // STEP_SECONDS)
    given = _hash(typed)
    left = tuple(code_hash for code_hash in factor.recovery if not hmac.compare_digest(code_hash, given))
    return None if len(left) == len(factor.recovery) else msgspec.structs.replace(factor, recovery=left)


def _by_app(factor: SecondFactor, typed: str, step: int) -> SecondFactor | None:
    if not factor.key:
        return None
    app = pyotp.TOTP(base64.b32encode(factor.key).decode())
    for offset in _OFFSETS:
        if step + offset > factor.used and hmac.compare_digest(app.generate_otp(step + offset), typed):
            return msgspec.structs.replace(factor, used=step + offset)
    return None


def _hash(code: str) -> bytes:
    return sha256(code.encode("utf-8", "replace")).digest()[:16]


class Login(Node, frozen=True, tag="login"):
    """A member's email address and argon2id password hash.

    The address may be empty. A member with an empty password hash cannot log in.
    """

    member_id: int
    email: str = ""
    password: str = ""
    reason: str = ""
    """The sign-up reason in the member's words, if new members need approval."""
    confirmed: bool = False
    """Whether a link mailed to the address was opened, or a login provider has verified it."""
    needs_approval: bool = False
    """Whether a still `unconfirmed` member also needs the approval of moderators."""
    networks: tuple[bytes, ...] = ()  # hashes of the networks from which the member logged in, newest first
    kept: tuple[tuple[str, int], ...] = ()
    """Former addresses that can be restored, oldest first, each with the time (Unix ms) when it is released."""
    voided: tuple[tuple[int, int], ...] = ()
    """Ranges of ids of undo links that are void, because one of them was mailed to a thief who changed the address twice."""
    second: SecondFactor | None = None
    passkeys: tuple[Passkey, ...] = ()
    """Oldest first."""
    confirm_by: int = 0
    """Time (Unix ms) until which an `unconfirmed` member may confirm the address, if the mail was sent again."""
