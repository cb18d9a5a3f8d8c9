"""Blocklists: who cannot sign up, and which networks are kept out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from shoal.admin.blocklists import Blocklists
from shoal.commands import blocklists
from shoal.commands.blocklists import IpBlockChanges
from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, IpSeverity
from shoal.library.arguments import one_of

SeverityName: TypeAlias = Literal["sign_up_requires_approval", "sign_up_block", "no_access"]


class KeptBlocklists(Blocklists):
    """The blocklists of a network. The caller says who may use them: the network does not ask."""

    async def block_digest(self, digest: str) -> CanonicalEmailBlock:
        """Refuse sign-ups with addresses whose canonical form has this hash. Raises `InvalidInput`, `Taken` and `Unfit`."""
        return await blocklists.block_digest(self._writes, digest)

    async def refusing(self, address: str) -> Sequence[CanonicalEmailBlock]:
        """The blocks that refuse an e-mail address by its hash. Raises `InvalidInput` for text that is no address."""
        return await blocklists.matching_email_blocks(self._writes.graph, address)

    async def domain(self, block_id: int) -> EmailDomainBlock:
        """A blocked domain by the id of its block, with the sign-ups it refused. Raises `NotFound`."""
        return await blocklists.access_email_block(self._writes.graph, EmailDomainBlock, block_id)

    async def address(self, block_id: int) -> CanonicalEmailBlock:
        """A blocked address by the id of its block. Raises `NotFound`."""
        return await blocklists.access_email_block(self._writes.graph, CanonicalEmailBlock, block_id)

    async def network(self, block_id: int) -> IpBlock:
        """A blocked network by the id of its block. Raises `NotFound`."""
        return await blocklists.access_ip_block(self._writes.graph, block_id)

    async def update_network(
        self,
        block: IpBlock | int,
        *,
        network: str | None = None,
        severity: IpSeverity | SeverityName | None = None,
        comment: str | None = None,
        seconds: int | None = None,
    ) -> IpBlock:
        """Change the given values of a block; None stays. Raises `NotFound`, `InvalidInput` and `Taken`."""
        changes = IpBlockChanges(
            network,
            None if severity is None else one_of(IpSeverity, severity, "severity"),
            comment,
            seconds,
        )
        return await blocklists.update_ip_block(self._writes, block if isinstance(block, int) else block.id, changes)
