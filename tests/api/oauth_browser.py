"""A simulated browser on the authorize page, which submits the form of the current page with its form token."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from shoal.commands import members, oauth
from shoal.core.model import App
from tests.api.in_memory_network import BASE, SCOPES, NetworkFixture

CALLBACK = "https://client.example/callback"
PASSWORD = "a long password"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Client:
    """A registered app."""

    def __init__(self, fixture: NetworkFixture, *uris: str, name: str = "Tide", website: str = "") -> None:
        made = fixture.run(
            oauth.register(
                fixture.network.writes, name, redirect_uris=uris or (CALLBACK,), scopes=SCOPES, website=website
            )
        )
        self.app: App = made.app
        self._fixture = fixture
        self.keys = {"client_id": str(made.app.id), "client_secret": made.secret}

    def query(self, **more: Any) -> dict[str, Any]:
        """Return the query parameters of the app's link to the authorize page."""
        return {
            "response_type": "code",
            "client_id": str(self.app.id),
            "redirect_uri": CALLBACK,
            "scope": "read write",
            **more,
        }

    def exchange(self, code: str, **more: Any) -> httpx.Response:
        """Exchange an authorization code for an access token."""
        asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **self.keys, **more}
        return self._fixture.ask("POST", "/oauth/token", data={k: v for k, v in asked.items() if v is not None})


class Visitor:
    """A browser that keeps cookies and does not follow redirects by itself."""

    def __init__(self, fixture: NetworkFixture, base: str = BASE) -> None:
        self._fixture = fixture
        self.web = httpx.AsyncClient(transport=httpx.ASGITransport(fixture.app), base_url=base)
        self.page = httpx.Response(204)

    def open(self, query: dict[str, Any], path: str = "/oauth/authorize") -> httpx.Response:
        """Open the app's link."""
        self.page = self._fixture.run(self.web.get(path, params=query))
        return self.page

    def press(self, do: str, **fields: str) -> httpx.Response:
        """Submit the form of the current page with a button and further fields."""
        form_token = re.search(r'name="form_token" value="([0-9a-f]+)"', self.page.text)
        assert form_token is not None, self.page.text
        form = {"form_token": form_token[1], "do": do, **fields}
        self.page = self._fixture.run(self.web.post(self.page.url, data=form))
        return self.page

    def follow(self) -> httpx.Response:
        """Follow the redirect of the current page."""
        assert self.page.status_code == 303, self.page.text
        self.page = self._fixture.run(self.web.get(self.page.headers["location"]))
        return self.page

    def log_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        """Log in, and follow the redirect to the authorization prompt."""
        self.press("login", username=name, password=password)
        return self.follow()

    def allow(self) -> dict[str, str]:
        """Authorize the app, and return the query parameters of the redirect."""
        return told(self.press("allow"))


def told(answer: httpx.Response) -> dict[str, str]:
    """Return the query parameters of the address that the visitor is redirected to."""
    assert answer.status_code == 303, answer.text
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


def register(fixture: NetworkFixture, name: str) -> int:
    """Register a member with a password, and return the member's id."""
    return fixture.run(members.register(fixture.network.writes, name, password=PASSWORD)).id


def text_of(page: httpx.Response) -> str:
    """Return the text of a page without markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page.text)))
