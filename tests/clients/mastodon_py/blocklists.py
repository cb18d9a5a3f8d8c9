"""Stories of admins who block email domains, email addresses and networks."""

from __future__ import annotations

import hashlib

import pytest
from mastodon.errors import MastodonAPIError, MastodonNotFoundError

from tests.clients.mastodon_py.recorded_members import Cast


def email_domains_and_addresses_are_blocked(cast: Cast) -> None:
    """Block, read and unblock an email domain and an email address as an admin. A member may not read the blocks."""
    ann, chief = cast.join("ann"), cast.chief()
    domain = chief.admin_create_email_domain_block("junk.example")
    assert chief.admin_email_domain_block(domain.id).domain == "junk.example"
    assert domain.id in {block.id for block in chief.admin_email_domain_blocks()}
    assert len(domain.history) == 7
    with pytest.raises(MastodonAPIError):
        chief.admin_create_email_domain_block("junk.example")
    chief.admin_delete_email_domain_block(domain.id)
    address = chief.admin_create_canonical_email_block(email="Junk.Mail+x@example.org")
    digest = hashlib.sha256(b"junkmail@example.org").hexdigest()
    assert chief.admin_canonical_email_block(address.id).canonical_email_hash == digest
    assert [block.id for block in chief.admin_test_canonical_email_block("junkmail@example.org")] == [address.id]
    assert address.id in {block.id for block in chief.admin_canonical_email_blocks()}
    chief.admin_delete_canonical_email_block(address.id)
    assert chief.admin_test_canonical_email_block("junkmail@example.org") == []
    with pytest.raises(MastodonAPIError):
        ann.admin_email_domain_blocks()


def networks_are_blocked(cast: Cast) -> None:
    """Create, read, update and delete an IP block."""
    chief = cast.chief()
    block = chief.admin_create_ip_block("203.0.113.0/24", "no_access", comment="robots", expires_in=3_600)
    assert (block.ip, block.severity, block.comment) == ("203.0.113.0/24", "no_access", "robots")
    assert block.expires_at > block.created_at
    assert chief.admin_ip_block(block.id).ip == block.ip
    assert chief.admin_update_ip_block(block.id, severity="sign_up_block").severity == "sign_up_block"
    assert block.id in {found.id for found in chief.admin_ip_blocks()}
    chief.admin_delete_ip_block(block.id)
    with pytest.raises(MastodonNotFoundError):
        chief.admin_ip_block(block.id)


STORIES = (email_domains_and_addresses_are_blocked, networks_are_blocked)
