"""Login providers: authorization requests, code exchange, ID tokens, claims, and the cache of metadata."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from shoal import issuers, oidc
from shoal.core.errors import InvalidInput, Unavailable
from shoal.monitoring import preflight
from shoal.oidc import AuthorizationRequest, DomainRefused, LoginRefused, OidcUser, Providers
from shoal.settings import Settings
from shoal.settings import build as settings_of
from tests.async_runner import eventually, in_loop
from tests.fake_oidc_provider import ANN, ISSUER, FakeProvider, fake_provider
from tests.stores import Clock

BACK = "https://shoal.example/login/with/example/return"
ASKED = AuthorizationRequest("st4te", "n0nce", "v" * 64)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as made:
        yield made


def providers(provider: FakeProvider, **more: Any) -> Providers:
    return Providers(settings_of(oidc_providers={"example": {**provider.settings, **more}}))


async def logged_in(provider: FakeProvider, *, again: bool = False, iss: str = "", **more: Any) -> OidcUser:
    opened = providers(provider, **more)
    provider.authorize(await opened.authorization_url("example", BACK, ASKED, again=again))
    found = await opened.user("example", BACK, ASKED, "abc", iss, again=again)
    await opened.close()
    return found


@in_loop
async def test_oidc_authorization_url_has_state_nonce_and_pkce_challenge(provider: FakeProvider) -> None:
    url = await providers(provider).authorization_url("example", BACK, ASKED)
    assert url.startswith(f"{ISSUER}/authorize?tenant=1&")
    challenge = base64.urlsafe_b64encode(sha256(ASKED.verifier.encode()).digest()).rstrip(b"=").decode()
    assert dict(parse_qsl(urlsplit(url).query)) == {
        "tenant": "1",
        "response_type": "code",
        "client_id": "shoal",
        "redirect_uri": BACK,
        "scope": "openid profile email",
        "state": "st4te",
        "nonce": "n0nce",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }


@in_loop
async def test_oidc_login_returns_claims_of_user(provider: FakeProvider) -> None:
    found = await logged_in(provider)
    assert (found.external.issuer, found.external.id) == (ISSUER, "77")
    assert found[1:4] == ("ann", "Ann A.", "ann@a.example")
    _, headers, form = next(one for one in provider.requests if one[0] == "/token")
    assert headers["Authorization"] == f"Basic {base64.b64encode(b'shoal:s3cret').decode()}"
    assert form == {
        "grant_type": "authorization_code",
        "code": "abc",
        "redirect_uri": BACK,
        "client_id": "shoal",
        "code_verifier": ASKED.verifier,
    }


@in_loop
async def test_oidc_secret_is_in_body_if_provider_supports_no_basic(provider: FakeProvider) -> None:
    provider.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    await logged_in(provider)
    _, headers, form = next(one for one in provider.requests if one[0] == "/token")
    assert "Authorization" not in headers
    assert form["client_secret"] == "s3cret"


@in_loop
async def test_oidc_mapped_claims_are_used(provider: FakeProvider) -> None:
    provider.user = {"sub": "77", "nick": "annie", "mail": "Ann@Bücher.example", "ok": "true", "email": "x@y.example"}
    claims = {"user_name": "nick", "name": "", "email": "mail", "email_verified": "ok"}
    assert (await logged_in(provider, claims=claims))[1:4] == ("annie", "", "ann@bücher.example")


@pytest.mark.parametrize("verified", [False, None, "false", 1, "yes", ["true"]])
@in_loop
async def test_oidc_unverified_address_is_ignored(provider: FakeProvider, verified: object) -> None:
    provider.claims["email_verified"] = verified
    user = await logged_in(provider)
    assert (user.email, user.claimed) == ("", "ann@a.example")
    with pytest.raises(DomainRefused):
        await logged_in(provider, email_domains=["a.example"])


@pytest.mark.parametrize(
    ("allowed", "email", "accepted"),
    [
        ("a.example", "ann@a.example", True),
        ("A.EXAMPLE", "ann@a.example", True),
        ("bücher.example", "ann@xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", "ann@bücher.example", True),
        ("a.example", "ann@sub.a.example", False),
        ("a.example", "ann@nota.example", False),
        ("a.example", "ann@a.example.evil.example", False),
        ("a.example", "ann@a.example@evil.example", False),
        ("a.example", '"ann@a.example"@evil.example', False),
        ("a.example", "a.example", False),
        ("a.example", "ann@а.example", False),
    ],
)
@in_loop
async def test_oidc_email_domain_is_compared_exactly_after_idna(
    provider: FakeProvider, allowed: str, email: str, accepted: bool
) -> None:
    provider.claims["email"] = email
    if accepted:
        assert (await logged_in(provider, email_domains=[allowed])).external.id == "77"
    else:
        with pytest.raises(DomainRefused):
            await logged_in(provider, email_domains=[allowed])


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "other"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "other"}, "audience"),
        ({"aud": ["shoal", "other"]}, "another client"),
        ({"aud": ["shoal", "other"], "azp": "other"}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"azp": ["shoal"]}, "another client"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"exp": 1}, "expired"),
        ({"iat": 1}, "older than"),
        ({"sub": "x" * 256}, "sub"),
        ({"sub": None}, "not a signed JWT"),
    ],
)
@in_loop
async def test_oidc_id_token_with_wrong_claim_is_refused(
    provider: FakeProvider, claims: dict[str, object], reason: str
) -> None:
    provider.claims = claims
    with pytest.raises(LoginRefused, match=reason):
        await logged_in(provider)


@in_loop
async def test_oidc_id_token_with_several_audiences_and_authorized_party_is_accepted(provider: FakeProvider) -> None:
    provider.claims = {"aud": ["other", "shoal"], "azp": "shoal"}
    assert (await logged_in(provider)).external.id == "77"


@in_loop
async def test_oidc_id_token_signed_by_another_key_is_refused(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = provider.id_token
    monkeypatch.setattr(provider, "id_token", lambda: whole()[:-8] + "AAAAAAAA")
    with pytest.raises(LoginRefused, match="signature"):
        await logged_in(provider)


@in_loop
async def test_oidc_new_login_requires_recent_auth_time(provider: FakeProvider) -> None:
    cases = (
        (0, True),
        (320, True),
        (-20, True),
        (340, False),
        (-60, False),
        ("now", False),
        (True, False),
        (None, False),
    )
    for age, accepted in cases:
        moment = time.time()
        opened = Providers(settings_of(oidc_providers={"example": provider.settings}), now=lambda: moment)  # noqa: B023
        provider.authorize(await opened.authorization_url("example", BACK, ASKED, again=True))
        assert (provider.asked["prompt"], provider.asked["max_age"]) == ("login", "300")
        provider.claims["auth_time"] = moment - age if type(age) is int else age
        if accepted:
            await opened.user("example", BACK, ASKED, "abc", "", again=True)
        else:
            with pytest.raises(LoginRefused, match="did not log in again"):
                await opened.user("example", BACK, ASKED, "abc", "", again=True)


@in_loop
async def test_oidc_missing_claims_are_read_from_userinfo(provider: FakeProvider) -> None:
    provider.metadata["userinfo_endpoint"] = f"{ISSUER}/userinfo"
    provider.user, provider.userinfo = {"sub": "77", "name": "Ann"}, {**ANN, "name": "Other"}
    assert (await logged_in(provider))[1:4] == ("ann", "Ann", "ann@a.example")
    _, headers, _ = provider.requests[-1]
    assert headers["Authorization"] == "Bearer t0ken"


@in_loop
async def test_oidc_userinfo_of_another_subject_is_refused(provider: FakeProvider) -> None:
    provider.metadata["userinfo_endpoint"] = f"{ISSUER}/userinfo"
    provider.user, provider.userinfo = {"sub": "77"}, {**ANN, "sub": "78"}
    with pytest.raises(LoginRefused, match="another user"):
        await logged_in(provider)


@pytest.mark.parametrize("verified", [True, False])
@in_loop
async def test_oidc_verification_counts_for_address_of_the_same_source(provider: FakeProvider, verified: bool) -> None:
    provider.metadata["userinfo_endpoint"] = f"{ISSUER}/userinfo"
    provider.user = {"sub": "77", "email": "ann@b.example"}
    provider.userinfo = {**ANN, "email_verified": verified}
    assert (await logged_in(provider)).email == ("ann@a.example" if verified else "")
    with pytest.raises(DomainRefused):
        await logged_in(provider, email_domains=["b.example"])


@pytest.mark.parametrize("missing", ["name", "email", "email_verified"])
@in_loop
async def test_oidc_failing_userinfo_endpoint_stops_only_logins_without_address(
    provider: FakeProvider, missing: str
) -> None:
    provider.metadata["userinfo_endpoint"] = f"{ISSUER}/userinfo"
    provider.statuses["/userinfo"] = 500
    provider.claims[missing] = None
    if missing == "name":
        assert (await logged_in(provider))[1:4] == ("ann", "", "ann@a.example")
    else:
        with pytest.raises(Unavailable):
            await logged_in(provider)


@pytest.mark.parametrize(
    ("iss", "stated", "accepted"),
    [
        ("", False, True),
        (ISSUER, False, True),
        (ISSUER, True, True),
        ("", True, False),
        ("https://x.example", False, False),
    ],
)
@in_loop
async def test_oidc_issuer_of_response_is_compared(
    provider: FakeProvider, iss: str, stated: bool, accepted: bool
) -> None:
    provider.metadata["authorization_response_iss_parameter_supported"] = stated
    if accepted:
        await logged_in(provider, iss=iss)
    else:
        with pytest.raises(LoginRefused, match="another issuer"):
            await logged_in(provider, iss=iss)


@in_loop
async def test_oidc_refused_code_is_a_refused_login_and_failing_endpoint_is_unavailable(provider: FakeProvider) -> None:
    provider.statuses["/token"] = 400
    with pytest.raises(LoginRefused, match="status 400"):
        await logged_in(provider)
    for status in (302, 500):
        provider.statuses["/token"] = status
        with pytest.raises(Unavailable):
            await logged_in(provider)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": "invalid_grant", "error_description": "expired", "code": "abc"}, "'invalid_grant' 'expired'"),
        ({"error": "e" * 1_000}, f"'{'e' * 100}' ''"),
        ({"error": 7}, "no reason"),
        ("the code abc", "no reason"),
    ],
)
@in_loop
async def test_oidc_refusal_states_reason_of_token_endpoint_without_rest_of_body(
    provider: FakeProvider, body: object, reason: str
) -> None:
    provider.statuses["/token"], provider.refusal = 400, body
    with pytest.raises(LoginRefused) as caught:
        await logged_in(provider)
    assert str(caught.value) == f"the token endpoint responded with status 400: {reason}"


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example"},
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": "http://id.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://id.example/a\nX: y"},
        {"jwks_uri": None},
    ],
)
@in_loop
async def test_oidc_invalid_metadata_make_provider_unavailable(
    provider: FakeProvider, changes: dict[str, object]
) -> None:
    provider.metadata |= changes
    with pytest.raises(Unavailable):
        await providers(provider).authorization_url("example", BACK, ASKED)


@in_loop
async def test_oidc_metadata_are_cached_for_an_hour_and_survive_failures_for_a_day(provider: FakeProvider) -> None:
    clock = Clock()
    clock.now = 1_000.0
    opened = Providers(settings_of(oidc_providers={"example": provider.settings}), clock=clock)

    async def asks() -> None:
        await opened.authorization_url("example", BACK, ASKED)

    for _ in range(3):
        await asks()
    assert len(provider.requests) == 1
    provider.down = True
    clock.now += 3_600
    await asks()
    await eventually(provider.count, 2)
    await asks()
    assert len(provider.requests) == 2, "a failed fetch must not be repeated by each login"
    clock.now += 86_400 - 3_601
    await asks()
    clock.now += 1
    with pytest.raises(Unavailable):
        await asks()
    provider.down = False
    clock.now += 10
    await asks()
    await opened.close()


@in_loop
async def test_oidc_login_with_stale_metadata_does_not_wait_for_refresh(provider: FakeProvider) -> None:
    clock = Clock()
    opened = Providers(settings_of(oidc_providers={"example": provider.settings}), clock=clock)
    await opened.authorization_url("example", BACK, ASKED)
    provider.metadata["authorization_endpoint"] = f"{ISSUER}/new"
    provider.hangs = asyncio.Event()
    clock.now += 3_600

    async def endpoint() -> str:
        async with asyncio.timeout(60):
            return (await opened.authorization_url("example", BACK, ASKED)).partition("?")[0]

    assert await endpoint() == await endpoint() == f"{ISSUER}/authorize"
    await eventually(provider.count, 2)
    provider.hangs.set()
    await eventually(endpoint, f"{ISSUER}/new")
    await opened.close()


@in_loop
async def test_oidc_login_succeeds_while_provider_moves_its_keys(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []

    class Keys(issuers.Issuers):
        async def close(self) -> None:
            closed.append(self)
            await super().close()

    monkeypatch.setattr(oidc, "Issuers", Keys)
    clock = Clock()
    opened = Providers(settings_of(oidc_providers={"example": provider.settings}), clock=clock)

    async def endpoint() -> str:
        return (await opened.authorization_url("example", BACK, ASKED)).partition("?")[0]

    for number in range(4):
        new = provider.metadata["authorization_endpoint"] = f"{ISSUER}/authorize/{number}"
        provider.metadata["jwks_uri"] = f"{ISSUER}/jwks/{number}"
        await eventually(endpoint, new)
        assert len(closed) == max(0, number - 1), "the keys before the current ones may be in use"
        clock.now += 3_600
    await opened.close()
    assert len(set(closed)) == 4


@in_loop
async def test_oidc_concurrent_first_logins_fetch_metadata_once(provider: FakeProvider) -> None:
    opened = providers(provider)
    urls = await asyncio.gather(*(opened.authorization_url("example", BACK, ASKED) for _ in range(5)))
    assert (len(set(urls)), await provider.count()) == (1, 1)


@in_loop
async def test_oidc_login_beyond_maximum_of_waiting_requests_is_refused_at_once(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_LOGIN_SECONDS", 600.0)
    opened = providers(provider)
    provider.authorize(await opened.authorization_url("example", BACK, ASKED))
    provider.hangs = asyncio.Event()
    waiting = [asyncio.create_task(opened.user("example", BACK, ASKED, "abc", "")) for _ in range(16)]
    await eventually(provider.count, 17)
    async with asyncio.timeout(60):
        with pytest.raises(Unavailable, match="too many requests wait"):
            await opened.user("example", BACK, ASKED, "abc", "")
        with pytest.raises(Unavailable, match="too many requests wait"):
            await opened.authorization_url("example", BACK, ASKED)
    provider.hangs.set()
    assert {user.external.id for user in await asyncio.gather(*waiting)} == {"77"}
    assert (await opened.user("example", BACK, ASKED, "abc", "")).external.id == "77"
    await opened.close()


@in_loop
async def test_oidc_login_at_hanging_provider_ends_with_timeout(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = providers(provider)
    provider.hangs = asyncio.Event()
    with monkeypatch.context() as patch:
        patch.setattr(oidc, "_LOGIN_SECONDS", 0.05)
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable, match="did not respond within"):
                await opened.user("example", BACK, ASKED, "abc", "")
    # The fetch of the metadata continues for other requests.
    provider.hangs.set()
    await opened.authorization_url("example", BACK, ASKED)
    assert await provider.count() == 1
    await opened.close()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"issuer": "http://id.example"}, "issuer: expected an https URL"),
        ({"issuer": "https://"}, "issuer: expected an https URL"),
        ({"issuer": "https://[::1"}, "issuer: expected an https URL"),
        ({"issuer": "https://id.example?x"}, "issuer: expected an https URL"),
        ({"issuer": "https://user@id.example"}, "issuer: expected an https URL"),
        ({"scopes": "email profile"}, "scopes: openid is missing"),
        ({"email_domains": ["a..example"]}, "email_domains: "),
    ],
)
def test_oidc_invalid_provider_settings_are_refused(changes: dict[str, object], wrong: str) -> None:
    with pytest.raises(InvalidInput, match=f"oidc_providers: example: {wrong}"):
        providers(FakeProvider(), **changes)


def test_oidc_invalid_outgoing_network_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"outgoing_networks: 10\.0\.0\.1/8 has host bits set"):
        Providers(settings_of(oidc_providers={"example": FakeProvider().settings}, outgoing_networks=["10.0.0.1/8"]))


def test_password_login_off_without_another_way_is_refused() -> None:
    with pytest.raises(InvalidInput, match="password_login: false requires oidc_providers or issuers"):
        Providers(Settings(password_login=False))


@in_loop
async def test_doctor_reports_usable_keys_of_each_provider(provider: FakeProvider) -> None:
    settings = settings_of(oidc_providers={"example": provider.settings})
    found = [(finding.grade, finding.message) for finding in await preflight.providers(settings)]
    assert found == [("ok", "example: usable keys: 1")]
    provider.down = True
    (wrong,) = await preflight.providers(settings)
    assert (wrong.grade, wrong.message) == ("bad", "example: ConnectError")
    (wrong,) = await preflight.providers(Settings(password_login=False))
    assert wrong.message == "password_login: false requires oidc_providers or issuers"
