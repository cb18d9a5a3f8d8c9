"""The built package, and a server for its tests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import NamedTuple

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from shoal import settings as configuration
from shoal.app.network import open_network
from shoal.commands import server_keys
from tests.clients.server import Served, a_shoal
from tests.sdk.package import build

_ISSUER, _AUDIENCE = "https://shop.example", "https://social.example"


class Product(NamedTuple):
    """A server with an issuer, a token of its app, a server key, and a JWT of a user."""

    served: Served
    app_token: str
    key: str
    jwt: str


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory: pytest.TempPathFactory) -> None:
    build(tmp_path_factory.mktemp("sdk"))


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("shoal")
    secret = asyncio.run(_key(f"sqlite:///{folder / 'shoal.db'}"))
    key = ECKey.generate_key("P-256", {"kid": "1"})
    issuer = {"audience": _AUDIENCE, "keys": [key.as_dict(private=False)]}
    with a_shoal(folder, event_log="on", issuers={_ISSUER: issuer}) as served:
        yield Product(served, _app_token(served), secret, _jwt(key))


def _app_token(served: Served) -> str:
    form = {"grant_type": "client_credentials", "client_id": served.client_id, "client_secret": served.client_secret}
    answer = httpx.post(f"{served.url}/oauth/token", data={**form, "scope": "read write"})
    return str(answer.raise_for_status().json()["access_token"])


async def _key(store: str) -> str:
    async with open_network(configuration.load({}, store=store, event_log="on")) as network:
        return (await server_keys.create(network.writes, "shop", ("server", "server:webhooks"))).secret


def _jwt(key: ECKey) -> str:
    now = int(time.time())
    claims = {"iss": _ISSUER, "sub": "42", "aud": _AUDIENCE, "iat": now, "exp": now + 3_000}
    return jws.serialize_compact(
        {"alg": "ES256", "kid": "1"}, json.dumps({**claims, "preferred_username": "shopper"}), key
    )
