"""IP blocks, managed by administrators: networks that are kept out altogether, or only from signing up."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import presenter
from shoal.api.http.convert import Id
from shoal.api.http.errors import Blank
from shoal.api.http.limits.ip_guard import client_of
from shoal.api.http.pages import PageQuery
from shoal.api.listing import One, actor, cursor_of, paged
from shoal.commands import blocklists
from shoal.commands.blocklists import MAX_IP_BLOCK_SECONDS, IpBlockChanges
from shoal.core.blocklists import IpBlock, IpSeverity, check_network, contains
from shoal.core.errors import InvalidInput
from shoal.core.ids import milliseconds_of
from shoal.graph.schema import BLOCKS_IP, EVERYBODY
from shoal.queries.pagination import objects_page

_log = logging.getLogger("shoal.moderation")

_Text = Annotated[str, Meta(max_length=2_000)]
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
    return _shown(await blocklists.access_ip_block(context.deps.graph, params.id))


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
    before = await blocklists.access_ip_block(front.graph, params.id)
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
    """Refuse a block that includes the caller's own address: they could not take it back."""
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
        created_at=presenter.moment(milliseconds_of(block.id)),
        expires_at=presenter.moment(block.expires_at) if block.expires_at else None,
    )


_NETWORKS = "/api/v1/admin/ip_blocks"

_networks = rows.admin.having(scope="admin:read:ip_blocks", answer=AdminIpBlock)
_set_networks = rows.admin.having(scope="admin:write:ip_blocks", answer=AdminIpBlock)

ROUTES = (
    _networks("GET", _NETWORKS, several, params=PageQuery, answer=list[AdminIpBlock]),
    _set_networks("POST", _NETWORKS, create, params=NewIpBlock),
    _networks("GET", _NETWORKS + "/{id}", one, params=One),
    _set_networks("PUT", _NETWORKS + "/{id}", update, params=ChangedIpBlock),
    _set_networks("DELETE", _NETWORKS + "/{id}", delete, params=One, answer=dict),
)
