"""The network that GoToSocial was measured with: 1,001 members, 49,136 follows, one member followed by all, 5,000 posts.

It is created through the commands, so the store has the rows that a server would write. Members 0 to 999 each follow the 48 at
fixed distances from them, and the celebrity, member 1,000. Each of 68 authors gets two additional followers, one of them the
probe, so that their posts go to exactly 50.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.measure import Figure
from benchmarks.stores import url_of
from shoal.app.network import Network, open_network
from shoal.commands import members, oauth, posts, relationships
from shoal.commands.posts import Draft
from shoal.settings import Settings

T = TypeVar("T")

_AT_ONCE = 256
_TEXT = (
    "Low tide, number {}: the boats lie on the sand and wait, and the light goes gray over the harbour wall at six. "
    "Nobody hurries; the ferry is late again and the gulls have the quay to themselves. #harbour"
)
_SCOPES = ("read", "write", "follow")


class Shape(msgspec.Struct, frozen=True):
    """The size of the network: `circle` members in a ring, and one celebrity."""

    circle: int = 1_000
    each: int = 48
    authors: int = 68
    posts: int = 5_000

    @classmethod
    def of(cls, circle: int) -> Shape:
        """Return the shape for a circle of this size, in which every home page is full."""
        return cls() if circle == cls().circle else cls(circle, circle // 5, circle // 3, 25 * circle)


class Keys(msgspec.Struct, frozen=True):
    """Tokens for a client: of every member, of the authors with 50 followers, and of a member who follows these authors."""

    all: list[str]
    authors: list[str]
    probe: str
    figures: list[Figure] = []


def follows_of(shape: Shape) -> tuple[list[tuple[int, int]], list[int]]:
    """Return follower and followee positions, and the authors with two additional followers."""
    steps = [1 + 19 * step % (shape.circle - 1) for step in range(shape.each)]
    pairs = {(member, (member + step) % shape.circle) for member in range(shape.circle) for step in steps}
    pairs |= {(member, shape.circle) for member in range(shape.circle)}
    strangers = [author for author in range(1, shape.circle) if (0, author) not in pairs]
    authors = strangers[: shape.authors]
    for author in authors:
        pairs.add((0, author))
        pairs.add(next((f, author) for f in range(1, shape.circle) if f != author and (f, author) not in pairs))
    return sorted(pairs), authors


async def build(path: Path, shape: Shape) -> Keys:
    """Create the network in a new store."""
    return await build_on(Settings(store=url_of(path), media="memory://"), shape)


async def kept(place: Path, shape: Shape) -> tuple[Path, Keys]:
    """Return the store in a folder and its tokens; both are created if no earlier run did."""
    store, told = place / f"http-{shape.circle}.db", place / f"http-{shape.circle}.json"
    if told.exists():
        return store, msgspec.json.decode(told.read_bytes(), type=Keys)
    keys = await build(store, shape)
    told.write_bytes(msgspec.json.encode(keys))
    return store, keys


async def build_on(settings: Settings, shape: Shape) -> Keys:
    async with open_network(settings) as network:
        return await _fill(network, shape)


async def _fill(network: Network, shape: Shape) -> Keys:
    writes = network.writes
    made = await _many(members.register(writes, f"member_{index}") for index in range(shape.circle + 1))
    ids = [member.id for member in made]
    pairs, authors = follows_of(shape)
    await _many(relationships.follow(writes, ids[one], ids[other]) for one, other in pairs)
    texts = [Draft(text=_TEXT.format(number)) for number in range(shape.posts)]
    # The celebrity follows no member, so only 20 own posts make their home page full.
    await _many(
        posts.create(writes, ids[number % len(ids) if number % 100 else -1], draft)
        for number, draft in enumerate(texts)
    )
    app = (await oauth.register(writes, "bench", scopes=_SCOPES)).app
    tokens = [token.text for token in await _many(oauth.issue_token(writes, app.id, id_, _SCOPES) for id_ in ids)]
    await network.runner.drain(300)
    figures = [
        Figure("network: members", len(ids)),
        Figure("network: follows", len(pairs)),
        Figure("network: posts", shape.posts),
    ]
    return Keys(tokens, [tokens[author] for author in authors], tokens[0], figures)


async def _many(work: Iterable[Awaitable[T]]) -> Sequence[T]:
    done: list[T] = []
    waiting: list[Awaitable[T]] = []
    for one in work:
        waiting.append(one)
        if len(waiting) == _AT_ONCE:
            done += await asyncio.gather(*waiting)
            waiting.clear()
    return done + list(await asyncio.gather(*waiting))
