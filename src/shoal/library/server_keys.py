"""Server keys, by which the backend of another product calls the API."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.app.network import Network
from shoal.commands import server_keys
from shoal.commands.server_keys import DEFAULT_GRACE_SECONDS, KeyDetails, NewKey
from shoal.http.authentication import key_scopes


class ServerKeys:
    """The server keys of a network. Only hashes of their secrets are stored."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def create(self, name: str, scopes: Sequence[str]) -> NewKey:
        """Create a server key, and return it with its secret, which cannot be read again.

        Posts that it creates show the name. `scopes` are those of apps except `push`, and at least one of "server:act" (act for
        any member), "server:members" (create and look up members by external ids), "server:link" (link and unlink external ids of
        existing members), "server:events" and "server:private" (receive events), "server:webhooks" (manage webhooks) and "server"
        (all of these). Raises `InvalidInput` for other scopes and an invalid name, `Taken` for a name in use, and `Unfit` for more
        than 100 keys.
        """
        return await server_keys.create(self._network.writes, name, key_scopes(scopes))

    async def all(self) -> list[KeyDetails]:
        """Return all server keys, newest first, without their secrets."""
        return await server_keys.keys(self._network.writes.graph)

    async def rotate(self, name: str, grace_seconds: int = DEFAULT_GRACE_SECONDS) -> NewKey:
        """Create a new secret of a key. The current one stays valid for `grace_seconds` (0 to 30 days).

        A secret that an earlier rotation replaced becomes invalid. Raises `NotFound` and `InvalidInput`.
        """
        return await server_keys.rotate(self._network.writes, name, grace_seconds)

    async def delete(self, name: str) -> None:
        """Delete a key, whose secrets become invalid. Raises `NotFound`."""
        await server_keys.delete(self._network.writes, name)
