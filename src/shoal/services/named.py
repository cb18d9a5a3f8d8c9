"""Tags and members that a text names, as far as a post links them."""

from __future__ import annotations

from shoal.core.model import Mention
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
