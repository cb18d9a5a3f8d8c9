"""OAuth authorization in a real browser."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from mastodon import Mastodon
from playwright.sync_api import Browser, Page, expect

from tests.api.oauth_browser import CHALLENGE, PASSWORD, VERIFIER
from tests.engines.chromium import browser, window

SECONDS = 60.0
"""Timeout of a request on a loaded machine."""
OUT_OF_BAND = "urn:ietf:wg:oauth:2.0:oob"


class Callback:
    """A server at the redirect URI of an app that records the received parameters."""

    def __init__(self) -> None:
        told: queue.Queue[dict[str, str]] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/callback":
                    told.put({name: values[0] for name, values in parse_qs(parts.query).items()})
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>back</title>Welcome back")

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._told = told
        # Browsers open connections in advance; an idle connection must not block the others.
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/callback"

    def told(self) -> dict[str, str]:
        """Return the parameters of the next call, which may arrive after the browser shows the page."""
        return self._told.get(timeout=SECONDS)


@pytest.fixture
def callback() -> Iterator[Callback]:
    """Run a callback server for a single test, so that unread calls do not leak into other tests."""
    made = Callback()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def web(chromium: Browser) -> Iterator[Page]:
    """A browser page with scripts disabled, because the authorize pages need none."""
    with window(chromium, scripts=False) as context:
        yield context.new_page()


def app(url: str, *addresses: str, name: str = "Tide") -> dict[str, str]:
    """Register an app and return its credentials."""
    form = {"client_name": name, "redirect_uris": "\n".join(addresses), "scopes": "read write follow"}
    made = httpx.post(f"{url}/api/v1/apps", data=form, timeout=SECONDS).json()
    return {"client_id": made["client_id"], "client_secret": made["client_secret"]}


def bearer(token: str) -> dict[str, str]:
    """Return the Authorization header for this token."""
    return {"Authorization": f"Bearer {token}"}


def member(url: str, keys: dict[str, str]) -> str:
    """Sign up a member with a password and return the username."""
    name = f"m{secrets.token_hex(6)}"
    form = {"grant_type": "client_credentials", "scope": "read write", **keys}
    token = httpx.post(f"{url}/oauth/token", data=form, timeout=SECONDS).json()["access_token"]
    joining = {"username": name, "email": f"{name}@example.org", "password": PASSWORD, "agreement": "true"}
    answer = httpx.post(f"{url}/api/v1/accounts", data=joining, headers=bearer(token), timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return name


def page(url: str, keys: dict[str, str], address: str, **more: str) -> str:
    """Return the URL of the authorize page."""
    asked = {"response_type": "code", "client_id": keys["client_id"], "redirect_uri": address, "scope": "read write"}
    return f"{url}/oauth/authorize?{urlencode(asked | more)}"


def press(web: Page, do: str) -> None:
    """Press a button, and wait for the page that follows."""
    with web.expect_navigation():
        web.locator(f"button[value={do}]").click()


def log_in(web: Page, name: str, password: str = PASSWORD) -> None:
    """Submit the login form."""
    web.locator("[name=username]").fill(name)
    web.locator("[name=password]").fill(password)
    press(web, "login")


def shown(web: Page) -> str:
    """Return the text on the page."""
    return web.locator("body").inner_text()


def exchange(url: str, keys: dict[str, str], code: str, address: str, **more: str) -> dict[str, Any]:
    """Exchange a code and return the token response."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": address, **keys, **more}
    answer = httpx.post(f"{url}/oauth/token", data=form, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def who(url: str, token: str) -> str:
    """Return the username of the token's member."""
    path = f"{url}/api/v1/accounts/verify_credentials"
    name: str = httpx.get(path, headers=bearer(token), timeout=SECONDS).json()["username"]
    return name


def test_oauth_authorization_returns_code_and_second_app_needs_no_password(
    url: str, callback: Callback, web: Page
) -> None:
    keys = app(url, callback.address)
    name = member(url, keys)
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    web.goto(page(url, keys, callback.address, state="here & there", **pkce))
    assert "to authorize Tide" in shown(web)
    log_in(web, name, "a wrong password")
    assert "Incorrect user name or password" in shown(web)
    assert web.locator("[name=username]").input_value() == name
    log_in(web, name)
    assert "Authorize Tide?" in shown(web)
    press(web, "allow")
    expect(web).to_have_title("back")
    told = callback.told()
    assert told["state"] == "here & there"
    token = exchange(url, keys, told["code"], callback.address, code_verifier=VERIFIER)
    assert token["scope"] == "read write"
    assert who(url, token["access_token"]) == name

    other = app(url, callback.address, name="Ebb")
    web.goto(page(url, other, callback.address))
    assert "Authorize Ebb?" in shown(web)
    assert not web.locator("[name=password]").count()
    press(web, "allow")
    assert who(url, exchange(url, other, callback.told()["code"], callback.address)["access_token"]) == name

    web.goto(page(url, other, callback.address, force_login="true"))
    assert web.locator("[name=password]").count()
    web.goto(page(url, other, callback.address))
    press(web, "switch")
    assert web.locator("[name=password]").count()


def test_oauth_authorization_denied_returns_access_denied_without_code(url: str, callback: Callback, web: Page) -> None:
    keys = app(url, callback.address)
    web.goto(page(url, keys, callback.address, state="s"))
    log_in(web, member(url, keys))
    press(web, "deny")
    told = callback.told()
    assert (told["error"], told["state"]) == ("access_denied", "s")
    assert "code" not in told


def test_oauth_authorization_out_of_band_code_is_shown_on_page(url: str, web: Page) -> None:
    keys = app(url, OUT_OF_BAND)
    name = member(url, keys)
    web.goto(page(url, keys, OUT_OF_BAND).replace("/authorize?", "/authorize/?"))
    log_in(web, name)
    press(web, "allow")
    code = web.locator("#code").inner_text()
    assert who(url, exchange(url, keys, code, OUT_OF_BAND)["access_token"]) == name


def test_oauth_authorization_with_mastodon_py_returns_usable_token(url: str, callback: Callback, web: Page) -> None:
    id_, secret = Mastodon.create_app(
        "Tide", api_base_url=url, redirect_uris=callback.address, scopes=["read", "write", "follow"]
    )
    client = Mastodon(client_id=id_, client_secret=secret, api_base_url=url)
    name = member(url, {"client_id": id_, "client_secret": secret})
    web.goto(
        client.auth_request_url(
            redirect_uris=callback.address, scopes=["read", "write"], state="st", force_login=True, lang="en"
        )
    )
    log_in(web, name)
    press(web, "allow")
    told = callback.told()
    assert told["state"] == "st"
    token = client.log_in(code=told["code"], redirect_uri=callback.address, scopes=["read", "write"])
    assert who(url, token) == name
    client.status_post("let in")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_authorize_pages_fit_phone_screen_in_light_and_dark_mode(url: str, chromium: Browser, dark: bool) -> None:
    keys = app(url, OUT_OF_BAND, name="An app with a name that is really quite long for a phone")
    name = member(url, keys)
    with window(chromium, 360, 740, dark=dark, touch=True) as context:
        phone = context.new_page()
        phone.goto(page(url, keys, OUT_OF_BAND))
        for step in ("login", "question", "code"):
            wide = phone.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, step
            color = phone.evaluate("getComputedStyle(document.body).backgroundColor")
            assert color == ("rgb(16, 18, 19)" if dark else "rgb(247, 245, 242)")
            if step == "login":
                log_in(phone, name)
            elif step == "question":
                press(phone, "allow")
