"""Blocklists: who cannot sign up, and which networks are kept out.

Made from `shoal.library.moderation` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from shoal.admin.blocklists import AnyBlock
from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, IpSeverity, NameBlock
from shoal.library import moderation as awaited
from shoal.library.moderation import SeverityName
from shoal.sync.calling import Calling


class KeptBlocklists(Calling):
    """The blocklists of a network. The caller says who may use them: the network does not ask."""

    _awaited: awaited.KeptBlocklists

    def block_domain(self, domain: str) -> EmailDomainBlock:
        """Refuse sign-ups with e-mail addresses of this domain and of those below it. Raises `Taken` when they are."""
        return self._loop.call(self._awaited.block_domain(domain))

    def block_address(self, address: str) -> CanonicalEmailBlock:
        """Refuse sign-ups with this e-mail address, however it is written; its hash is kept. Raises `Taken` when they are."""
        return self._loop.call(self._awaited.block_address(address))

    def block_network(
        self, network: str, severity: IpSeverity = IpSeverity.NO_ACCESS, *, comment: str = "", seconds: int = 0
    ) -> IpBlock:
        """Keep an address or a network out, for so many seconds (0: for good). Raises `Taken` when it is blocked.

        Servers know of it within a few seconds.
        """
        return self._loop.call(self._awaited.block_network(network, severity, comment=comment, seconds=seconds))

    def block_name(self, word: str, *, part: bool = False) -> NameBlock:
        """Refuse sign-ups with a user name, or, as a `part`, with all that have it in them. Raises `Taken` when they are.

        Digits count as the letters that they are written for (4 for a), and underscores not at all. Members keep their names.
        """
        return self._loop.call(self._awaited.block_name(word, part=part))

    def unblock_name(self, word: str) -> None:
        """End the blocks of a user name, also as a part of others. Raises `NotFound` where there is none."""
        self._loop.call(self._awaited.unblock_name(word))

    def unblock(self, what: str) -> None:
        """End the block of a domain, an e-mail address or a network. Raises `NotFound` where there is none."""
        self._loop.call(self._awaited.unblock(what))

    def blocks(self) -> Generator[AnyBlock, None, None]:
        """All blocks, kind by kind, the newest of each first."""
        return self._loop.each(self._awaited.blocks())

    def block_digest(self, digest: str) -> CanonicalEmailBlock:
        """Refuse sign-ups with addresses whose canonical form has this hash. Raises `InvalidInput`, `Taken` and `Unfit`."""
        return self._loop.call(self._awaited.block_digest(digest))

    def refusing(self, address: str) -> Sequence[CanonicalEmailBlock]:
        """The blocks that refuse an e-mail address by its hash. Raises `InvalidInput` for text that is no address."""
        return self._loop.call(self._awaited.refusing(address))

    def domain(self, block_id: int) -> EmailDomainBlock:
        """A blocked domain by the id of its block, with the sign-ups it refused. Raises `NotFound`."""
        return self._loop.call(self._awaited.domain(block_id))

    def address(self, block_id: int) -> CanonicalEmailBlock:
        """A blocked address by the id of its block. Raises `NotFound`."""
        return self._loop.call(self._awaited.address(block_id))

    def network(self, block_id: int) -> IpBlock:
        """A blocked network by the id of its block. Raises `NotFound`."""
        return self._loop.call(self._awaited.network(block_id))

    def update_network(
        self,
        block: IpBlock | int,
        *,
        network: str | None = None,
        severity: IpSeverity | SeverityName | None = None,
        comment: str | None = None,
        seconds: int | None = None,
    ) -> IpBlock:
        """Change the given values of a block; None stays. Raises `NotFound`, `InvalidInput` and `Taken`."""
        return self._loop.call(
            self._awaited.update_network(block, network=network, severity=severity, comment=comment, seconds=seconds)
        )
