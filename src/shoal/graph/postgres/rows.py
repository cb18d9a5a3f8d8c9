"""Between what `resolve` knows and changes, and the arrays in which PostgreSQL is told and asked of it.

Rows go in the order of their keys, so that two groups that change the same ones never wait for each other in a circle.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from shoal.core.events import encode
from shoal.core.placement import source_of
from shoal.graph.contract import Batch
from shoal.graph.resolve import KeyName, Known, Resolution, StoredAssoc, Touched, Triple
from shoal.graph.schema import encode_node

Name = int | Triple | KeyName
Columns = list[list[Any]]

_FIRST_REVISION = 1 << 30


class Loaded:
    """The stored state of what a group touches, and the revision of each row that is there."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.known = Known()
        self.revisions: dict[Name, int] = {}
        for kind, revision, a, b, c, moment, alive, data, space, name in rows:
            if kind == 1:
                self.known.versions[a] = b
                self.revisions[a] = revision
            elif kind == 2:
                self.known.links[a, b, c] = StoredAssoc(moment, alive, data)
                self.revisions[a, b, c] = revision
            else:
                self.known.keys[space, name] = (a, b)
                self.revisions[space, name] = revision

    def presume(self, ids: Iterable[int]) -> None:
        """Presume that these objects are stored; a commit finds out whether they are."""
        for id_ in ids:
            self.known.versions.setdefault(id_, 1)

    def next_revision(self, name: Name) -> int:
        """As `shoal.commit` wants it: of a new row positive, of one to be replaced negative."""
        stored = self.revisions.get(name)
        return random.randrange(1, _FIRST_REVISION) if stored is None else -(stored + 1)  # noqa: S311  # it guards nothing


def load_values(touched: Touched) -> Columns:
    """The arguments of `sql.LOAD`."""
    return [list(touched.ids), *_columns(list(touched.links), 3), *_columns(list(touched.keys), 2)]


def commit_values(
    changes: Resolution, loaded: Loaded, touched: Touched, batches: Sequence[Batch], delays: Sequence[float]
) -> Columns:
    """The arguments of `sql.COMMIT`. `touched` is what the accepted `batches` look at; `delays` are of the events."""
    revision = loaded.next_revision
    nodes = sorted((id_, node) for id_, node in changes.objects.items() if node is not None)
    gone = sorted(id_ for id_, node in changes.objects.items() if node is None)
    links = sorted((*triple, *link) for triple, link in changes.links.items())
    counts = sorted((*pair, by) for pair, by in changes.counts.items() if by)
    seen = [triple for triple in touched.triples if triple not in changes.links]
    return [
        [id_ for id_, _ in nodes],
        [node.version for _, node in nodes],
        [revision(id_) for id_, _ in nodes],
        [encode_node(node) for _, node in nodes],
        gone,
        [loaded.revisions[id_] for id_ in gone if id_ in loaded.revisions],
        *_columns([(*link[:4], revision(link[:3]), *link[4:]) for link in links], 7),
        *_columns(counts, 3),
        *_key_values(changes, loaded, batches),
        [encode(event) for event in changes.events],
        list(delays),
        [id_ for id_ in touched.ids if id_ not in changes.objects],
        *_columns([(*triple, loaded.revisions.get(triple, 0)) for triple in seen], 4),
        *_seen_keys(changes, loaded, touched),
    ]


def _key_values(changes: Resolution, loaded: Loaded, batches: Sequence[Batch]) -> Columns:
    shards = {(op.key.space, op.key.name): op.key.shard for batch in batches for op in batch.keys}
    held = sorted((name, owner) for name, owner in changes.keys.items() if owner is not None)
    lost = sorted(name for name, owner in changes.keys.items() if owner is None and name in loaded.revisions)
    return [
        *_columns([(*name, *owner, loaded.next_revision(name), source_of(shards[name])) for name, owner in held], 6),
        *_columns([(*name, loaded.revisions[name], source_of(shards[name])) for name in lost], 4),
    ]


def _seen_keys(changes: Resolution, loaded: Loaded, touched: Touched) -> Columns:
    """Keys that stay as they are, or were made and given up within the group."""
    seen = [
        name
        for name in touched.keys
        if changes.keys.get(name) is None and not (name in changes.keys and name in loaded.revisions)
    ]
    return _columns([(*name, loaded.revisions.get(name, 0)) for name in seen], 3)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Columns:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
