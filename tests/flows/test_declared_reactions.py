"""Declared reactions: declarations, permissions, groups, counts, lists and notifications."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import declared_reactions as commands
from shoal.commands import members, posts, reactions
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.consumers import cleanup
from shoal.core.audit import AuditVerb
from shoal.core.errors import Gone, InvalidInput, NotFound, Unfit
from shoal.core.ids import IdMaker, shard_of
from shoal.core.kinds import KindDraft
from shoal.core.model import Post
from shoal.core.ranking.terms import words_of
from shoal.core.reactions import MAX_ACTIVE, MAX_DECLARED, Reaction, StoredReactions, parse_reaction_file
from shoal.graph.contract import Batch, Cursor, Store
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import EMOJI_PUT_BY, REACTS, SHOWS_EMOJI, emoji_position_key
from shoal.locks import KeyedLocks
from shoal.queries.foryou.interests import interests_of
from shoal.queries.hydration import Entry, emoji_counts
from shoal.queries.trends import reactions_to
from shoal.sync import Shoal as SyncShoal
from tests.async_runner import in_loop, run
from tests.example_counts import examples
from tests.flows.feeds.test_for_you import only, ranked, texts, value
from tests.flows.members import register
from tests.flows.notifications.home_listener import listening
from tests.flows.simulation.invariants import GraphSnapshot
from tests.flows.test_account_deletion import PASSWORD, worked_off
from tests.flows.test_emoji_reactions import MANY, TWO_STORES
from tests.library.test_events import take
from tests.stores import BACKENDS, Backend, all_objects, started

if TYPE_CHECKING:
    from shoal.media.library import MediaLibrary

COOKED = Reaction(name="cooked", title="Cooked it", weight=3)
GOING = Reaction(name="going", title="Going", group="attendance")
MAYBE = Reaction(name="maybe", title="Maybe", group="attendance")
AWAY = Reaction(name="not_going", title="Not going", group="attendance")
SPAM = Reaction(name="spam", title="Looks like spam")
ALL = (COOKED, GOING, MAYBE, AWAY, SPAM)
GROUPED = {"going", "maybe", "not_going"}


async def declared(shoal: Shoal, *reactions: Reaction) -> None:
    for each in reactions or ALL:
        await shoal.declared_reactions.declare(each)


def counts(entry: Entry) -> dict[str, int]:
    return {one.emoji: one.count for one in entry.named}


def own(entry: Entry) -> set[str]:
    return {one.emoji for one in entry.named if one.me}


async def wrong(shoal: Shoal) -> list[str]:
    """Return violated invariants of the graph, and the findings of `shoal check`."""
    await shoal.settle()
    snapshot = await GraphSnapshot.of(shoal.network.store)
    found = (snapshot.wrong_counts(), snapshot.missing_inverses(), snapshot.wrong_emoji(), snapshot.remains())
    report = await check(shoal.network)
    return [each for part in found for each in part] + [text for one in report.invariants for text in one.examples]


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_declared_reactions_are_added_counted_and_removed(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        await declared(shoal)
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("soup")
        for _ in range(2):
            await ben.react(post, "cooked")
            await cyd.react(post, "cooked")
            await cyd.react(post, "going")
            await cyd.react(post, "❤️")
        entry = await ben.read(post)
        assert (counts(entry), own(entry)) == ({"cooked": 2, "going": 1}, {"cooked"})
        assert [one.emoji for one in entry.emoji] == ["❤️"]
        assert own(await cyd.read(post)) == {"cooked", "going"}
        page = await ann.reacted_by(post, "cooked")
        assert [profile.member.name for profile in page.profiles] == ["cyd", "ben"]
        assert [one.entries[0].id for one in (await cyd.reacted("going"), await ben.reacted("cooked"))] == [post.id] * 2
        assert (await ben.reacted("going")).entries == []
        for _ in range(2):
            await cyd.unreact(post, "cooked")
        assert counts(await shoal.visitor.read(post)) == {"cooked": 1, "going": 1}
        assert not await wrong(shoal)


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_declared_reaction_of_group_replaces_other_one(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        await declared(shoal)
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("party")
        for name in ("going", "cooked", "maybe", "not_going"):
            await ben.react(post, name)
        entry = await ben.read(post)
        assert (counts(entry), own(entry)) == ({"cooked": 1, "not_going": 1}, {"cooked", "not_going"})
        assert not await wrong(shoal)
        notices = [one.notice.emoji for one in (await ann.notifications.page()).items]
        assert notices == ["not_going", "cooked"]


Act = tuple[bool, int, int]
NAMES = ("cooked", "going", "maybe", "not_going", "spam", "👍")


def applied(put: dict[int, set[str]], act: Act) -> None:
    """Apply an action to the model: the reactions of each member."""
    on, who, n = act
    name = NAMES[n]
    if on and name in GROUPED:
        put[who] -= GROUPED
    (put[who].add if on else put[who].discard)(name)


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@settings(max_examples=examples(20, full=60), deadline=None)
@given(acts=st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, len(NAMES) - 1)), max_size=24))
def test_declared_reactions_match_model_after_random_actions(url: str | dict[str, str], acts: list[Act]) -> None:
    async def main() -> None:
        async with Shoal.open(url) as shoal:
            await declared(shoal)
            people = await register(shoal, "ann", "ben", "cyd")
            post = await people[0].create("hello")
            put: dict[int, set[str]] = defaultdict(set)
            for act in acts:
                on, who, n = act
                await (people[who].react if on else people[who].unreact)(post, NAMES[n])
                applied(put, act)
            total = Counter(name for names in put.values() for name in names)
            for at, viewer in enumerate(people):
                entry = await viewer.read(post)
                assert counts(entry) | {one.emoji: one.count for one in entry.emoji} == total
                assert own(entry) == put[at] - {"👍"}
                for name in ("cooked", "going"):
                    assert bool((await viewer.reacted(name)).entries) == (name in put[at])
            assert not await wrong(shoal)
            await people[0].delete(post)
            assert not await wrong(shoal)

    run(main())


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_declared_reactions_match_model_on_every_store(name: str, tmp_path: Path) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        writes = Writes(graph, IdMaker(), cast("MediaLibrary", None))
        for each in ALL:
            await commands.declare(writes, each)
        people = [await members.register(writes, f"member{n}") for n in range(3)]
        post = await posts.create(writes, people[0].id, Draft(text="hello"))
        put: dict[int, set[str]] = defaultdict(set)
        chosen = random.Random(7)
        for _ in range(30):
            act = (chosen.random() < 0.7, chosen.randrange(3), chosen.randrange(len(NAMES)))
            command = reactions.react if act[0] else reactions.unreact
            await command(writes, people[act[1]].id, post.id, NAMES[act[2]])
            applied(put, act)
        total = Counter(name for names in put.values() for name in names)
        for at, viewer in enumerate(people):
            found = await reactions_of(graph, post, viewer.id)
            assert {name: count for name, (count, _) in found.items()} == total
            assert {name for name, (_, me) in found.items() if me} == put[at]


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_declared_reactions_of_group_exclude_each_other_under_concurrent_requests(
    name: str, tmp_path: Path
) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        # Each has its own locks, like requests of separate processes.
        several = [Writes(graph, IdMaker(), cast("MediaLibrary", None)) for _ in range(3)]
        for each in ALL:
            await commands.declare(several[0], each)
        people = [await members.register(several[0], f"member{n}") for n in range(3)]
        post = await posts.create(several[0], people[0].id, Draft(text="party"))
        for _ in range(2):
            await asyncio.gather(
                *[
                    reactions.react(writes, who.id, post.id, chosen)
                    for (writes, chosen), who in product(zip(several, sorted(GROUPED), strict=True), people)
                ]
            )
            found = [await reactions_of(graph, post, who.id) for who in people]
            assert [sum(me for _, me in each.values()) for each in found] == [1, 1, 1]
            assert sum(count for count, _ in found[0].values()) == 3


class SignalingLocks(KeyedLocks):
    """Locks that set `asked` when a task is about to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def of(self, names: Iterable[str]) -> AsyncIterator[None]:
        self.asked.set()
        async with super().of(names):
            yield


