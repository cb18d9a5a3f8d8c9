"""Relationship actions between three members match a small model; concurrent actions leave a consistent graph."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.commands import lists, members, relationships
from shoal.commands.members import ProfileChange
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import ShoalError, Unavailable
from shoal.core.model import MemberList
from shoal.core.placement import place, source_of
from shoal.graph.contract import AssocRow, Cursor
from shoal.graph.schema import ASSOC_TYPES, BLOCKS, ENDORSES, FOLLOWS, LISTS, REQUESTS, WATCHES
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.queries import home
from tests.async_runner import run
from tests.example_counts import examples
from tests.flows.members import register, texts

_FIRST = -(2**63)
_KINDS = {"follows": FOLLOWS, "asks": REQUESTS, "blocks": BLOCKS, "watches": WATCHES, "endorses": ENDORSES}
_ENDING = ("follows", "asks", "watches", "endorses", "listed", "wishes")
_PLACES = (*[(0, 1)] * 4, (1, 0), (1, 0), (2, 1), (0, 2))
"""Mostly one pair, so that actions interact."""
_ACTS = (
    "follow",
    "follow",
    "watch",
    "unfollow",
    "authorize",
    "reject",
    "block",
    "unblock",
    "lock",
    "unlock",
    "remove",
    "endorse",
    "list",
    "list",
)

Pair = tuple[int, int]
Act = tuple[str, Pair]
acts = st.lists(st.tuples(st.sampled_from(_ACTS), st.sampled_from(_PLACES)), max_size=30)


class Model:
    """A model of relationships: pairs of actor and target, by their positions."""

    def __init__(self) -> None:
        self.locked: set[int] = set()
        self.pairs: dict[str, set[Pair]] = {kind: set() for kind in (*_KINDS, "listed", "wishes")}

    def act(self, act: str, pair: Pair) -> bool:
        """Apply an action, and return whether it is allowed."""
        back = (pair[1], pair[0])
        if act in ("lock", "unlock"):
            (self.locked.add if act == "lock" else self.locked.discard)(pair[0])
        elif act in ("follow", "watch"):
            return self._follow(pair, watch=act == "watch")
        elif act in ("authorize", "reject"):
            return self._answer(back, agreed=act == "authorize")
        elif act == "unfollow" or (act == "remove" and self._is("follows", back)):
            self._part(pair if act == "unfollow" else back)
        elif act == "block":
            self.pairs["blocks"].add(pair)
            self._part(pair)
            self._part(back)
        elif act == "unblock":
            self.pairs["blocks"].discard(pair)
        elif act in ("endorse", "list"):
            return self._hang_on(pair, "endorses" if act == "endorse" else "listed")
        return True

    def _is(self, kind: str, pair: Pair) -> bool:
        return pair in self.pairs[kind]

    def _follow(self, pair: Pair, *, watch: bool) -> bool:
        if self._is("blocks", pair) or self._is("blocks", (pair[1], pair[0])):
            return False
        asks = pair[1] in self.locked and not self._is("follows", pair)
        if not asks:
            self.pairs["asks"].discard(pair)
            self.pairs["wishes"].discard(pair)
        self.pairs["asks" if asks else "follows"].add(pair)
        if watch:
            self.pairs["wishes" if asks else "watches"].add(pair)
        return True

    def _answer(self, pair: Pair, *, agreed: bool) -> bool:
        if not self._is("asks", pair):
            return False
        watch = self._is("wishes", pair)
        self._part(pair)
        if agreed:
            self.pairs["follows"].add(pair)
            self.pairs["watches"] |= {pair} if watch else set()
        return True

    def _part(self, pair: Pair) -> None:
        for kind in _ENDING:
            self.pairs[kind].discard(pair)

    def _hang_on(self, pair: Pair, kind: str) -> bool:
        if not self._is("follows", pair) or (kind == "listed" and self._is("listed", pair)):
            return False
        self.pairs[kind].add(pair)
        return True


class Three:
    """Three members, each with a list."""

    def __init__(self, shoal: Shoal, people: Sequence[Handle], owned: Sequence[MemberList]) -> None:
        self.shoal = shoal
        self.people = people
        self.owned = owned
        self._place = {handle.id: place for place, handle in enumerate(people)}

    async def act(self, act: str, pair: Pair) -> bool:
        """Run an action, and return whether it was accepted."""
        writes = self.shoal.network.writes
        one, other = self.people[pair[0]].id, self.people[pair[1]].id
        verbs: dict[str, Callable[[], Awaitable[object]]] = {
            "follow": lambda: relationships.follow(writes, one, other),
            "watch": lambda: relationships.follow(writes, one, other, FollowOptions(notify=True)),
            "unfollow": lambda: relationships.unfollow(writes, one, other),
            "authorize": lambda: relationships.authorize_request(writes, one, other),
            "reject": lambda: relationships.reject_request(writes, one, other),
            "block": lambda: relationships.block(writes, one, other),
            "unblock": lambda: relationships.unblock(writes, one, other),
            "lock": lambda: members.update_profile(writes, one, ProfileChange(locked=True)),
            "unlock": lambda: members.update_profile(writes, one, ProfileChange(locked=False)),
            "remove": lambda: relationships.remove_follower(writes, one, other),
            "endorse": lambda: relationships.endorse(writes, one, other),
            "list": lambda: lists.put_on(writes, one, self.owned[pair[0]].id, [other]),
        }
        try:
            await verbs[act]()
        except ShoalError:
            return False
        return True

    async def rows(self) -> list[AssocRow]:
        """Return all live associations."""
        rows = await self.shoal.network.store.assoc_scan((_FIRST, 0, _FIRST), 100_000)
        return [row for row in rows if row.alive]

    async def pairs(self) -> dict[str, set[Pair]]:
        """Return the pairs of members in the graph, by their positions."""
        rows, place = await self.rows(), self._place
        found = {
            kind: {(place[row.id1], place[row.id2]) for row in rows if row.atype == atype.number}
            for kind, atype in _KINDS.items()
        }
        owner = {made.id: place[made.owner_id] for made in self.owned}
        found["listed"] = {(owner[row.id1], place[row.id2]) for row in rows if row.atype == LISTS.number}
        return found

    async def ends_that_miss_the_other(self) -> list[AssocRow]:
        """Return associations without their inverse."""
        rows = await self.rows()
        there = {(row.id1, row.atype, row.id2) for row in rows}
        inverse = {number: atype.inverse for number, atype in ASSOC_TYPES.items()}
        return [row for row in rows if inverse[row.atype] and (row.id2, inverse[row.atype], row.id1) not in there]

    async def wrong_homes(self) -> list[str]:
        """Return the names of members whose home timeline differs from its definition."""
        reads, at = self.shoal.network.reads, Cursor(limit=9)
        return [
            handle.name
            for handle in self.people
            if texts(await home.page(reads, handle.id, at)) != texts(await home.definition(reads, handle.id, at))
        ]


def _names() -> Iterator[str]:
    """Yield three names; the second lies in the other of two stores."""
    for number, low in enumerate((True, False, True)):
        yield next(
            name for name in map(f"m{number}x{{}}".format, range(99)) if (source_of(place(name).shard) < 32) is low
        )


@asynccontextmanager
async def three(stores: int) -> AsyncIterator[Three]:
    """Yield three members who have posted and read their home timelines."""
    url = "memory://" if stores == 1 else {"0-31": "memory://one", "32-63": "memory://two"}
    async with Shoal.open(url) as shoal:
        assert shoal.network.effects.across is (stores > 1)
        people = await register(shoal, *_names())
        owned = [await lists.create(shoal.network.writes, handle.id, "friends") for handle in people]
        for handle in people:
            await handle.create("hello")
            await handle.home()
        yield Three(shoal, people, owned)


@pytest.mark.parametrize("stores", [1, 2])
@given(acts=acts)
@settings(max_examples=examples(30, full=60), deadline=None)
def test_relationship_actions_in_random_order_match_reference_model(stores: int, acts: list[Act]) -> None:
    async def main() -> None:
        async with three(stores) as trio:
            model = Model()
            for act, pair in acts:
                assert await trio.act(act, pair) is model.act(act, pair), (act, pair)
                if act in ("unfollow", "remove", "block"):
                    # Dependents of a follow are deleted in the background, unless they are created again first.
                    await trio.shoal.settle()
                found = await trio.pairs()
                assert all(found[kind] == model.pairs[kind] for kind in ("follows", "asks", "blocks")), (act, pair)
            await trio.shoal.settle()
            assert await trio.pairs() == {kind: model.pairs[kind] for kind in (*_KINDS, "listed")}
            assert await trio.ends_that_miss_the_other() == []
            assert await trio.wrong_homes() == []

    run(main())


@pytest.mark.parametrize("stores", [1, 2])
@given(rounds=st.lists(acts, min_size=1, max_size=4), owing=st.booleans())
@settings(max_examples=examples(30, full=60), deadline=None)
def test_relationship_actions_run_concurrently_leave_a_consistent_graph(
    stores: int, rounds: list[list[Act]], *, owing: bool
) -> None:
    """With `owing`, each store learns of changes in the other store only by events."""

    async def main() -> None:
        async with three(stores) as trio:
            with _late() if owing else nullcontext():
                for some in rounds:
                    await asyncio.gather(*(trio.act(*one) for one in some))
            await trio.shoal.settle()
            found = await trio.pairs()
            either_way = found["blocks"] | {(other, one) for one, other in found["blocks"]}
            assert not found["follows"] & either_way
            assert not found["asks"] & (either_way | found["follows"])
            for kind in ("watches", "endorses", "listed"):
                assert found[kind] <= found["follows"], kind
            assert await trio.ends_that_miss_the_other() == []
            assert await trio.wrong_homes() == []

    run(main())


@contextmanager
def _late() -> Iterator[None]:
    """Prevent the immediate delivery of pending inverses to another store."""

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("away")

    logging.disable(logging.WARNING)
    try:
        with patch.object(ShardedGraph, "settle", away):
            yield
    finally:
        logging.disable(logging.NOTSET)
