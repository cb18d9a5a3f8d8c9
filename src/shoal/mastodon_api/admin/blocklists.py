"""Blocklists: email domains and addresses that cannot sign up, and blocked networks."""

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
from shoal.graph.access import require_object
from shoal.graph.schema import BLOCKS_EMAIL, BLOCKS_EMAIL_DOMAIN, BLOCKS_IP, EVERYBODY
from shoal.http.errors import Blank
from shoal.http.middleware import client_of
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, One, actor, cursor_of, paged
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.tags import TagDay
from shoal.queries.pagination import objects_page

_log = logging.getLogger("shoal.moderation")

_Text = Annotated[str, Meta(max_length=2_000)]
_DAY_SECONDS = 86_400


class AdminEmailDomainBlock(msgspec.Struct, kw_only=True):
    """A blocked e-mail domain. `history` counts the sign-ups that it refused in the last seven days, newest day first."""

    id: str
    domain: str
    created_at: str
    history: list[TagDay]


class AdminCanonicalEmailBlock(msgspec.Struct, kw_only=True):
    """The hash of a blocked e-mail address."""

    id: str
    canonical_email_hash: str


class NewDomain(msgspec.Struct, frozen=True):
    """Which domain is to be blocked."""

    domain: _Text = ""


class NewAddress(msgspec.Struct, frozen=True):
    """Which address is to be blocked: itself, or the hash of its canonical form."""

    email: _Text = ""
    canonical_email_hash: _Text = ""


class Tested(msgspec.Struct, frozen=True):
    """Which address is asked about."""

    email: _Text = ""


async def domains(context: Context, params: PageQuery) -> object:
    """E-mail domains that nobody signs up with, newest first."""
    cursor = cursor_of(params, 100, 200)
    found, after = await objects_page(context.deps.graph, EVERYBODY, BLOCKS_EMAIL_DOMAIN, EmailDomainBlock, cursor)
    body = msgspec.json.encode([_domain(block) for block in found])
    return paged(context, body, [block.id for block in found], after, cursor)


async def domain(context: Context, params: One) -> AdminEmailDomainBlock:
    """A blocked e-mail domain, with the sign-ups that it refused."""
    return _domain(await require_object(context.deps.graph, params.id, EmailDomainBlock))


async def block_domain(context: Context, params: NewDomain) -> AdminEmailDomainBlock:
    """Nobody signs up with an address of this domain, or of one below it, any more."""
    if not params.domain.strip():
        raise Blank("Domain can't be blank", field="domain")
    block = await blocklists.block_domain(context.deps.writes, params.domain)
    _log.info("%s: block e-mail domain %s", actor(context), block.domain)
    return _domain(block)


async def unblock_domain(context: Context, params: One) -> object:
    """Addresses of the domain may be used again."""
    block = await blocklists.unblock_domain(context.deps.writes, params.id)
    _log.info("%s: unblock e-mail domain %s", actor(context), block.domain)
    return {}


async def addresses(context: Context, params: PageQuery) -> object:
    """E-mail addresses that nobody signs up with, as hashes, newest first."""
    cursor = cursor_of(params, 100, 200)
    found, after = await objects_page(context.deps.graph, EVERYBODY, BLOCKS_EMAIL, CanonicalEmailBlock, cursor)
    body = msgspec.json.encode([_address(block) for block in found])
    return paged(context, body, [block.id for block in found], after, cursor)


async def address(context: Context, params: One) -> AdminCanonicalEmailBlock:
    """The hash of a blocked e-mail address."""
    return _address(await require_object(context.deps.graph, params.id, CanonicalEmailBlock))


async def test_address(context: Context, params: Tested) -> list[AdminCanonicalEmailBlock]:
    """Blocks by which an address is refused."""
    if not params.email.strip():
        raise Blank("Email can't be blank", field="email")
    return [_address(block) for block in await blocklists.matching_email_blocks(context.deps.graph, params.email)]


async def block_address(context: Context, params: NewAddress) -> AdminCanonicalEmailBlock:
    """Nobody signs up with this address any more, nor with one that differs in dots, case or `+tag` alone."""
    front = context.deps
    if params.email.strip():
        block = await blocklists.block_address(front.writes, params.email)
    elif params.canonical_email_hash.strip():
        block = await blocklists.block_digest(front.writes, params.canonical_email_hash)
    else:
        raise Blank("Canonical email hash can't be blank", field="canonical_email_hash")
    _log.info("%s: block e-mail address %s", actor(context), block.digest)
    return _address(block)


async def unblock_address(context: Context, params: One) -> object:
    """The address may be used again."""
    block = await blocklists.unblock_address(context.deps.writes, params.id)
    _log.info("%s: unblock e-mail address %s", actor(context), block.digest)
    return {}


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


_DOMAINS = "/api/v1/admin/email_domain_blocks"
_ADDRESSES = "/api/v1/admin/canonical_email_blocks"

_domains = endpoints.admin.having(scope="admin:read:email_domain_blocks", answer=AdminEmailDomainBlock)
_set_domains = endpoints.admin.having(scope="admin:write:email_domain_blocks", answer=AdminEmailDomainBlock)
_addresses = endpoints.admin.having(scope="admin:read:canonical_email_blocks", answer=AdminCanonicalEmailBlock)
_set_addresses = endpoints.admin.having(scope="admin:write:canonical_email_blocks", answer=AdminCanonicalEmailBlock)