@pytest.mark.parametrize("name", BACKENDS)
@in_loop
async def test_reaction_waiting_while_another_of_its_group_is_declared_and_added_replaces_it(
    name: str, tmp_path: Path
) -> None:
    started(name)
    async with Backend(name, tmp_path).open() as graph:
        locks = SignalingLocks()
        ours = Writes(graph, IdMaker(), cast("MediaLibrary", None), locks=locks)
        others = Writes(graph, IdMaker(), cast("MediaLibrary", None))
        await commands.declare(others, GOING)
        ann = await members.register(others, "ann")
        post = await posts.create(others, ann.id, Draft(text="party"))
        async with KeyedLocks.of(locks, (f"maxima of {ann.id}",)):
            reacting = asyncio.create_task(reactions.react(ours, ann.id, post.id, "going"))
            await asyncio.wait_for(locks.asked.wait(), 30)
            await commands.declare(others, MAYBE)
            await reactions.react(others, ann.id, post.id, "maybe")
        await reacting
        assert await reactions_of(graph, post, ann.id) == {"going": (1, True)}


@in_loop
async def test_repeated_reaction_removes_other_one_of_its_group() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal, GOING, replace(MAYBE, group=""))
        (ann,) = await register(shoal, "ann")
        post = await ann.create("party")
        for name in ("going", "maybe"):
            await ann.react(post, name)
        # Only a store that was changed by other means has such a declaration.
        (stored,) = [node for node in await all_objects(shoal.network.store) if isinstance(node, StoredReactions)]
        batch = Batch(shard_of(stored.id))
        batch.obj_set(replace(stored, reactions=(GOING, MAYBE), version=stored.version + 1))
        await shoal.network.store.commit(batch)
        for _ in range(2):
            await ann.react(post, "going")
        assert counts(await ann.read(post)) == {"going": 1}
        assert not await wrong(shoal)


