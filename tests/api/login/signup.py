"""Sign-up over HTTP."""

from __future__ import annotations

import httpx


def signed_up(client: httpx.Client) -> dict[str, str]:
    """Register a member and return the request headers with their token."""
    app = client.post(
        "/api/v1/apps", json={"client_name": "T", "redirect_uris": "urn:x", "scopes": "read write"}
    ).json()
    asked = {"client_id": app["client_id"], "client_secret": app["client_secret"], "scope": "read write"}
    own = client.post("/oauth/token", json={**asked, "grant_type": "client_credentials"}).json()["access_token"]
    person = {"username": "dora", "email": "dora@example.org", "password": "a long password", "agreement": True}
    made = client.post("/api/v1/accounts", json=person, headers={"Authorization": f"Bearer {own}"}).json()
    return {"Authorization": f"Bearer {made['access_token']}"}
