"""A served Shoal for third-party clients, and its members."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mastodon import Mastodon

from shoal import settings as configuration
from shoal.app.network import open_network
from shoal.commands import members, moderation
from shoal.core.model import Role
from shoal.http.event_streams import USUAL
from tests.api.in_memory_network import served

T = TypeVar("T")

PASSWORD = "low tide at dawn"
CHIEF = "chief"
"""The name of an admin, registered before the server starts."""

_numbers = itertools.count(1)


class Account(NamedTuple):
    """An account with its log-in address and a token."""

    name: str
    address: str
    token: str


class Served(NamedTuple):
    """A running server and a client app registered with it."""

    url: str
    client_id: str
    client_secret: str

    def client(self, token: str | None = None) -> Any:
        """Create a Mastodon.py client. It skips version checks, as Shoal supports more than the version it reports."""
        return Mastodon(
            self.client_id,
            self.client_secret,
            access_token=token,
            api_base_url=self.url,
            version_check_mode="none",
            request_timeout=60,
        )

    def join(self, name: str = "member") -> Account:
        """Register a member under a unique name."""
        name = f"{name}{next(_numbers)}"
        client = self.client()
        token = client.create_account(name, PASSWORD, f"{name}@example.org", agreement=True)
        client.session.close()
        return Account(name, f"{name}@example.org", token)


def until(question: Callable[[], T], seconds: float = 60.0) -> T:
    """Poll for a truthy answer and return it: consequences of a request take a moment."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)
    return answer


@contextmanager
def a_shoal(folder: Path, **settings: Any) -> Iterator[Served]:
    """Serve a network on SQLite with an admin, on a free port."""
    store = f"sqlite:///{folder / 'shoal.db'}"
    asyncio.run(_appoint(store))
    # When Mastodon.py closes a stream, it waits for the next heartbeat.
    with served(USUAL._replace(heartbeat=0.3), store=store, **settings) as url:
        client_id, secret = Mastodon.create_app(
            "Tests",
            scopes=["read", "write", "follow", "push", "profile", "admin:read", "admin:write"],
            redirect_uris=["urn:ietf:wg:oauth:2.0:oob"],
            api_base_url=url,
            website="https://example.org",
        )
        yield Served(url, client_id, secret)


async def _appoint(store: str) -> None:
    async with open_network(configuration.load({}, store=store)) as network:
        chief = await members.register(network.writes, CHIEF, password=PASSWORD, email="chief@example.org")
        await moderation.set_role(network.writes, chief.id, Role.ADMIN)