async def reactions_of(graph: Store, post: Post, viewer: int) -> dict[str, tuple[int, bool]]:
    mine = (await graph.assoc_get(viewer, (REACTS,), (post.id,)))[REACTS]
    found = await emoji_counts(graph, (post.id,), mine)
    return {one.emoji: (one.count, one.me) for one in found.get(post.id, ())}


# Declarations


@in_loop
async def test_declared_reaction_changes_title_kinds_and_weight_but_not_group() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(KindDraft(name="recipe", schema={"type": "object"}))
        await declared(shoal, COOKED, GOING)
        await declared(shoal, replace(COOKED, title=" Cooked  it! ", kinds=("recipe",), weight=1), GOING)
        changed = Reaction(name="cooked", title="Cooked it!", kinds=("recipe",), weight=1.0)
        assert await shoal.declared_reactions.all() == [changed, GOING]
        with pytest.raises(Unfit, match="group: cannot be changed"):
            await declared(shoal, replace(changed, group="other"))
        assert await shoal.declared_reactions.all() == [changed, GOING]
        noted = [entry.entry.verb for entry in (await shoal.moderation.audit_log()).entries][:3]
        assert noted == [AuditVerb.REACTION_DECLARED] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name: must have 1 to 32"),
        ({"name": "Cooked"}, "name: must have 1 to 32"),
        ({"name": "1st"}, "name: must have 1 to 32"),
        ({"name": "a" * 33}, "name: must have 1 to 32"),
        ({"name": "likes"}, "name: must not be 'likes', which is reserved"),
        ({"name": "shares"}, "name: must not be 'shares', which is reserved"),
        ({"title": " "}, "title: must have 1 to 50 characters"),
        ({"title": "a" * 51}, "title: must have 1 to 50 characters"),
        ({"group": "A"}, "group: must have 1 to 32"),
        ({"kinds": ("recipe",)}, "kinds: there is no kind 'recipe'"),
        ({"kinds": ("Re cipe",)}, "kinds: must be names of kinds"),
        ({"kinds": ("recipe",) * 101}, "kinds: at most 100"),
        ({"weight": -1}, "weight: must be from 0 to 10"),
        ({"weight": 10.5}, "weight: must be from 0 to 10"),
        ({"weight": float("nan")}, "weight: must be from 0 to 10"),
        ({"name": None}, "name: Expected `str`, got `null`"),
        ({"title": 5}, "title: Expected `str`, got `int`"),
        ({"group": None}, "group: Expected `str`, got `null`"),
        ({"kinds": None}, "kinds: Expected `array`, got `null`"),
        ({"kinds": "recipe"}, "kinds: Expected `array`, got `str`"),
        ({"kinds": (1,)}, "kinds: Expected `str`, got `int`"),
        ({"weight": "3"}, "weight: Expected `float`, got `str`"),
        ({"weight": True}, "weight: Expected `float`, got `bool`"),
        ({"weight": 10**400}, "weight: "),
        ({"weight": object()}, "weight: "),
        ({"retired": 1}, "retired: Expected `bool`, got `int`"),
    ],
)
@in_loop
async def test_declared_reaction_with_invalid_value_is_refused(change: dict[str, object], message: str) -> None:
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput, match=message):
            await shoal.declared_reactions.declare(replace(COOKED, **change))
        assert await shoal.declared_reactions.all() == []


