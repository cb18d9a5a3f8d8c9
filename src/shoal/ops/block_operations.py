"""Operations about what nobody signs up with, and networks that are kept out."""

from __future__ import annotations

from shoal.core.blocklists import IpSeverity
from shoal.ops.blocklists import Blocklists
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.operation import Operation


class BlockDomain(Operation[str]):
    """Refuse sign-ups with e-mail addresses of a domain; the domain as it is compared."""

    answer = str
    domain: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        return (await Blocklists(network.writes).block_domain(self.domain)).domain


class BlockAddress(Operation[None]):
    """Refuse sign-ups with an e-mail address."""

    address: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).block_address(self.address)


class BlockNetwork(Operation[str]):
    """Keep a network out, or those who would sign up from there; the network as it is compared."""

    answer = str
    network: str
    severity: IpSeverity
    comment: str = ""
    seconds: int = 0

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        made = await Blocklists(network.writes).block_network(
            self.network, self.severity, comment=self.comment, seconds=self.seconds
        )
        return made.network


class BlockName(Operation[None]):
    """Refuse sign-ups with a user name, or with all that have it in them."""

    word: str
    part: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).block_name(self.word, part=self.part)


class UnblockName(Operation[None]):
    """End the blocks of a user name."""

    word: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).unblock_name(self.word)


class Unblock(Operation[None]):
    """End the block of a domain, an e-mail address or a network."""

    what: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).unblock(self.what)
