"""Verification of JWTs that other products sign for their users: issuers, their keys, and the claims.

Only asymmetric algorithms are accepted, each with keys of its own type, so that a public key is never used as a shared secret. Keys
from a URL are cached for ten minutes, and then fetched again in the background; after twenty minutes a request waits for them. An
unknown key id fetches them immediately. Each process fetches the keys of an issuer at most once a minute. If a fetch fails, the
cached keys remain valid for a day.
"""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import httpcore
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from joserfc.errors import JoseError, SecurityWarning, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, JWKRegistry, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact, validate_compact
from msgspec import Meta

from shoal.core.errors import InvalidInput, Unauthenticated, Unavailable
from shoal.core.external_ids import ExternalId, external_id
from shoal.outgoing import RequestFailed, networks_of, open_pool, request
from shoal.settings import Issuer, Settings
from shoal.tasks import cancel

_log = logging.getLogger("shoal.issuers")

MAX_CHARACTERS = 16_000
"""Maximum characters of a JWT."""
_MAX_KEYS = 100
_FRESH_SECONDS = 600.0
_STALE_SECONDS = 86_400.0
_RETRY_SECONDS = 60.0
_FETCH_SECONDS = 5.0
_SKEW_SECONDS = 30
"""By how much the clock of an issuer may differ."""
_RSA_BITS = range(2_048, 8_193)
_OTHER_TYPES = frozenset({"logout+jwt", "secevent+jwt", "dpop+jwt", "oauth-authz-req+jwt", "token-introspection+jwt"})
"""Values of the header parameter `typ` of JWTs that do not log a user in."""

_Text = Annotated[str, Meta(max_length=2_000)]


class InvalidJwt(Unauthenticated):
    """The JWT is not accepted. The message states the reason."""


class JwtUser(NamedTuple):
    """The user for whom a JWT was issued. Names and language are empty if the JWT does not state them."""

    external: ExternalId
    user_name: str
    name: str
    language: str
    issuer: Issuer
    issued_at: float
    """When the JWT was issued, in Unix seconds."""
    expires_at: float
    """Until when the JWT is accepted, in Unix seconds: its expiry or maximum age, with the tolerated difference of clocks."""
    jwt_id: str
    """The claim `jti`; empty if the JWT has none."""

    def token_expires_at(self, now: float) -> float:
        """Return when a token for the user expires, in Unix seconds, however often the JWT is exchanged."""
        latest = max(self.expires_at, self.issued_at + self.issuer.token_seconds)
        return min(now + self.issuer.token_seconds, latest)


class _Claims(msgspec.Struct):
    """The registered claims of a JWT (RFC 7519), and standard claims of OpenID Connect about its user."""

    iss: _Text
    sub: _Text
    aud: _Text | Annotated[list[_Text], Meta(max_length=100)]
    exp: float
    iat: float
    nbf: float = 0.0
    jti: _Text = ""
    preferred_username: Any = None
    name: Any = None
    locale: Any = None


class _Header(msgspec.Struct):
    alg: str
    kid: Annotated[str, Meta(max_length=500)] | None = None
    typ: str = ""
    crit: Any = None


class _KeySet(msgspec.Struct):
    keys: Annotated[list[dict[str, Any]], Meta(max_length=_MAX_KEYS)]


class _Registry(JWSRegistry):
    """The algorithms of one issuer. Unlike the base class, it does not warn about the name EdDSA, which RFC 9864 deprecates."""

    # In characters of base64: a signature by an RSA key of 8,192 bits has 1,366.
    max_header_length = 4_096
    max_signature_length = 2_048

    def get_alg(self, name: str) -> Any:
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


