"""Tags and members that a text names, as far as a post links them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from shoal.core.model import Member, Mention
from shoal.core.text import mentions_of, tags_of
from shoal.graph.access import members_by_id
from shoal.graph.schema import user_name_key
from shoal.services.writes import Writes

MAX_MENTIONS = 50
_MAX_TAGS = 100


def tags_named(text: str) -> tuple[str, ...]:
    """Return the tags of a text in their canonical form; after the first hundred they stay plain text."""
    return tuple(canonical for canonical, _ in tags_of(text)[:_MAX_TAGS])


async def members_named(writes: Writes, text: str) -> tuple[Mention, ...]:
    """Return the members whom a text mentions; pending ones, and any after the first fifty, stay plain text."""
    names = mentions_of(text, writes.domain)[:MAX_MENTIONS]
    if not names:
        return ()
    keys = {user_name_key(name): name for name in names}
    found = await writes.graph.key_get(list(keys))
    members = await members_by_id(writes.graph, list(found.values()))
    there = {id_ for id_, member in members.items() if not member.pending}
    return tuple(Mention(found[key], name) for key, name in keys.items() if found.get(key) in there)


async def members_named_in(writes: Writes, changes: Mapping[str, Any]) -> tuple[Mention, ...]:
    """Return the members whom these changes of a profile mention in the note or in values of fields."""
    values = (field.value for field in changes.get("fields", ()))
    return await members_named(writes, "\n".join((changes.get("note", ""), *values)))


def with_mentions(member: Member, named: tuple[Mention, ...], domain: str) -> Member:
    """Return a member whose mentions are those of the profile: some that it had, and some of these."""
    text = "\n".join((member.note, *(field.value for field in member.fields)))
    names = set(mentions_of(text, domain))
    found = dict.fromkeys((*member.mentions, *named))
    return structs.replace(member, mentions=tuple(mention for mention in found if mention.name in names))
