"""Operations on server keys: create, list, rotate and delete."""

from __future__ import annotations

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import server_keys
from shoal.commands.server_keys import DEFAULT_GRACE_SECONDS, KeyDetails, NewKey
from shoal.http.authentication import key_scopes


class CreateKey(Operation[NewKey]):
    name: str
    scopes: list[str]

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> NewKey:
        return await server_keys.create(network.writes, self.name, key_scopes(self.scopes))


class ListKeys(Operation[list[KeyDetails]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[KeyDetails]:
        return await server_keys.keys(network.writes.graph)


class RotateKey(Operation[NewKey]):
    """Create a new secret of a key; the current one stays valid for `grace` seconds."""

    name: str
    grace: int = DEFAULT_GRACE_SECONDS

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> NewKey:
        return await server_keys.rotate(network.writes, self.name, self.grace)


class DeleteKey(Operation[None]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await server_keys.delete(network.writes, self.name)
