"""JWTs of issuers: signatures, claims, and the cache of keys from a URL."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from shoal import issuers as issuer_module
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.external_ids import ExternalId
from shoal.issuers import InvalidJwt, Issuers, _Registry
from shoal.monitoring import preflight
from shoal.settings import Settings
from shoal.settings import build as settings_of
from tests.async_runner import eventually, in_loop
from tests.push.service import PushService, push_service
from tests.stores import Clock

ISSUER, AUDIENCE = "https://shop.example", "https://shoal.example"
NOW = 1_800_000_000
KEYS: dict[str, Key] = {
    "RS256": RSAKey.generate_key(2048, {"kid": "rsa"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
}
with pytest.warns(SecurityWarning):
    SHORT = dict(RSAKey.generate_key(1024).as_dict(private=False))
CLAIMS: dict[str, Any] = {"iss": ISSUER, "sub": "42", "aud": AUDIENCE, "iat": NOW, "exp": NOW + 60}


def public(*keys: Key) -> list[dict[str, Any]]:
    return [dict(key.as_dict(private=False)) for key in keys]


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed(key: Key, algorithm: str, claims: Any = None, **header: Any) -> str:
    """Return a JWT. A header value of None omits the value."""
    head = {"alg": algorithm, "kid": key.get("kid"), **header}
    registry = _Registry(algorithms=[algorithm], strict_check_header=False)
    payload = json.dumps(CLAIMS if claims is None else claims)
    return jws.serialize_compact(
        {name: value for name, value in head.items() if value is not None}, payload, key, registry=registry
    )


def issuers(**more: Any) -> Issuers:
    """Return the issuer with all keys at a fixed time; `more` are fields of the issuer."""
    issuer = {"audience": AUDIENCE, **({} if "jwks_url" in more else {"keys": public(*KEYS.values())}), **more}
    return Issuers(settings_of(issuers={ISSUER: issuer}), now=lambda: NOW)


async def refusal(text: str, **more: Any) -> str:
    with pytest.raises(InvalidJwt) as raised:
        await issuers(**more).verify(text)
    return str(raised.value)


@pytest.mark.parametrize("algorithm", KEYS)
@in_loop
async def test_jwt_with_valid_signature_identifies_user(algorithm: str) -> None:
    claims = {**CLAIMS, "preferred_username": "ann", "name": "Ann\x00 A.", "locale": "de", "email": "a@shop.example"}
    found = await issuers().verify(signed(KEYS[algorithm], algorithm, {**claims, "jti": "a"}))
    assert found[:4] == (ExternalId(ISSUER, "42"), "ann", "Ann A.", "de")
    assert (found.issued_at, found.expires_at, found.jwt_id) == (NOW, NOW + 90, "a")


@pytest.mark.parametrize("algorithm", KEYS)
@in_loop
async def test_jwt_with_changed_part_is_refused(algorithm: str) -> None:
    head, payload, signature = signed(KEYS[algorithm], algorithm).split(".")
    other = signed(KEYS[algorithm], algorithm, {**CLAIMS, "sub": "43"}).split(".")[1]
    for text in (f"{head}.{other}.{signature}", f"{head}.{payload}.", f"{head}.{payload}.{signature[:-4]}AAAA"):
        assert await refusal(text) == "the signature of the JWT is invalid"


@in_loop
async def test_jwt_of_foreign_key_with_known_id_is_refused() -> None:
    for algorithm, foreign in (
        ("RS256", RSAKey.generate_key(2048, {"kid": "rsa"})),
        ("ES256", ECKey.generate_key("P-256", {"kid": "ec"})),
        ("EdDSA", OKPKey.generate_key("Ed25519", {"kid": "ed"})),
    ):
        assert await refusal(signed(foreign, algorithm)) == "the signature of the JWT is invalid"


@in_loop
async def test_jwt_signed_with_public_key_as_shared_secret_is_refused() -> None:
    payload = encoded(json.dumps(CLAIMS).encode())
    for key in KEYS.values():
        head = encoded(json.dumps({"alg": "HS256", "kid": key.get("kid")}).encode())
        pem = key.as_pem(private=False)  # type: ignore[union-attr]
        signature = encoded(hmac.digest(pem, f"{head}.{payload}".encode(), "sha256"))
        assert "must be signed with RS256 or ES256 or EdDSA" in await refusal(f"{head}.{payload}.{signature}")


@in_loop
async def test_jwt_without_signature_is_refused() -> None:
    payload = encoded(json.dumps(CLAIMS).encode())
    for algorithm in ("none", "None", "NONE", ""):
        head = encoded(json.dumps({"alg": algorithm, "kid": "rsa"}).encode())
        assert "must be signed with" in await refusal(f"{head}.{payload}.")


@in_loop
async def test_jwt_with_algorithm_of_another_key_or_disabled_algorithm_is_refused() -> None:
    assert await refusal(signed(KEYS["ES256"], "ES256", kid="rsa")) == "the key of the JWT is unknown"
    assert "must be signed with RS256" in await refusal(signed(KEYS["ES256"], "ES256"), algorithms=["RS256"])


@in_loop
async def test_jwt_with_keys_in_its_header_is_refused() -> None:
    foreign = ECKey.generate_key("P-256", {"kid": "foreign"})
    header = {"jwk": foreign.as_dict(private=False), "jku": "https://evil.example/jwks.json"}
    assert await refusal(signed(foreign, "ES256", **header)) == "the key of the JWT is unknown"


@in_loop
async def test_jwt_without_key_id_is_accepted_only_if_issuer_has_one_key() -> None:
    text = signed(KEYS["ES256"], "ES256", kid=None)
    assert await refusal(text) == "the key of the JWT is unknown"
    assert (await issuers(keys=public(KEYS["ES256"])).verify(text)).external.id == "42"


@in_loop
async def test_jwt_with_critical_header_is_refused() -> None:
    head, payload, signature = signed(KEYS["ES256"], "ES256").split(".")
    changed = {"alg": "ES256", "kid": "ec", "crit": ["exp"], "exp": 1}
    head = encoded(json.dumps(changed).encode())
    assert "critical" in await refusal(f"{head}.{payload}.{signature}")


@pytest.mark.parametrize("kind", ["logout+jwt", "application/LOGOUT+JWT", "dpop+jwt"])
@in_loop
async def test_jwt_for_another_purpose_is_refused(kind: str) -> None:
    assert "is for another purpose" in await refusal(signed(KEYS["ES256"], "ES256", typ=kind))
    assert (await issuers().verify(signed(KEYS["ES256"], "ES256", typ="at+jwt"))).external.id == "42"


@in_loop
async def test_jwt_with_longest_signature_and_key_id_is_read() -> None:
    payload, signature = encoded(json.dumps(CLAIMS).encode()), encoded(bytes(8_192 // 8))
    head = encoded(json.dumps({"alg": "RS256", "kid": "rsa"}).encode())
    assert await refusal(f"{head}.{payload}.{signature}") == "the signature of the JWT is invalid"
    assert await refusal(signed(KEYS["ES256"], "ES256", kid="x" * 500)) == "the key of the JWT is unknown"
    certificate = signed(KEYS["ES256"], "ES256", x5c=["x" * 2_000])
    assert (await issuers().verify(certificate)).external.id == "42"


@in_loop
async def test_jwt_of_two_issuers_with_one_key_id_is_verified_by_the_key_of_its_issuer() -> None:
    other = ECKey.generate_key("P-256", {"kid": "ec"})
    keys = {ISSUER: KEYS["ES256"], "https://other.example": other}
    settings = {name: {"audience": AUDIENCE, "keys": public(key)} for name, key in keys.items()}
    both = Issuers(settings_of(issuers=settings), now=lambda: NOW)
    for name, key in keys.items():
        assert (await both.verify(signed(key, "ES256", {**CLAIMS, "iss": name}))).external.issuer == name
        with pytest.raises(InvalidJwt, match="signature"):
            await both.verify(signed(keys[ISSUER] if key is other else other, "ES256", {**CLAIMS, "iss": name}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://other.example"}, "the issuer of the JWT is unknown"),
        ({"iss": f"{ISSUER}/"}, "the issuer of the JWT is unknown"),
        ({"aud": "https://other.example"}, "the JWT is for another audience"),
        ({"aud": [f"{AUDIENCE}/", "x"]}, "the JWT is for another audience"),
        ({"aud": []}, "the JWT is for another audience"),
        ({"exp": NOW - 30}, "the JWT has expired"),
        ({"nbf": NOW + 31}, "the JWT is not valid yet"),
        ({"iat": NOW + 31}, "the JWT is not valid yet"),
        ({"iat": NOW - 3_631}, "the JWT is older than 3600 seconds"),
        ({"sub": ""}, "the claim sub is invalid: id: this must not be empty"),
        ({"sub": "\0"}, "the claim sub is invalid: id: this must not contain the character U+0000"),
        ({"sub": "x" * 256}, "the claim sub is invalid: id: at most 255 bytes (got 256)"),
    ],
)
@in_loop
async def test_jwt_with_unacceptable_claim_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert await refusal(signed(KEYS["ES256"], "ES256", {**CLAIMS, **changes})) == reason


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 29},
        {"nbf": NOW + 30},
        {"iat": NOW + 30},
        {"iat": NOW - 3_630},
        {"aud": ["x", AUDIENCE]},
        {"exp": NOW - 29.5},
    ],
)
@in_loop
async def test_jwt_within_clock_skew_or_with_several_audiences_is_accepted(changes: dict[str, Any]) -> None:
    assert (await issuers().verify(signed(KEYS["ES256"], "ES256", {**CLAIMS, **changes}))).external.id == "42"


@pytest.mark.parametrize("missing", ["iss", "sub", "aud", "exp", "iat"])
@in_loop
async def test_jwt_without_required_claim_is_refused(missing: str) -> None:
    claims = {name: value for name, value in CLAIMS.items() if name != missing}
    assert "with the claims iss, sub, aud, exp and iat" in await refusal(signed(KEYS["ES256"], "ES256", claims))


@pytest.mark.parametrize(
    "claims", [{**CLAIMS, "exp": "soon"}, {**CLAIMS, "sub": 42}, {**CLAIMS, "iat": True}, [], "x", 1]
)
@in_loop
async def test_jwt_with_malformed_claims_is_refused(claims: Any) -> None:
    assert "this is not a signed JWT" in await refusal(signed(KEYS["ES256"], "ES256", claims))


@pytest.mark.parametrize(
    "text", ["", "x", "a.b", "a.b.c", "....", "\u00e4.b.c", "e30.e30.e30", "bnVsbA.e30.", "[" * 16_000]
)
@in_loop
async def test_text_that_is_no_jwt_is_refused(text: str) -> None:
    assert "this is not a signed JWT" in await refusal(text)


@in_loop
async def test_jwt_longer_than_maximum_is_refused() -> None:
    assert "more than 16000 characters" in await refusal("x" * 16_001)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "set either jwks_url or keys"),
        ({"jwks_url": "https://shop.example/jwks", "keys": public(KEYS["ES256"])}, "set either jwks_url or keys"),
        ({"jwks_url": "http://shop.example/jwks"}, "expected an https URL"),
        ({"keys": [KEYS["ES256"].as_dict(private=True)]}, "expected public JWKs"),
        ({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, "expected public JWKs"),
        ({"keys": public(ECKey.generate_key("P-384"))}, "expected public JWKs"),
        ({"keys": public(OKPKey.generate_key("X25519"))}, "expected public JWKs"),
        ({"keys": [*public(KEYS["ES256"]), SHORT]}, "expected public JWKs"),
        ({"keys": [{**public(KEYS["ES256"])[0], "use": "enc"}]}, "expected public JWKs"),
        ({"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}, "expected public JWKs"),
    ],
)
def test_issuer_with_invalid_settings_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Issuers(settings_of(issuers={ISSUER: {"audience": AUDIENCE, **changes}}))


def test_issuer_with_name_of_more_than_255_bytes_is_refused_at_start() -> None:
    with pytest.raises(InvalidInput, match=r"issuer: at most 255 bytes \(got 510\)"):
        Issuers(settings_of(issuers={"\u00e4" * 255: {"audience": AUDIENCE, "keys": public(KEYS["ES256"])}}))


def test_outgoing_networks_with_invalid_range_is_refused() -> None:
    with pytest.raises(InvalidInput, match="outgoing_networks: "):
        Issuers(Settings(outgoing_networks=("10.0.0.0/33",)))


PATH = "/jwks.json"
NESTED = b'{"keys":[{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}]}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with push_service(tmp_path_factory.mktemp("jwks")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(running.trusted))
        # Only an issuer that never responds would take so long.
        patch.setattr(issuer_module, "_FETCH_SECONDS", 600.0)
        yield running


class Remote:
    """An issuer whose keys are at a URL, with a clock."""

    def __init__(self, service: PushService) -> None:
        self.clock, self._service = Clock(), service
        self.clock.now = 1_000.0
        service.came.clear()
        service.answers[PATH] = 200
        issuer = {"audience": AUDIENCE, "jwks_url": service.url + PATH}
        settings = settings_of(issuers={ISSUER: issuer}, outgoing_networks=["127.0.0.0/8"])
        self.issuers = Issuers(settings, now=lambda: NOW, clock=self.clock)

    def publish(self, *keys: Key) -> None:
        self._service.bodies[PATH] = msgspec.json.encode({"keys": [{"kty": "AKP", "alg": "ML-DSA-44"}, *public(*keys)]})

    async def completed_fetches(self) -> int:
        """Return the number of fetches; 0 while one is running in the background."""
        task = self.issuers._issuers[ISSUER][1]._task
        return self.fetches if task is None or task.done() else 0

    async def started_fetches(self) -> int:
        return self.fetches

    @property
    def fetches(self) -> int:
        return len(self._service.at(PATH))

    async def accepts(self, text: str) -> bool:
        try:
            await self.issuers.verify(text)
        except InvalidJwt:
            return False
        return True


@in_loop
async def test_issuer_keys_are_fetched_once_and_again_after_ten_minutes(service: PushService) -> None:
    remote, text = Remote(service), signed(KEYS["ES256"], "ES256")
    remote.publish(KEYS["ES256"])
    assert [await remote.accepts(text) for _ in range(3)] == [True] * 3
    assert remote.fetches == 1
    remote.publish(KEYS["RS256"])
    remote.clock.now += 599
    assert await remote.accepts(text)
    remote.clock.now += 1
    assert await remote.accepts(text), "the fetch must not delay the request"
    await eventually(remote.completed_fetches, 2)
    assert not await remote.accepts(text), "a removed key must not be accepted"
    assert remote.fetches == 2
    await remote.issuers.close()


@in_loop
async def test_issuer_unused_for_an_hour_does_not_accept_removed_key(service: PushService) -> None:
    remote, text = Remote(service), signed(KEYS["ES256"], "ES256")
    remote.publish(KEYS["ES256"])
    assert await remote.accepts(text)
    remote.publish(KEYS["RS256"])
    remote.clock.now += 3_600
    assert not await remote.accepts(text)
    await remote.issuers.close()


@in_loop
async def test_issuer_that_does_not_respond_does_not_delay_jwts_of_cached_keys(service: PushService) -> None:
    remote, text = Remote(service), signed(KEYS["ES256"], "ES256")
    remote.publish(KEYS["ES256"])
    assert await remote.accepts(text)
    service.answers[PATH] = 0
    remote.clock.now += 600
    async with asyncio.timeout(60):
        assert [await remote.accepts(text) for _ in range(3)] == [True] * 3
        await eventually(remote.started_fetches, 2)
        assert await remote.accepts(text)
        await remote.issuers.close()


@in_loop
async def test_issuer_unknown_key_id_fetches_keys_at_most_once_a_minute(service: PushService) -> None:
    remote, text = Remote(service), signed(KEYS["RS256"], "RS256")
    remote.publish(KEYS["ES256"])
    assert [await remote.accepts(text) for _ in range(20)] == [False] * 20
    assert remote.fetches == 1
    remote.publish(KEYS["ES256"], KEYS["RS256"])
    remote.clock.now += 59
    assert not await remote.accepts(text)
    remote.clock.now += 1
    assert await remote.accepts(text)
    assert remote.fetches == 2
    await remote.issuers.close()


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b'{"keys": 1}', b'{"keys": [1]}', b" " * 65_537, b'{"keys": "\xff"}', NESTED]
)
@in_loop
async def test_issuer_failed_fetch_keeps_keys_for_a_day(service: PushService, body: bytes) -> None:
    remote, text = Remote(service), signed(KEYS["ES256"], "ES256")
    remote.publish(KEYS["ES256"])
    assert await remote.accepts(text)
    service.bodies[PATH] = body
    remote.clock.now += 86_399
    assert await remote.accepts(text)
    remote.clock.now += 1
    with pytest.raises(Unavailable, match="keys of the issuer cannot be fetched"):
        await remote.accepts(text)
    remote.publish(KEYS["ES256"])
    remote.clock.now += 60
    assert await remote.accepts(text)
    await remote.issuers.close()


@pytest.mark.parametrize("status", [302, 404, 500])
@in_loop
async def test_issuer_without_keys_is_unavailable(service: PushService, status: int) -> None:
    remote = Remote(service)
    service.answers[PATH] = status
    with pytest.raises(Unavailable):
        await remote.accepts(signed(KEYS["ES256"], "ES256"))
    assert not service.at("/elsewhere")
    await remote.issuers.close()


@in_loop
async def test_issuer_keys_at_internal_address_are_not_fetched_unless_allowed(service: PushService) -> None:
    service.came.clear()
    issuer = {"audience": AUDIENCE, "jwks_url": service.url + PATH}
    closed = Issuers(settings_of(issuers={ISSUER: issuer}, push_networks=["127.0.0.0/8"]), now=lambda: NOW)
    with pytest.raises(Unavailable):
        await closed.verify(signed(KEYS["ES256"], "ES256"))
    assert not service.came
    await closed.close()


@in_loop
async def test_doctor_reports_usable_keys_of_each_issuer(service: PushService) -> None:
    service.answers["/404"], service.answers[PATH] = 404, 200
    service.bodies[PATH], service.bodies["/none"] = (
        msgspec.json.encode({"keys": public(*KEYS.values())}),
        b'{"keys": []}',
    )
    service.answers["/none"] = 200
    issuers: dict[str, Any] = {
        path: {"audience": "x", "jwks_url": service.url + path} for path in (PATH, "/404", "/none")
    }
    issuers["static"] = {"audience": "x", "keys": public(KEYS["ES256"])}
    settings = settings_of(issuers=issuers, outgoing_networks=["127.0.0.0/8"])
    assert [(finding.grade, finding.message) for finding in await preflight.issuers(settings)] == [
        ("ok", f"{PATH}: usable keys: 3"),
        ("bad", "/404: status 404"),
        ("bad", "/none: no usable key"),
        ("ok", "static: usable keys: 1"),
    ]
    (wrong,) = await preflight.issuers(settings_of(issuers={ISSUER: {"audience": "x"}}))
    assert (wrong.grade, wrong.message) == ("bad", f"issuers: {ISSUER}: set either jwks_url or keys")
    assert await preflight.issuers(Settings()) == []
