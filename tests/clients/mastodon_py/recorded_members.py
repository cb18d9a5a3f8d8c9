"""The members of a story, each with a Mastodon.py client that records its calls."""

from __future__ import annotations

from typing import Any

from mastodon import Mastodon

from tests.clients.server import CHIEF, PASSWORD, Served


class Player:
    """A member with a client. Names of successful calls are added to `calls`."""

    def __init__(self, client: Any, calls: set[str]) -> None:
        self.client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.client, name)
        if not callable(found) or not hasattr(Mastodon, name):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            answer = found(*arguments, **named)
            self._calls.add(name)
            return answer

        return call


class Cast:
    """The players of one story, and the calls they have made."""

    def __init__(self, shoal: Served, calls: set[str]) -> None:
        self.shoal = shoal
        self.calls = calls
        self._players: list[Player] = []

    def player(self, token: str | None = None) -> Player:
        """Create a player with a token, or an anonymous one."""
        made = Player(self.shoal.client(token), self.calls)
        self._players.append(made)
        return made

    def join(self, name: str) -> Player:
        """Register a new member and return their player."""
        self.calls.add("create_account")
        return self.player(self.shoal.join(name).token)

    def chief(self) -> Player:
        """Return a player for the admin, with a token that has admin scopes."""
        admin = self.player()
        admin.log_in(CHIEF, PASSWORD, scopes=["read", "write", "follow", "push", "admin:read", "admin:write"])
        return admin

    def close(self) -> None:
        """Close the HTTP sessions of all players."""
        for player in self._players:
            player.client.session.close()
