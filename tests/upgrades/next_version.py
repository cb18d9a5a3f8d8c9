"""The command line of the version after this one: today's code with one more schema version and one more kind of event.

    python -m tests.upgrades.next_version --store URL serve

Its migration only expands the schema: nullable columns, a table and an index. It adds a key `tide_wanted` for each new post and
emits a new event, whose consumer adds a key `tide`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from shoal.core import events
from shoal.core.errors import Taken
from shoal.core.events import Event, PostCreated
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.graph.migrations import Migration, TableIndex
from shoal.graph.postgres import migrations, owner
from shoal.graph.schema import Key
from shoal.graph.sqlite import sql as sqlite
from shoal.multiprocess.supervisor import Supervisor

WANTED, MADE = "tide_wanted", "tide"
_SELF = "tests.upgrades.next_version"


class TideTurned(Event, frozen=True, tag="tide_turned"):
    """The new event, emitted for each new post."""

    post_id: int


def _expanded(now: Sequence[Migration], schema: str) -> tuple[Migration, ...]:
    tables = ("object", "association", "key", "outbox", "buried", *(() if schema else ("displaced", "block")))
    columns = "".join(f"ALTER TABLE {schema}{table} ADD COLUMN tide INTEGER;" for table in tables)
    parts = (
        f"{columns} CREATE TABLE {schema}tide (id INTEGER PRIMARY KEY)",
        TableIndex("object_by_tide", f"{schema}object (tide)"),
    )
    return (*now, Migration(parts, readable_from=len(now)))


async def turn(effects: Any, event: TideTurned, _mark: int) -> None:
    """Add the key `tide` of a post."""
    batch = Batch(shard_of(event.post_id))
    batch.key_add(Key(shard_of(event.post_id), MADE, str(event.post_id)), event.post_id)
    try:
        await effects.graph.commit(batch)
    except Taken:
        return


def become() -> None:
    """Turn this process into one of the next version. Call this before it opens a store."""
    sqlite.MIGRATIONS = _expanded(sqlite.MIGRATIONS, "")
    migrations.GRAPH = migrations.GRAPH._replace(migrations=_expanded(migrations.GRAPH.migrations, "shoal."))
    for function in (migrations.migrate, migrations.check_version):
        function.__defaults__ = (migrations.GRAPH,)
    owner.__dict__["SESSION_NAME"] = f"{migrations.SESSION}{len(migrations.GRAPH.migrations)}"
    events._decoder = cast("Any", msgspec.msgpack.Decoder(events._KnownEvent | TideTurned))
    emit = Batch.emit

    def emit_more(batch: Batch, event: Any) -> None:
        emit(batch, event)
        if isinstance(event, PostCreated):
            emit(batch, cast("Any", TideTurned(post_id=event.post_id)))
            batch.key_add(Key(shard_of(event.post_id), WANTED, str(event.post_id)), event.post_id)

    Batch.emit = emit_more  # type: ignore[method-assign,assignment]
    begin = Supervisor.__init__

    def begin_next(supervisor: Supervisor, command: Sequence[str], processes: int, **more: Any) -> None:
        begin(supervisor, [_SELF if part == "shoal.cli" else part for part in command], processes, **more)

    Supervisor.__init__ = begin_next  # type: ignore[method-assign,assignment]
    # The table's modules read the schema versions when they are imported, so import them only now.
    from shoal.consumers.table import TABLE  # noqa: PLC0415

    cast("dict[type, Any]", cast("Mapping[type, Any]", TABLE))[TideTurned] = (turn,)


if __name__ == "__main__":
    become()
    from shoal.cli import main

    main()
