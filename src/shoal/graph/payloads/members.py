"""Association payloads of a member's own data: read markers, filters, ranking preferences, albums, and audit entries.

An audit entry is an association in the list of its data source, so it commits together with the action. If members act on their own
account, the IP address is stored in a list of the member, under the id of the entry, and is deleted with the member.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from shoal.core.audit import AuditEntry
from shoal.core.ids import named
from shoal.core.ranking.preferences import NO_FEEDBACK, Feedback, FeedPreferences, SeenPosts
from shoal.core.ranking.recipes import Recipe
from shoal.graph.contract import Assoc, Batch, Reader
from shoal.graph.schema import AUDITED, LEADING_TO_LOGINS, MARKED, preferences_key, public_list, seen_key

HOME = "home"
NOTIFICATIONS = "notifications"
CLEARED = "notifications cleared"
"""Name of the marker up to which notifications are cleared. No client sets it."""


class Mark(NamedTuple):
    last_read_id: int = 0
    version: int = 0
    time: int = 0


_marker_decoder: msgspec.msgpack.Decoder[tuple[int, int]] = msgspec.msgpack.Decoder(tuple[int, int])


def mark_id(name: str) -> int:
    return named("marker", name)


def encode_mark(last_read_id: int, version: int) -> bytes:
    return msgspec.msgpack.encode((last_read_id, version))


async def marks(graph: Reader, member: int, names: Iterable[str]) -> dict[str, Mark]:
    ids = {mark_id(name): name for name in names}
    found = (await graph.assoc_get(member, (MARKED,), list(ids)))[MARKED]
    return {ids[id_]: Mark(*_marker_decoder.decode(assoc.data), assoc.time) for id_, assoc in found.items()}


def drop_login(batch: Batch, owner_id: int, id_: int, now: int, version: int = 0) -> None:
    """Delete a token or authorization code, with all its associations. The object must have this version (0: any)."""
    batch.obj_del(id_, version)
    for atype in LEADING_TO_LOGINS:
        batch.assoc_del(owner_id, atype, id_, now)


class Personalization(NamedTuple):
    feed_preferences: FeedPreferences | None
    seen: SeenPosts | None

    @property
    def feedback(self) -> Feedback:
        return NO_FEEDBACK if self.feed_preferences is None else self.feed_preferences.feedback

    @property
    def off(self) -> bool:
        return self.feed_preferences is not None and self.feed_preferences.off

    @property
    def recipe(self) -> Recipe | None:
        """The member's own recipe; None if the server's recipe applies."""
        return None if self.feed_preferences is None else self.feed_preferences.recipe


async def personalization_of(graph: Reader, member_id: int) -> Personalization:
    """Return a member's ranking preferences and seen posts. Takes two reads, or one if there are none."""
    keys = (preferences_key(member_id), seen_key(member_id))
    owners = await graph.key_get(keys)
    nodes = await graph.obj_get(list(owners.values())) if owners else {}
    feed_preferences, seen = (nodes.get(owners.get(key, 0)) for key in keys)
    return Personalization(
        feed_preferences if isinstance(feed_preferences, FeedPreferences) else None,
        seen if isinstance(seen, SeenPosts) else None,
    )


MOST_PHOTOS = 1_000
"""Maximum number of photos to read; no album may have as many."""


class Collected(NamedTuple):
    """An entry of an album: the post with the photo, and the photo's position. Photos are ordered by position, then by time."""

    post_id: int
    position: int


_album_decoder: msgspec.msgpack.Decoder[Collected] = msgspec.msgpack.Decoder(Collected)


def collected_of(assoc: Assoc) -> Collected:
    return _album_decoder.decode(assoc.data)


def encode_collected(photo: Collected) -> bytes:
    return msgspec.msgpack.encode(photo)


def in_order(collected: Iterable[Assoc]) -> list[Assoc]:
    return sorted(collected, key=lambda assoc: (collected_of(assoc).position, assoc.time))


_encoder = msgspec.msgpack.Encoder()
_audit_decoder: msgspec.msgpack.Decoder[AuditEntry] = msgspec.msgpack.Decoder(AuditEntry)


def put_entry(batch: Batch, id_: int, entry: AuditEntry, address: str) -> None:
    """Add an audit entry to a batch. If it has a `holder_id`, that member's own list of entries stores the IP `address`.

    The commit fails with `IdTaken` if another entry has the id.
    """
    batch.fresh.add(id_)
    batch.assoc_add(public_list(batch.shard), AUDITED, id_, id_, _encoder.encode(entry))
    if entry.holder_id:
        batch.assoc_add(entry.holder_id, AUDITED, id_, id_, address.encode())


def take_entry(batch: Batch, assoc: Assoc, now: int) -> None:
    """Add to a batch the deletion of an old audit entry and, if it has a `holder_id`, of the IP address in that member's list."""
    batch.assoc_del(public_list(batch.shard), AUDITED, assoc.id2, now)
    if holder := decode_entry(assoc).holder_id:
        batch.assoc_del(holder, AUDITED, assoc.id2, now)


def decode_entry(assoc: Assoc) -> AuditEntry:
    return _audit_decoder.decode(assoc.data)
