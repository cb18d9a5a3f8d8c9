"""Emoji reactions: permissions, limits, counts and notifications."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import members, posts, reactions
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.consumers import cleanup, relationships
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import InverseOp, InversePending
from shoal.core.ids import IdMaker, shard_of
from shoal.core.model import Post
from shoal.graph.contract import AssocOp, Batch, Cursor, Store
from shoal.graph.payloads.notifications import Kind
from shoal.graph.payloads.posts import EmojiPosition, emoji_positions, encode_chosen
from shoal.graph.schema import (
    EMOJI_PUT_BY,
    PUTS_EMOJI,
    REACTED_BY,
    REACTS,
    SHOWS_EMOJI,
    AssocType,
    emoji_position_key,
)
from shoal.queries.hydration import Entry, emoji_counts
from shoal.queries.notifications import Notification
from tests.async_runner import in_loop, run
from tests.example_counts import examples
from tests.flows.members import register
from tests.flows.notifications.home_listener import listening
from tests.flows.simulation.invariants import GraphSnapshot
from tests.stores import BACKENDS, Backend, started

if TYPE_CHECKING:
    from shoal.media.library import MediaLibrary

HEART, UP, PARTY = "❤️", "👍", "🎉"
MANY = (
    "👍",
    "👎",
    "❤️",
    "🎉",
    "😀",
    "😁",
    "😂",
    "🤣",
    "😃",
    "😄",
    "😅",
    "😆",
    "😉",
    "😊",
    "😋",
    "😎",
    "😍",
    "😘",
    "🥰",
    "😗",
    "😙",
    "😚",
)
TWO_STORES = {"0-62": "memory://one", "63": "memory://two"}
"""Ben is in another store than Ann and Cyd."""


def counts(entry: Entry) -> dict[str, int]:
    return {one.emoji: one.count for one in entry.emoji}


def own(entry: Entry) -> set[str]:
    return {one.emoji for one in entry.emoji if one.me}


async def wrong(shoal: Shoal) -> list[str]:
    """Return violated invariants of the graph."""
    await shoal.settle()
    snapshot = await GraphSnapshot.of(shoal.network.store)
    found = (snapshot.wrong_counts(), snapshot.missing_inverses(), snapshot.wrong_emoji(), snapshot.remains())
    return [each for part in found for each in part]


async def complaints(shoal: Shoal) -> list[str]:
    """Return the findings of `shoal check`."""
    return [example for one in (await check(shoal.network)).invariants for example in one.examples]


async def heard(who: Handle) -> list[tuple[str, str]]:
    """Return the reaction notifications of a member as pairs of name and emoji, newest first."""

    def told(one: Notification) -> tuple[str, str]:
        assert one.notice.kind is Kind.REACTION
        assert one.entry is not None
        return one.actor.member.name, one.notice.emoji

    return [told(one) for one in (await who.notifications.page()).items]


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_emoji_reactions_are_added_counted_and_removed(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        assert shoal.network.effects.across is (url is TWO_STORES)
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        await ben.react(post, UP)
        await cyd.react(post, HEART)
        await ben.react(post, HEART)
        assert list(counts(await ben.read(post)).items()) == [(UP, 1), (HEART, 2)]
        assert own(await ben.read(post)) == {UP, HEART}
        assert own(await cyd.read(post)) == {HEART}
        assert own(await ann.read(post)) == own(await shoal.visitor.read(post)) == set()
        await ben.unreact(post, UP)
        assert counts(await cyd.read(post)) == {HEART: 2}
        await ben.unreact(post, HEART)
        await cyd.unreact(post, HEART)
        assert (await cyd.read(post)).emoji == ()
        assert not await wrong(shoal)


@in_loop
async def test_emoji_reaction_with_and_without_variation_selector_counts_as_one_emoji() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        await ben.react(post, "\u2764")
        await cyd.react(post, "\u2764\ufe0f")
        assert counts(await ben.read(post)) == {"\u2764\ufe0f": 2}
        await ben.unreact(post, "\u2764\ufe0f")
        await cyd.unreact(post, "\u2764")
        assert counts(await ben.read(post)) == {}


@in_loop
async def test_emoji_reaction_on_share_applies_to_shared_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        share = await ben.share(post)
        await cyd.react(share.id, UP)
        assert counts(await cyd.read(post)) == counts(await cyd.read(share.id)) == {UP: 1}
        await cyd.unreact(share.id, UP)
        assert counts(await cyd.read(post)) == {}


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_emoji_reaction_add_and_remove_are_idempotent_under_concurrency(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        for _ in range(2):
            await asyncio.gather(*[who.react(post, emoji) for who, emoji in product((ben, cyd) * 5, (UP, HEART))])
            assert counts(await ann.read(post)) == {UP: 2, HEART: 2}
            await asyncio.gather(*[ben.unreact(post, UP) for _ in range(20)])
            assert counts(await ann.read(post)) == {UP: 1, HEART: 2}
            await asyncio.gather(*[who.unreact(post, emoji) for who, emoji in product((ben, cyd), (UP, HEART))])
            assert counts(await ann.read(post)) == {}
        assert not await wrong(shoal)


Act = tuple[bool, int, int]


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@settings(max_examples=examples(20, full=40), deadline=None)
@given(
    acts=st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)), max_size=24),
    at_once=st.integers(1, 4),
)
def test_emoji_reaction_counts_are_exact_for_random_actions(
    url: str | dict[str, str], acts: list[Act], at_once: int
) -> None:
    async def main() -> None:
        async with Shoal.open(url) as shoal:
            people = await register(shoal, "ann", "ben", "cyd", "dan")
            post = await people[0].create("hello")
            put: set[tuple[int, str]] = set()
            for start in range(0, len(acts), at_once):
                # Actions in a round have different members or emoji, so their order does not matter.
                together = {act[1:]: act for act in acts[start : start + at_once]}.values()
                await asyncio.gather(
                    *[(people[who].react if on else people[who].unreact)(post, MANY[n]) for on, who, n in together]
                )
                for on, who, n in together:
                    (put.add if on else put.discard)((who, MANY[n]))
            for at, viewer in enumerate(people):
                entry = await viewer.read(post)
                assert counts(entry) == Counter(emoji for _, emoji in put)
                assert own(entry) == {emoji for one, emoji in put if one == at}
            assert not await wrong(shoal)

    run(main())


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_emoji_reaction_counts_are_exact_on_every_store(name: str, tmp_path: Path) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        writes = Writes(graph, IdMaker(), cast("MediaLibrary", None))
        people = [await members.register(writes, f"member{n}") for n in range(5)]
        post = await posts.create(writes, people[0].id, Draft(text="hello"))
        other = await posts.create(writes, people[1].id, Draft(text="hello"))
        emoji = (UP, HEART, PARTY)
        await asyncio.gather(*[reactions.react(writes, who.id, post.id, one) for who, one in product(people, emoji)])
        assert await emoji_of(graph, post, people[2].id) == dict.fromkeys(emoji, (5, True))
        await asyncio.gather(
            *[reactions.unreact(writes, who.id, post.id, UP) for who in people[:4]],
            *[reactions.unreact(writes, people[4].id, post.id, one) for one in emoji],
        )
        await reactions.react(writes, people[3].id, other.id, UP)
        assert await emoji_of(graph, post, people[4].id) == {HEART: (4, False), PARTY: (4, False)}
        assert await emoji_of(graph, other, people[3].id) == {UP: (1, True)}


async def emoji_of(graph: Store, post: Post, viewer: int) -> dict[str, tuple[int, bool]]:
    mine = (await graph.assoc_get(viewer, (REACTS,), (post.id,)))[REACTS]
    found = await emoji_counts(graph, (post.id,), mine)
    return {one.emoji: (one.count, one.me) for one in found[post.id]}


# Limits


@in_loop
async def test_emoji_reactions_per_member_and_post_are_limited_to_eight() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post, other = await ann.create("hello"), await ann.create("hello")
        answers = await asyncio.gather(*[ben.react(post, emoji) for emoji in MANY[:12]], return_exceptions=True)
        refused = [answer for answer in answers if answer is not None]
        assert len(refused) == 4
        assert {str(one) for one in refused} == {"You can react to a post with at most 8 emoji"}
        assert all(isinstance(one, InvalidInput) and one.field == "emoji" for one in refused)
        there = counts(await ben.read(post))
        assert len(there) == 8
        # Repeating a reaction does not count again, and removing a reaction allows a new one.
        await ben.react(post, next(iter(there)))
        await ben.react(other, UP)
        await ben.unreact(post, next(iter(there)))
        await ben.react(post, "🦆")
        assert len(own(await ben.read(post))) == 8


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_emoji_reactions_per_post_are_limited_to_twenty_different_emoji(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, *others = await register(shoal, "ann", *[f"member{n}" for n in range(len(MANY))])
        post = await ann.create("hello")
        answers = await asyncio.gather(
            *[who.react(post, emoji) for who, emoji in zip(others, MANY, strict=True)], return_exceptions=True
        )
        refused = [answer for answer in answers if answer is not None]
        assert len(refused) == len(MANY) - 20
        assert {str(one) for one in refused} == {"A post cannot have more than 20 different emoji reactions"}
        there = counts(await ann.read(post))
        assert len(there) == 20
        await ann.react(post, next(iter(there)))
        assert not await wrong(shoal)


@in_loop
async def test_emoji_reaction_on_post_with_twenty_emoji_replaces_emoji_without_reactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *[f"member{n}" for n in range(20)])
        post = await ann.create("hello")
        for who, emoji in zip(others, MANY[:20], strict=True):
            await who.react(post, emoji)
        for who, emoji in list(zip(others, MANY, strict=False))[3:6]:
            await who.unreact(post, emoji)
        with pytest.raises(InvalidInput, match="more than 20"):
            await ann.react(post, "🦆")
        monkeypatch.setattr(reactions, "_NEW_MS", 0)
        for emoji in ("🦆", "🦉", "🦅"):
            await ann.react(post, emoji)
        with pytest.raises(InvalidInput, match="more than 20"):
            await ann.react(post, "🐟")
        assert list(counts(await ann.read(post))) == [*MANY[:3], *MANY[6:20], "🦆", "🦉", "🦅"]
        assert not await wrong(shoal)


@in_loop
async def test_emoji_reaction_is_discarded_when_its_emoji_is_removed_from_the_post_concurrently() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        writes = shoal.network.writes
        post = await ann.create("hello")
        await ben.react(post, UP)
        await ben.unreact(post, UP)
        whole = reactions._position_of

        async def found_and_ended(writes: Writes, post: Post, emoji: str) -> EmojiPosition:
            place = await whole(writes, post, emoji)
            batch = Batch(shard_of(post.id))
            batch.assoc_del(post.id, SHOWS_EMOJI, place.id, writes.new_id(batch.shard))
            batch.key_del(emoji_position_key(batch.shard, post.id, 0), place.id)
            await writes.graph.commit(batch)
            return place

        with patch.object(reactions, "_position_of", found_and_ended):
            await reactions.react(writes, ben.id, post.id, UP)
        assert counts(await ben.read(post)) == {}
        await ben.react(post, UP)
        assert counts(await ben.read(post)) == {UP: 1}
        assert not await wrong(shoal)
        await ann.delete(post)
        assert not await wrong(shoal)


@pytest.mark.parametrize("text", ["", "A", ":blobcat:", "👍👍", "🏽"])
@in_loop
async def test_emoji_reaction_with_invalid_emoji_is_refused(text: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        for verb in (ben.react, ben.unreact, ben.reacted_by):
            with pytest.raises(InvalidInput, match="single emoji"):
                await cast("Callable[[Post, str], Awaitable[object]]", verb)(post, text)


# Permissions


@in_loop
async def test_emoji_reaction_on_invisible_post_is_refused_but_own_can_be_removed() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        reserved = await ann.create("for followers", visibility="followers")
        await ben.react(post, UP)
        await ben.block(ann)
        await ann.block(cyd)
        for who, what in ((ben, post), (cyd, post), (ben, reserved)):
            with pytest.raises(NotFound):
                await who.react(what, HEART)
            with pytest.raises(NotFound):
                await who.reactions(what)
            with pytest.raises(NotFound):
                await who.reacted_by(what, UP)
        with pytest.raises(NotFound):
            await cyd.unreact(post, UP)
        with pytest.raises(NotFound):
            await ben.unreact(post, HEART)
        assert counts(await ann.read(post)) == {UP: 1}
        await ben.unreact(post, UP)
        assert counts(await ann.read(post)) == {}
        with pytest.raises(NotFound):
            await ben.unreact(post, UP)


@in_loop
async def test_emoji_reaction_list_is_paginated_without_blocked_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *[f"member{n}" for n in range(7)])
        post = await ann.create("hello")
        for who in others:
            await who.react(post, UP)
        await others[2].react(post, HEART)
        await others[0].block(others[5])
        names = [who.name for who in others]
        up, heart = await ann.reactions(post, newest=3)
        assert (up.emoji, up.count, up.me) == (UP, 7, False)
        assert [profile.member.name for profile in up.newest] == names[:3:-1]
        assert (heart.emoji, heart.count, [one.member.name for one in heart.newest]) == (HEART, 1, [names[2]])
        assert [one.me for one in await others[2].reactions(post)] == [True, True]
        found: list[str] = []
        before = None
        while True:
            page = await others[0].reacted_by(post, UP, before, limit=2)
            found += [profile.member.name for profile in page.profiles]
            if page.next is None:
                break
            before = page.next
        assert found == [name for name in reversed(names) if name != names[5]]
        assert [one.member.name for one in (await others[0].reactions(post, newest=7))[0].newest] == found
        assert (await shoal.visitor.reacted_by(post, PARTY)).profiles == []


# Consequences


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_emoji_reaction_notification_is_shown_until_reaction_is_removed(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        for who, emoji in ((ben, UP), (cyd, UP), (ben, HEART), (ann, PARTY)):
            await who.react(post, emoji)
            await shoal.settle()
        assert await heard(ann) == [("ben", HEART), ("cyd", UP), ("ben", UP)]
        await ben.unreact(post, UP)
        await shoal.settle()
        assert await heard(ann) == [("ben", HEART), ("cyd", UP)]
        await ben.react(post, UP)
        await shoal.settle()
        assert await heard(ann) == [("ben", UP), ("ben", HEART), ("cyd", UP)]
        await ann.delete(post)
        await shoal.settle()
        assert await heard(ann) == []


@in_loop
async def test_emoji_reaction_notification_of_muted_or_blocked_member_is_hidden() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        await ann.mute(ben)
        await ben.react(post, UP)
        await cyd.react(post, UP)
        await shoal.settle()
        assert await heard(ann) == [("cyd", UP)]
        await ann.block(cyd)
        await shoal.settle()
        assert await heard(ann) == []


@in_loop
async def test_home_stream_sends_update_when_emoji_reactions_change() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await shoal.settle()
        async with listening(ben) as at_ben, listening(cyd) as at_cyd:
            post = await ann.create("low tide")
            await at_ben.hears("+low tide")
            await cyd.react(post, UP)
            await at_ben.hears("~low tide")
            await cyd.unreact(post, UP)
            await at_ben.hears("~low tide")
            await cyd.create("the last")
            await at_cyd.hears("+the last")


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_emoji_reactions_of_deleted_post_are_deleted_from_store(
    url: str | dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_PAGE", 2)
    async with Shoal.open(url) as shoal:
        ann, *others = await register(shoal, "ann", *[f"member{n}" for n in range(5)])
        post, kept = await ann.create("hello"), await ann.create("kept")
        for who in others:
            for emoji in (UP, HEART, PARTY):
                await who.react(post, emoji)
            await who.react(kept, UP)
        await ann.delete(post)
        assert not await wrong(shoal)
        store = shoal.network.store
        assert await store.assoc_range(post.id, SHOWS_EMOJI, Cursor()) == []
        assert await store.key_get([emoji_position_key(shard_of(post.id), post.id, n) for n in range(20)]) == {}
        assert counts(await ann.read(kept)) == {UP: 5}
        for who in others:
            assert [assoc.id2 for assoc in await store.assoc_range(who.id, REACTS, Cursor())] == [kept.id]
        assert await complaints(shoal) == []


@pytest.mark.parametrize("near", [REACTS, PUTS_EMOJI], ids=repr)
@in_loop
async def test_emoji_reaction_from_other_store_arriving_after_post_deletion_is_deleted(near: AssocType) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        await ann.react(post, UP)
        (place,) = (await emoji_positions(shoal.network.store, (post.id,)))[post.id]
        await ann.delete(post)
        await shoal.settle()
        effects = shoal.network.effects
        batch = Batch(shard_of(ben.id))
        now = effects.new_id(batch.shard)
        ends = {
            REACTS: (post.id, REACTED_BY, encode_chosen((place,))),
            PUTS_EMOJI: (place.id, EMOJI_PUT_BY, post.id.to_bytes(8)),
        }
        # Only the near end, like a store that commits it with a pending inverse.
        id2, far, data = ends[near]
        batch.put(AssocOp(ben.id, near.number, id2, now, alive=True, data=data, plain=True))
        await shoal.network.store.commit(batch)
        pending_inverses = InverseOp(id2, far.number, ben.id, now, alive=True, data=data, aggregate_id=0)
        await relationships.settle_inverse(effects, InversePending(op=pending_inverses), 0)
        assert not await wrong(shoal)


@in_loop
async def test_shoal_check_deletes_emoji_reaction_whose_emoji_is_not_listed_on_the_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        await ben.react(post, UP)
        await shoal.settle()
        assert await complaints(shoal) == []
        (place,) = (await emoji_positions(shoal.network.store, (post.id,)))[post.id]
        batch = Batch(shard_of(post.id))
        batch.assoc_del(post.id, SHOWS_EMOJI, place.id, shoal.network.effects.new_id(batch.shard))
        await shoal.network.store.commit(batch)
        (found,) = await complaints(shoal)
        assert "puts emoji" in found
        await check(shoal.network, repair=True)
        assert await complaints(shoal) == []
