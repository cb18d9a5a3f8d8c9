"""The contents of a store as plain rows: for moving a network to other stores, and for measuring how even it lies.

Rows are put as they stand: no time is lifted, no count moves, no inverse follows. So only a mover may do it, while nobody
else writes.

Glossary (`docs/glossary.md`): lift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from shoal.core.ids import shard_of
from shoal.core.model import Member, Post
from shoal.core.placement import place
from shoal.graph.contract import AssocRow
from shoal.graph.schema import AnyNode, encode_node

NAMED_BY_PLACE = frozenset({"user_name", "email"})
"""Spaces of keys that lie where their name says; the others lie where the object lies that they lead to."""

ASSOC_BYTES = 26
"""Bytes of an association without its data: two ids, a time and a type."""


def _mark(kind: type[Member | Post]) -> bytes:
    encode = msgspec.msgpack.encode
    config = kind.__struct_config__
    return encode(config.tag_field) + encode(config.tag)


MEMBER_MARK = _mark(Member)
"""The first bytes of an encoded member, after the number of its fields."""
POST_MARK = _mark(Post)


class KeyRow(NamedTuple):
    """One key as it is stored."""

    space: str
    name: str
    id: int
    until: int

    @property
    def shard(self) -> int:
        """Where it lies."""
        return place(self.name).shard if self.space in NAMED_BY_PLACE else shard_of(self.id)


class Rows(NamedTuple):
    """Rows to be stored. Those that are there under the same names are replaced."""

    objects: Sequence[AnyNode] = ()
    assocs: Sequence[AssocRow] = ()
    counts: Sequence[tuple[int, int, int]] = ()
    keys: Sequence[KeyRow] = ()

    def on(self, chosen: Callable[[int], bool]) -> Rows:
        """Return the rows on the chosen shards."""
        return Rows(
            [node for node in self.objects if chosen(shard_of(node.id))],
            [row for row in self.assocs if chosen(shard_of(row.id1))],
            [row for row in self.counts if chosen(shard_of(row[0]))],
            [row for row in self.keys if chosen(row.shard)],
        )


class Spread(NamedTuple):
    """How much of a network lies in one place. Bytes are those of objects and associations, without indexes."""

    members: int = 0
    posts: int = 0
    bytes: int = 0

    def plus(self, other: Spread) -> Spread:
        """Both together."""
        return Spread(self.members + other.members, self.posts + other.posts, self.bytes + other.bytes)


@runtime_checkable
class Movable(Protocol):
    """A store that a network can be taken from and to."""

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        """Keys above `(space, name)` in the order of their code points, expired ones too."""
        ...

    async def put_rows(self, rows: Rows) -> None:
        """Store rows as they stand, all or none; to be asked for nothing but a move."""
        ...

    async def remove_rows(self, rows: Rows) -> None:
        """Take rows of these names away; what else is in them does not matter. To be asked for nothing but a move."""
        ...


@runtime_checkable
class Spreading(Protocol):
    """A store that knows how much lies on its data sources without reading everything out."""

    async def spread(self) -> dict[int, Spread]:
        """By data source; what holds nothing may be left out."""
        ...


def weigh(node: AnyNode) -> Spread:
    """Return what one object adds to the spread: itself as a member or a post, and its bytes."""
    return Spread(isinstance(node, Member), isinstance(node, Post), len(encode_node(node)))