def test_declared_reactions_are_limited_in_number() -> None:
    stored = StoredReactions(id=1)
    for n in range(MAX_ACTIVE):
        stored = stored.with_reaction(replace(COOKED, name=f"r{n}"))
    with pytest.raises(Unfit, match="32 reactions already"):
        stored.with_reaction(COOKED)
    for n in range(MAX_DECLARED - MAX_ACTIVE):
        stored = stored.with_reaction(replace(COOKED, name=f"old{n}", retired=True))
    with pytest.raises(
        Unfit, match="100 reactions with the retired ones already, which is the maximum: declare a retired one again"
    ):
        stored.with_reaction(replace(COOKED, retired=True))
    assert stored.with_reaction(replace(COOKED, name="r0", title="Other")).get("r0").title == "Other"
    freed = stored.with_reaction(replace(COOKED, name="r0", retired=True))
    assert not freed.with_reaction(replace(COOKED, name="old0", title="New")).get("old0").retired


def test_declared_reactions_file_has_one_or_several() -> None:
    one = b'name = "cooked"\ntitle = "Cooked it"\nweight = 3'
    assert parse_reaction_file(one, toml=True) == [COOKED]
    two = b'{"reactions": [{"name": "going", "title": "Going", "group": "attendance"}]}'
    assert parse_reaction_file(two, toml=False) == [GOING]
    for wrong, toml in (
        (b"name = ", True),
        (b"[]", False),
        (b'{"name": "a"}', False),
        (b"\xff", True),
        (one + b"\nx=1", True),
        (b'{"reactions": []}', False),
        (b'{"reactions": [{"name": "a", "title": "A"}, {"name": "a", "title": "B"}]}', False),
        (b"".join(b"[[reactions]]\nname = 'r%d'\ntitle = 'R'\n" % n for n in range(21)), True),
    ):
        with pytest.raises(InvalidInput):
            parse_reaction_file(wrong, toml=toml)
    with pytest.raises(InvalidInput, match="at most 16384 bytes"):
        parse_reaction_file(b"a" * 16_385, toml=True)


@in_loop
async def test_declared_reactions_of_a_file_are_all_stored_or_none() -> None:
    async with Shoal.open("memory://") as shoal:
        writes, one = shoal.network.writes, Reaction(name="one", title="One")
        await declared(shoal, GOING)
        for wrong, message in (
            (replace(COOKED, kinds=("recipe",)), "there is no kind 'recipe'"),
            (replace(GOING, group="other"), "group: cannot be changed"),
            (replace(COOKED, name="one"), "reactions: one is declared twice"),
        ):
            with pytest.raises(InvalidInput, match=message):
                await commands.declare_all(writes, [one, wrong])
        with pytest.raises(InvalidInput, match=r"reactions: must be 1 to 20 reactions \(got 0\)"):
            await commands.declare_all(writes, [])
        assert await shoal.declared_reactions.all() == [GOING]
        several = [replace(COOKED, name=f"r{n}") for n in range(20)]
        assert await commands.declare_all(writes, several) == several
        assert await shoal.declared_reactions.all() == [GOING, *several]
        await commands.declare_all(writes, [replace(several[0], retired=True), several[1]])
        entries = (await shoal.moderation.audit_log()).entries
        assert [entry.entry.verb for entry in entries][:2] == [AuditVerb.REACTION_RETIRED, AuditVerb.REACTION_DECLARED]


@in_loop
async def test_retirement_of_unknown_reaction_stores_nothing() -> None:
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(NotFound):
            await shoal.declared_reactions.retire("other")
        assert not [node for node in await all_objects(shoal.network.store) if isinstance(node, StoredReactions)]


