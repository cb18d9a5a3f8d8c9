"""A copy of a network that a consumer keeps by events over HTTP equals the network, on one store and on several."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal import Shoal
from shoal.core.errors import ShoalError
from shoal.core.model import Post, Share, Visibility
from shoal.library.handle import Handle
from tests.api.events.consumer import PRIVATE, PUBLIC, Copy, facts_of, key_of
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.engines import dynamodb, postgres
from tests.tiers import deep

MEMBERS = 5
ROUNDS, ACTIONS = 12, 12


class Story:
    """Random actions of members and moderators."""

    def __init__(self, shoal: Shoal, dice: Random) -> None:
        self._shoal = shoal
        self._dice = dice
        self._members: list[Handle] = []
        self._posts: list[Post] = []
        self._shares: list[tuple[Handle, Share]] = []

    async def act(self, times: int) -> None:
        while len(self._members) < MEMBERS:
            self._members.append(await self._shoal.register(f"member_{len(self._members)}"))
        for _ in range(times):
            # An action may be impossible, such as one of a suspended member.
            with suppress(ShoalError):
                await self._one()

    async def _one(self) -> None:
        dice = self._dice
        who, other = dice.choice(self._members), dice.choice(self._members)
        if len(self._posts) < 3 or dice.random() < 0.3:
            parent = dice.choice(self._posts) if self._posts and dice.random() < 0.3 else None
            visibility = dice.choice(list(Visibility))
            text = f"post {dice.random()}"
            made = await (who.comment(parent, text) if parent else who.create(text, visibility=visibility))
            self._posts.append(made)
        elif dice.random() < 0.3:
            await self._change(dice.choice(self._posts))
        else:
            await self._relate(who, other, dice.choice(self._posts))

    async def _change(self, post: Post) -> None:
        dice, shoal = self._dice, self._shoal
        author = next(member for member in self._members if member.id == post.author_id)
        match dice.randrange(5):
            case 0:
                await author.update(post, f"edited {dice.random()}")
            case 1:
                await author.update(post, visibility=dice.choice([Visibility.UNLISTED, Visibility.FOLLOWERS]))
            case 2:
                await author.delete(post)
            case 3 | 4:
                await (shoal.hide(post) if dice.random() < 0.5 else shoal.reveal(post))

    async def _relate(self, who: Handle, other: Handle, post: Post) -> None:
        dice, shoal = self._dice, self._shoal
        match dice.randrange(10):
            case 0 | 1:
                await (who.like(post) if dice.random() < 0.6 else who.unlike(post))
            case 2 | 3:
                emoji = dice.choice("🌊🐟")
                await (who.react(post, emoji) if dice.random() < 0.6 else who.unreact(post, emoji))
            case 4:
                visibility = dice.choice([Visibility.PUBLIC, Visibility.FOLLOWERS])
                self._shares.append((who, await who.share(post, visibility=visibility)))
            case 5 if self._shares:
                sharer, share = dice.choice(self._shares)
                await sharer.unshare(share)
            case 6 | 7:
                await (who.follow(other) if dice.random() < 0.6 else who.unfollow(other))
            case 8:
                await who.update_profile(display_name=f"name {dice.random()}")
            case 9:
                await (shoal.suspend(other) if dice.random() < 0.3 else shoal.restore(other))
                await shoal.settle()


def check_copies(shoal: NetworkFixture, seed: int, copies: dict[str, Copy]) -> None:
    """Tell a story, and compare the copies of a public and a private key with the network."""
    dice = Random(seed)
    story = Story(Shoal(shoal.network), dice)
    secrets = {"public": key_of(shoal, *PUBLIC), "private": key_of(shoal, *PRIVATE)}
    for _ in range(ROUNDS):
        shoal.run(story.act(ACTIONS))
        for name, secret in secrets.items():
            copies.setdefault(name, Copy()).read(shoal, secret, dice)
    shoal.settle()
    for name, secret in secrets.items():
        facts = shoal.run(facts_of(shoal.network.store, private=name == "private"))
        read_until(shoal, copies[name], secret, facts)
        assert copies[name].facts == facts, name


def read_until(shoal: NetworkFixture, copy: Copy, secret: str, facts: Mapping[str, Any]) -> None:
    """Read all events. On DynamoDB, an entry can be read a second after it was written."""
    until = time.monotonic() + 30
    copy.read(shoal, secret, Random(1))
    while copy.facts != facts and time.monotonic() < until:
        time.sleep(0.1)
        copy.read(shoal, secret, Random(1))


@pytest.fixture
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on") as made:
        yield made


@pytest.mark.parametrize("seed", [1, 2, *deep(*range(3, 30))])
def test_events_copy_of_consumer_equals_network_after_random_actions(logged: NetworkFixture, seed: int) -> None:
    copies: dict[str, Copy] = {}
    check_copies(logged, seed, copies)
    assert len(copies["private"].facts) > len(copies["public"].facts) > 0


class Databases:
    """The owner of the PostgreSQL databases of a test."""


@pytest.mark.parametrize("engine", ["sqlite", *deep("postgres", "dynamodb")])
def test_events_copy_of_sharded_network_equals_it_after_restart(tmp_path: Path, engine: str) -> None:
    owner = Databases()
    if engine == "sqlite":
        first, second = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    elif engine == "dynamodb":
        first, second = dynamodb.new_table(), dynamodb.new_table()
    else:
        first, second = asyncio.run(postgres.database(owner)), asyncio.run(postgres.database(owner))
    settings: dict[str, Any] = {"store": {"0-31": first, "32-63": second}, "event_log": "on"}
    settings |= {"media": "memory://", "tags": "memory://", "search": "memory://"}
    copies: dict[str, Copy] = {}
    with network_fixture(**settings) as shoal:
        check_copies(shoal, 1, copies)
    before = len(copies["private"].facts)
    with network_fixture(**settings) as shoal:
        secret = key_of(shoal, *PRIVATE)
        dan = shoal.join("dan")
        shoal.json("POST", "/api/v1/statuses", dan, json={"status": "after the restart"})
        shoal.settle()
        facts = shoal.run(facts_of(shoal.network.store, private=True))
        read_until(shoal, copies["private"], secret, facts)
        assert copies["private"].facts == facts
        assert len(facts) == before + 2
