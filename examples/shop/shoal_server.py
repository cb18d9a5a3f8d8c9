"""The shop's two ways to use the Shoal server: its server key acts for a user, and a token lets the user's browser act itself.

A user is a member of Shoal with the shop's URL as the issuer and the id in the user table. The member is created on first use.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import HTTPException
from joserfc import jwt
from joserfc.jwk import ECKey

from shop.config import Config
from shop.users import Database, User

AUDIENCE = "shoal"
"""The `audience` of the issuer in the settings of Shoal."""
_JWT_SECONDS = 60
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT = "urn:ietf:params:oauth:token-type:jwt"


def signing_key(path: Path) -> ECKey:
    """Return the key that signs the shop's JWTs. The first call creates it, readable by the owner only."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
    return ECKey.import_key(path.read_bytes(), {"use": "sig", "kid": "shop"})


class ShoalServer:
    """A client of the Shoal server. Errors are `HTTPException`, with a message for the user."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config, self._database = config, database
        self._key = signing_key(config.folder / "signing-key.pem")
        self._http = httpx.AsyncClient(base_url=config.shoal_url, timeout=30.0)

    async def close(self) -> None:
        await self._http.aclose()

    async def as_user(self, user: User, method: str, path: str, **more: Any) -> Any:
        """Send a request for a user with the server key, and return the response.

        If moderation holds what the user writes, the response has a `held_id` instead.
        """
        await self._ensure_member(user)
        member = f"external:{quote(self._config.url, safe='')}:{user.id}"
        headers = {"Shoal-Member": member, **more.pop("headers", {})}
        return await self._send(method, path, headers=headers, **more)

    async def as_shop(self, method: str, path: str, **more: Any) -> Any:
        """Send a request with the server key that is for no user, and return the response."""
        return await self._send(method, path, **more)

    async def token_for(self, user: User) -> dict[str, Any]:
        """Return a token with which the user's browser can call Shoal for some minutes, and the seconds until it expires."""
        await self._ensure_member(user)
        now = int(time.time())
        claims = {
            "iss": self._config.url,
            "sub": str(user.id),
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + _JWT_SECONDS,
            "jti": secrets.token_urlsafe(),
        }
        form = {
            "grant_type": _GRANT,
            "client_id": self._config.client_id,
            "client_secret": self._config.client_secret,
            "scope": "read write",
            "subject_token_type": _JWT,
            "subject_token": jwt.encode({"alg": "ES256", "kid": self._key.kid}, claims, self._key),
        }
        token = await self._send("POST", "/oauth/token", data=form, key="")
        return {"token": token["access_token"], "seconds": token["expires_in"]}

    def public_keys(self) -> dict[str, Any]:
        """Return the keys that verify the shop's JWTs (RFC 7517)."""
        return {"keys": [self._key.as_dict(private=False)]}

    async def _ensure_member(self, user: User) -> None:
        if user.member_id is not None:
            return
        path = f"/api/shoal/v1/members/by-external-id/{quote(self._config.url, safe='')}/{user.id}"
        member = await self._send("PUT", path, json={"username": user.name, "display_name": user.name})
        self._database.store_member(user, member["id"])

    async def _send(self, method: str, path: str, *, key: str | None = None, **more: Any) -> Any:
        key = self._config.server_key if key is None else key
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
        try:
            response = await self._http.request(method, path, headers=headers, **more)
        except httpx.TransportError as error:
            raise HTTPException(502, "Reviews are unavailable at the moment.") from error
        body = response.json()
        if response.is_error and "held_id" not in body:
            raise HTTPException(response.status_code, body["error"])
        return body