@in_loop
async def test_retired_reaction_can_be_removed_but_not_added() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("soup")
        await ben.react(post, "cooked")
        for _ in range(2):
            assert (await shoal.declared_reactions.retire("cooked")).retired
        with pytest.raises(InvalidInput, match="the reaction cooked is retired"):
            await ann.react(post, "cooked")
        assert counts(await ann.read(post)) == {"cooked": 1}
        await ben.unreact(post, "cooked")
        await declared(shoal, COOKED)
        await ann.react(post, "cooked")
        assert counts(await ann.read(post)) == {"cooked": 1}
        with pytest.raises(NotFound, match="there is no reaction 'other'"):
            await shoal.declared_reactions.retire("other")


@in_loop
async def test_declared_reaction_applies_to_posts_of_its_kinds_only() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(KindDraft(name="recipe", schema={"type": "object"}))
        await declared(shoal, replace(COOKED, kinds=("recipe",)))
        ann, ben = await register(shoal, "ann", "ben")
        recipe, plain = await ann.create("soup", kind="recipe", data={}), await ann.create("hello")
        await ben.react(recipe, "cooked")
        with pytest.raises(InvalidInput, match="the reaction cooked is for posts of the kinds recipe"):
            await ben.react(plain, "cooked")
        for command in (ben.react, ben.unreact, ben.reacted_by):
            with pytest.raises(NotFound, match="there is no reaction 'grilled'"):
                await command(plain, "grilled")
        assert counts(await ann.read(plain)) == {}


@in_loop
async def test_declared_reactions_are_possible_on_post_with_all_emoji() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, *others = await register(shoal, "ann", *[f"member{n}" for n in range(3)])
        post = await ann.create("hello")
        for who, emoji in zip(others * 7, MANY[:20], strict=False):
            await who.react(post, emoji)
        for each in ALL:
            await ann.react(post, each.name)
        for emoji in MANY[:8]:
            await ann.react(post, emoji)
        assert counts(await ann.read(post)) == {"cooked": 1, "not_going": 1, "spam": 1}
        with pytest.raises(InvalidInput, match="at most 8 emoji"):
            await ann.react(post, MANY[8])
        assert not await wrong(shoal)


def test_sync_library_declares_and_uses_reactions() -> None:
    with SyncShoal.open("memory://") as shoal:
        shoal.declared_reactions.declare(COOKED)
        ann, ben = shoal.register("ann"), shoal.register("ben")
        post = ann.create("soup")
        ben.react(post, "cooked")
        assert [one.member.name for one in ann.reacted_by(post, "cooked").profiles] == ["ben"]
        assert [entry.id for entry in ben.reacted("cooked").entries] == [post.id]
        assert shoal.declared_reactions.retire("cooked").retired
        ben.unreact(post, "cooked")
        assert ann.reactions(post) == []


# Permissions


@in_loop
async def test_declared_reaction_follows_visibility_of_post() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, fan, stranger, blocked = await register(shoal, "ann", "fan", "stranger", "blocked")
        await fan.follow(ann)
        await ann.block(blocked)
        await shoal.settle()
        made = {name: await ann.create(name, visibility=name) for name in ("public", "unlisted", "followers", "direct")}
        allowed = {
            "ann": set(made),
            "fan": {"public", "unlisted", "followers"},
            "stranger": {"public", "unlisted"},
            "blocked": set(),
        }
        for who, (name, post) in product((ann, fan, stranger, blocked), made.items()):
            if name in allowed[who.name]:
                await who.react(post, "cooked")
                assert (await who.reacted_by(post, "cooked")).profiles
                await who.unreact(post, "cooked")
                continue
            for refused in (who.react, who.unreact, who.reacted_by):
                with pytest.raises(NotFound):
                    await refused(post, "cooked")
        for name in ("followers", "direct"):
            with pytest.raises(NotFound):
                await shoal.visitor.reacted_by(made[name], "cooked")


@in_loop
async def test_suspended_member_cannot_react_and_blocked_members_are_not_listed() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("soup")
        for who in (ann, ben, cyd):
            await who.react(post, "cooked")
        await ann.block(ben)
        await shoal.settle()
        assert [one.member.name for one in (await ann.reacted_by(post, "cooked")).profiles] == ["cyd", "ann"]
        first = await cyd.reacted_by(post, "cooked", limit=2)
        rest = await cyd.reacted_by(post, "cooked", before=first.next, limit=2)
        assert [one.member.name for one in (*first.profiles, *rest.profiles)] == ["cyd", "ben", "ann"]
        await shoal.moderation.suspend(cyd)
        with pytest.raises(Gone):
            await cyd.react(post, "going")
        assert [one.member.name for one in (await shoal.visitor.reacted_by(post, "cooked")).profiles] == ["ben", "ann"]


