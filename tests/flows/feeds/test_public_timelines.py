"""The public timeline and tag timelines match their definitions after any sequence of actions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import moderation
from shoal.core.errors import ShoalError
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post, Visibility
from shoal.graph.contract import AssocOp, Batch, Cursor
from shoal.graph.schema import FOLLOWS, MUTES, PUBLISHED, public_list
from shoal.queries import public_timelines
from tests.async_runner import in_loop, run
from tests.example_counts import examples
from tests.flows.members import register, texts
from tests.flows.query_counts import calls
from tests.flows.simulation.invariants import GraphSnapshot

NAMES = ("ann", "ben", "cyd", "dan")
TAGS = ("dawn", "reef", "surf")


async def shown(shoal: Shoal, viewer: int | None, limit: int = 3) -> list[int]:
    """Return the ids of the public timeline, read in pages."""
    found: list[int] = []
    cursor: Cursor | None = Cursor(limit=limit)
    while cursor is not None:
        page = await public_timelines.public_page(shoal.network.reads, viewer, cursor)
        assert len(page.entries) <= limit
        found += [entry.id for entry in page.entries]
        cursor = cursor._replace(before=page.next) if page.next is not None else None
    return found


async def upwards(shoal: Shoal, viewer: int | None, limit: int = 2) -> list[int]:
    """Return the ids of the public timeline, read from its oldest end."""
    found: list[int] = []
    while True:
        at = Cursor(after=found[-1] if found else 0, limit=limit, oldest_first=True)
        page = await public_timelines.public_page(shoal.network.reads, viewer, at)
        if not page.entries:
            return found
        found += [entry.id for entry in page.entries[::-1]]


async def silence(shoal: Shoal, who: Handle) -> None:
    node = (await shoal.network.store.obj_get((who.id,)))[who.id]
    assert isinstance(node, Member)
    batch = Batch(shard_of(who.id))
    batch.obj_set(replace(node, silenced=True, version=node.version + 1))
    await shoal.network.store.commit(batch)


def in_public(snapshot: GraphSnapshot, viewer: int, post: Post) -> bool:
    """Return whether a post is public, visible, and by an author who is neither muted nor silenced without being followed."""
    author = cast("Member", snapshot.objects[post.author_id])
    silenced = author.silenced and viewer != author.id and (viewer, author.id) not in snapshot.pairs(FOLLOWS)
    return (
        post.visibility is Visibility.PUBLIC
        and snapshot.may_see(viewer, post)
        and (viewer, author.id) not in snapshot.pairs(MUTES)
        and not silenced
    )


@in_loop
async def test_public_timeline_shows_public_posts_without_replies_and_shares() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("one")
        for kind in ("unlisted", "followers", "direct"):
            await ann.create(kind, visibility=kind)
        await ben.comment(post, "an answer")
        await ann.comment(post, "a continuation")
        await ben.share(post)
        await ben.create("two")
        page = await public_timelines.public_page(shoal.network.reads, None, Cursor())
        assert texts(page) == ["two", "a continuation", "one"]
        await ann.delete(post)
        assert texts(await public_timelines.public_page(shoal.network.reads, None, Cursor())) == [
            "two",
            "a continuation",
        ]


@in_loop
async def test_public_and_tag_timelines_show_silenced_author_only_to_followers() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await ann.create("quiet #dawn")
        await silence(shoal, ann)
        reads, wish = shoal.network.reads, public_timelines.TagQuery(frozenset(("dawn",)))
        for viewer, there in ((ann.id, 1), (ben.id, 1), (cyd.id, 0), (None, 0)):
            assert len((await public_timelines.public_page(reads, viewer, Cursor())).entries) == there
            assert len((await public_timelines.tag_page(reads, viewer, wish, Cursor())).entries) == there


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@in_loop
async def test_public_timeline_read_count_is_independent_of_post_count(backend: str, tmp_path: Path) -> None:
    costs = []
    for number in (1, 40, 200):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{number}.db"
        async with Shoal.open(url) as shoal:
            people = await register(shoal, *NAMES)
            for n in range(number):
                await people[n % 3].create(str(n))
            costs.append(
                (
                    await calls(
                        shoal.network,
                        lambda reads: public_timelines.public_page(reads, people[-1].id, Cursor(limit=40)),  # noqa: B023
                    )
                ).total()
            )
    # A source that fills the page alone is read a second time.
    assert max(costs) <= min(costs) + 1
    assert max(costs) <= 9


@in_loop
async def test_consistency_check_repairs_public_post_list() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        kept, lost = await ann.create("kept"), await ann.create("lost")
        triple = (public_list(shard_of(ann.id)), PUBLISHED.number)
        batch = Batch(shard_of(ann.id))
        batch.put(AssocOp(*triple, lost.id, lost.id, alive=False, data=(1).to_bytes(4), plain=True))
        batch.put(AssocOp(*triple, kept.id + 5, kept.id + 5, alive=True, plain=True))
        await shoal.network.store.commit(batch)
        report = await check(shoal.network)
        assert {line.name: line.found for line in report.invariants if line.found} == {"lists": 2}
        await check(shoal.network, repair=True)
        assert (await check(shoal.network)).clean
        assert set(texts(await public_timelines.public_page(shoal.network.reads, None, Cursor()))) == {"kept", "lost"}


ACTS = st.tuples(
    st.sampled_from(
        ["post"] * 6
        + ["comment", "delete", "delete", "share", "edit", "block", "mute", "follow", "silence", "hide"]
        + ["suspend", "restore"]
    ),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 31),
)


async def act(shoal: Shoal, people: list[Handle], made: list[Post], op: tuple[str, int, int, int]) -> None:
    verb, who, whom, number = op
    actor, other = people[who], people[whom]
    text = f"{number} " + " ".join(f"#{tag}" for bit, tag in enumerate(TAGS) if number >> bit & 1)
    post = made[-1 - number % len(made)] if made else None
    match verb:
        case "post":
            made.append(await actor.create(text, visibility="public" if number > 7 else list(Visibility)[number % 4]))
        case "follow" | "mute" | "block" if actor.id != other.id:
            await getattr(actor, verb)(other)
        case "silence":
            await silence(shoal, actor)
        case "suspend" | "restore" if number > 20:
            await getattr(shoal, verb)(actor)
        case "hide" if post is not None:
            await moderation.hide(shoal.network.writes, post.id)
        case "edit" | "delete" if post is not None:
            mine = next(person for person in people if person.id == post.author_id)
            await (mine.delete(post) if verb == "delete" else mine.update(post, text))
            if verb == "delete":
                made.remove(post)
        case "share" if post is not None:
            await actor.share(post)
        case "comment" if post is not None:
            made.append(await actor.comment(post, text))


@settings(deadline=None, max_examples=examples(30, full=60))
@given(
    acts=st.lists(ACTS, max_size=40),
    feedback=st.lists(st.tuples(*[st.sets(st.sampled_from(TAGS))] * 3), min_size=1, max_size=4),
)
def test_public_and_tag_timelines_match_definition_after_random_actions(
    acts: list[tuple[str, int, int, int]], feedback: list[tuple[set[str], set[str], set[str]]]
) -> None:
    async def story() -> None:
        async with Shoal.open("memory://") as shoal:
            people, made = await register(shoal, *NAMES), list[Post]()
            for op in acts:
                # Skip refused actions.
                with suppress(ShoalError):
                    await act(shoal, people, made, op)
            await shoal.settle()
            snapshot = await GraphSnapshot.of(shoal.network.store)
            assert not list(snapshot.wrong_lists())
            for viewer in people:
                listed = sorted((p.id for p in snapshot.all(Post) if in_public(snapshot, viewer.id, p)), reverse=True)
                own = [p for p in listed if not _answers_another(cast("Post", snapshot.objects[p]))]
                assert await shown(shoal, viewer.id) == own
                assert await upwards(shoal, viewer.id) == own[::-1]
                for any_of, all_of, none_of in feedback:
                    wish = public_timelines.TagQuery(
                        frozenset((TAGS[0], *any_of)), frozenset(all_of), frozenset(none_of)
                    )
                    expected = [
                        p
                        for p in listed
                        if _tagged(cast("Post", snapshot.objects[p]), *map(set, (wish.any_of, all_of, none_of)))
                    ]
                    page = await public_timelines.tag_page(shoal.network.reads, viewer.id, wish, Cursor(limit=100))
                    assert [entry.id for entry in page.entries] == expected
                    if len(expected) > 1:
                        above = Cursor(after=expected[-1], limit=1, oldest_first=True)
                        page = await public_timelines.tag_page(shoal.network.reads, viewer.id, wish, above)
                        assert [entry.id for entry in page.entries] == [expected[-2]]

    run(story())


def _answers_another(post: Post) -> bool:
    return bool(post.parent_id) and post.parent_author_id != post.author_id


def _tagged(post: Post, any_of: set[str], all_of: set[str], none_of: set[str]) -> bool:
    tags = set(post.tags)
    return bool(tags & any_of) and all_of <= tags and not tags & none_of
