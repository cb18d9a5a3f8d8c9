"""Conversations: a member's view of a thread of direct posts, independent of the order and repetition of events."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import permutations
from typing import Any, cast

import pytest

from shoal.app.network import Network, open_network
from shoal.commands import conversations, members, posts
from shoal.commands.posts import Draft
from shoal.consumers.context import Effects
from shoal.consumers.conversations import go_on
from shoal.core.events import PostCreated
from shoal.core.model import Post, Visibility
from shoal.graph.contract import Assoc, Cursor, Graph
from shoal.graph.payloads.conversations import Talk, talk_of
from shoal.graph.schema import CONVERSES
from shoal.settings import build
from tests.async_runner import in_loop


class Meeting:
    """A graph whose first readers of a conversation wait for each other, so that all read one state."""

    def __init__(self, graph: Graph, guests: int) -> None:
        self._graph = graph
        self._guests = asyncio.Barrier(guests)
        self._left = guests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def assoc_get(self, id1: int, atypes: Any, id2s: Any) -> Any:
        found = await self._graph.assoc_get(id1, atypes, id2s)
        if CONVERSES in atypes and self._left:
            self._left -= 1
            await self._guests.wait()
        return found


async def a_thread(network: Network) -> tuple[int, int, list[Post]]:
    """Return Ann, Ben and a thread of direct posts by Ann, Ann, Ben and Ann."""
    ann, ben = [(await members.register(network.writes, name)).id for name in ("ann", "ben")]
    told: list[Post] = []
    for author, text in ((ann, "@ben 1"), (ann, "@ben 2"), (ben, "@ann 3"), (ann, "@ben 4")):
        parent = told[0].id if told else 0
        draft = Draft(text=text, visibility=Visibility.DIRECT, parent_id=parent)
        told.append(await posts.create(network.writes, author, draft))
    return ann, ben, told


def event(post: Post) -> PostCreated:
    return PostCreated(
        post_id=post.id,
        author_id=post.author_id,
        visibility=post.visibility,
        mention_ids=tuple(mention.id for mention in post.mentions),
    )


async def held(network: Network, member: int) -> Assoc:
    (found,) = await network.store.assoc_range(member, CONVERSES, Cursor(limit=5))
    return found


async def talk(network: Network, member: int) -> Talk:
    return talk_of(await held(network, member))


def newest_first(told: list[Post]) -> tuple[int, ...]:
    return tuple(post.id for post in reversed(told))


@pytest.mark.parametrize("at_once", [2, 4])
@in_loop
async def test_conversation_posts_processed_concurrently_are_all_recorded(at_once: int) -> None:
    async with open_network(build(store="memory://"), background=False) as network:
        ann, ben, told = await a_thread(network)
        for post in told[: 4 - at_once]:
            await go_on(network.effects, event(post), 0)
        # Each post is processed for both members.
        graph = cast("Graph", Meeting(network.effects.graph, 2 * at_once))
        effects: Effects = replace(network.effects, graph=graph)
        await asyncio.gather(*(go_on(effects, event(post), 0) for post in told[4 - at_once :]))
        for member, unread in ((ann, False), (ben, True)):
            assert await talk(network, member) == Talk(told[0].id, unread, newest_first(told))


@in_loop
async def test_conversation_posts_processed_in_any_order_and_twice_give_equal_state() -> None:
    for order in permutations(range(4)):
        async with open_network(build(store="memory://"), background=False) as network:
            ann, ben, told = await a_thread(network)
            for at in (*order, *order):
                await go_on(network.effects, event(told[at]), 0)
            for member, unread in ((ann, False), (ben, True)):
                assert await talk(network, member) == Talk(told[0].id, unread, newest_first(told))


@in_loop
async def test_conversation_read_marker_is_kept_when_older_post_arrives_late() -> None:
    async with open_network(build(store="memory://"), background=False) as network:
        _, ben, told = await a_thread(network)
        await go_on(network.effects, event(told[3]), 0)
        await conversations.mark(network.writes, ben, told[0].id, unread=False)
        await go_on(network.effects, event(told[1]), 0)
        await go_on(network.effects, event(told[3]), 0)
        assert await talk(network, ben) == Talk(told[0].id, False, (told[3].id, told[1].id, told[0].id))


@in_loop
async def test_conversation_removed_is_restored_by_next_post_only() -> None:
    async with open_network(build(store="memory://"), background=False) as network:
        _, ben, told = await a_thread(network)
        for post in told[:3]:
            await go_on(network.effects, event(post), 0)
        await conversations.remove(network.writes, ben, told[0].id)
        for post in told[:3]:
            await go_on(network.effects, event(post), 0)
        assert await network.store.assoc_range(ben, CONVERSES, Cursor(limit=5)) == []
        await go_on(network.effects, event(told[3]), 0)
        assert (await talk(network, ben)).unread
