"""Blocklists: who cannot sign up here, by e-mail domain, address or network, and which networks are kept out."""

from __future__ import annotations

from functools import partial

from shoal.api.admin import email_blocks, ip_blocks
from shoal.api.admin.email_blocks import AdminCanonicalEmailBlock, AdminEmailDomainBlock
from shoal.api.admin.ip_blocks import AdminIpBlock
from shoal.api.http.calls import Route
from shoal.api.http.pages import PageQuery
from shoal.api.listing import One
from shoal.api.rows import route
from shoal.core.model import Role
from shoal.settings import Settings

_admin = partial(route, role=Role.ADMIN)
_domains = partial(_admin, scope="admin:read:email_domain_blocks", answer=AdminEmailDomainBlock)
_set_domains = partial(_admin, scope="admin:write:email_domain_blocks", answer=AdminEmailDomainBlock)
_addresses = partial(_admin, scope="admin:read:canonical_email_blocks", answer=AdminCanonicalEmailBlock)
_set_addresses = partial(_admin, scope="admin:write:canonical_email_blocks", answer=AdminCanonicalEmailBlock)
_networks = partial(_admin, scope="admin:read:ip_blocks", answer=AdminIpBlock)
_set_networks = partial(_admin, scope="admin:write:ip_blocks", answer=AdminIpBlock)

_DOMAINS = "/api/v1/admin/email_domain_blocks"
_ADDRESSES = "/api/v1/admin/canonical_email_blocks"
_NETWORKS = "/api/v1/admin/ip_blocks"


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        _domains("GET", _DOMAINS, email_blocks.domains, params=PageQuery, answer=list[AdminEmailDomainBlock]),
        _set_domains("POST", _DOMAINS, email_blocks.block_domain, params=email_blocks.NewDomain),
        _domains("GET", _DOMAINS + "/{id}", email_blocks.domain, params=One),
        _set_domains("DELETE", _DOMAINS + "/{id}", email_blocks.unblock_domain, params=One, answer=dict),
        _addresses("GET", _ADDRESSES, email_blocks.addresses, params=PageQuery, answer=list[AdminCanonicalEmailBlock]),
        _set_addresses("POST", _ADDRESSES, email_blocks.block_address, params=email_blocks.NewAddress),
        _addresses(
            "POST",
            _ADDRESSES + "/test",
            email_blocks.test_address,
            params=email_blocks.Tested,
            answer=list[AdminCanonicalEmailBlock],
        ),
        _addresses("GET", _ADDRESSES + "/{id}", email_blocks.address, params=One),
        _set_addresses("DELETE", _ADDRESSES + "/{id}", email_blocks.unblock_address, params=One, answer=dict),
        _networks("GET", _NETWORKS, ip_blocks.several, params=PageQuery, answer=list[AdminIpBlock]),
        _set_networks("POST", _NETWORKS, ip_blocks.create, params=ip_blocks.NewIpBlock),
        _networks("GET", _NETWORKS + "/{id}", ip_blocks.one, params=One),
        _set_networks("PUT", _NETWORKS + "/{id}", ip_blocks.update, params=ip_blocks.ChangedIpBlock),
        _set_networks("DELETE", _NETWORKS + "/{id}", ip_blocks.delete, params=One, answer=dict),
    )