class Issuers:
    """The issuers in the settings. Connections are opened on first use."""

    def __init__(
        self,
        settings: Settings,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the settings. Raises `InvalidInput` for an invalid URL, key or address range."""
        allowed = networks_of(settings.outgoing_networks, "outgoing_networks")
        self._now = now
        self._pool: httpcore.AsyncConnectionPool | None = None
        if any(issuer.jwks_url for issuer in settings.issuers.values()):
            self._pool = open_pool(allowed)
        self._issuers = {
            name: (issuer, _Keys(name, issuer, self._pool, clock)) for name, issuer in settings.issuers.items()
        }

    def __bool__(self) -> bool:
        return bool(self._issuers)

    async def verify(self, text: str) -> JwtUser:
        """Return the user for whom a JWT was issued.

        Raises `InvalidJwt`, and `Unavailable` if the keys of the issuer cannot be fetched.
        """
        if len(text) > MAX_CHARACTERS:
            raise InvalidJwt(f"the JWT has more than {MAX_CHARACTERS} characters")
        try:
            signed = extract_compact(text.encode("ascii"), registry=_Registry(strict_check_header=False))
            header = msgspec.convert(signed.headers(), _Header)
            claims = msgspec.json.decode(signed.payload, type=_Claims)
        except (JoseError, ValueError, TypeError, RecursionError):
            raise InvalidJwt("this is not a signed JWT with the claims iss, sub, aud, exp and iat") from None
        issuer, keys = self._issuers.get(claims.iss, (None, None))
        if issuer is None or keys is None:
            raise InvalidJwt("the issuer of the JWT is unknown")
        if header.alg not in issuer.algorithms:
            raise InvalidJwt(f"the JWT must be signed with {' or '.join(issuer.algorithms)}")
        if header.crit is not None:
            raise InvalidJwt("the JWT has critical header parameters, which are not supported")
        if header.typ.lower().removeprefix("application/") in _OTHER_TYPES:
            raise InvalidJwt(f"a JWT of the type {header.typ} is for another purpose")
        key = await keys.find(header.kid, header.alg)
        if key is None:
            raise InvalidJwt("the key of the JWT is unknown")
        registry = _Registry(algorithms=issuer.algorithms, strict_check_header=False)
        try:
            valid = validate_compact(signed, key, registry=registry)
        except (JoseError, ValueError, TypeError):
            valid = False
        if not valid:
            raise InvalidJwt("the signature of the JWT is invalid")
        self._check(claims, issuer)
        try:
            external = external_id(claims.iss, claims.sub)
        except InvalidInput as error:
            raise InvalidJwt(f"the claim sub is invalid: {error}") from None
        return JwtUser(
            external,
            user_name=_text(claims.preferred_username),
            name=_text(claims.name),
            language=_text(claims.locale),
            issuer=issuer,
            issued_at=claims.iat,
            expires_at=min(claims.exp, claims.iat + issuer.max_age_seconds) + _SKEW_SECONDS,
            jwt_id=claims.jti,
        )

    def _check(self, claims: _Claims, issuer: Issuer) -> None:
        now = self._now()
        if issuer.audience not in ([claims.aud] if isinstance(claims.aud, str) else claims.aud):
            raise InvalidJwt("the JWT is for another audience")
        if now >= claims.exp + _SKEW_SECONDS:
            raise InvalidJwt("the JWT has expired")
        if max(claims.nbf, claims.iat) > now + _SKEW_SECONDS:
            raise InvalidJwt("the JWT is not valid yet")
        if now - claims.iat > issuer.max_age_seconds + _SKEW_SECONDS:
            raise InvalidJwt(f"the JWT is older than {issuer.max_age_seconds} seconds")
        if issuer.single_use and not claims.jti:
            raise InvalidJwt("the JWT needs the claim jti, because the issuer allows a single use")

    async def key_counts(self) -> dict[str, int | str]:
        """Return the number of usable keys of each issuer, or why they cannot be fetched. For `shoal doctor`."""
        return {name: await keys.count() for name, (_, keys) in self._issuers.items()}

    async def close(self) -> None:
        for _, keys in self._issuers.values():
            await keys.close()
        if self._pool is not None:
            await self._pool.aclose()


class _Keys:
    """The public keys of an issuer."""

    def __init__(
        self, name: str, issuer: Issuer, pool: httpcore.AsyncConnectionPool | None, clock: Callable[[], float]
    ) -> None:
        where = f"issuers: {name}"
        try:
            external_id(name, "1")
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}", field="issuers") from None
        if bool(issuer.jwks_url) is bool(issuer.keys):
            raise InvalidInput(f"{where}: set either jwks_url or keys", field="issuers")
        if issuer.jwks_url and not issuer.jwks_url.startswith("https://"):
            raise InvalidInput(f"{where}: jwks_url: expected an https URL", field="issuers")
        self._name, self._url, self._pool, self._clock = name, issuer.jwks_url, pool, clock
        self._keys: Sequence[Key] = usable_keys(issuer.keys)
        if len(self._keys) < len(issuer.keys):
            raise InvalidInput(
                f"{where}: keys: expected public JWKs: RSA of 2048 to 8192 bits, EC on P-256, or OKP on Ed25519 or Ed448",
                field="issuers",
            )
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> Key | None:
        """Return the key with this id; without an id, the only key. Returns None if there is no such key for the algorithm."""
        now = self._clock()
        age = now - self._fetched_at
        # While an issuer does not respond, requests wait for it once in ten minutes.
        unused = age >= 2 * _FRESH_SECONDS and now - self._tried_at >= _FRESH_SECONDS
        if self._url and (unused or age >= _STALE_SECONDS):
            await self._refresh()
        elif self._url and age >= _FRESH_SECONDS and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._refresh(), name="shoal-issuer-keys")
        found = _pick(self._keys, kid, algorithm)
        if found is None and self._url:
            await self._refresh()
            found = _pick(self._keys, kid, algorithm)
        if self._url and self._clock() - self._fetched_at >= _STALE_SECONDS:
            raise Unavailable("the keys of the issuer cannot be fetched now", retry_after=_RETRY_SECONDS)
        return found

    async def close(self) -> None:
        await cancel(self._task)

    async def count(self) -> int | str:
        if self._pool is None or not self._url:
            return len(self._keys)
        try:
            return len(await _fetched(self._pool, self._url))
        except _FAILURES as error:
            return str(error) or "the response is malformed"

    async def _refresh(self) -> None:
        """Fetch the keys, unless they were fetched or requested during the last minute. A failure keeps the current keys."""
        async with self._lock:
            now = self._clock()
            if now - self._tried_at < _RETRY_SECONDS or self._pool is None:
                return
            self._tried_at = now
            try:
                self._keys = await _fetched(self._pool, self._url)
            except _FAILURES as error:
                _log.warning("cannot fetch the keys of the issuer %s: %s", self._name, error)
            else:
                self._fetched_at = now


_FAILURES = (RequestFailed, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


async def _fetched(pool: httpcore.AsyncConnectionPool, url: str) -> list[Key]:
    response = await request(pool, "GET", url, seconds=_FETCH_SECONDS, headers={"Accept": "application/json"})
    if response.status != 200:
        raise RequestFailed(f"status {response.status}")
    return usable_keys(msgspec.json.decode(response.body, type=_KeySet).keys)


def usable_keys(keys: Iterable[Mapping[str, Any]]) -> list[Key]:
    """Return the public keys (JWK) for the supported algorithms. Other keys, and malformed ones, are left out."""
    found = []
    for data in keys:
        try:
            with warnings.catch_warnings():
                # A short key causes a warning, and is left out below.
                warnings.simplefilter("ignore", SecurityWarning)
                key = JWKRegistry.import_key(dict(data))
            if _algorithm_of(key) and not key.is_private:
                found.append(key)
        except (JoseError, ValueError, TypeError, KeyError, OverflowError):
            continue
    return found


def _algorithm_of(key: Key) -> str:
    """Return the algorithm for which a key can be used; empty for none."""
    if isinstance(key, OctKey) or key.get("use") not in {None, "sig"}:
        return ""
    public = key.public_key
    if isinstance(key, RSAKey) and isinstance(public, RSAPublicKey) and public.key_size in _RSA_BITS:
        return "RS256"
    if isinstance(key, ECKey) and key.curve_name == "P-256":
        return "ES256"
    if isinstance(key, OKPKey) and key.curve_name in {"Ed25519", "Ed448"}:
        return "EdDSA"
    return ""


def _pick(keys: Sequence[Key], kid: str | None, algorithm: str) -> Key | None:
    if kid is None and len(keys) != 1:
        return None
    for key in keys:
        stated = key.get("alg")
        # RFC 9864 names EdDSA by its curve.
        fits = stated in {None, algorithm} or (algorithm == "EdDSA" and stated in {"Ed25519", "Ed448"})
        if fits and kid in {None, key.get("kid")} and _algorithm_of(key) == algorithm:
            return key
    return None


def _text(claim: object) -> str:
    return "".join(filter(str.isprintable, claim)) if isinstance(claim, str) else ""
