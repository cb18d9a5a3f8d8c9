"""Server-wide blocklists: email domains, email addresses, user names and IP address ranges.

A block, its key and its list entry are on one shard, so each change is one commit. A sign-up looks up only the few keys that
can match; it never reads a list. Operators and imports may give members blocked addresses.

A change of an IP block also updates a version (`ip_blocks_changed`). Processes that cache all IP blocks compare the version
and read the blocks again when it differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind, ip_target
from shoal.core.blocklists import (
    CanonicalEmailBlock,
    EmailDomainBlock,
    IpBlock,
    IpSeverity,
    NameBlock,
    attempted,
    canonical_digest,
    canonical_digests,
    check_digest,
    check_domain,
    check_network,
    check_word,
    domains_of,
    key_text,
    plain,
    refusing,
)
from shoal.core.errors import Disallowed, NotFound, Reserved, ShoalError, Taken, Unfit
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Node
from shoal.core.text import check_text
from shoal.graph.access import association, count_of, get_object, objects_of, pages_of
from shoal.graph.changes import change_object, put_on, retry_on_conflict, take_off
from shoal.graph.contract import Batch, KeyTaken, Reader, find_object
from shoal.graph.schema import (
    BLOCKS_EMAIL,
    BLOCKS_EMAIL_DOMAIN,
    BLOCKS_IP,
    BLOCKS_NAME,
    EVERYBODY,
    IP_BLOCKS_CHANGED,
    AssocType,
    Key,
    email_block_key,
    email_domain_block_key,
    ip_block_key,
    name_block_key,
)

B = TypeVar("B", bound=Node)

_SHARD = shard_of(EVERYBODY)


async def check_capacity(graph: Reader, atype: AssocType, maximum: int) -> None:
    """Raise `Unfit` if a list of blocks is full. Concurrent additions may exceed the limit slightly, which is harmless."""
    if await count_of(graph, EVERYBODY, atype) >= maximum:
        raise Unfit(f"There are {maximum} such blocks already, which is the maximum")


class Blocklist(NamedTuple):
    """A kind of block: its list and maximum length, and how the audit log names it."""

    atype: AssocType
    maximum: int
    kind: TargetKind
    blocked: AuditVerb
    unblocked: AuditVerb


async def add_block(writes: Writes, listed: Blocklist, key: Key, make: Callable[[int], B], taken: Taken) -> B:
    """Create a block and return it. Raises the error `taken` if the same block exists, and `Unfit` if the list is full."""
    await check_capacity(writes.graph, listed.atype, listed.maximum)

    def build(id_: int) -> tuple[B, Batch]:
        block, batch = make(id_), Batch(_SHARD)
        batch.key_add(key, id_)
        batch.obj_add(block)
        batch.assoc_add(EVERYBODY, listed.atype, id_, id_)
        note(writes, batch, listed.blocked, AuditTarget(listed.kind, id_, key.name))
        return block, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise taken from error


async def remove_blocks(writes: Writes, listed: Blocklist, blocks: Mapping[Key, int]) -> None:
    """Remove blocks from a list. `blocks` maps keys to ids. Raises `NotFound` if none of them exists."""

    async def attempt() -> None:
        nodes = await writes.graph.obj_get(list(blocks.values()))
        batch = Batch(_SHARD)
        for key, id_ in blocks.items():
            if id_ in nodes:
                batch.key_del(key, id_)
                batch.obj_del(id_, nodes[id_].version)
                batch.assoc_del(EVERYBODY, listed.atype, id_, writes.new_id(_SHARD))
                note(writes, batch, listed.unblocked, AuditTarget(listed.kind, id_, key.name))
        if not batch.objects:
            raise NotFound("Record not found")
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


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
    """Refuse sign-ups with addresses of this domain and its subdomains.

    Raises `InvalidInput` for an invalid domain, `Taken` if it is blocked already, and `Unfit` if the list is full.
    """
    name = check_domain(domain)
    key, taken = email_domain_block_key(name), Taken("Domain has already been taken", field="domain")
    return await add_block(writes, _DOMAINS, key, lambda id_: EmailDomainBlock(id=id_, domain=name), taken)


async def block_address(writes: Writes, address: str) -> CanonicalEmailBlock:
    """Refuse sign-ups with this address, ignoring dots, case and `+tag`.

    Raises `InvalidInput` for a malformed address, `Taken` if it is blocked already, and `Unfit` if the list is full.
    """
    return await block_digest(writes, canonical_digest(address))


async def block_digest(writes: Writes, digest: str) -> CanonicalEmailBlock:
    """Refuse sign-ups with addresses whose canonical form has this hash.

    Raises `InvalidInput` for an invalid hash, `Taken` if it is blocked already, and `Unfit` if the list is full.
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
    block = await get_object(writes.graph, EmailDomainBlock, block_id)
    await remove_blocks(writes, _DOMAINS, {email_domain_block_key(block.domain): block.id})
    return block


