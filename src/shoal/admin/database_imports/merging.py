"""Commits of many objects at once: a commit costs far more than the rows in it.

Batches that are independent of each other are merged, and committed as one on each store. If anything prevents the commit, such as
a row that an interrupted import stored, nothing of it is stored, and the batches are done one by one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from shoal.admin.database_imports.session import AT_ONCE, Session, parts_of
from shoal.admin.throttling import run_bounded
from shoal.core.errors import Conflict, TooLarge
from shoal.core.events import ImportedTagsUsed, TagsUsed
from shoal.graph.bulk import grouped
from shoal.graph.contract import Batch

T = TypeVar("T")

_OPERATIONS = 20_000
"""Maximum number of associations of a merged batch."""
_USES = 250
"""Posts in an event about their tags."""
_COMMITS_AT_ONCE = 2
"""Merged batches in progress: one is prepared while the store writes another."""


def merged(batches: Sequence[Batch]) -> Batch:
    """Return one batch that does everything that these batches of one store do."""
    whole = Batch(batches[0].shard)
    for batch in batches:
        whole.objects += batch.objects
        whole.assocs += batch.assocs
        whole.keys += batch.keys
        whole.events += [event for event in batch.events if not isinstance(event, TagsUsed)]
        whole.expects += batch.expects
        whole.fresh |= batch.fresh
    used = [event for batch in batches for event in batch.events if isinstance(event, TagsUsed)]
    whole.events += [ImportedTagsUsed(uses=tuple(part)) for part in parts_of(used, _USES)]
    whole.presumed_new = whole.bulk = True
    return whole


async def commit_merged(
    session: Session, planned: Iterable[tuple[T, Batch]], alone: Callable[[T], Awaitable[None]]
) -> list[T]:
    """Commit batches together, and return the entries whose batches were committed. Call `alone` for all others.

    Args:
        session: The import, into a network that was empty.
        planned: Entries with their batches. The batches have different objects and keys.
        alone: Does the work of an entry by itself. It may be called again for the same entry after `Unavailable`.
    """
    done: list[T] = []
    failed: list[T] = []

    async def commit(entries: Sequence[tuple[T, Batch]]) -> None:
        try:
            await session.writes.graph.commit(merged([batch for _, batch in entries]))
        except (Conflict, TooLarge, ValueError):
            # `ValueError`: some of the shards were moved to another store in between.
            failed.extend(entry for entry, _ in entries)
        else:
            done.extend(entry for entry, _ in entries)

    store_of = session.bulk.store_of if session.bulk else _one_store
    patience = session.options.patience
    stores = grouped(planned, lambda entry: store_of(entry[1].shard)).values()
    await run_bounded(
        (part for entries in stores for part in _parts(entries)), commit, _COMMITS_AT_ONCE, patience=patience
    )
    await run_bounded(failed, alone, AT_ONCE, patience=patience)
    return done


def _parts(entries: Sequence[tuple[T, Batch]]) -> Iterator[Sequence[tuple[T, Batch]]]:
    first = size = 0
    for at, (_, batch) in enumerate(entries):
        if size and size + len(batch.assocs) > _OPERATIONS:
            yield entries[first:at]
            first, size = at, 0
        size += len(batch.assocs)
    yield entries[first:]


def _one_store(_shard: int) -> int:
    return 0
