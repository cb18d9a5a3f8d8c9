"""What the shop needs to know, from environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Config(NamedTuple):
    folder: Path
    """The database of the shop and its signing key."""
    url: str
    """The public URL of the shop. It is the issuer of the shop's JWTs and of its users' ids."""
    shoal_url: str
    """The public URL of the Shoal server."""
    server_key: str
    """Secret of a server key with the scopes server:members, server:act, server:moderation, read and write."""
    client_id: str
    client_secret: str
    """The app that exchanges the shop's JWTs."""
    webhook_secret: str
    hook_secret: str
    """Signs the requests of the moderation hook."""


def from_environment() -> Config:
    return Config(
        Path(os.environ["SHOP_FOLDER"]),
        os.environ["SHOP_URL"],
        os.environ["SHOAL_URL"],
        os.environ["SHOAL_KEY"],
        os.environ["SHOAL_CLIENT_ID"],
        os.environ["SHOAL_CLIENT_SECRET"],
        os.environ["SHOAL_WEBHOOK_SECRET"],
        os.environ["SHOAL_HOOK_SECRET"],
    )
