"""Options of follows and mutes, and private notes about members."""

from __future__ import annotations

from contextlib import suppress
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.app.network import open_network
from shoal.commands import relationships
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import InvalidInput, NotFound, TooLarge
from shoal.core.visibility import Relation
from shoal.graph.access import full_relations, relation
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.follows import MuteTerms, encode
from shoal.graph.schema import ENDORSES, FOLLOWS, MUTES
from shoal.queries import home, members
from shoal.settings import build
from tests.async_runner import in_loop
from tests.example_counts import examples
from tests.flows.members import home_texts, register, texts


async def stands(one: Handle, other: Handle) -> Relation:
    return await relation(one._network.store, one.id, other.id)


async def wish(one: Handle, other: Handle, **feedback: object) -> Relation:
    return await relationships.follow(one._network.writes, one.id, other.id, FollowOptions(**feedback))  # type: ignore[arg-type]


async def at_home(handle: Handle) -> list[str]:
    """Return the home timeline, and assert that it equals its definition and the streamed entries."""
    reads, shown = handle._network.reads, await home_texts(handle)
    assert texts(await home.definition(reads, handle.id, Cursor(limit=50))) == shown
    page = await home.page(reads, handle.id, Cursor(limit=50))
    told = await home.among(reads, handle.id, [entry.id for entry in page.entries])
    assert [entry.id for entry in told] == [entry.id for entry in page.entries]
    return shown


@in_loop
async def test_home_timeline_excludes_shares_when_follow_disables_them() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ben)
        share = await ben.share(await ann.create("by ann"))
        await ben.create("by ben")
        await shoal.settle()
        assert await at_home(cyd) == ["by ben", "> by ann"]
        assert await wish(cyd, ben, shares=False) == Relation(following=True, shares=False)
        assert await at_home(cyd) == ["by ben"]
        assert await home.among(shoal.network.reads, cyd.id, [share.id]) == []
        assert await cyd.follow(ben) == Relation(following=True, shares=False), (
            "an option that is not given keeps its value"
        )
        assert await wish(cyd, ben, shares=True) == Relation(following=True)
        assert await at_home(cyd) == ["by ben", "> by ann"]


@in_loop
async def test_home_timeline_shows_posts_only_in_languages_chosen_for_the_follow() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await wish(ben, ann, languages=["de", "en", "de", ""])
        for language in ("de", "fr", "en", ""):
            await ann.create(f"in {language}", language=language)
        await shoal.settle()
        assert await at_home(ben) == ["in ", "in en", "in de"]
        assert (await wish(ben, ann, languages=["fr"])).languages == ("fr",)
        assert await at_home(ben) == ["in ", "in fr"]
        await wish(ben, ann, languages=[])
        assert len(await at_home(ben)) == 4
        for wrong in ("x" * 36, "startrek_it", "english"):
            with pytest.raises(InvalidInput, match="languages: must be a language code"):
                await wish(ben, ann, languages=["en", wrong])
        with pytest.raises(InvalidInput):
            await wish(ben, ann, languages=[f"l{n}" for n in range(101)])


_TERMS: list[dict[str, object]] = [{}, {"notify": True}, {"notify": False}, {"shares": False}, {"languages": ["en"]}]
_ACTS = (
    "follow",
    "follow",
    "endorse",
    "unfollow",
    "lock",
    "unlock",
    "be followed",
    "be removed",
    "mute",
    "be asked",
    "settle",
)


@settings(max_examples=examples(50, full=100))
@example([("follow", {}), ("endorse", {}), ("be removed", {})])
@given(st.lists(st.tuples(st.sampled_from(_ACTS), st.sampled_from(_TERMS)), max_size=12))
@in_loop
async def test_follow_call_returns_the_relationship_that_a_later_read_returns(
    story: list[tuple[str, dict[str, object]]],
) -> None:
    async with open_network(build(store="memory://", media="memory://"), background=False) as network:
        shoal = Shoal(network)
        ann, ben = await register(shoal, "ann", "ben")
        writes = shoal.network.writes
        for act, terms in [*story, ("follow", _TERMS[0])]:
            if act == "follow":
                assert await wish(ann, ben, **terms) == await stands(ann, ben)
            elif act == "unfollow":
                await ann.unfollow(ben)
            elif act in {"lock", "unlock"}:
                await ben.update_profile(locked=act == "lock")
            elif act == "be followed":
                await ben.follow(ann)
            elif act == "be removed":
                await relationships.remove_follower(writes, ben.id, ann.id)
            elif act == "endorse":
                with suppress(InvalidInput):
                    await relationships.endorse(writes, ann.id, ben.id)
            elif act == "mute":
                await ann.mute(ben)
            elif act == "be asked":
                await ann.update_profile(locked=True)
                await ben.follow(ann)
            else:
                await network.runner.drain(10)


