"""A server that is killed while it applies or undoes a bulk action finishes it after its restart."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from shoal import Shoal
from shoal.admin.bulk_moderation import ApplyBulk, UndoBulk
from shoal.cli.stores import perform
from shoal.core.bulk_moderation import BulkQuery, BulkState
from shoal.core.model import Post
from shoal.graph.schema import BULK_CHANGED
from shoal.settings import build
from tests.async_runner import in_loop
from tests.flows.test_bulk_moderation import assert_consistent
from tests.server_process import served

POSTS, SECONDS = 600, 120.0
KILLED_AT = (1, 60, 150, 300)
"""Numbers of posts that have changed when the server is killed."""


def marks(store: Path) -> int:
    """Return the number of posts that bulk actions have changed."""
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT count(*) FROM association WHERE atype = ? AND alive = 1", (BULK_CHANGED.number,)
        )
        return int(rows.fetchone()[0])


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def kill_repeatedly(store: Path, begin: ApplyBulk | UndoBulk) -> None:
    """Begin an action, kill the server several times before it is done, and let another server finish it."""
    undoing, done = isinstance(begin, UndoBulk), 0 if isinstance(begin, UndoBulk) else POSTS
    begun = False
    for number in KILLED_AT:
        changed = POSTS - marks(store) if undoing else marks(store)
        slow_after = str(max(1, number - changed))
        # On a busy machine, the server could otherwise finish the action before this process notices its progress.
        with served(store, module="tests.faults.slow_bulk_actions", SLOW_AFTER=slow_after) as server:
            if not begun:
                perform(build(store=f"sqlite:///{store}"), begin)
                begun = True
            wait_for(lambda number=number: marks(store) <= POSTS - number if undoing else marks(store) >= number)  # type: ignore[misc]
            server.kill()
        assert 0 < marks(store) < POSTS, "the server was too fast to prove anything"
    with served(store):
        wait_for(lambda: marks(store) == done)


@in_loop
async def test_bulk_action_of_killed_server_changes_and_restores_all_posts(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        ann = await shoal.register("ann")
        made = [await ann.create(f"spam {n}") for n in range(POSTS)]
        hidden = made.pop()
        await shoal.hide(hidden)
        made.append(await ann.create("spam"))
        action = (await shoal.bulk_moderation.preview(BulkQuery(words=("spam",)), "hide")).action
        assert set(action.post_ids) == {post.id for post in made}
    for begin, state, is_hidden in (
        (ApplyBulk(action.id), BulkState.APPLIED, True),
        (UndoBulk(action.id), BulkState.UNDONE, False),
    ):
        await asyncio.to_thread(kill_repeatedly, store, begin)
        async with Shoal.open(f"sqlite:///{store}") as shoal:
            await assert_consistent(shoal)
            shown = (await shoal.bulk_moderation.show(action.id)).action
            assert (shown.state, shown.changed) == (state, POSTS if is_hidden else 0)
            found = await shoal.network.store.obj_get([hidden.id, *action.post_ids])
            flags = {id_: bool(node.hidden) for id_, node in found.items() if isinstance(node, Post)}
            assert flags == {hidden.id: True, **dict.fromkeys(action.post_ids, is_hidden)}
