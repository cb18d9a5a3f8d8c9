"""E-mail blocklists: those who look after the network say which e-mail domains and addresses nobody signs up with.

Blocks lie beside the list of them, so each change is one commit. A sign-up looks up the few keys that could match; it reads no
list, however long the lists are. Operators and imports may give a member any address.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TypeVar

from shoal.core.audit import AuditVerb, TargetKind
from shoal.core.blocklists import (
    CanonicalEmailBlock,
    EmailDomainBlock,
    attempted,
    canonical_digest,
    canonical_digests,
    check_digest,
    check_domain,
    domains_of,
)
from shoal.core.errors import Disallowed, NotFound, ShoalError, Taken
from shoal.core.model import Node
from shoal.graph.changes import change_object
from shoal.graph.contract import Reader
from shoal.graph.schema import (
    BLOCKS_EMAIL,
    BLOCKS_EMAIL_DOMAIN,
    email_block_key,
    email_domain_block_key,
)
from shoal.services.blocklists.keeping import Blocklist, add_block, remove_blocks
from shoal.services.writes import Writes

B = TypeVar("B", bound=Node)

MAX_DOMAINS = 20_000
MAX_ADDRESSES = 200_000
_DOMAINS = Blocklist(
    BLOCKS_EMAIL_DOMAIN,
    MAX_DOMAINS,
    TargetKind.EMAIL_DOMAIN,
    AuditVerb.EMAIL_DOMAIN_BLOCKED,
    AuditVerb.EMAIL_DOMAIN_UNBLOCKED,
)
_ADDRESSES = Blocklist(
    BLOCKS_EMAIL, MAX_ADDRESSES, TargetKind.EMAIL, AuditVerb.EMAIL_BLOCKED, AuditVerb.EMAIL_UNBLOCKED
)


async def block_domain(writes: Writes, domain: str) -> EmailDomainBlock:
    """Refuse sign-ups with addresses of this domain and of those below it.

    Raises `InvalidInput` for what is no domain, `Taken` for one that is blocked, `Unfit` for one too many.
    """
    name = check_domain(domain)
    key, taken = email_domain_block_key(name), Taken("Domain has already been taken", field="domain")
    return await add_block(writes, _DOMAINS, key, lambda id_: EmailDomainBlock(id=id_, domain=name), taken)


async def block_address(writes: Writes, address: str) -> CanonicalEmailBlock:
    """Refuse sign-ups with this address and those that differ from it in dots, case and `+tag` alone. Raises as `block_digest`."""
    return await block_digest(writes, canonical_digest(address))


async def block_digest(writes: Writes, digest: str) -> CanonicalEmailBlock:
    """Refuse sign-ups with addresses whose canonical form has this hash.

    Raises `InvalidInput` for what is no hash, `Taken` for one that is blocked, `Unfit` for one too many.
    """
    checked = check_digest(digest)
    taken = Taken("Canonical email hash has already been taken", field="canonical_email_hash")
    return await add_block(
        writes,
        _ADDRESSES,
        email_block_key(checked),
        lambda id_: CanonicalEmailBlock(id=id_, digest=checked),
        taken,
    )


async def unblock_domain(writes: Writes, block_id: int) -> EmailDomainBlock:
    """End a block. Raises `NotFound`."""
    block = await access(writes.graph, EmailDomainBlock, block_id)
    await remove_blocks(writes, _DOMAINS, {email_domain_block_key(block.domain): block.id})
    return block


async def unblock_address(writes: Writes, block_id: int) -> CanonicalEmailBlock:
    """End a block. Raises `NotFound`."""
    block = await access(writes.graph, CanonicalEmailBlock, block_id)
    await remove_blocks(writes, _ADDRESSES, {email_block_key(block.digest): block.id})
    return block


async def access(graph: Reader, kind: type[B], block_id: int) -> B:
    """A block of this kind by its id. Raises `NotFound`."""
    node = (await graph.obj_get((block_id,))).get(block_id)
    if not isinstance(node, kind):
        raise NotFound("Record not found")
    return node


async def domain_block_of(graph: Reader, address: str) -> int:
    """The id of the block that refuses the domain of an address: that of the narrowest domain, or 0 for none."""
    keys = [email_domain_block_key(domain) for domain in domains_of(address)]
    found = await graph.key_get(keys)
    return next((found[key] for key in keys if key in found), 0)


async def address_block_of(graph: Reader, address: str) -> int:
    """The id of the block that refuses an address by its canonical form, or 0 for none."""
    keys = [email_block_key(digest) for digest in canonical_digests(address)]
    return next(iter((await graph.key_get(keys)).values()), 0)


async def check_sign_up(writes: Writes, address: str, client: str) -> None:
    """Refuse an address that is blocked, and count the attempt of this client for the domain.

    Raises `Disallowed` for a blocked domain. A blocked address is `Taken`, so that nobody learns from the answer which
    addresses are blocked.
    """
    block_id = await domain_block_of(writes.graph, address)
    if block_id:
        # The figures are worth less than the answer.
        with contextlib.suppress(ShoalError):
            await _count(writes, block_id, client)
        raise Disallowed("Email uses a disallowed e-mail provider", field="email")
    if await address_block_of(writes.graph, address):
        raise Taken("Email has already been taken", field="email")


async def _count(writes: Writes, block_id: int, client: str) -> None:
    now = time.time_ns() // 1_000_000
    # Attempts of the same moment would only overtake each other.
    async with writes.turns.of((f"email domain block {block_id}",)):
        await change_object(
            writes.graph,
            lambda: access(writes.graph, EmailDomainBlock, block_id),
            lambda block: attempted(block, client, now),
        )


async def matching(graph: Reader, address: str) -> Sequence[CanonicalEmailBlock]:
    """Blocks by which an address is refused through its canonical form: one, or none. Raises `InvalidInput`."""
    block_id = await address_block_of(graph, address)
    node = (await graph.obj_get((block_id,))).get(block_id) if block_id else None
    return (node,) if isinstance(node, CanonicalEmailBlock) else ()
