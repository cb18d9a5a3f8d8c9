"""The key that belongs to an object, as a check expects it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, NameBlock, key_text
from shoal.core.credentials import ChallengeKey, Login
from shoal.core.email import ContactSalt
from shoal.core.ids import shard_of
from shoal.core.model import Media, Member, Share
from shoal.core.ranking.preferences import SeenPosts, Taste
from shoal.graph.media import key_of_files
from shoal.graph.schema import (
    AnyNode,
    Key,
    challenge_key_key,
    contact_salt_key,
    email_block_key,
    email_domain_block_key,
    email_key,
    ip_block_key,
    name_block_key,
    seen_key,
    share_key,
    taste_key,
    user_name_key,
)


class KeyTarget(NamedTuple):
    """A key that must lead to an object."""

    key: Key
    id: int


def names_of(node: AnyNode) -> KeyTarget | None:
    """The key that belongs to an object."""
    match node:
        case Media() if (key := key_of_files(node)) is not None:
            return KeyTarget(key, node.id)
        case Member():
            return KeyTarget(user_name_key(node.name), node.id)
        case Login(email=address) if address:
            return KeyTarget(email_key(address), node.member_id)
        case Share():
            return KeyTarget(share_key(node.author_id, shard_of(node.author_id), node.post_id), node.id)
        case EmailDomainBlock():
            return KeyTarget(email_domain_block_key(node.domain), node.id)
        case CanonicalEmailBlock():
            return KeyTarget(email_block_key(node.digest), node.id)
        case IpBlock():
            return KeyTarget(ip_block_key(node.network), node.id)
        case NameBlock():
            return KeyTarget(name_block_key(key_text(node.word, part=node.part)), node.id)
        case Taste():
            return KeyTarget(taste_key(node.member_id), node.id)
        case ContactSalt() | ChallengeKey():
            return KeyTarget(contact_salt_key() if isinstance(node, ContactSalt) else challenge_key_key(), node.id)
        case SeenPosts():
            return KeyTarget(seen_key(node.member_id), node.id)
    return None