@in_loop
async def test_events_of_reactions_have_names_and_emoji() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        await declared(shoal)
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("soup")
        for name in ("spam", "👍", "going", "maybe"):
            await ben.react(post, name)
        # Each event has the reactions at the time of reading.
        told = await take(shoal, 4, after="start", types=["reaction"])
        assert [event.type.removeprefix("reaction.") for event in told] == ["created", *["updated"] * 3]
        (state,) = [event async for event in shoal.events_state() if event.type == "reaction.created"]
        for event in (*told, state):
            assert cast("Any", event.data).emoji == ["spam", "👍", "maybe"]
        for name in ("spam", "👍", "maybe"):
            await ben.unreact(post, name)
        told = await take(shoal, 1, after="start", types=["reaction"])
        assert [(event.type, cast("Any", event.data).emoji) for event in told] == [("reaction.deleted", [])]


# Consequences


@in_loop
async def test_declared_reaction_notifications_are_grouped_by_name() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        post = await ann.create("soup")
        await ann.mute(dan)
        for who, name in (
            (ben, "cooked"),
            (cyd, "cooked"),
            (ben, "going"),
            (dan, "cooked"),
            (ann, "cooked"),
            (cyd, "👍"),
        ):
            await who.react(post, name)
            await who.react(post, name)
        await shoal.settle()
        groups = (await ann.notifications.grouped()).groups
        found = [(one.items[0].notice.emoji, [item.actor.member.name for item in one.items]) for one in groups]
        assert sorted(found) == [("cooked", ["cyd", "ben"]), ("going", ["ben"]), ("👍", ["cyd"])]
        (cooked,) = [one.group for one in groups if one.group is not None and one.group.name == "cooked"]
        assert cooked.kind is Kind.REACTION
        await ann.notifications.dismiss_group(cooked)
        assert {one.notice.emoji for one in (await ann.notifications.page()).items} == {"going", "👍"}
        await ben.unreact(post, "going")
        await shoal.settle()
        assert {one.notice.emoji for one in (await ann.notifications.page()).items} == {"👍"}


@in_loop
async def test_home_stream_sends_update_when_declared_reaction_changes() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await shoal.settle()
        async with listening(ben) as at_ben:
            post = await ann.create("low tide")
            await at_ben.hears("+low tide")
            await cyd.react(post, "cooked")
            await at_ben.hears("~low tide")