async def unblock_address(writes: Writes, block_id: int) -> CanonicalEmailBlock:
    block = await get_object(writes.graph, CanonicalEmailBlock, block_id)
    await remove_blocks(writes, _ADDRESSES, {email_block_key(block.digest): block.id})
    return block


async def domain_block_of(graph: Reader, address: str) -> int:
    """Return the id of the most specific block that matches the domain of an email address; 0 for none."""
    keys = [email_domain_block_key(domain) for domain in domains_of(address)]
    found = await graph.key_get(keys)
    return next((found[key] for key in keys if key in found), 0)


async def address_block_of(graph: Reader, address: str) -> int:
    """Return the id of the block that matches the canonical form of an email address; 0 for none."""
    keys = [email_block_key(digest) for digest in canonical_digests(address)]
    return next(iter((await graph.key_get(keys)).values()), 0)


async def check_email(writes: Writes, address: str, client: str) -> None:
    """Raise an error for a blocked email address, and count the refused attempt if its domain is blocked.

    Raises `Disallowed` for a blocked domain. A blocked address raises `Taken`, so that the response does not reveal which
    addresses are blocked.
    """
    block_id = await domain_block_of(writes.graph, address)
    if block_id:
        # A failure to count the attempt must not change the response.
        with contextlib.suppress(ShoalError):
            await _count_attempt(writes, block_id, client)
        raise Disallowed("Email uses a disallowed e-mail provider", field="email")
    if await address_block_of(writes.graph, address):
        raise Taken("Email has already been taken", field="email")


async def _count_attempt(writes: Writes, block_id: int, client: str) -> None:
    now = now_ms()
    # Without the lock, concurrent attempts would conflict with each other.
    async with writes.locks.of((f"email domain block {block_id}",)):
        await change_object(
            writes.graph,
            lambda: get_object(writes.graph, EmailDomainBlock, block_id),
            lambda block: attempted(block, client, now),
        )


async def matching_email_blocks(graph: Reader, address: str) -> Sequence[CanonicalEmailBlock]:
    """Return the block that matches an email address in canonical form, if any. Raises `InvalidInput` for an invalid address."""
    block_id = await address_block_of(graph, address)
    block = await find_object(graph, CanonicalEmailBlock, block_id)
    return (block,) if block is not None else ()


MAX_NAMES = 20_000
_NAMES = Blocklist(BLOCKS_NAME, MAX_NAMES, TargetKind.NAME, AuditVerb.NAME_BLOCKED, AuditVerb.NAME_UNBLOCKED)


async def block_name(writes: Writes, word: str, *, part: bool = False) -> NameBlock:
    """Refuse sign-ups with this user name or, if `part` is true, with every name that contains it.

    Existing members keep their names.
    Raises `InvalidInput` for an invalid word, `Taken` if it is blocked already, and `Unfit` if the list is full.
    """
    checked = check_word(word, part=part)
    key = name_block_key(key_text(checked, part=part))
    taken = Taken("This word is blocked already", field="word")
    return await add_block(writes, _NAMES, key, lambda id_: NameBlock(id=id_, word=checked, part=part), taken)


async def unblock_name(writes: Writes, word: str) -> None:
    """Remove the blocks of a word as a user name and as a part of names. Raises `NotFound` if the word is not blocked."""
    keys = [name_block_key(key_text(plain(word), part=part)) for part in (False, True)]
    found = await writes.graph.key_get(keys)
    if not found:
        raise NotFound(f"{word} is not blocked")
    await remove_blocks(writes, _NAMES, found)


async def check_name(graph: Reader, name: str) -> None:
    """Raise `Reserved` for a blocked user name. The message does not reveal the blocked word."""
    if await graph.key_get([name_block_key(text) for text in refusing(name)]):
        raise Reserved(f"the user name {name} is reserved", field="username")


MAX_IP_BLOCKS = 10_000
MAX_IP_BLOCK_COMMENT = 1_000
MAX_IP_BLOCK_SECONDS = 10 * 365 * 86_400
_PAGE = 500


class IpBlockChanges(NamedTuple):
    """Changes of an IP block; None keeps the current value."""

    network: str | None = None
    severity: IpSeverity | None = None
    comment: str | None = None
    seconds: int | None = None
    """Seconds until the block expires; 0 for never."""


