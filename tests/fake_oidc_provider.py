"""A login provider without a network: it answers the requests of `shoal.oidc` and `shoal.issuers` in this process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from shoal import issuers, oidc
from shoal.outgoing import OutgoingResponse, RequestFailed

ISSUER = "https://id.example"
KEY = ECKey.generate_key("P-256", {"kid": "1"})
ANN = {"sub": "77", "preferred_username": "ann", "name": "Ann A.", "email": "ann@a.example", "email_verified": True}


class FakeProvider:
    """A provider that logs in its `user` at once. Its responses can be changed."""

    def __init__(self, issuer: str = ISSUER) -> None:
        self.issuer = issuer
        self.user: dict[str, Any] = dict(ANN)
        self.claims: dict[str, Any] = {}
        """Claims that replace those of the ID token. A claim of None is left out."""
        self.userinfo: dict[str, Any] | None = None
        """The response of the userinfo endpoint; None if there is no such endpoint."""
        self.metadata: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize?tenant=1",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/jwks",
        }
        self.statuses: dict[str, int] = {}
        self.refusal: object = None
        """The response of the token endpoint in place of tokens; None for tokens."""
        self.down = False
        self.hangs: asyncio.Event | None = None
        """If set, requests get their responses when this event is set."""
        self.requests: list[tuple[str, Mapping[str, str], dict[str, str]]] = []
        """The path, headers and form of each request."""
        self._asked: dict[str, str] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of this provider."""
        return {"issuer": self.issuer, "client_id": "shoal", "client_secret": "s3cret", "title": "Example"}

    def authorize(self, url: str) -> dict[str, str]:
        """Log the user in, and return the parameters of the response."""
        assert url.startswith(self.metadata["authorization_endpoint"])
        self._asked = dict(parse_qsl(urlsplit(url).query))
        return {"state": self._asked["state"], "code": "abc"}

    @property
    def asked(self) -> dict[str, str]:
        """Return the parameters of the last authorization request."""
        return self._asked

    async def count(self) -> int:
        """Return the number of requests."""
        return len(self.requests)

    async def answer(
        self, _pool: object, _method: str, url: str, *, headers: Mapping[str, str], content: bytes = b"", **_: object
    ) -> OutgoingResponse:
        """Answer a request of the server."""
        path = url.removeprefix(self.issuer)
        self.requests.append((path, headers, dict(parse_qsl(content.decode()))))
        if self.hangs is not None:
            await self.hangs.wait()
        if self.down:
            raise RequestFailed("ConnectError")
        bodies: dict[str, Callable[[], Any]] = {
            "/.well-known/openid-configuration": lambda: self.metadata,
            "/jwks": lambda: {"keys": [KEY.as_dict(private=False)]},
            "/token": lambda: (
                self.refusal or {"id_token": self.id_token(), "access_token": "t0ken", "token_type": "Bearer"}
            ),
            "/userinfo": lambda: self.userinfo,
        }
        return OutgoingResponse(self.statuses.get(path, 200), json.dumps(bodies[path]()).encode())

    def id_token(self) -> str:
        """Return an ID token for the last authorization request."""
        now = int(time.time())
        given = {"iss": self.issuer, "aud": "shoal", "iat": now, "exp": now + 60, "nonce": self._asked.get("nonce")}
        if "max_age" in self._asked:
            given["auth_time"] = now
        claims = {name: value for name, value in {**given, **self.user, **self.claims}.items() if value is not None}
        return jws.serialize_compact({"alg": "ES256", "kid": "1"}, json.dumps(claims), KEY)


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    """Let a fake provider answer all requests to providers until the block ends."""
    made = FakeProvider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oidc, "request", made.answer)
        patch.setattr(issuers, "request", made.answer)
        yield made
