"""Blocklists for operators and applications: block, unblock by value, and list."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from shoal.commands import blocklists
from shoal.commands.context import Writes
from shoal.core.blocklists import (
    CanonicalEmailBlock,
    EmailDomainBlock,
    IpBlock,
    IpSeverity,
    NameBlock,
    check_domain,
    check_network,
)
from shoal.core.errors import InvalidInput, NotFound
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.schema import (
    BLOCKS_EMAIL,
    BLOCKS_EMAIL_DOMAIN,
    BLOCKS_IP,
    BLOCKS_NAME,
    EVERYBODY,
    AssocType,
    Key,
    email_domain_block_key,
    ip_block_key,
)

AnyBlock = EmailDomainBlock | CanonicalEmailBlock | IpBlock | NameBlock

_PAGE = 500
_LISTS: tuple[AssocType, ...] = (BLOCKS_EMAIL_DOMAIN, BLOCKS_EMAIL, BLOCKS_IP, BLOCKS_NAME)


class Blocklists:
    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    async def block_domain(self, domain: str) -> EmailDomainBlock:
        """Refuse sign-ups with e-mail addresses of a domain and its subdomains.

        Raises `Taken` if the domain is blocked already.
        """
        return await blocklists.block_domain(self._writes, domain)

    async def block_address(self, address: str) -> CanonicalEmailBlock:
        """Refuse sign-ups with this e-mail address in any spelling; only its hash is stored.

        Raises `Taken` if the address is blocked already.
        """
        return await blocklists.block_address(self._writes, address)

    async def block_network(
        self, network: str, severity: IpSeverity = IpSeverity.NO_ACCESS, *, comment: str = "", seconds: int = 0
    ) -> IpBlock:
        """Block an IP address or address range for `seconds`; 0 blocks it permanently. Raises `Taken` if it is blocked already.

        Servers apply the block within a few seconds.
        """
        return await blocklists.block_ip(self._writes, network, severity, comment=comment, seconds=seconds)

    async def block_name(self, word: str, *, part: bool = False) -> NameBlock:
        """Refuse sign-ups with a user name or, if `part` is true, with any name that contains it.

        Digits match the letters that they replace (4 for a), and underscores are ignored. Existing members keep their names.
        Raises `Taken` if the word is blocked already.
        """
        return await blocklists.block_name(self._writes, word, part=part)

    async def unblock_name(self, word: str) -> None:
        """Remove the blocks of a word as a user name and as a part of names. Raises `NotFound` if the word is not blocked."""
        await blocklists.unblock_name(self._writes, word)

    async def unblock(self, what: str) -> None:
        """Remove the block of a domain, an e-mail address or an IP address range. Raises `NotFound` if there is no such block."""
        if (network := _network(what)) is not None:
            await blocklists.unblock_ip(self._writes, await self._id(ip_block_key(network), what))
        elif "@" in what:
            address_block = await blocklists.address_block_of(self._writes.graph, what)
            if not address_block:
                raise NotFound(f"{what} is not blocked")
            await blocklists.unblock_address(self._writes, address_block)
        else:
            found = await self._id(email_domain_block_key(check_domain(what)), what)
            await blocklists.unblock_domain(self._writes, found)

    async def blocks(self) -> AsyncGenerator[AnyBlock, None]:
        """Iterate over all blocks: of domains, e-mail addresses, IP address ranges and names, each newest first."""
        graph = self._writes.graph
        for atype in _LISTS:
            before = MAX_TIME
            while page := await graph.assoc_range(EVERYBODY, atype, Cursor(before=before, limit=_PAGE)):
                nodes = await graph.obj_get([assoc.id2 for assoc in page])
                for assoc in page:
                    if isinstance(block := nodes.get(assoc.id2), AnyBlock):
                        yield block
                before = page[-1].time

    async def _id(self, key: Key, what: str) -> int:
        found = (await self._writes.graph.key_get((key,))).get(key)
        if found is None:
            raise NotFound(f"{what} is not blocked")
        return found


def _network(what: str) -> str | None:
    try:
        return check_network(what)
    except InvalidInput:
        return None
