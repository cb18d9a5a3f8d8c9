"""Blocklists: e-mail domains and addresses that cannot sign up, and blocked address ranges."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import blocklists
from shoal.commands.blocklists import MAX_IP_BLOCK_SECONDS, IpBlockChanges
from shoal.core.blocklists import (
    CanonicalEmailBlock,
    EmailDomainBlock,
    IpBlock,
    IpSeverity,
    check_network,
    contains,
    history,
)
from shoal.core.errors import InvalidInput
from shoal.core.ids import milliseconds_of, now_ms
from shoal.core.model import Role
from shoal.graph.access import get_object
from shoal.graph.schema import BLOCKS_EMAIL, BLOCKS_EMAIL_DOMAIN, BLOCKS_IP, EVERYBODY
from shoal.http.errors import Blank
from shoal.http.middleware import client_of
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.tags import TagDay
from shoal.queries.pagination import objects_page

router = Router(role=Role.ADMIN)

_log = logging.getLogger("shoal.moderation")

_Text = Annotated[str, Meta(max_length=2_000)]
_DAY_SECONDS = 86_400


class AdminEmailDomainBlock(msgspec.Struct, kw_only=True):
    """A blocked e-mail domain. `history` counts the sign-ups it refused in the last seven days, newest day first."""

    id: str
    domain: str
    created_at: str
    history: list[TagDay]


class AdminCanonicalEmailBlock(msgspec.Struct, kw_only=True):
    """The hash of a blocked e-mail address."""

    id: str
    canonical_email_hash: str


class NewDomain(msgspec.Struct, frozen=True):
    domain: _Text = ""


class NewAddress(msgspec.Struct, frozen=True):
    email: _Text = ""
    canonical_email_hash: _Text = ""


class Tested(msgspec.Struct, frozen=True):
    email: _Text = ""


@router.get(
    "/api/v1/admin/email_domain_blocks", scope="admin:read:email_domain_blocks", answer=list[AdminEmailDomainBlock]
)
async def list_domains(context: Context, params: PageQuery) -> object:
    """List the blocked e-mail domains, newest first."""
    cursor = cursor_of(params, 100, 200)
    found, after = await objects_page(context.app.graph, EVERYBODY, BLOCKS_EMAIL_DOMAIN, EmailDomainBlock, cursor)
    body = [_domain(block) for block in found]
    return paged(context, body, [block.id for block in found], after, cursor)


@router.get(
    "/api/v1/admin/email_domain_blocks/{id}", scope="admin:read:email_domain_blocks", answer=AdminEmailDomainBlock
)
async def get_domain(context: Context, params: One) -> AdminEmailDomainBlock:
    """Show a blocked e-mail domain, with the sign-ups it refused."""
    return _domain(await get_object(context.app.graph, EmailDomainBlock, params.id))


@router.post("/api/v1/admin/email_domain_blocks", scope="admin:write:email_domain_blocks", answer=AdminEmailDomainBlock)
async def block_domain(context: Context, params: NewDomain) -> AdminEmailDomainBlock:
    """Block sign-ups with addresses of a domain and its subdomains."""
    if not params.domain.strip():
        raise Blank("Domain can't be blank", field="domain")
    block = await blocklists.block_domain(context.app.writes, params.domain)
    _log.info("moderator %s: block e-mail domain %s", actor(context), block.domain)
    return _domain(block)


@router.delete("/api/v1/admin/email_domain_blocks/{id}", scope="admin:write:email_domain_blocks", answer=dict)
async def unblock_domain(context: Context, params: One) -> None:
    """Unblock an e-mail domain."""
    block = await blocklists.unblock_domain(context.app.writes, params.id)
    _log.info("moderator %s: unblock e-mail domain %s", actor(context), block.domain)


@router.get(
    "/api/v1/admin/canonical_email_blocks",
    scope="admin:read:canonical_email_blocks",
    answer=list[AdminCanonicalEmailBlock],
)
async def list_addresses(context: Context, params: PageQuery) -> object:
    """List the hashes of blocked e-mail addresses, newest first."""
    cursor = cursor_of(params, 100, 200)
    found, after = await objects_page(context.app.graph, EVERYBODY, BLOCKS_EMAIL, CanonicalEmailBlock, cursor)
    body = [_address(block) for block in found]
    return paged(context, body, [block.id for block in found], after, cursor)


@router.get(
    "/api/v1/admin/canonical_email_blocks/{id}",
    scope="admin:read:canonical_email_blocks",
    answer=AdminCanonicalEmailBlock,
)
async def get_address(context: Context, params: One) -> AdminCanonicalEmailBlock:
    """Show the hash of a blocked e-mail address."""
    return _address(await get_object(context.app.graph, CanonicalEmailBlock, params.id))


@router.post(
    "/api/v1/admin/canonical_email_blocks/test",
    scope="admin:read:canonical_email_blocks",
    answer=list[AdminCanonicalEmailBlock],
)
async def test_address(context: Context, params: Tested) -> list[AdminCanonicalEmailBlock]:
    """List the blocks that match an e-mail address."""
    if not params.email.strip():
        raise Blank("Email can't be blank", field="email")
    return [_address(block) for block in await blocklists.matching_email_blocks(context.app.graph, params.email)]


@router.post(
    "/api/v1/admin/canonical_email_blocks", scope="admin:write:canonical_email_blocks", answer=AdminCanonicalEmailBlock
)
async def block_address(context: Context, params: NewAddress) -> AdminCanonicalEmailBlock:
    """Block sign-ups with an e-mail address and its variants in dots, case and `+tag`.

    Takes the address or its canonical hash.
    """
    if params.email.strip():
        block = await blocklists.block_address(context.app.writes, params.email)
    elif params.canonical_email_hash.strip():
        block = await blocklists.block_digest(context.app.writes, params.canonical_email_hash)
    else:
        raise Blank("Canonical email hash can't be blank", field="canonical_email_hash")
    _log.info("moderator %s: block e-mail address with hash %s", actor(context), block.digest)
    return _address(block)


@router.delete("/api/v1/admin/canonical_email_blocks/{id}", scope="admin:write:canonical_email_blocks", answer=dict)
async def unblock_address(context: Context, params: One) -> None:
    """Unblock an e-mail address."""
    block = await blocklists.unblock_address(context.app.writes, params.id)
    _log.info("moderator %s: unblock e-mail address with hash %s", actor(context), block.digest)


def _domain(block: EmailDomainBlock) -> AdminEmailDomainBlock:
    days = history(block, now_ms())
    return AdminEmailDomainBlock(
        id=str(block.id),
        domain=block.domain,
        created_at=serializers.moment(milliseconds_of(block.id)),
        history=[
            TagDay(day=str(day.day * _DAY_SECONDS), uses=str(day.uses), accounts=str(day.accounts)) for day in days
        ],
    )


def _address(block: CanonicalEmailBlock) -> AdminCanonicalEmailBlock:
    return AdminCanonicalEmailBlock(id=str(block.id), canonical_email_hash=block.digest)


_Seconds = Annotated[int, Meta(ge=0, le=MAX_IP_BLOCK_SECONDS)]


class AdminIpBlock(msgspec.Struct, kw_only=True):
    """A blocked address range, in CIDR notation."""

    id: str
    ip: str
    severity: str
    comment: str
    created_at: str
    expires_at: str | None


class NewIpBlock(msgspec.Struct, frozen=True, kw_only=True):
    ip: _Text = ""
    """An IP address, or an address range in CIDR notation."""
    severity: IpSeverity | None = None
    comment: _Text = ""
    expires_in: _Seconds = 0
    """Seconds until the block expires; 0 for never."""


class ChangedIpBlock(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    ip: _Text = ""
    severity: IpSeverity | None = None
    comment: _Text | None = None
    expires_in: _Seconds | None = None
    """Seconds from now until the block expires; 0 for never."""


@router.get("/api/v1/admin/ip_blocks", scope="admin:read:ip_blocks", answer=list[AdminIpBlock])
async def list_networks(context: Context, params: PageQuery) -> object:
    """List the blocked address ranges, newest first."""
    cursor = cursor_of(params, 100, 200)
    found, after = await objects_page(context.app.graph, EVERYBODY, BLOCKS_IP, IpBlock, cursor)
    body = [_shown(block) for block in found]
    return paged(context, body, [block.id for block in found], after, cursor)


@router.get("/api/v1/admin/ip_blocks/{id}", scope="admin:read:ip_blocks", answer=AdminIpBlock)
async def get_network(context: Context, params: One) -> AdminIpBlock:
    """Show a blocked IP address range."""
    return _shown(await get_object(context.app.graph, IpBlock, params.id))


@router.post("/api/v1/admin/ip_blocks", scope="admin:write:ip_blocks", answer=AdminIpBlock)
async def block_network(context: Context, params: NewIpBlock) -> AdminIpBlock:
    """Block an IP address range, or sign-ups from it. The caller's own address cannot be blocked."""
    if not params.ip.strip():
        raise Blank("Ip can't be blank", field="ip")
    if params.severity is None:
        raise Blank("Severity can't be blank", field="severity")
    _check_not_own(context, check_network(params.ip), params.severity)
    block = await blocklists.block_ip(
        context.app.writes, params.ip, params.severity, comment=params.comment, seconds=params.expires_in
    )
    return await _done(context, "block", block)


