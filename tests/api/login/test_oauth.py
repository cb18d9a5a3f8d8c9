"""OAuth: authorization code flow, token and revocation endpoints, and app registration."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import replace
from typing import Any

import httpx
import msgspec
import pytest

from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.graph.contract import Batch
from shoal.server import build
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.oauth_browser import CALLBACK, CHALLENGE, PASSWORD, VERIFIER, Client, Visitor, register, text_of, told

OUT_OF_BAND = "urn:ietf:wg:oauth:2.0:oob"


def let_in(shoal: NetworkFixture, client: Client, name: str, **more: Any) -> str:
    """Authorize the app as this member and return the code."""
    visitor = Visitor(shoal)
    visitor.open(client.query(**more))
    visitor.log_in(name)
    return visitor.allow()["code"]


def change(shoal: NetworkFixture, member_id: int, **changes: Any) -> None:
    """Change fields of the stored member."""
    member = shoal.run(shoal.network.store.obj_get((member_id,)))[member_id]
    assert isinstance(member, Member)
    batch = Batch(shard_of(member_id))
    batch.obj_set(msgspec.structs.replace(member, version=member.version + 1, **changes))
    shoal.run(shoal.network.store.commit(batch))


def test_authorization_code_flow_issues_token(shared: NetworkFixture) -> None:
    register(shared, "ann")
    client, visitor = Client(shared), Visitor(shared)
    page = visitor.open(client.query(state="a b&c", code_challenge=CHALLENGE, code_challenge_method="S256"))
    assert page.status_code == 200
    assert "Log in to Shoal Log in to authorize Tide." in text_of(page)
    wrong = visitor.press("login", username="ann", password="wrong")
    assert wrong.status_code == 422
    assert "Incorrect user name or password" in text_of(wrong)
    assert 'value="ann"' in wrong.text
    question = visitor.log_in("ann")
    assert "Authorize Tide?" in text_of(question)
    assert "@ann@shoal.test" in text_of(question) or "@ann@" in text_of(question)
    assert "post, like, share, follow" in text_of(question)
    assert "You will be redirected to client.example" in text_of(question)
    answer = visitor.press("allow")
    assert answer.headers["location"].startswith(f"{CALLBACK}?")
    assert told(answer)["state"] == "a b&c"
    granted = client.exchange(told(answer)["code"], code_verifier=VERIFIER)
    assert granted.status_code == 200
    assert granted.headers["cache-control"] == "no-store"
    token = granted.json()
    assert (token["token_type"], token["scope"]) == ("Bearer", "read write")
    assert shared.json("GET", "/api/v1/accounts/verify_credentials", token["access_token"])["username"] == "ann"


def test_authorize_page_accepts_trailing_slash_and_missing_scope(shared: NetworkFixture) -> None:
    register(shared, "ben")
    client, visitor = Client(shared), Visitor(shared)
    query = client.query()
    del query["scope"]
    visitor.open(query, "/oauth/authorize/")
    visitor.log_in("ben")
    assert client.exchange(visitor.allow()["code"]).json()["scope"] == "read"


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "12345"},
        {"client_id": ""},
        {"client_id": "9" * 30},
        {"redirect_uri": "https://client.example/callback/"},
        {"redirect_uri": "https://client.example/callback?more=1"},
        {"redirect_uri": "HTTPS://client.example/callback"},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": ""},
        {"redirect_uri": "x" * 3_000},
    ],
)
def test_authorize_page_with_unknown_client_or_redirect_uri_does_not_redirect(
    shared: NetworkFixture, change: dict[str, str]
) -> None:
    client = Client(shared)
    for method in ("GET", "POST"):
        answer = shared.ask(method, "/oauth/authorize", params=client.query(state="s") | change)
        assert answer.status_code in {400, 401, 422}
        assert "location" not in answer.headers
        assert answer.headers["content-type"].startswith("text/html")
        assert "This did not work" in answer.text


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "invalid_request"),
        ({"scope": "read admin:read"}, "invalid_scope"),
        ({"scope": "nonsense"}, "invalid_scope"),
        ({"code_challenge": VERIFIER, "code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": CHALLENGE}, "invalid_request"),
        ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge_method": "S256"}, "invalid_request"),
    ],
)
def test_authorize_page_with_invalid_parameters_redirects_with_error_and_state(
    shared: NetworkFixture, change: dict[str, str], error: str
) -> None:
    client = Client(shared)
    answer = shared.ask("GET", "/oauth/authorize", params=client.query(state="s p") | change)
    assert answer.headers["location"].startswith(f"{CALLBACK}?")
    assert told(answer)["error"] == error
    assert told(answer)["state"] == "s p"
    assert "code" not in told(answer)


def test_authorization_redirect_keeps_query_of_redirect_uri(shared: NetworkFixture) -> None:
    register(shared, "cat")
    address = "tide.app://back?from=shoal"
    client = Client(shared, address)
    visitor = Visitor(shared)
    visitor.open(client.query(redirect_uri=address))
    visitor.log_in("cat")
    answer = visitor.press("allow")
    assert answer.headers["location"].startswith("tide.app://back?from=shoal&code=")
    assert client.exchange(told(answer)["code"], redirect_uri=address).status_code == 200


def test_authorization_denied_redirects_with_access_denied_and_changes_nothing(shared: NetworkFixture) -> None:
    register(shared, "dan")
    visitor = Visitor(shared)
    visitor.open(Client(shared).query(state="x"))
    before = shared.state()
    assert told(visitor.press("deny")) == {
        "error": "access_denied",
        "error_description": "The resource owner denied the request.",
        "state": "x",
    }
    assert shared.state() == before


def test_authorization_code_out_of_band_is_shown_on_page(shared: NetworkFixture) -> None:
    register(shared, "eli")
    client, visitor = Client(shared, OUT_OF_BAND), Visitor(shared)
    visitor.open(client.query(redirect_uri=OUT_OF_BAND))
    visitor.log_in("eli")
    shown = visitor.press("allow")
    assert shown.status_code == 200
    code = re.search(r'id="code">([A-Za-z0-9_-]{44})<', shown.text)
    assert code is not None
    assert client.exchange(code[1], redirect_uri=OUT_OF_BAND).status_code == 200
    visitor.open(client.query(redirect_uri=OUT_OF_BAND))
    assert "The app was not authorized" in visitor.press("deny").text
    assert visitor.open(client.query(redirect_uri=OUT_OF_BAND, scope="nonsense")).status_code == 400


def test_authorize_page_for_second_app_skips_login_unless_forced(shared: NetworkFixture) -> None:
    register(shared, "fay")
    register(shared, "gil")
    visitor = Visitor(shared)
    visitor.open(Client(shared).query())
    visitor.log_in("fay")
    other = Client(shared, name="Ebb")
    assert "Authorize Ebb?" in text_of(visitor.open(other.query()))
    assert other.exchange(visitor.allow()["code"]).status_code == 200
    assert "Log in to Shoal" in text_of(visitor.open(other.query(force_login="true")))
    visitor.open(other.query())
    visitor.press("switch")
    assert "Log in to Shoal" in text_of(visitor.follow())
    assert "@gil" in text_of(visitor.log_in("gil"))


def test_authorize_form_with_invalid_form_token_or_cross_site_returns_403(shared: NetworkFixture) -> None:
    register(shared, "hal")
    client, visitor = Client(shared), Visitor(shared)
    visitor.open(client.query())
    visitor.log_in("hal")
    form_token = re.search(r'name="form_token" value="([0-9a-f]+)"', visitor.page.text)
    assert form_token is not None
    before = shared.state()

    def post(form_token: str, **headers: str) -> httpx.Response:
        return shared.run(
            visitor.web.post(
                "/oauth/authorize",
                params=client.query(),
                data={"do": "allow", "form_token": form_token},
                headers=headers,
            )
        )

    stranger = Visitor(shared)
    stranger.open(client.query())
    theirs = re.search(r'name="form_token" value="([0-9a-f]+)"', stranger.page.text)
    assert theirs is not None
    for answer in (
        post(""),
        post("0" * 64),
        post(theirs[1]),
        post(form_token[1], **{"Sec-Fetch-Site": "cross-site"}),
        post(form_token[1], **{"Sec-Fetch-Site": "same-site"}),
    ):
        assert answer.status_code == 403
        assert "This page has expired" in answer.text
    visitor.web.cookies.delete("shoal_form")
    assert post(form_token[1]).status_code == 403
    assert shared.state() == before


def test_authorize_form_shown_to_other_member_returns_403(shared: NetworkFixture) -> None:
    register(shared, "ida")
    register(shared, "jon")
    client, visitor = Client(shared), Visitor(shared)
    visitor.open(client.query())
    left_open = visitor.log_in("ida")
    visitor.open(client.query(force_login="true"))
    visitor.log_in("jon")
    visitor.page = left_open
    assert visitor.press("allow").status_code == 403


@pytest.mark.parametrize("shut", ["suspended", "disabled"])
def test_authorization_of_suspended_or_disabled_member_is_refused(shared: NetworkFixture, shut: str) -> None:
    name = f"kit_{shut}"
    id_ = register(shared, name)
    client = Client(shared)
    code, later = let_in(shared, client, name), let_in(shared, client, name)
    token = client.exchange(code).json()["access_token"]
    visitor = Visitor(shared)
    visitor.open(client.query())
    visitor.log_in(name)
    change(shared, id_, **{shut: True})
    assert visitor.press("allow").status_code == 403
    page = visitor.open(client.query())
    assert (page.status_code, "Your login is currently disabled" in page.text) == (403, True)
    page = visitor.press("login", username=name, password=PASSWORD)
    assert (page.status_code, "Your login is currently disabled" in page.text) == (403, True)
    assert client.exchange(later).json()["error"] == "invalid_grant"
    answer = shared.ask("GET", "/api/v1/accounts/verify_credentials", token)
    assert (answer.status_code, answer.json()) == (403, {"error": "Your login is currently disabled"})
    asked = {"grant_type": "password", "username": name, "password": PASSWORD, **client.keys}
    refused = shared.ask("POST", "/oauth/token", data=asked)
    assert (refused.status_code, refused.json()["error_description"]) == (400, "Your login is currently disabled")


def test_authorization_code_reuse_is_refused_and_revokes_first_token(shared: NetworkFixture) -> None:
    register(shared, "lea")
    client = Client(shared)
    code = let_in(shared, client, "lea")
    token = client.exchange(code).json()["access_token"]
    shared.json("GET", "/api/v1/accounts/verify_credentials", token)
    again = client.exchange(code)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert shared.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 401


def test_authorization_code_concurrent_exchange_issues_one_token(shared: NetworkFixture) -> None:
    register(shared, "moe")
    client = Client(shared)
    code = let_in(shared, client, "moe")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **client.keys}

    async def race() -> list[httpx.Response]:
        return list(await asyncio.gather(*(shared._client.post("/oauth/token", data=form) for _ in range(8))))

    answers = shared.run(race())
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7


@pytest.mark.parametrize(
    "change",
    [
        {"redirect_uri": CALLBACK + "/"},
        {"redirect_uri": OUT_OF_BAND},
        {"code_verifier": None},
        {"code_verifier": "w" * 43},
        {"code_verifier": CHALLENGE},
        {"code": "nonsense"},
        {"code": "A" * 44},
    ],
)
def test_authorization_code_exchange_with_wrong_client_redirect_uri_verifier_or_code_is_refused(
    shared: NetworkFixture, change: dict[str, Any]
) -> None:
    if shared.ask("GET", "/api/v1/accounts/lookup", params={"acct": "ned"}).status_code == 404:
        register(shared, "ned")
    client = Client(shared)
    code = let_in(shared, client, "ned", code_challenge=CHALLENGE, code_challenge_method="S256")
    before = shared.state()
    refused = client.exchange(**{"code": code, "code_verifier": VERIFIER, **change})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    other = Client(shared).keys
    assert client.exchange(code, code_verifier=VERIFIER, **other).json()["error"] == "invalid_grant"
    # Refused exchanges do not use the code.
    assert client.exchange(code, code_verifier=VERIFIER).status_code == 200
    assert before.objects != shared.state().objects


def test_authorization_code_exchange_with_verifier_but_no_challenge_is_refused(shared: NetworkFixture) -> None:
    register(shared, "oda")
    client = Client(shared)
    assert client.exchange(let_in(shared, client, "oda"), code_verifier=VERIFIER).status_code == 400


def test_token_endpoint_accepts_client_credentials_in_body_or_basic_header(shared: NetworkFixture) -> None:
    register(shared, "pam")
    client = Client(shared)
    form = {"grant_type": "client_credentials", "scope": "read"}
    basic = (client.keys["client_id"], client.keys["client_secret"])
    assert shared.json("POST", "/oauth/token", data=form, auth=basic)["scope"] == "read"
    assert shared.json("POST", "/oauth/token", json={**form, **client.keys, "oauth_info": "x"})["scope"] == "read"
    for keys in ({}, {"client_id": basic[0]}, {**client.keys, "client_secret": "wrong"}):
        answer = shared.ask("POST", "/oauth/token", data={**form, **keys})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.json()["error_description"]
    for change, error in (
        ({"grant_type": "refresh_token"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
        ({"scope": "admin:read"}, "invalid_scope"),
        ({"grant_type": "authorization_code"}, "invalid_request"),
    ):
        answer = shared.ask("POST", "/oauth/token", data={**form, **client.keys, **change})
        assert (answer.status_code, answer.json()["error"]) == (400, error)


def test_token_revocation_requires_own_client_and_is_idempotent(shared: NetworkFixture) -> None:
    register(shared, "qin")
    client, other = Client(shared), Client(shared)
    token = client.exchange(let_in(shared, client, "qin")).json()["access_token"]
    refused = shared.ask("POST", "/oauth/revoke", data={"token": token, **other.keys})
    assert (refused.status_code, refused.json()["error"]) == (403, "unauthorized_client")
    for _ in range(2):
        assert shared.json("POST", "/oauth/revoke", data={"token": token, **client.keys}) == {}
    assert shared.ask("GET", "/api/v1/accounts/verify_credentials", token).status_code == 401


def test_authorize_page_escapes_app_and_member_names(shared: NetworkFixture) -> None:
    register(shared, "ray")
    client, visitor = Client(shared, name="<script>1</script>", website="https://a.example/\"'><b>"), Visitor(shared)
    evil = "\"'><script>2</script>"
    visitor.open(client.query(state=evil))
    wrong = visitor.press("login", username=evil, password="x")
    for page in (wrong, visitor.log_in("ray")):
        assert "<script>" not in page.text
        assert "'><b>" not in page.text
    assert told(visitor.press("allow"))["state"] == evil


def test_authorize_page_headers_forbid_framing_and_allow_popups(shared: NetworkFixture) -> None:
    answer = shared.ask("GET", "/oauth/authorize", params=Client(shared).query())
    assert answer.headers["x-frame-options"] == "DENY"
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action" not in policy
    assert "cross-origin-opener-policy" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    assert answer.text.count("<script") == 1, "only the passkey script"
    assert "script-src 'self'; connect-src 'self'" in policy
    register(shared, "vic")
    visitor = Visitor(shared)
    visitor.open(Client(shared).query())
    asked = visitor.log_in("vic")
    assert "script" not in asked.headers["content-security-policy"]
    assert "<script" not in asked.text


@pytest.mark.parametrize("base", ["http://shoal.test", "https://shoal.test"])
def test_session_cookies_are_http_only_same_site_and_secure_on_https(base: str) -> None:
    with network_fixture() as shoal:
        shoal.app = build(replace(shoal.app_parts, base_url=base))
        register(shoal, "ann")
        visitor = Visitor(shoal, base)
        cookies = visitor.open(Client(shoal).query()).headers.get_list("set-cookie")
        cookies += visitor.press("login", username="ann", password=PASSWORD).headers.get_list("set-cookie")
        assert len(cookies) == 2
        for cookie in cookies:
            assert "HttpOnly" in cookie
            assert "SameSite=lax" in cookie
            assert "Path=/" in cookie
            assert "Domain" not in cookie
            assert ("Secure" in cookie, cookie.startswith("__Host-")) == ((base[:5] == "https"),) * 2


def test_session_cookie_is_not_accepted_as_api_token(shared: NetworkFixture) -> None:
    register(shared, "sue")
    visitor = Visitor(shared)
    visitor.open(Client(shared).query())
    visitor.log_in("sue")
    cookie = visitor.web.cookies["shoal_login"].strip('"')
    for path in ("/api/v1/accounts/verify_credentials", "/api/v1/apps/verify_credentials", "/api/v1/instance"):
        answer = shared.ask("GET", path, cookie)
        assert answer.status_code == (200 if path == "/api/v1/instance" else 401)


def test_authorize_page_over_rate_limit_returns_429_as_html() -> None:
    with network_fixture(rate_limits=True, limits={"login": "2/5m"}) as shoal:
        register(shoal, "ann")
        visitor = Visitor(shoal)
        visitor.open(Client(shoal).query())
        for _ in range(2):
            assert visitor.press("login", username="ann", password="guess").status_code == 422
        answer = visitor.press("login", username="ann", password="guess")
        assert answer.status_code == 429
        assert answer.headers["content-type"].startswith("text/html")
        assert "Too many requests" in answer.text
        assert int(answer.headers["retry-after"]) > 0
        assert answer.headers["x-ratelimit-remaining"] == "0"


def test_password_grant_disabled_returns_unsupported_grant_type() -> None:
    with network_fixture(password_grant=False) as shoal:
        register(shoal, "ann")
        asked = {"grant_type": "password", "username": "ann", "password": PASSWORD, **Client(shoal).keys}
        assert shoal.ask("POST", "/oauth/token", data=asked).json()["error"] == "unsupported_grant_type"


def test_oauth_server_metadata_is_served_only_on_https(shared: NetworkFixture) -> None:
    answer = shared.ask("GET", "/.well-known/oauth-authorization-server")
    assert (answer.status_code, answer.json()) == (404, {"error": "Record not found"})
    with network_fixture(password_grant=False) as shoal:
        shoal.app = build(replace(shoal.app_parts, base_url="https://shoal.test"))
        said = shoal.run(Visitor(shoal).web.get("/.well-known/oauth-authorization-server")).json()
    assert said["issuer"] == "https://shoal.test/"
    assert said["authorization_endpoint"] == "https://shoal.test/oauth/authorize"
    assert said["token_endpoint"] == "https://shoal.test/oauth/token"
    assert said["code_challenge_methods_supported"] == ["S256"]
    assert said["grant_types_supported"] == ["authorization_code", "client_credentials"]
    assert {"read", "write", "follow", "push", "profile"} <= set(said["scopes_supported"])


def test_authorization_response_includes_issuer_on_https(shared: NetworkFixture) -> None:
    """RFC 9207: a client of several servers can identify the responding server, in errors and in codes."""
    with network_fixture() as shoal:
        shoal.app = build(replace(shoal.app_parts, base_url="https://shoal.test"))
        register(shoal, "ann")
        client, visitor = Client(shoal), Visitor(shoal, "https://shoal.test")
        said = shoal.run(visitor.web.get("/.well-known/oauth-authorization-server")).json()
        assert said["authorization_response_iss_parameter_supported"] is True
        visitor.open(client.query(state="s"))
        visitor.log_in("ann")
        refused = told(visitor.press("deny"))
        assert (refused["error"], refused["iss"]) == ("access_denied", said["issuer"])
        visitor.open(client.query(state="s"))
        assert told(visitor.press("allow"))["iss"] == said["issuer"]
        wrong = visitor.open(client.query(scope="nonsense"))
        assert told(wrong)["iss"] == said["issuer"]
    plain = shared.ask("GET", "/oauth/authorize", params=Client(shared).query(scope="nonsense"))
    assert "iss" not in told(plain)


@pytest.mark.parametrize("name", ["response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge"])
def test_authorize_page_with_duplicate_parameter_does_not_redirect(shared: NetworkFixture, name: str) -> None:
    """RFC 6749, 3.1: two programs could otherwise use different values of a request."""
    query = {"state": "s", "code_challenge": CHALLENGE, "code_challenge_method": "S256", **Client(shared).query()}
    for second in (query[name], "https://evil.example/"):
        answer = shared.ask("GET", "/oauth/authorize", params=[*query.items(), (name, second)])
        assert (answer.status_code, "location" in answer.headers) == (400, False)
        assert f"`{name}` is given more than once" in html.unescape(answer.text)


@pytest.mark.parametrize("kind", ["urlencoded", "multipart"])
@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
def test_token_endpoint_with_duplicate_form_field_returns_invalid_request(
    shared: NetworkFixture, path: str, kind: str
) -> None:
    client = Client(shared)
    form = {"grant_type": ["client_credentials"], "token": ["x"], "client_id": [client.keys["client_id"]] * 2}
    form["client_secret"] = [client.keys["client_secret"]]
    if kind == "urlencoded":
        answer = shared.ask("POST", path, data=form)
    else:
        parts = [(name, (None, value)) for name, values in form.items() for value in values]
        answer = shared.ask("POST", path, files=parts)
    assert answer.status_code == 400
    assert answer.json() == {"error": "invalid_request", "error_description": "`client_id` is given more than once"}


def test_token_endpoint_with_conflicting_client_credentials_returns_invalid_request(shared: NetworkFixture) -> None:
    client, other = Client(shared), Client(shared)
    form = {"grant_type": "client_credentials", "scope": "read"}
    basic = (client.keys["client_id"], client.keys["client_secret"])
    for same in ({"client_id": basic[0]}, client.keys):
        assert shared.json("POST", "/oauth/token", data={**form, **same}, auth=basic)["scope"] == "read"
    for two in ({"client_id": other.keys["client_id"]}, other.keys, {"client_secret": other.keys["client_secret"]}):
        answer = shared.ask("POST", "/oauth/token", data={**form, **two}, auth=basic)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", "Basic YQ==", "Basic YTpi", "Basic /w==", "invalid token", "Bearer x"]
)
def test_token_endpoint_with_invalid_basic_header_returns_invalid_client(shared: NetworkFixture, header: str) -> None:
    for path in ("/oauth/token", "/oauth/revoke"):
        data = {"grant_type": "client_credentials", "token": "x"}
        answer = shared.ask("POST", path, data=data, headers={"Authorization": header})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.headers["www-authenticate"] == 'Basic realm="Shoal"'


def test_www_authenticate_header_distinguishes_missing_invalid_and_insufficient_token(shared: NetworkFixture) -> None:
    """RFC 6750, 3.1: `invalid_token` makes an app ask its user to log in again."""
    ann = shared.join("wyn", ("read",))
    challenges: dict[str, tuple[int, str]] = {
        "": (401, 'Bearer realm="Shoal"'),
        "nonsense": (401, 'Bearer realm="Shoal", error="invalid_token"'),
        ann.token: (403, 'Bearer realm="Shoal", error="insufficient_scope"'),
    }
    for token, expected in challenges.items():
        answer = shared.ask("POST", "/api/v1/statuses", token, data={"status": "hello"})
        assert (answer.status_code, answer.headers["www-authenticate"]) == expected
    assert "www-authenticate" not in shared.ask("GET", "/api/v1/accounts/verify_credentials", ann).headers


def test_userinfo_endpoint_requires_profile_scope(shared: NetworkFixture) -> None:
    ann = shared.join("tom", ("profile",))
    for method in ("GET", "POST"):
        said = shared.json(method, "/oauth/userinfo", ann)
        assert (said["sub"], said["preferred_username"]) == ("http://shoal.test/@tom", "tom")
    reader = shared.join("uma", ("read",))
    assert shared.ask("GET", "/oauth/userinfo", reader).status_code == 403


def test_email_confirmation_endpoint_without_pending_confirmation_returns_403(shared: NetworkFixture) -> None:
    answer = shared.ask("POST", "/api/v1/emails/confirmations", shared.join("val"), data={"email": "v@example.org"})
    assert answer.status_code == 403
    assert answer.json()["error"] == "This method is only available while the e-mail is awaiting confirmation"


def test_authorization_out_of_band_without_registered_uri_is_refused(shared: NetworkFixture) -> None:
    client = Client(shared)
    for method in ("GET", "POST"):
        answer = shared.ask(method, "/oauth/authorize", params=client.query(redirect_uri=OUT_OF_BAND))
        assert (answer.status_code, "redirect uri" in answer.text) == (400, True)


MISLEADING = (
    "https://bank.example\\@evil.example/",
    "https://bank.example\\.evil.example/",
    "https://bank.example@evil.example/",
    "https://bank.example:secret@evil.example/",
    "https://@evil.example/",
    "https://bank.example@evil.example?x",
    "custom://user@app/",
)


@pytest.mark.parametrize("uri", MISLEADING)
def test_app_registration_with_misleading_redirect_uri_is_refused(shared: NetworkFixture, uri: str) -> None:
    form = {"client_name": "Tide", "redirect_uris": f"{CALLBACK} {uri}"}
    answer = shared.ask("POST", "/api/v1/apps", data=form)
    assert (answer.status_code, list(answer.json()["details"])) == (422, ["redirect_uris"])
    # The authorize page does not redirect to such a URI of an app that is already registered.
    old = Client(shared, uri)
    answer = shared.ask("GET", "/oauth/authorize", params=old.query(redirect_uri=uri))
    assert (answer.status_code, "location" in answer.headers) == (400, False)


@pytest.mark.parametrize(
    "uri", ["https://client.example/@ann?to=a@b", "urn:ietf:wg:oauth:2.0:oob", "mail:a@b", "app://x"]
)
def test_app_registration_redirect_uri_with_at_sign_outside_authority_is_accepted(
    shared: NetworkFixture, uri: str
) -> None:
    form = {"client_name": "Tide", "redirect_uris": uri}
    assert shared.ask("POST", "/api/v1/apps", data=form).json()["redirect_uri"] == uri


def test_app_registration_redirect_uris_have_total_length_limit(shared: NetworkFixture) -> None:
    fitting = [f"https://client.example/{n}/{'x' * 988}" for n in range(4)]
    assert 4_000 < len("".join(fitting)) <= 4_096
    for uris, status in ((fitting, 200), ([*fitting, "https://client.example/" + "y" * 100], 422)):
        answer = shared.ask("POST", "/api/v1/apps", json={"client_name": "Tide", "redirect_uris": uris})
        assert answer.status_code == status, answer.text


def test_app_registration_has_its_own_rate_limit() -> None:
    with network_fixture(rate_limits=True, limits={"apps": "2/24h"}) as limited:
        form = {"client_name": "Tide", "redirect_uris": CALLBACK}
        answers = [limited.ask("POST", "/api/v1/apps", data=form) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert limited.ask("GET", "/api/v1/instance").status_code == 200
