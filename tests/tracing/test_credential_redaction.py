"""No credential is in the log at any level, in metrics, in spans or in error responses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from shoal.app.indexes import _open_index
from shoal.app.paths import check_base_url
from shoal.commands import oauth
from shoal.core.errors import InvalidInput
from shoal.push.encryption import new_key
from shoal.scheduler import Agenda
from shoal.settings import Settings
from shoal_devcluster.program import free_port
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api.oauth_browser import CALLBACK, CHALLENGE, VERIFIER
from tests.engines.authenticator_app import code_of
from tests.engines.smtp import PostOffice, post_office
from tests.engines.virtual_authenticator import SoftDevice
from tests.push.service import App as PushApp
from tests.push.service import PushService, push_service
from tests.server_process import served
from tests.tracing.test_spans import BATCHES, receiving
from tests.web.browser import Page, Visitor

PASSWORD, WRONG, NEW = "six herrings swim abreast", "seven herrings swim abreast", "eight herrings swim abreast"
STREAMING = "/api/v1/streaming"
SCOPES = "read write push"


class Client:
    """A client of a served network that records each credential it sends or receives."""

    def __init__(self, url: str, runner: asyncio.Runner) -> None:
        self.url = url
        self.secrets: dict[str, str] = {"password": PASSWORD, "wrong password": WRONG, "new password": NEW}
        self.errors: list[str] = []
        """Bodies and headers of all error responses."""
        self._runner = runner
        self._browsers: list[Visitor] = []
        self._http = httpx.Client(base_url=url, timeout=60)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()
        for browser in self._browsers:
            self._runner.run(browser._client.aclose())

    def ask(self, method: str, path: str, token: str = "", *, refused: bool = False, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self._http.request(method, path, headers=headers, **more)
        assert answer.is_client_error if refused else answer.is_success, (answer, answer.text)
        if refused:
            self.errors.append(f"{answer.headers} {answer.text}")
        return answer

    def browser(self) -> Visitor:
        """Return a new browser without a login."""
        here = SimpleNamespace(app=None, run=self._runner.run)
        made = Visitor(cast("NetworkFixture", here))
        made._client = httpx.AsyncClient(
            base_url=self.url, follow_redirects=True, headers=made._client.headers, timeout=60
        )
        self._browsers.append(made)
        return made

    def shown(self, page: Page) -> Page:
        """Check that a page is an error page, and record its text."""
        assert page.answer.is_client_error, (page.status, page.text)
        self.errors.append(page.text)
        return page

    def socket(self, path: str, refused: bool = False, **more: Any) -> None:
        """Open a WebSocket and close it after its first event, or expect its refusal."""
        address = f"ws{self.url.removeprefix('http')}{path}"
        if not refused:
            with connect(address, **more) as opened:
                opened.ping().wait(60)
            return
        with pytest.raises(InvalidStatus) as raised:
            connect(address, **more)
        self.errors.append(f"{raised.value.response.headers} {raised.value.response.body!r}")


def registered(client: Client) -> str:
    """Register an app, sign up @ann with it, and return her token."""
    asked = {"client_name": "Tide", "redirect_uris": CALLBACK, "scopes": SCOPES}
    app = client.ask("POST", "/api/v1/apps", data=asked).json()
    client.secrets["client secret"] = app["client_secret"]
    keys = {"client_id": app["client_id"], "client_secret": app["client_secret"]}
    grant = {"grant_type": "client_credentials", "scope": "read write", **keys}
    client.secrets["app token"] = client.ask("POST", "/oauth/token", data=grant).json()["access_token"]
    joining = {"username": "ann", "email": "ann@example.org", "password": PASSWORD, "agreement": "true", "locale": "en"}
    made = client.ask("POST", "/api/v1/accounts", token=client.secrets["app token"], data=joining)
    client.secrets["sign-up token"] = made.json()["access_token"]
    other = client.ask(
        "POST",
        "/api/v1/accounts",
        token=client.secrets["app token"],
        data={**joining, "username": "ben", "email": "ben@example.org"},
    )
    client.secrets["token of ben"] = other.json()["access_token"]
    by_password = {"grant_type": "password", "username": "ann", "password": PASSWORD, "scope": SCOPES, **keys}
    client.secrets["password grant"] = client.ask("POST", "/oauth/token", data=by_password).json()["access_token"]
    client.ask("POST", "/oauth/token", data={**by_password, "password": WRONG}, refused=True)
    client.ask("POST", "/oauth/token", data={**by_password, "client_secret": WRONG}, refused=True)
    client.ask(
        "POST", "/api/v1/accounts", token=client.secrets["app token"], json={"password": [PASSWORD]}, refused=True
    )
    return authorized(client, keys)


def authorized(client: Client, keys: dict[str, str]) -> str:
    """Authorize the app in the browser, and return the token issued for its authorization code."""
    query = {"response_type": "code", "redirect_uri": CALLBACK, "scope": SCOPES, "client_id": keys["client_id"]}
    web = client.browser()
    web._client.follow_redirects = False
    path = (
        f"/oauth/authorize?{httpx.QueryParams({**query, 'code_challenge': CHALLENGE, 'code_challenge_method': 'S256'})}"
    )
    page = web.open(path)
    client.secrets["form token"] = page.form_token
    done = page.press("Log in", username="ann", password=PASSWORD)
    client.secrets["login cookie"] = web.cookie("shoal_login")
    question = web.open(done.answer.headers["location"])
    client.secrets["form token of a login"] = question.form_token
    allowed = web.post(path, [("form_token", question.form_token), ("do", "allow")])
    code = parse_qs(urlsplit(allowed.answer.headers["location"]).query)["code"][0]
    client.secrets["authorization code"] = code
    asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **keys}
    client.ask("POST", "/oauth/token", data=asked, refused=True)
    token = str(client.ask("POST", "/oauth/token", data={**asked, "code_verifier": VERIFIER}).json()["access_token"])
    client.secrets |= {"PKCE verifier": VERIFIER, "access token": token}
    return token


def used_everywhere(client: Client, token: str, name: str) -> None:
    """Send a token in each place where clients may put it, on existing and on unknown paths."""
    client.secrets[name] = token
    refused = name == "unknown token"
    client.ask("GET", "/api/v1/timelines/home", token=token, refused=refused)
    client.ask("GET", f"/api/v1/timelines/home?access_token={token}", refused=refused)
    client.ask("POST", f"/api/v1/statuses?access_token={token}", refused=refused, data={"status": "Low tide"})
    for path in (f"/api/v1/nothing?access_token={token}", f"/nothing?access_token={token}", f"/{token}"):
        client.ask("GET", path, refused=True)
    client.ask("GET", f"/api/v1/accounts/{token}", token=token, refused=True)
    client.socket(f"{STREAMING}?stream=user&access_token={token}", refused)
    client.socket(f"{STREAMING}/?access_token={token}", refused)
    client.socket(f"{STREAMING}?stream=user", refused, subprotocols=[token])
    client.socket(f"{STREAMING}?stream=user", refused, additional_headers={"Authorization": f"Bearer {token}"})
    client.socket(f"/api/v1/nothing?access_token={token}", True, subprotocols=[token])
    with client._http.stream("GET", f"{STREAMING}/user?access_token={token}") as events:
        assert events.is_client_error == refused


def liked(client: Client, token: str) -> None:
    """Have @ben like a new post of the holder of a token."""
    made = client.ask("POST", "/api/v1/statuses", token=token, data={"status": "Low tide"}).json()
    client.ask("POST", f"/api/v1/statuses/{made['id']}/favourite", token=client.secrets["token of ben"])


def pushed(service: PushService, path: str, number: int, seconds: float = 60.0) -> None:
    """Wait until a push service has n requests for a path."""
    deadline = time.monotonic() + seconds
    while len(service.at(path)) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def mailed(client: Client, office: PostOffice) -> None:
    """Open the mailed links that confirm an address and set a password."""
    office.wait(2)
    client.secrets["link that confirms"] = office.to("ann@example.org").proof
    page = client.browser().open(office.to("ann@example.org").path)
    assert page.status == 200, page.text
    client.shown(client.browser().open(f"/confirm/{office.to('ann@example.org').proof[:-2]}xx"))
    office.take()
    client.browser().open("/forgotten").press("Send e-mail", username="ann")
    office.wait(1)
    mail = office.take()[-1]
    client.secrets["link that resets"] = mail.proof
    reset = client.browser().open(mail.path)
    assert reset.press("Set password", password=NEW).status == 200
    client.shown(client.browser().open(mail.path))


def logged_in(client: Client) -> Visitor:
    """Log in with the form, after a failed attempt."""
    web = client.browser()
    wrong = web.open("/login").press("Log in", username="ann", password=WRONG)
    client.shown(wrong)
    assert wrong.press("Log in", username="ann", password=NEW).status == 200
    client.secrets |= {"web login": web.cookie("shoal_login"), "web form token": web.open("/settings").form_token}
    client.shown(web.post("/settings/email", [("form_token", client.secrets["form token"])]))
    return web


def invited(client: Client, web: Visitor) -> None:
    """Make an invitation and open its link."""
    made = web.open("/settings/invitations").press("Create link")
    link = str(made.one(".copy-row input")["value"])
    client.secrets["invitation"] = link.rpartition("/")[2]
    assert client.browser().open(urlsplit(link).path).status == 200
    client.shown(client.browser().open(f"{urlsplit(link).path[:-2]}xx"))


def guarded(client: Client, web: Visitor) -> None:
    """Add a passkey and a second factor, and log in with both."""
    device = SoftDevice(client.url)

    def question(browser: Visitor, kind: str) -> Any:
        asked = json.loads(browser.open(f"/login/passkey?kind={kind}").answer.text)
        client.secrets[f"challenge to {kind}"] = asked["challenge"]
        return asked

    def send(browser: Visitor, page: str, path: str, **fields: str) -> Page:
        return browser.post(path, [("form_token", browser.open(page).form_token), *fields.items()])

    answer = device.make(question(web, "add"))
    fields = {"name": "Phone", "answer": answer, "current_password": NEW}
    assert send(web, "/settings/passkeys", "/settings/passkeys", **fields).status == 200
    other = client.browser()
    answer = device.answer(question(other, "login"))
    client.secrets["passkey signature"] = json.loads(answer)["response"]["signature"]
    assert send(other, "/login", "/login/passkey", answer=answer, to="").path == "/"
    client.shown(send(client.browser(), "/login", "/login/passkey", answer=answer, to=""))
    page = web.open("/settings/second_factor")
    key = page.one("code.key").text.replace(" ", "")
    client.secrets["second factor"] = key
    done = page.press("Turn on", code=code_of(key), current_password=NEW)
    codes = [one.text for one in done.html.select(".recovery-codes code")]
    client.secrets |= {f"recovery code {at}": code for at, code in enumerate(codes)}
    assert len(codes) == 10
    third = client.browser()
    asked = third.open("/login").press("Log in", username="ann", password=NEW)
    wrong = client.shown(asked.press("Log in", code="000000"))
    assert wrong.press("Log in", code=codes[0]).path == "/"


def test_credentials_are_absent_from_debug_log_metrics_spans_and_errors(tmp_path: Path) -> None:
    log, metrics, port = tmp_path / "log", free_port(), free_port()
    endpoint, push_app = "/push/an-endpoint-that-only-the-app-knows", PushApp()
    with (
        post_office() as office,
        receiving() as receiver,
        push_service(tmp_path) as service,
        asyncio.Runner() as runner,
    ):
        key = new_key()
        environment = {
            **BATCHES,
            "SHOAL_LOG_FORMAT": "text",
            "SHOAL_LOG_LEVEL": "debug",
            "SHOAL_REQUEST_LOG": "all",
            "SHOAL_BASE_URL": f"http://localhost:{port}",
            "SHOAL_METRICS_PORT": str(metrics),
            "SHOAL_MAIL": office.url,
            "SHOAL_INVITATIONS": "members",
            "SHOAL_PUSH_KEY": key,
            "SHOAL_PUSH_NETWORKS": '["127.0.0.0/8"]',
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "SSL_CERT_FILE": str(service.trusted),
        }
        with served(tmp_path / "shoal.db", "--port", str(port), files=0, log=log, **environment) as server:
            client = Client(f"http://localhost:{port}", runner)
            token = registered(client)
            subscription = {"endpoint": service.url + endpoint, "keys": push_app.keys, "standard": True}
            wish = {"subscription": subscription, "data": {"alerts": {"follow": True, "favourite": True}}}
            client.ask("POST", "/api/v1/push/subscription", token=token, json=wish)
            broken = {"subscription": {**subscription, "endpoint": "http://[" + endpoint}}
            client.ask("POST", "/api/v1/push/subscription", token=token, json=broken, refused=True)
            client.secrets |= {"push endpoint": endpoint, "push secret": push_app.keys["auth"]}
            client.secrets |= {"push key": key, "push point": push_app.keys["p256dh"]}
            for number, answer in enumerate((201, 403, 410)):
                service.answers[endpoint] = answer
                liked(client, token)
                pushed(service, endpoint, number + 1)
            used_everywhere(client, token, "access token")
            used_everywhere(client, token[:-3] + "xyz", "unknown token")
            mailed(client, office)
            web = logged_in(client)
            invited(client, web)
            guarded(client, web)
            scraped = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
            ended = client.ask("POST", "/api/v1/statuses", token=token, refused=True)
            client.close()
            assert server.stop() == 0
        written = log.read_text()
        spans = "".join(map(str, receiver.spans))
    assert "POST /api/v1/statuses 401" in written, ended.text
    assert f"GET {STREAMING} 101" in written
    assert "shoal_requests" in scraped
    assert STREAMING in spans
    places = {"the log": written, "metrics": scraped, "spans": spans, "errors": "\n".join(client.errors)}
    found = [
        f"{name} in {place}: {line[:300]}"
        for place, text in places.items()
        for line in text.splitlines()
        for name, secret in client.secrets.items()
        if secret in line
    ]
    assert not found, "\n".join(found)


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.mark.parametrize(
    ("path", "broken"),
    [
        ("/confirm/{}", "shoal.commands.credentials.proven"),
        ("/invite/{}", "shoal.commands.invitations.offered"),
        ("/api/v1/statuses/{}", "shoal.http.application._Api._handled"),
        ("/media/{}.jpg", "shoal.mastodon_api.media_files.ShownFiles.check"),
    ],
)
def test_internal_error_log_contains_route_and_not_path(
    here: NetworkFixture, path: str, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_args: object, **_named: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(broken, fail)
    secret = "1/2/3/c2VjcmV0LW9mLWEtbGluaw" if path.startswith("/media") else "c2VjcmV0LW9mLWEtbGluaw"
    assert here.ask("GET", path.format(secret)).status_code == 500
    assert "internal error in GET " in caplog.text
    assert "c2VjcmV0" not in caplog.text


def test_scheduler_failed_attempt_log_omits_stored_object(
    here: NetworkFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_args: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(oauth, "drop_unused", fail)
    made = here.run(oauth.register(here.network.writes, "Tide", redirect_uris=(CALLBACK,), scopes=("read",)))
    here.run(Agenda(here.network.writes, clock=lambda: time.time_ns() // 1_000_000 + 10 * 86_400_000).once())
    assert "App" in caplog.text
    assert "secret_hash" not in caplog.text
    assert repr(made.app.secret_hash) not in caplog.text


def test_base_url_with_password_is_refused_without_showing_password() -> None:
    with pytest.raises(InvalidInput) as raised:
        check_base_url("https://ann:hunter2@social.example.org")
    assert "social.example.org" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_missing_search_index_log_omits_store_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(store="dynamodb://shoal:hunter2@db.example.org/shoal")
    asyncio.run(_open_index(settings, read_only=False))
    assert "db.example.org" in caplog.text
    assert "hunter2" not in caplog.text