@router.put("/api/v1/admin/ip_blocks/{id}", scope="admin:write:ip_blocks", answer=AdminIpBlock)
async def update_network(context: Context, params: ChangedIpBlock) -> AdminIpBlock:
    """Update the block of an IP address range. The caller's own address cannot be blocked."""
    before = await get_object(context.app.graph, IpBlock, params.id)
    network = check_network(params.ip) if params.ip.strip() else None
    _check_not_own(context, network or before.network, params.severity or before.severity)
    changes = IpBlockChanges(network, params.severity, params.comment, params.expires_in)
    return await _done(
        context, "change the block of", await blocklists.update_ip_block(context.app.writes, params.id, changes)
    )


@router.delete("/api/v1/admin/ip_blocks/{id}", scope="admin:write:ip_blocks", answer=dict)
async def unblock_network(context: Context, params: One) -> None:
    """Unblock an IP address range."""
    await _done(context, "unblock", await blocklists.unblock_ip(context.app.writes, params.id))


def _check_not_own(context: Context, network: str, severity: IpSeverity) -> None:
    if severity is IpSeverity.NO_ACCESS and contains(network, client_of(context.request.scope)):
        raise InvalidInput("Ip includes your own address: you would lock yourself out", field="ip")


async def _done(context: Context, what: str, block: IpBlock) -> AdminIpBlock:
    await context.app.ip_guard.look()
    _log.info("moderator %s: %s IP address range %s (severity %s)", actor(context), what, block.network, block.severity)
    return _shown(block)


def _shown(block: IpBlock) -> AdminIpBlock:
    return AdminIpBlock(
        id=str(block.id),
        ip=block.network,
        severity=block.severity.value,
        comment=block.comment,
        created_at=serializers.moment(milliseconds_of(block.id)),
        expires_at=serializers.moment(block.expires_at) if block.expires_at else None,
    )