@pytest.mark.parametrize("url", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_declared_reactions_of_deleted_post_and_member_are_deleted(
    url: str | dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_PAGE", 2)
    async with Shoal.open(url) as shoal:
        await declared(shoal)
        ann, *others = await register(shoal, "ann", *[f"member{n}" for n in range(4)])
        others.append(await shoal.register("leaver", password=PASSWORD))
        post, kept = await ann.create("hello"), await ann.create("kept")
        for who in others:
            for name in ("cooked", "going", "spam", "👍"):
                await who.react(post, name)
            await who.react(kept, "cooked")
        await ann.delete(post)
        assert not await wrong(shoal)
        store = shoal.network.store
        keys = [emoji_position_key(shard_of(post.id), post.id, each.name) for each in ALL]
        assert await store.key_get(keys) == {}
        assert await store.assoc_range(post.id, SHOWS_EMOJI, Cursor()) == []
        await others[-1].leave(PASSWORD)
        await worked_off(shoal)
        assert counts(await ann.read(kept)) == {"cooked": 4}
        assert not await wrong(shoal)


@in_loop
async def test_shoal_check_finds_wrong_count_of_declared_reaction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with Shoal.open(url) as shoal:
        await declared(shoal)
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("soup")
        await ben.react(post, "cooked")
    with closing(sqlite3.connect(tmp_path / "shoal.db")) as file, file:
        changed = file.execute("UPDATE association SET time = 7 WHERE alive = -1 AND atype = ?", (EMOJI_PUT_BY.number,))
        assert changed.rowcount == 1
    async with Shoal.open(url) as shoal:
        ben = await shoal.member("ben")
        assert counts(await ben.read(post)) == {"cooked": 7}
        assert "'emoji put by', but the count says 7" in str(await wrong(shoal))
        await check(shoal.network, repair=True)
    async with Shoal.open(url) as shoal:
        assert counts(await shoal.visitor.read(post)) == {"cooked": 1}
        assert not await wrong(shoal)


# Rankings


@in_loop
async def test_weight_of_declared_reaction_changes_for_you_order() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal, replace(COOKED, weight=0), GOING)
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        await ann.follow(ben)
        cooked, liked = await ben.create("cooked"), await ben.create("liked")
        for who in (cyd, dan):
            await who.react(cooked, "cooked")
            await who.react(cooked, "going")
        await cyd.like(liked)
        await shoal.settle()
        assert await texts(ann, only(reactions=1)) == ["liked", "cooked"]
        assert await value(ann, "cooked", "reactions") == 0
        await declared(shoal, replace(COOKED, weight=7.5))
        assert await texts(ann, only(reactions=1)) == ["cooked", "liked"]
        # Two reactions that count 7.5 likes each.
        assert await value(ann, "cooked", "reactions") == pytest.approx(0.4)
        entry = next(one for one in await ranked(ann) if one.entry.post.id == cooked.id)
        assert entry.why is not None
        assert words_of("reactions", 0.4, entry.why.facts(entry.entry, "en")) == "likes, shares and other reactions"


@in_loop
async def test_feed_expression_counts_declared_reactions() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, ben = await register(shoal, "ann", "ben")
        once, twice, never = [await ann.create(text) for text in ("once", "twice", "never")]
        for who, post in ((ann, once), (ann, twice), (ben, twice)):
            await who.react(post, "cooked")
        await ben.react(never, "going")
        await shoal.settle()

        def ordered(expression: str) -> dict[str, Any]:
            return {"sources": [{"from": "everybody"}], "order": {"by": "expression", "expression": expression}}

        await shoal.server_feeds.create("cooked", ordered("reaction_cooked - 10 * reaction_going"))
        page = await shoal.visitor.read_feed("cooked")
        assert [one.entry.post.text for one in page.entries] == ["twice", "once", "never"]
        assert "declared reactions" in [part.name for part in (await shoal.visitor.feed_cost("cooked")).parts]
        with pytest.raises(InvalidInput, match=r"order\.expression: there is no reaction 'grilled'"):
            await shoal.server_feeds.create("grilled", ordered("reaction_grilled"))
        with pytest.raises(InvalidInput, match="unknown name 'reactions'"):
            await shoal.server_feeds.create("grilled", ordered("reactions"))


@in_loop
async def test_declared_reactions_count_for_trends_and_interests_only_with_weight() -> None:
    async with Shoal.open("memory://") as shoal:
        await declared(shoal)
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        posts_ = [await who.create("hello") for who in (ann, cyd, dan)]
        for post, names in zip(posts_, (("cooked",), ("going",), ("going", "cooked")), strict=True):
            for name in names:
                await ben.react(post, name)
        await ann.react(posts_[1], "👍")
        await shoal.settle()
        reads = shoal.network.reads
        found = await reactions_to(reads.graph, posts_, reads.tags.clock())
        weighed = set(zip(found.posts.tolist(), found.members.tolist(), strict=True))
        assert weighed == {(posts_[0].id, ben.id), (posts_[1].id, ann.id), (posts_[2].id, ben.id)}
        assert set((await interests_of(reads, ben.id)).authors) == {ann.id, dan.id}


@in_loop
async def test_removal_of_one_of_two_reactions_keeps_none_on_a_post_deleted_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal:
        for name in ("cooked", "going"):
            await shoal.declared_reactions.declare(Reaction(name=name, title=name))
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("Bread")
        await ben.react(post, "cooked")
        await ben.react(post, "going")
        await shoal.settle()
        read = reactions._chosen

        async def read_and_deleted(writes: Writes, member_id: int, post_id: int) -> Any:
            found = await read(writes, member_id, post_id)
            await ann.delete(post)
            await shoal.settle()
            return found

        monkeypatch.setattr(reactions, "_chosen", read_and_deleted)
        with pytest.raises(NotFound):
            await ben.unreact(post, "cooked")
        assert await wrong(shoal) == []
