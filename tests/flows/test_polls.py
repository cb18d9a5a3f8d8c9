"""Polls: creation, voting, edits and deletion."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import polls, posts
from shoal.commands.context import Limits, Writes
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.consumers import relationships
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import InverseOp, InversePending
from shoal.core.ids import shard_of
from shoal.core.model import Poll, Post
from shoal.graph.contract import AssocOp, Batch
from shoal.graph.schema import CHOOSES, CHOSEN_BY, VOTED_BY, VOTES, vote_key
from shoal.queries.hydration import PollView, hydrate
from tests.async_runner import in_loop, run
from tests.example_counts import examples
from tests.flows.members import register
from tests.flows.query_counts import calls
from tests.flows.simulation.invariants import GraphSnapshot

ASKED = PollDraft(options=("tea", "coffee", "water"), seconds=600)


async def ask(shoal: Shoal, who: Handle, draft: PollDraft = ASKED, text: str = "What?") -> Post:
    return await posts.create(shoal.network.writes, who.id, Draft(text=text, poll=draft))


async def vote(shoal: Shoal, who: Handle, post: Post, *choices: int) -> None:
    await polls.vote(shoal.network.writes, who.id, post.poll_id, choices)


async def view(who: Handle, post: Post) -> PollView:
    found = (await who.read(post)).poll
    assert found is not None
    return found


def quick(shoal: Shoal) -> Writes:
    """Return writes whose polls can expire immediately."""
    return replace(shoal.network.writes, limits=Limits(poll_least_seconds=0))


@in_loop
async def test_poll_votes_are_counted_and_own_choices_shown_to_voter() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ask(shoal, ann)
        assert (await view(ben, post)).choices is None
        await vote(shoal, ben, post, 2)
        await vote(shoal, cyd, post, 2)
        seen = await view(ben, post)
        assert [option.title for option in seen.poll.options] == ["tea", "coffee", "water"]
        assert (seen.votes, seen.voters, seen.choices) == ((0, 0, 2), 2, (2,))
        assert (await view(ann, post)).choices is None
        (stranger,) = await hydrate(shoal.network.store, None, (post.id,))
        assert stranger.poll is not None
        assert (stranger.poll.votes, stranger.poll.choices) == ((0, 0, 2), None)


@in_loop
async def test_poll_vote_for_several_options_requires_multiple_choice() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        one = await ask(shoal, ann)
        several = await ask(shoal, ann, PollDraft(options=("a", "b", "c"), seconds=600, multiple=True))
        with pytest.raises(InvalidInput, match="already voted"):
            await vote(shoal, ben, one, 0, 1)
        with pytest.raises(InvalidInput, match="already voted"):
            await vote(shoal, ben, several, 1, 1)
        await vote(shoal, ben, several, 2, 0)
        await vote(shoal, cyd, several, 2)
        seen = await view(ben, several)
        assert (seen.votes, seen.voters, seen.choices) == ((1, 0, 2), 2, (2, 0))


@in_loop
async def test_poll_voter_in_multiple_choice_poll_can_choose_further_options_later() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ask(shoal, ann, PollDraft(options=("a", "b", "c"), seconds=600, multiple=True))
        await vote(shoal, ben, post, 2)
        with pytest.raises(InvalidInput, match="already voted"):
            await vote(shoal, ben, post, 2)
        with pytest.raises(InvalidInput, match="already voted"):
            await vote(shoal, ben, post, 0, 2)
        await vote(shoal, ben, post, 0)
        seen = await view(ben, post)
        assert (seen.votes, seen.voters, seen.choices) == ((1, 0, 1), 1, (2, 0))
        await vote(shoal, ben, post, 1)
        assert (await view(ben, post)).choices == (2, 0, 1)
        await posts.delete(shoal.network.writes, ann.id, post.id)
        await shoal.settle()
        keys = [vote_key(ben.id, shard_of(ben.id), post.poll_id, run_once) for run_once in range(3)]
        assert await shoal.network.store.key_get(keys) == {}


@in_loop
async def test_poll_votes_sent_concurrently_by_one_member_are_counted_once_per_option() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ask(shoal, ann, PollDraft(options=("a", "b", "c", "d"), seconds=600, multiple=True))
        made = await asyncio.gather(
            *(vote(shoal, ben, post, choice) for choice in (0, 1, 2, 3, 0, 1, 2, 3)), return_exceptions=True
        )
        assert sum(outcome is None for outcome in made) == 4
        assert all(outcome is None or isinstance(outcome, InvalidInput) for outcome in made)
        seen = await view(ben, post)
        assert (seen.votes, seen.voters, sorted(seen.choices or ())) == ((1, 1, 1, 1), 1, [0, 1, 2, 3])


@in_loop
async def test_poll_vote_invalid_is_refused_with_message() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ask(shoal, ann)
        for choices in ((3,), (-1,), (), (0, 9)):
            with pytest.raises(InvalidInput, match="The chosen vote option does not exist"):
                await vote(shoal, ben, post, *choices)
        with pytest.raises(InvalidInput, match="own polls"):
            await vote(shoal, ann, post, 0)
        await vote(shoal, ben, post, 0)
        with pytest.raises(InvalidInput, match="You have already voted on this poll"):
            await vote(shoal, ben, post, 1)
        over = await posts.create(
            quick(shoal), ann.id, Draft(text="Over", poll=PollDraft(options=("a", "b"), seconds=0))
        )
        with pytest.raises(InvalidInput, match="The poll has already ended"):
            await vote(shoal, ben, over, 0)
        assert (await view(ben, post)).votes == (1, 0, 0)


@in_loop
async def test_poll_vote_on_invisible_post_returns_not_found() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        draft = Draft(
            text="Among us", visibility=(await ann.create("x", visibility="followers")).visibility, poll=ASKED
        )
        post = await posts.create(shoal.network.writes, ann.id, draft)
        await vote(shoal, ben, post, 0)
        with pytest.raises(NotFound):
            await vote(shoal, cyd, post, 0)
        with pytest.raises(NotFound):
            await polls.vote(shoal.network.writes, ben.id, post.id, (0,))


@in_loop
async def test_poll_vote_sent_twenty_times_concurrently_is_counted_once() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ask(shoal, ann)
        votes = [vote(shoal, ben, post, n % 3) for n in range(20)]
        answers = await asyncio.gather(*votes, return_exceptions=True)
        assert Counter(type(answer) for answer in answers) == {type(None): 1, InvalidInput: 19}
        seen = await view(ben, post)
        assert (sum(seen.votes), seen.voters) == (1, 1)


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (PollDraft(options=("a",), seconds=600), "more than one item"),
        (PollDraft(options=("a", "b", "c", "d", "e"), seconds=600), "more than 4 items"),
        (PollDraft(options=("a", " a "), seconds=600), "duplicate"),
        (PollDraft(options=("a", "  "), seconds=600), "can't be blank"),
        (PollDraft(options=("a", "b" * 51), seconds=600), "50"),
        (PollDraft(options=("a", "b"), seconds=299), "too soon"),
        (PollDraft(options=("a", "b"), seconds=2_629_747), "too far"),
        (PollDraft(options=("a", "b")), "too far"),
    ],
)
@in_loop
async def test_poll_outside_limits_is_refused_and_post_is_not_created(draft: PollDraft, words: str) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        with pytest.raises(InvalidInput, match=words):
            await ask(shoal, ann, draft)
        assert (await ann.posts()).entries == []


@in_loop
async def test_post_with_poll_and_media_or_without_text_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for draft in (Draft(text="x", poll=ASKED, media=(1,)), Draft(poll=ASKED)):
            with pytest.raises(InvalidInput):
                await posts.create(shoal.network.writes, ann.id, draft)
        post = await ask(shoal, ann)
        with pytest.raises(InvalidInput, match="not both"):
            await ann.update(post, "y", media=(1,))


@in_loop
async def test_poll_votes_are_deleted_with_the_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *voters = await register(shoal, "ann", "ben", "cyd", "dan")
        post = await ask(shoal, ann)
        for n, voter in enumerate(voters):
            await vote(shoal, voter, post, n % 2)
        await ann.delete(post)
        await shoal.settle()
        snapshot = await GraphSnapshot.of(shoal.network.store)
        assert not snapshot.all(Poll)
        assert not any(snapshot.pairs(atype) for atype in (VOTES, VOTED_BY, CHOOSES, CHOSEN_BY))
        assert not [
            *snapshot.wrong_votes(),
            *snapshot.wrong_counts(),
            *snapshot.missing_inverses(),
            *snapshot.remains(),
        ]
        assert (await check(shoal.network)).clean


@in_loop
async def test_poll_edit_with_new_options_resets_votes() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ask(shoal, ann)
        await vote(shoal, ben, post, 1)
        kept = await ann.update(post, "What, then?")
        assert (await view(ben, kept)).votes == (0, 1, 0)
        longer = await ann.update(post, "What, then?", poll=PollDraft(options=ASKED.options, seconds=900))
        assert longer == kept, "extending a poll does not edit the post"
        seen = await view(ben, post)
        assert (seen.votes, seen.choices) == ((0, 1, 0), (1,))
        assert seen.poll.expires_at > post.created_at + 800_000
        other = await ann.update(post, "What, then?", poll=PollDraft(options=("gin", "rum"), seconds=600))
        await shoal.settle()
        seen = await view(ben, post)
        assert (seen.votes, seen.voters, seen.choices, other.edited_at > 0) == ((0, 0), 0, None, True)
        with pytest.raises(NotFound):
            await vote(shoal, ben, post, 0)
        await vote(shoal, ben, other, 0)
        assert (await view(ben, post)).votes == (1, 0)
        assert [old.options for old in await ann.history(post)] == [ASKED.options, ASKED.options]
        assert (await check(shoal.network)).clean


@in_loop
async def test_poll_hydration_takes_one_extra_read_for_1_or_40_polls() -> None:
    costs = []
    for number, asking in ((1, False), (1, True), (40, True)):
        async with Shoal.open("memory://") as shoal:
            ann, ben = await register(shoal, "ann", "ben")
            made = [await ask(shoal, ann) if asking else await ann.create("hello") for _ in range(number)]
            ids = [post.id for post in made]
            costs.append((await calls(shoal.network, lambda reads: hydrate(reads.graph, ben.id, ids))).total())  # noqa: B023
    assert costs[1] == costs[2] == costs[0] + 1


VOTERS = 5
ACTS = st.tuples(st.integers(0, VOTERS - 1), st.integers(0, 2), st.lists(st.integers(-1, 3), max_size=3))


@settings(deadline=None, max_examples=examples(20, full=40))
@given(acts=st.lists(ACTS, max_size=40), deleted=st.sets(st.integers(0, 2)))
def test_poll_counts_equal_votes_for_random_voting(acts: list[tuple[int, int, list[int]]], deleted: set[int]) -> None:
    async def story() -> None:
        async with Shoal.open("memory://") as shoal:
            voters = await register(shoal, *[f"voter{n}" for n in range(VOTERS)])
            asked = [
                await ask(shoal, voters[n], PollDraft(options=("a", "b", "c"), seconds=600, multiple=n > 0))
                for n in range(3)
            ]
            votes = [vote(shoal, voters[voter], asked[at], *choices) for voter, at, choices in acts]
            answers = await asyncio.gather(*votes, return_exceptions=True)
            assert {type(answer) for answer in answers} <= {type(None), InvalidInput}
            done = [act for act, answer in zip(acts, answers, strict=True) if answer is None]
            # A member votes once, or once per option with multiple choice, and never on an own poll.
            chosen_by = [(voter, at, choice if at else 0) for voter, at, choices in done for choice in choices]
            assert len(set(chosen_by)) == len(chosen_by)
            assert all(voter != at for voter, at, _ in done)
            await shoal.settle()
            for at, post in enumerate(asked):
                chosen = Counter(choice for _, which, choices in done if which == at for choice in choices)
                seen = await view(voters[-1], post)
                assert seen.votes == tuple(chosen[option] for option in range(3))
                assert seen.voters == len({voter for voter, which, _ in done if which == at})
            for at in deleted:
                await voters[at].delete(asked[at])
            await shoal.settle()
            snapshot = await GraphSnapshot.of(shoal.network.store)
            assert not [
                *snapshot.wrong_votes(),
                *snapshot.wrong_counts(),
                *snapshot.missing_inverses(),
                *snapshot.remains(),
            ]

    run(story())


@in_loop
async def test_poll_vote_from_other_store_arriving_after_poll_deletion_is_deleted() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ask(shoal, ann)
        node = (await shoal.network.store.obj_get((post.poll_id,)))[post.poll_id]
        assert isinstance(node, Poll)
        option = node.options[1].id
        await ann.delete(post)
        await shoal.settle()
        effects = shoal.network.effects
        batch = Batch(shard_of(ben.id))
        now = effects.new_id(batch.shard)
        # Only the near sides, like a store that commits them with pending inverses.
        batch.put(AssocOp(ben.id, VOTES.number, node.id, now, alive=True, data=b"\1", plain=True))
        batch.put(AssocOp(ben.id, CHOOSES.number, option, now, alive=True, data=node.id.to_bytes(8), plain=True))
        batch.key_add(vote_key(ben.id, batch.shard, node.id), now)
        await shoal.network.store.commit(batch)
        for op in (
            InverseOp(node.id, VOTED_BY.number, ben.id, now, alive=True, data=b"\1", aggregate_id=0),
            InverseOp(option, CHOSEN_BY.number, ben.id, now, alive=True, data=node.id.to_bytes(8), aggregate_id=0),
        ):
            for _ in range(2):
                await relationships.settle_inverse(effects, InversePending(op=op), 0)
        await shoal.settle()
        assert not list((await GraphSnapshot.of(shoal.network.store)).remains())
        key = vote_key(ben.id, batch.shard, node.id)
        assert await shoal.network.store.key_get([key]) == {}
        held = await shoal.network.store.assoc_get(ben.id, (VOTES, CHOOSES), (node.id, option))
        assert held == {VOTES: {}, CHOOSES: {}}
