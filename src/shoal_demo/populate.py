"""Execution of a demo plan through the commands, as its members would.

It can be interrupted and restarted: posts have an idempotency record, and everything else may be repeated.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from shoal.commands import authentication, lists, media, members, posts, reactions, relationships
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.core.errors import Taken
from shoal.core.ids import compose, shard_of
from shoal.core.licenses import License
from shoal.core.model import Member, Visibility
from shoal.graph.access import access_member
from shoal.graph.contract import Cursor
from shoal.graph.schema import BOOKMARK, OWNS_LIST, user_name_key
from shoal_demo.model import DemoPlan, PlannedPost
from shoal_demo.photos import header, photos, read
from shoal_demo.portraits import portrait
from shoal_demo.stories import LIST

T = TypeVar("T")
Advance = Callable[[str], None]
"""A progress callback, called with the kind of each created object, such as "posts"."""

_AT_ONCE = 32


class Stage:
    def __init__(self, writes: Writes, plan: DemoPlan, password: str, advance: Advance) -> None:
        self._writes = writes
        self._plan = plan
        self._password = password
        self._hashed = ""
        self._advance = advance
        self._members: list[int] = []
        self._posts: dict[int, int] = {}

    async def run(self) -> None:
        """Create everything, in the order in which objects depend on each other."""
        # Hash the one password of all members only once, because hashing takes 0.1 s by design.
        self._hashed = await authentication.hashed(self._password)
        with _artists() as artists:
            self._members = await _each(range(len(self._plan.people)), lambda index: self._join(artists, index))
            await _each(self._plan.follows, lambda pair: self._follow(*pair))
        for wave in _waves(self._plan.posts):
            await _each(wave, self._post)
        await _each(self._plan.likes, lambda pair: self._like(*pair))
        await _each(self._plan.shares, lambda triple: self._share(*triple))
        await self._write_messages()
        await self._fill_account_of_hero()

    async def _join(self, artists: ProcessPoolExecutor, index: int) -> int:
        person = self._plan.people[index]
        try:
            joined = self._plan.posts[0].moment - 86_400_000
            member = await members.register(
                self._writes, person.name, hashed=self._hashed, display_name=person.display_name, created_at=joined
            )
        except Taken:
            member = await self._known(person.name)
        if not member.avatar:
            photo = self._plan.header(index)
            profile = members.ProfileChange(
                note=person.bio,
                avatar=await _draw(artists, portrait, person),
                header=await _draw(artists, header, photo) if photo else None,
            )
            await members.update_profile(self._writes, member.id, profile)
        self._advance("members")
        return member.id

    async def _known(self, name: str) -> Member:
        key = user_name_key(name)
        return await access_member(self._writes.graph, (await self._writes.graph.key_get((key,)))[key])

    async def _follow(self, follower: int, followed: int) -> None:
        await relationships.follow(self._writes, self._members[follower], self._members[followed])
        self._advance("follows")

    async def _post(self, index: int) -> None:
        planned = self._plan.posts[index]
        author = self._members[planned.author]
        record = f"demo:{index}"
        free = bool(planned.photos) and all(photos()[name].license == "CC0 1.0" for name in planned.photos)
        pictures = [] if await posts.recorded(self._writes, author, record) else await self._pictures(planned)
        draft = Draft(
            text=planned.text,
            language=planned.language,
            visibility=planned.visibility,
            media=pictures,
            parent_id=self._posts[planned.parent] if planned.parent is not None else 0,
            place=planned.place,
            license=License.CC0 if free else License.RESERVED,
            downloads=free,
        )
        id_ = compose(planned.moment, shard_of(author), index % 1024)
        self._posts[index] = (await posts.create(self._writes, author, draft, id_=id_, record=record)).id
        self._advance("posts")

    async def _pictures(self, planned: PlannedPost) -> list[int]:
        made: list[int] = []
        for name in planned.photos:
            alt = photos()[name].description
            picture = await media.upload(self._writes, self._members[planned.author], read(name), description=alt)
            made.append(picture.id)
            self._advance("photos")
        return made

    async def _like(self, member: int, post: int) -> None:
        await reactions.like(self._writes, self._members[member], self._posts[post])
        self._advance("likes")

    async def _share(self, member: int, post: int, moment: int) -> None:
        sharer = self._members[member]
        id_ = compose(moment, shard_of(sharer), post % 1024)
        await reactions.share(self._writes, sharer, self._posts[post], id_=id_)
        self._advance("shares")

    async def _write_messages(self) -> None:
        made: list[int] = []
        for index, message in enumerate(self._plan.messages):
            author = self._members[message.author]
            draft = Draft(
                text=f"@{self._plan.people[message.recipient].name} {message.text}",
                visibility=Visibility.DIRECT,
                parent_id=made[message.parent] if message.parent is not None else 0,
            )
            id_ = compose(message.moment, shard_of(author), index)
            made.append((await posts.create(self._writes, author, draft, id_=id_, record=f"demo:message:{index}")).id)
            self._advance("messages")

    async def _fill_account_of_hero(self) -> None:
        """Save posts, follow tags and create a list, so that these pages of the member whom visitors try are not empty."""
        hero = self._members[self._plan.hero]
        for post in self._plan.saved:
            await reactions.mark(self._writes, hero, self._posts[post], BOOKMARK)
        for tag in self._plan.followed_tags:
            await relationships.follow_tag(self._writes, hero, tag)
        if self._plan.listed and not await self._writes.graph.assoc_range(hero, OWNS_LIST, Cursor(limit=1)):
            made = await lists.create(self._writes, hero, LIST[0])
            await lists.put_on(self._writes, hero, made.id, [self._members[one] for one in self._plan.listed])


def _waves(planned: Sequence[PlannedPost]) -> list[list[int]]:
    """Return lists of indexes: posts, comments on these posts, comments on these comments, and so on.

    A list depends only on earlier lists, so its posts can be created concurrently.
    """
    depth: list[int] = []
    for post in planned:
        depth.append(0 if post.parent is None else depth[post.parent] + 1)
    return [[index for index, at in enumerate(depth) if at == wave] for wave in range(max(depth, default=-1) + 1)]


async def _draw(artists: ProcessPoolExecutor, draw: Callable[[Any], bytes], what: Any) -> bytes:
    """Draw a picture in another process, because it takes 0.1 s of processor time."""
    with _no_interrupts():
        drawing = asyncio.get_running_loop().run_in_executor(artists, draw, what)
    return await drawing


@contextmanager
def _artists() -> Iterator[ProcessPoolExecutor]:
    """Yield a process pool for drawing. After an error, wait only for the drawings that have begun."""
    context = multiprocessing.get_context("spawn")
    artists = ProcessPoolExecutor(max(1, os.cpu_count() or 1), context, initializer=_end_with_parent)
    try:
        yield artists
    finally:
        artists.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Exit when the parent process does. Without this, a worker of the pool would not notice that its parent was killed."""
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), name="shoal-parent", daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block SIGINT during the block.

    Processes that start in the block inherit this, so Ctrl-C in the terminal does not interrupt them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _each(things: Iterable[Any], act: Callable[[Any], Coroutine[Any, Any, T]]) -> list[T]:
    """Call `act` for all things, for up to `_AT_ONCE` concurrently. Return the results in order."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(thing: Any) -> T:
        async with limit:
            return await act(thing)

    return list(await asyncio.gather(*map(one, things)))
