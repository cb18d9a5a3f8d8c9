"""Media life cycle under random concurrency: posts keep their media, and unused media are deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, cast
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.commands import media, members, posts, scheduled_posts
from shoal.commands.context import Writes
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.commands.scheduled_posts import discard_media
from shoal.consumers import cleanup
from shoal.consumers import media as files
from shoal.consumers.context import Effects
from shoal.core.errors import Conflict, InvalidInput, NotFound, Unavailable
from shoal.core.events import FilesReleased, PostDeleted
from shoal.core.ids import EPOCH_MS, IdMaker
from shoal.core.media_files import files_of, files_of_member, with_copies
from shoal.core.model import Media, Member, Post, Revision, ScheduledPost
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Cursor, Outbox, Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import AGENDA, ATTACHED, DUE, OWNS
from shoal.media.library import MediaLibrary, StoredPicture
from shoal.outbox.runner import Consequence, Runner
from shoal.scheduler import Agenda
from tests.example_counts import examples
from tests.flows.simulation.faults import Between, Crash, Dice, Lossy, Unruly
from tests.stores import all_objects

DAY_MS = 25 * 60 * 60 * 1_000
_drop = scheduled_posts.drop
_REFUSALS = (Conflict, InvalidInput, NotFound, Unavailable)
_TABLE: Mapping[type, Sequence[Consequence[Effects]]] = {
    PostDeleted: (cleanup.release_media, cleanup.clear_revisions),
    FilesReleased: (files.remove_files,),
}


class Shelf:
    """A library that decodes nothing and records its files."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._names = count(1)
        self.files: set[str] = set()

    def is_clip(self, _data: bytes) -> bool:
        return False

    async def store_picture(self, name: str, media_id: int, data: bytes) -> StoredPicture:
        key = await self._put(f"a/{name}/{media_id}-0.jpg")
        await self._put(f"a/{name}/{media_id}-0-small-160.jpg")
        preview = await self._put(f"a/{name}/{media_id}-0-small_160.jpg")
        return StoredPicture(
            content_type="image/jpeg",
            key=key,
            preview_key=preview,
            width=1,
            height=1,
            preview_width=1,
            preview_height=1,
            size=len(data),
            blurhash="",
            file_bytes=len(data),
            preview_bytes=1,
        )

    async def store_avatar(self, name: str, _data: bytes) -> tuple[str, str]:
        number = next(self._names)
        await self._put(f"a/{name}/avatar-{number}-128.jpg")
        return await self._put(f"a/{name}/avatar-{number}_128.jpg"), ""

    async def store_header(self, name: str, _data: bytes) -> tuple[str, str]:
        return await self._put(f"a/{name}/header-{next(self._names)}.jpg"), ""

    async def remove(self, keys: Iterable[str]) -> None:
        await self._dice.pause()
        self.files.difference_update(with_copies(*keys))

    async def _put(self, key: str) -> str:
        await self._dice.pause()
        self.files.add(key)
        return key


