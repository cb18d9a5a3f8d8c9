"""E-mail blocklists, as admins keep them: which domains and addresses nobody signs up with."""

from __future__ import annotations

import logging
import time
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import presenter
from shoal.api.entities.tags import TagDay
from shoal.api.http.errors import Blank
from shoal.api.http.pages import PageQuery
from shoal.api.listing import One, actor, cursor_of, paged
from shoal.commands import blocklists
from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, history
from shoal.core.ids import milliseconds_of
from shoal.graph.schema import BLOCKS_EMAIL, BLOCKS_EMAIL_DOMAIN, EVERYBODY
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
    return _domain(await blocklists.access_email_block(context.deps.graph, EmailDomainBlock, params.id))


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
    return _address(await blocklists.access_email_block(context.deps.graph, CanonicalEmailBlock, params.id))


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
    days = history(block, time.time_ns() // 1_000_000)
    return AdminEmailDomainBlock(
        id=str(block.id),
        domain=block.domain,
        created_at=presenter.moment(milliseconds_of(block.id)),
        history=[
            TagDay(day=str(day.day * _DAY_SECONDS), uses=str(day.uses), accounts=str(day.accounts)) for day in days
        ],
    )


def _address(block: CanonicalEmailBlock) -> AdminCanonicalEmailBlock:
    return AdminCanonicalEmailBlock(id=str(block.id), canonical_email_hash=block.digest)


_DOMAINS = "/api/v1/admin/email_domain_blocks"
_ADDRESSES = "/api/v1/admin/canonical_email_blocks"

_domains = rows.admin.having(scope="admin:read:email_domain_blocks", answer=AdminEmailDomainBlock)
_set_domains = rows.admin.having(scope="admin:write:email_domain_blocks", answer=AdminEmailDomainBlock)
_addresses = rows.admin.having(scope="admin:read:canonical_email_blocks", answer=AdminCanonicalEmailBlock)
_set_addresses = rows.admin.having(scope="admin:write:canonical_email_blocks", answer=AdminCanonicalEmailBlock)

ROUTES = (
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
