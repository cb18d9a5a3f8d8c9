"""Operations on the external ids of members: list, link and unlink."""

from __future__ import annotations

from shoal.admin.contract import AnyNetwork, Operation, member_named
from shoal.admin.report import Progress
from shoal.commands import external_ids
from shoal.core.external_ids import ExternalId, external_id


class ListExternalIds(Operation[list[ExternalId]]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[ExternalId]:
        return await external_ids.of_member(network.writes.graph, (await member_named(network, self.name)).id)


class LinkExternalId(Operation[None]):
    name: str
    issuer: str
    id: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        member = await member_named(network, self.name)
        await external_ids.link(network.writes, member.id, external_id(self.issuer, self.id))


class UnlinkExternalId(Operation[None]):
    name: str
    issuer: str
    id: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        member = await member_named(network, self.name)
        await external_ids.unlink(network.writes, member.id, external_id(self.issuer, self.id))