class Scene:
    """One member with pictures and several devices, crashing workers, and a store that fails or loses replies."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.archive_storage = Shelf(self.dice)
        self.store = MemoryGraph()
        line = Lossy(self.dice, self.dice.random.choice((0.0, 0.1)), self.dice.random.choice((0.0, 0.1)))
        graph = CachedGraph(cast("Store", Between(self.store, line.reach, line.answer)), 16)
        self._now = EPOCH_MS + 10_000_000
        new_id = IdMaker(self._clock)
        library = cast("MediaLibrary", self.archive_storage)
        self.writes = Writes(graph, new_id, library)
        workshop = type("Shop", (), {"library": library})()
        unsafe = cast("Any", Between(graph, self.dice.crash, self.dice.crash))
        none = cast("Any", None)
        effects = Effects(unsafe, none, none, none, none, new_id, none, workshop)
        self.outbox = Unruly(cast("Outbox", graph), self.dice)
        self.runner = Runner(self.outbox, _TABLE, effects, attempts=1_000_000, first_delay=0.0)
        self.agenda = Agenda(Writes(unsafe, new_id, library), clock=self._clock)
        self.ann = 0
        self.dropped: set[int] = set()

    def _clock(self) -> int:
        self._now += self.dice.random.choice((0, 1, 5))
        return self._now

    async def run(self, ops: Sequence[tuple[str, int]]) -> None:
        """Run the operations, some of them concurrently; then deliver the outstanding events and deletions."""
        while not self.ann:
            with suppress(Unavailable):
                found = await members.find(self.writes, "ann") or await members.register(self.writes, "ann")
                self.ann = found.id
        in_flight: list[asyncio.Task[None]] = []
        for verb, number in ops:
            in_flight.append(asyncio.create_task(self._act(getattr(self, f"_{verb}")(number))))
            for _ in range(self.dice.random.choice((0, 1, 20, 100))):
                await asyncio.sleep(0)
        await asyncio.gather(*in_flight)
        self.dice.calm = True
        for _ in range(3):
            await self._deliver()
            await self._day(0)
        await self._deliver()
        await self.check()

    async def _act(self, act: Coroutine[Any, Any, None]) -> None:
        with suppress(*_REFUSALS, Crash):
            await act

    async def _deliver(self) -> None:
        while await self.outbox.backlog():
            await self.runner.run_once()

    # Operations

    async def _upload(self, number: int) -> None:
        await media.upload(self.writes, self.ann, b"x" * (number + 1))

    async def _post(self, number: int) -> None:
        chosen = await self._some_media(number)
        made = await posts.create(self.writes, self.ann, Draft(text="t", media=chosen))
        there = await self.store.obj_get(made.media)
        assert set(there) == set(made.media), "a post has deleted media"

    async def _edit(self, number: int) -> None:
        draft = Draft(text=f"t{number}", media=await self._some_media(number))
        await posts.update(self.writes, self.ann, (await self._some_post(number)).id, draft)

    async def _delete(self, number: int) -> None:
        await posts.delete(self.writes, self.ann, (await self._some_post(number)).id)

    async def _redraft(self, number: int) -> None:
        """Delete a post and immediately post its media again."""
        gone = await posts.delete(self.writes, self.ann, (await self._some_post(number)).id)
        await posts.create(self.writes, self.ann, Draft(text="again", media=gone.media))

    async def _discard(self, number: int) -> None:
        for id_ in await self._some_media(number):
            await discard_media(self.writes, self.ann, id_)

    async def _describe(self, number: int) -> None:
        for id_ in await self._some_media(number):
            await media.describe(self.writes, self.ann, id_, description=f"d{number}")

    async def _schedule(self, number: int) -> None:
        draft = Draft(text="later", media=await self._some_media(number))
        await scheduled_posts.schedule(self.writes, self.ann, draft, self._now + (1 + number % 3) * DAY_MS)

    async def _faces(self, number: int) -> None:
        change = ProfileChange(avatar=b"a", header=b"h" if number & 1 else None)
        acts = [members.update_profile(self.writes, self.ann, change) for _ in range(2)]
        for answer in await asyncio.gather(*acts, return_exceptions=True):
            assert isinstance(answer, Member | Conflict | Unavailable), answer

    async def _bare(self, number: int) -> None:
        await members.remove_picture(self.writes, self.ann, ("avatar", "header")[number & 1])

    async def _work(self, _number: int) -> None:
        await self.runner.run_once()

    async def _day(self, _number: int) -> None:
        self._now += DAY_MS
        await self.agenda.once()

    async def drop(self, writes: Writes, scheduled: ScheduledPost) -> None:
        """Drop an unpublishable scheduled post like the agenda does, and record its missing media."""
        named = scheduled_posts.draft_of(scheduled).media
        self.dropped |= {*named} - {*await self.store.obj_get(named)}
        await _drop(writes, scheduled)

    async def _some_media(self, number: int) -> list[int]:
        owned = await self.store.assoc_range(self.ann, OWNS, Cursor(limit=4))
        return [entry.id2 for at, entry in enumerate(owned) if number >> at & 1]

    async def _some_post(self, number: int) -> Post:
        there = [node for node in await all_objects(self.store) if isinstance(node, Post)]
        if not there:
            raise NotFound("there is none yet")
        return there[number % len(there)]

    # Invariants

    async def check(self) -> None:
        """Check the remaining objects, files, tickets of the agenda, and counted bytes."""
        nodes = await all_objects(self.store)
        kept = {node.id: node for node in nodes if isinstance(node, Media)}
        (ann,) = [node for node in nodes if isinstance(node, Member)]
        assert self.archive_storage.files == {key for node in kept.values() for key in files_of(node)} | {
            *files_of_member(ann)
        }
        used = {id_ for node in nodes if isinstance(node, Post | Revision) for id_ in node.media}
        planned = {
            id_ for node in nodes if isinstance(node, ScheduledPost) for id_ in scheduled_posts.draft_of(node).media
        }
        assert used <= set(kept) <= used | planned
        assert planned <= set(kept)
        assert not self.dropped, "a scheduled post was not published because its media were deleted first"
        for node in kept.values():
            attached = await self.store.assoc_range(node.id, ATTACHED, Cursor(limit=100))
            assert bool(attached) is (node.id in used) is (not node.unused_since), node
            assert not (node.let_go and attached)
        assert ann.media_bytes == sum(node.stored for node in kept.values())
        tickets = {entry.id2 for entry in await self.store.assoc_range(AGENDA, DUE, Cursor(limit=1_000))}
        plans = {node.ticket_id for node in nodes if isinstance(node, Media | ScheduledPost)} - {0}
        assert tickets == plans


VERBS = {
    "upload": 5,
    "post": 5,
    "edit": 3,
    "delete": 3,
    "redraft": 2,
    "discard": 2,
    "describe": 2,
    "schedule": 3,
    "faces": 2,
    "bare": 1,
    "work": 4,
    "day": 3,
}
OPS = st.tuples(st.sampled_from([verb for verb, weight in VERBS.items() for _ in range(weight)]), st.integers(0, 15))


@settings(deadline=None, max_examples=examples(100, full=200))
@given(seed=st.integers(0, 2**32), ops=st.lists(OPS, min_size=10, max_size=40))
def test_media_in_posts_are_kept_and_unused_media_deleted_after_random_operations(
    seed: int, ops: list[tuple[str, int]]
) -> None:
    logging.disable(logging.ERROR)
    try:
        scene = Scene(seed)
        with patch("shoal.outbox.runner._SLICE_SECONDS", -1.0), patch.object(scheduled_posts, "drop", scene.drop):
            asyncio.run(scene.run(ops))
    finally:
        logging.disable(logging.NOTSET)