@in_loop
async def test_follow_with_changed_options_keeps_its_position_in_list() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", "ben", "cyd", "dan")
        for other in others:
            await ann.follow(other)
        await wish(ann, others[0], shares=False, notify=True)
        await wish(ann, others[0], shares=True, languages=["en"])
        await shoal.settle()
        assert [one.member.name for one in (await ann.following()).profiles] == ["dan", "cyd", "ben"]
        assert (await others[0].profile()).followers == 1
        assert await stands(ann, others[0]) == Relation(following=True, languages=("en",), watching=True)


@in_loop
async def test_follow_notify_option_and_endorsement_are_removed_on_unfollow() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        writes = shoal.network.writes
        with pytest.raises(InvalidInput):
            await relationships.endorse(writes, ann.id, ben.id)
        for other in (ben, cyd):
            await wish(ann, other, notify=True)
            await relationships.endorse(writes, ann.id, other.id)
        assert await stands(ann, ben) == Relation(following=True, watching=True, endorsed=True)
        await ann.unfollow(ben)
        await cyd.block(ann)
        await shoal.settle()
        await cyd.unblock(ann)
        for other in (ben, cyd):
            assert await ann.follow(other) == Relation(following=True)
        assert (await relationships.endorse(writes, ann.id, ben.id)).endorsed
        assert await relationships.unendorse(writes, ann.id, ben.id) == Relation(following=True)


@in_loop
async def test_endorsement_without_follow_is_not_shown() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        await relationships.endorse(shoal.network.writes, ann.id, ben.id)
        await shoal.settle()
        batch = Batch(0)
        batch.assoc_del(ann.id, FOLLOWS, ben.id, 2**62)
        await shoal.network.store.commit(batch)
        page = await members.page(shoal.network.reads, None, ann.id, ENDORSES, Cursor(limit=9), followed_by=ann.id)
        assert page.profiles == []
        assert await stands(ann, ben) == Relation()


@in_loop
async def test_mute_options_for_notifications_and_duration_can_be_changed() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        writes = shoal.network.writes
        quiet = await relationships.mute(writes, ann.id, ben.id, notifications=False)
        assert quiet == Relation(muting=True)
        assert await ann.mute(ben) == Relation(muting=True, muting_notifications=True)
        for_a_while = await relationships.mute(writes, ann.id, ben.id, seconds=3600)
        assert for_a_while.muted_until > 0
        assert (await ann.mute(ben)).muted_until == 0
        for seconds in (-1, relationships.MAX_MUTE_SECONDS + 1):
            with pytest.raises(InvalidInput):
                await relationships.mute(writes, ann.id, ben.id, seconds=seconds)


@in_loop
async def test_mute_with_duration_expires() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        await ben.create("hello")
        await relationships.mute(shoal.network.writes, ann.id, ben.id, seconds=60)
        await shoal.settle()
        assert await at_home(ann) == []
        muted = Cursor(limit=9)
        assert len((await members.page(shoal.network.reads, ann.id, ann.id, MUTES, muted, severed=True)).profiles) == 1
        batch = Batch(0)
        batch.assoc_add(ann.id, MUTES, ben.id, 2**62, encode(MuteTerms(expires_at=1)))
        await shoal.network.store.commit(batch)
        assert await stands(ann, ben) == Relation(following=True)
        assert await at_home(ann) == ["hello"]
        assert (await members.page(shoal.network.reads, ann.id, ann.id, MUTES, muted, severed=True)).profiles == []
        assert (await ann.mute(ben)).muting, "a member can be muted again after the mute expires"


@in_loop
async def test_member_note_is_visible_to_its_author_only() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        writes, longest = shoal.network.writes, "\U0001f41f" * 2_000
        assert (await relationships.note(writes, ann.id, ben.id, longest)).note == longest
        assert (await relationships.note(writes, ann.id, ben.id, "met at sea")).note == "met at sea"
        assert await stands(ben, ann) == Relation()
        with pytest.raises(TooLarge):
            await relationships.note(writes, ann.id, ben.id, "x" * 2_001)
        assert await relationships.note(writes, ann.id, ben.id, "") == Relation()
        with pytest.raises(NotFound):
            await relationships.note(writes, ann.id, 1234, "nobody")


@in_loop
async def test_relationships_of_many_members_are_read_in_one_query() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(30)))
        for other in others:
            await wish(ann, other, notify=True)
            await ann.mute(other)
        store = type(shoal.network.store)
        counts = []
        for some in (others[:1], others):
            with patch.object(store, "assoc_get", autospec=True, side_effect=store.assoc_get) as asked:
                await full_relations(shoal.network.store, ann.id, [other.id for other in some])
            counts.append(asked.call_count)
        assert counts == [1, 1]


@in_loop
async def test_familiar_followers_are_followed_members_following_the_target() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        for one, other in ((ann, ben), (ann, cyd), (ben, dan), (cyd, dan), (dan, cyd), (ann, dan)):
            await one.follow(other)
        await shoal.settle()
        found = await members.familiar(shoal.network.reads, ann.id, [dan.id, cyd.id, ben.id, 12345])
        assert {id_: [one.member.name for one in shown] for id_, shown in found.items()} == {
            dan.id: ["cyd", "ben"],
            cyd.id: ["dan"],
            ben.id: [],
        }