EMAIL_BLOCK_ROUTES = (
    _domains("GET", _DOMAINS, domains, params=PageQuery, answer=list[AdminEmailDomainBlock]),
    _set_domains("POST", _DOMAINS, block_domain, params=NewDomain),
    _domains("GET", _DOMAINS + "/{id}", domain, params=One),
    _set_domains("DELETE", _DOMAINS + "/{id}", unblock_domain, params=One, answer=dict),
    _addresses("GET", _ADDRESSES, addresses, params=PageQuery, answer=list[AdminCanonicalEmailBlock]),
    _set_addresses("POST", _ADDRESSES, block_address, params=NewAddress),
    _addresses(
        "POST",
        _ADDRESSES + "/test",
        test_address,
        params=Tested,
        answer=list[AdminCanonicalEmailBlock],
    ),
    _addresses("GET", _ADDRESSES + "/{id}", address, params=One),
    _set_addresses("DELETE", _ADDRESSES + "/{id}", unblock_address, params=One, answer=dict),
)


_Seconds = Annotated[int, Meta(ge=0, le=MAX_IP_BLOCK_SECONDS)]


class AdminIpBlock(msgspec.Struct, kw_only=True):
    """A blocked network, in CIDR notation."""

    id: str
    ip: str
    severity: str
    comment: str
    created_at: str
    expires_at: str | None


class NewIpBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A network to block, and how."""

    ip: _Text = ""
    """An address, or a network in CIDR notation."""
    severity: IpSeverity | None = None
    comment: _Text = ""
    expires_in: _Seconds = 0
    """Seconds until the block expires; 0 for never."""


class ChangedIpBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a block; a field that is not given stays."""

    id: Id
    ip: _Text = ""
    severity: IpSeverity | None = None
    comment: _Text | None = None
    expires_in: _Seconds | None = None
    """Seconds until the block expires, from now on; 0 for never."""


async def several(context: Context, params: PageQuery) -> object:
    """List the networks that are blocked, newest first."""
    cursor = cursor_of(params, 100, 200)
    found, after = await objects_page(context.deps.graph, EVERYBODY, BLOCKS_IP, IpBlock, cursor)
    body = msgspec.json.encode([_shown(block) for block in found])
    return paged(context, body, [block.id for block in found], after, cursor)


async def one(context: Context, params: One) -> AdminIpBlock:
    """Show a blocked network."""
    return _shown(await require_object(context.deps.graph, params.id, IpBlock))


async def create(context: Context, params: NewIpBlock) -> AdminIpBlock:
    """Keep a network out, or those who would sign up from there. The caller's own address cannot be kept out."""
    front = context.deps
    if not params.ip.strip():
        raise Blank("Ip can't be blank", field="ip")
    if params.severity is None:
        raise Blank("Severity can't be blank", field="severity")
    _check_not_own(context, check_network(params.ip), params.severity)
    block = await blocklists.block_ip(
        front.writes, params.ip, params.severity, comment=params.comment, seconds=params.expires_in
    )
    return await _done(context, "block", block)


async def update(context: Context, params: ChangedIpBlock) -> AdminIpBlock:
    """Change a block. The caller's own address cannot be kept out."""
    front = context.deps
    before = await require_object(front.graph, params.id, IpBlock)
    network = check_network(params.ip) if params.ip.strip() else None
    _check_not_own(context, network or before.network, params.severity or before.severity)
    changes = IpBlockChanges(network, params.severity, params.comment, params.expires_in)
    return await _done(
        context, "change the block of", await blocklists.update_ip_block(front.writes, params.id, changes)
    )


async def delete(context: Context, params: One) -> object:
    """Unblock a network."""
    await _done(context, "unblock", await blocklists.unblock_ip(context.deps.writes, params.id))
    return {}


def _check_not_own(context: Context, network: str, severity: IpSeverity) -> None:
    """Raise `InvalidInput` for a block that includes the caller's own address, which they could not undo."""
    if severity is IpSeverity.NO_ACCESS and contains(network, client_of(context.request.scope)):
        raise InvalidInput("Ip includes your own address: you would lock yourself out", field="ip")


async def _done(context: Context, what: str, block: IpBlock) -> AdminIpBlock:
    front = context.deps
    await front.ip_guard.look()
    _log.info("%s: %s %s (%s)", actor(context), what, block.network, block.severity)
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


_NETWORKS = "/api/v1/admin/ip_blocks"

_networks = endpoints.admin.having(scope="admin:read:ip_blocks", answer=AdminIpBlock)
_set_networks = endpoints.admin.having(scope="admin:write:ip_blocks", answer=AdminIpBlock)

IP_BLOCK_ROUTES = (
    _networks("GET", _NETWORKS, several, params=PageQuery, answer=list[AdminIpBlock]),
    _set_networks("POST", _NETWORKS, create, params=NewIpBlock),
    _networks("GET", _NETWORKS + "/{id}", one, params=One),
    _set_networks("PUT", _NETWORKS + "/{id}", update, params=ChangedIpBlock),
    _set_networks("DELETE", _NETWORKS + "/{id}", delete, params=One, answer=dict),
)
