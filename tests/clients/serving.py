"""A served Shoal that clients written by others can drive, and members of it."""

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
from tests.api.world import served

T = TypeVar("T")

PASSWORD = "low tide at dawn"
CHIEF = "chief"
"""An admin, who is there from the beginning."""

_numbers = itertools.count(1)


class Account(NamedTuple):
    """An account and what is needed to log in to it."""

    name: str
    address: str
    token: str


class Served(NamedTuple):
    """A running server, and a client app that is registered there."""

    url: str
    client_id: str
    client_secret: str

    def client(self, token: str | None = None) -> Any:
        """Mastodon.py, as its users make it. It asks nothing about versions first: ours says less than there is."""
        return Mastodon(
            self.client_id,
            self.client_secret,
            access_token=token,
            api_base_url=self.url,
            version_check_mode="none",
            request_timeout=20,
        )

    def join(self, name: str = "member") -> Account:
        """Somebody new, under a name that nobody has."""
        name = f"{name}{next(_numbers)}"
        client = self.client()
        token = client.create_account(name, PASSWORD, f"{name}@example.org", agreement=True)
        client.session.close()
        return Account(name, f"{name}@example.org", token)


def until(question: Callable[[], T], seconds: float = 15.0) -> T:
    """The first answer that is not empty: what follows from a request takes a moment."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return answer


@contextmanager
def a_shoal(folder: Path, **settings: Any) -> Iterator[Served]:
    """A server on a free port, on SQLite, that has an admin."""
    store = f"sqlite:///{folder / 'shoal.db'}"
    asyncio.run(_appoint(store))
    # Closing a stream, Mastodon.py waits for the next beat.
    with served(USUAL._replace(thump=0.3), store=store, **settings) as url:
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