async def block_ip(
    writes: Writes, network: str, severity: IpSeverity, *, comment: str = "", seconds: int = 0
) -> IpBlock:
    """Block an IP address range for a number of seconds; 0 means permanently.

    Raises `InvalidInput` for a malformed address range, `Taken` if it is blocked already, and `Unfit` if the list is full.
    """
    made = _checked(IpBlock(id=0, network="", severity=severity), IpBlockChanges(network, None, comment, seconds))
    await check_capacity(writes.graph, BLOCKS_IP, MAX_IP_BLOCKS)

    def build(id_: int) -> tuple[IpBlock, Batch]:
        node = replace(made, id=id_, ticket_id=id_ if made.expires_at else 0)
        batch = _changing(writes)
        batch.obj_add(node)
        batch.key_add(ip_block_key(node.network), id_)
        batch.assoc_add(EVERYBODY, BLOCKS_IP, id_, id_)
        if node.ticket_id:
            put_on(batch, node.ticket_id, node.expires_at, id_)
        note(writes.because(node.comment), batch, AuditVerb.IP_BLOCKED, ip_target(node), severity=node.severity.value)
        return node, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise _taken() from error


async def update_ip_block(writes: Writes, block_id: int, changes: IpBlockChanges) -> IpBlock:
    """Change an IP block.

    Raises `NotFound` for an unknown block, `InvalidInput` for a malformed address range, and `Taken` if the new range is blocked
    already.
    """

    async def attempt() -> IpBlock:
        before = await get_object(writes.graph, IpBlock, block_id)
        after = _checked(before, changes)
        if after == before:
            return before
        if after.expires_at != before.expires_at:
            after = replace(after, ticket_id=writes.new_id(_SHARD) if after.expires_at else 0)
        after = replace(after, version=before.version + 1)
        batch = _changing(writes)
        batch.obj_set(after)
        if after.network != before.network:
            batch.key_del(ip_block_key(before.network), block_id)
            batch.key_add(ip_block_key(after.network), block_id)
        if after.ticket_id != before.ticket_id:
            take_off(batch, before.ticket_id, writes.new_id(_SHARD))
            if after.ticket_id:
                put_on(batch, after.ticket_id, after.expires_at, block_id)
        changed = AuditVerb.IP_BLOCK_CHANGED
        note(writes.because(after.comment), batch, changed, ip_target(after), severity=after.severity.value)
        try:
            await writes.graph.commit(batch)
        except KeyTaken as error:
            raise _taken() from error
        return after

    return await retry_on_conflict(attempt)


async def unblock_ip(writes: Writes, block_id: int) -> IpBlock:
    async def attempt() -> IpBlock:
        node = await get_object(writes.graph, IpBlock, block_id)
        batch = _ending(writes, node)
        note(writes, batch, AuditVerb.IP_UNBLOCKED, ip_target(node), severity=node.severity.value)
        await writes.graph.commit(batch)
        return node

    return await retry_on_conflict(attempt)


async def expire_ip_block(writes: Writes, node: IpBlock) -> None:
    """Remove an expired IP block, given as it was read. Raises `Conflict` if the block was changed since."""
    await writes.graph.commit(_ending(writes, node))


def _ending(writes: Writes, node: IpBlock) -> Batch:
    batch = _changing(writes)
    batch.obj_del(node.id, node.version)
    batch.key_del(ip_block_key(node.network), node.id)
    batch.assoc_del(EVERYBODY, BLOCKS_IP, node.id, writes.new_id(_SHARD))
    take_off(batch, node.ticket_id, writes.new_id(_SHARD))
    return batch


async def ip_blocks_version(graph: Reader) -> int:
    """Return a number that changes whenever IP blocks may have changed."""
    mark = await association(graph, EVERYBODY, IP_BLOCKS_CHANGED, EVERYBODY)
    return mark.time if mark else 0


async def all_ip_blocks(graph: Reader) -> list[IpBlock]:
    found: list[IpBlock] = []
    async for page in pages_of(graph, EVERYBODY, BLOCKS_IP, _PAGE):
        found += await objects_of(graph, IpBlock, [assoc.id2 for assoc in page])
    return found


def _checked(before: IpBlock, changes: IpBlockChanges) -> IpBlock:
    after = before
    if changes.network is not None:
        after = replace(after, network=check_network(changes.network))
    if changes.severity is not None:
        after = replace(after, severity=changes.severity)
    if changes.comment is not None:
        after = replace(after, comment=check_text(changes.comment, field="comment", maximum=MAX_IP_BLOCK_COMMENT))
    if changes.seconds is not None:
        expires_at = now_ms() + changes.seconds * 1_000 if changes.seconds else 0
        after = replace(after, expires_at=expires_at)
    return after


def _changing(writes: Writes) -> Batch:
    batch = Batch(_SHARD)
    batch.assoc_add(EVERYBODY, IP_BLOCKS_CHANGED, EVERYBODY, writes.new_id(_SHARD))
    return batch


def _taken() -> Taken:
    return Taken("Ip has already been taken", field="ip")
