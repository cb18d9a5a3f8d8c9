"""Search: results for each viewer after actions of members, and consistency of the index with the graph."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.commands import media as media_services
from shoal.commands import members as member_services
from shoal.commands import posts as post_services
from shoal.commands import relationships as suggestion_services
from shoal.consumers import indexing
from shoal.core.errors import Gone
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.core.visibility import may_list
from shoal.graph.access import relations
from shoal.graph.contract import MAX_TIME, Batch, Cursor
from shoal.queries import members, search, suggestions, trends
from shoal.queries.context import ExpiringCache, Renewed
from shoal.queries.search import ResultRange
from shoal.search.contract import FORM, FillState
from shoal.search.indexing import Filler, fill, refill
from shoal.search.memory import MemoryIndex
from shoal.tagcloud.rules import denying, merging
from tests.api.in_memory_network import Counting, picture
from tests.async_runner import in_loop, run
from tests.engines import postgres
from tests.example_counts import examples
from tests.flows.members import register
from tests.flows.visibility_cases import VIEWERS, a_scene

MOST = Cursor(limit=200)
EVERYBODY = ResultRange(50)


async def texts(shoal: Shoal, viewer: Handle, question: str, **more: Any) -> list[str]:
    """Return the texts of the posts that a viewer finds."""
    entries = await search.posts(shoal.network.reads, viewer.id, question, MOST, **more)
    return [entry.post.text for entry in entries]


async def named(shoal: Shoal, viewer: Handle | None, text: str, **more: Any) -> list[str]:
    """Return the names of the members that a viewer finds."""
    people = await search.members(shoal.network.reads, viewer.id if viewer else None, text, EVERYBODY, **more)
    return [one.member.name for one in people]


async def change(shoal: Shoal, who: Handle, **values: Any) -> None:
    """Set fields of a member directly in the store."""
    node = (await shoal.network.store.obj_get((who.id,)))[who.id]
    assert isinstance(node, Member)
    batch = Batch(shard_of(who.id))
    batch.obj_set(msgspec.structs.replace(node, version=node.version + 1, **values))
    await shoal.network.store.commit(batch)
    await member_services.update_profile(
        shoal.network.writes, who.id, member_services.ProfileChange(note=f"change {node.version}")
    )


def fresh(shoal: Shoal) -> Any:
    """Return reads with empty caches."""
    return replace(
        shoal.network.reads,
        suggested=ExpiringCache(),
        interests=ExpiringCache(),
        near=ExpiringCache(),
        popular=Renewed(),
        trending=Renewed(),
    )


@in_loop
async def test_search_finds_own_posts_immediately_and_others_after_indexing() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.create("The blue hour at #tide")
        assert await texts(shoal, ann, "blue") == ["The blue hour at #tide"]
        assert await search.tags(shoal.network.reads, ann.id, "ti", EVERYBODY) == ["tide"]
        await shoal.settle()
        assert await texts(shoal, ben, "blue") == ["The blue hour at #tide"]
        assert await search.tags(shoal.network.reads, None, "#TI", EVERYBODY) == ["tide"]


@in_loop
async def test_search_finds_edited_text_and_no_deleted_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("An early draft")
        await shoal.settle()
        await ann.update(post, "A late version")
        assert await texts(shoal, ben, "draft") == []
        await shoal.settle()
        assert await texts(shoal, ben, "late version") == ["A late version"]
        await ann.delete(post)
        assert await texts(shoal, ben, "late") == []
        await shoal.settle()
        assert await shoal.network.reads.search.ids(-1, 99) == sorted((ann.id, ben.id))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty network with each kind of index."""
    if request.param == "postgres":
        return run(postgres.database(request))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'shoal.db'}"


@in_loop
async def test_search_finds_posts_by_current_media_descriptions(url: str) -> None:
    async with Shoal.open(url, media="memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        boat, net = [await ann.upload(picture(color=c), description=f"A {c} sail") for c in ("red", "teal")]
        await ann.create("Both", media=[boat, net])
        again = await ann.create("Again", media=[net])
        assert await texts(shoal, ann, "red sail") == ["Both"]
        await shoal.settle()
        assert await texts(shoal, ben, '"teal sail"') == ["Again", "Both"]
        await media_services.describe(shoal.network.writes, ann.id, net.id, description="Nets on the quay")
        assert await texts(shoal, ben, "teal") == []
        assert await texts(shoal, ann, "quay") == ["Again", "Both"]
        await shoal.settle()
        assert await texts(shoal, ben, "quay") == ["Again", "Both"]
        await ann.update(again, "Without", media=[])
        await shoal.settle()
        assert await texts(shoal, ben, "quay") == ["Both"]
        assert (await check(shoal.network, young=0.0)).clean


@in_loop
async def test_media_description_update_reindexes_all_posts_of_the_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexing, "_INDEX_PAGE", 2)
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        logo = await ann.upload(picture())
        said = [(await ann.create(f"Number {n}", media=[logo])).text for n in range(5)]
        await shoal.settle()
        await media_services.describe(shoal.network.writes, ann.id, logo.id, description="a lighthouse")
        await shoal.settle()
        assert await texts(shoal, ben, "lighthouse") == said[::-1]


@in_loop
async def test_media_update_of_focus_or_of_media_in_no_post_writes_no_search_index_row() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        waiting, shown = await ann.upload(picture()), await ann.upload(picture())
        await ann.create("Shown", media=[shown])
        await shoal.settle()
        before = shoal.network.search.written
        await media_services.describe(shoal.network.writes, ann.id, waiting.id, description="in no post")
        await media_services.describe(shoal.network.writes, ann.id, shown.id, focus=(0.5, 0.5))
        await shoal.settle()
        assert shoal.network.search.written == before


@in_loop
async def test_media_description_update_during_index_write_is_indexed() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        photo = await ann.upload(picture(), description="first")
        post = await ann.create("", media=[photo])
        slow = Slow()
        done = Filler(slow).look(shoal.network.store, (post.id,))
        await slow.begun.wait()
        await media_services.describe(shoal.network.writes, ann.id, photo.id, description="last")
        slow.gate.set()
        await done
        row = (await slow.rows((post.id,)))[post.id]
        assert row.words == ("last",)


@in_loop
async def test_search_indexing_of_post_without_media_reads_no_media() -> None:
    async with _written() as (shoal, ann, post):
        graph = Counting(shoal.network.writes.graph)
        await Filler(MemoryIndex()).look(graph, (post.id,))
        assert graph.reads == ["obj_get", "obj_get"]
        graph.reads.clear()
        await search.own_newest(replace(shoal.network.reads, graph=graph), ann.id)
        await search.posts(replace(shoal.network.reads, graph=graph), ann.id, "nowhere", MOST)
        assert graph.reads == ["assoc_range", "obj_get"] * 2


@in_loop
async def test_search_operators_return_only_matching_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("tide one https://example.org", language="en")
        await ben.comment(root, "tide two")
        await ben.create("tide three @ann", visibility=Visibility.DIRECT, spoiler="wet")
        await shoal.settle()
        expected = {
            "tide": ["tide three @ann", "tide two", "tide one https://example.org"],
            "tide from:me": ["tide one https://example.org"],
            "tide from:@Ben": ["tide three @ann", "tide two"],
            "tide -from:ben": ["tide one https://example.org"],
            "from:nobody": [],
            "tide is:reply": ["tide two"],
            "tide -is:reply -is:sensitive": ["tide one https://example.org"],
            "tide has:link": ["tide one https://example.org"],
            "has:poll": [],
            "is:sensitive": ["tide three @ann"],
            "wet": ["tide three @ann"],
            '"tide t" ': [],
            '"TIDE two"': ["tide two"],
            "tide -two in:public": ["tide one https://example.org"],
            "tide in:library": ["tide three @ann", "tide one https://example.org"],
            "language:en-GB": ["tide one https://example.org"],
            "tide after:2020-01-01 before:2099-01-01": ["tide three @ann", "tide two", "tide one https://example.org"],
            "tide before:2020-01-01": [],
            "tide during:2020-01-01": [],
            "tide before:then": [],
            "https://example.org": ["tide one https://example.org"],
            "title:tide": [],
        }
        assert {question: await texts(shoal, ann, question) for question in expected} == expected


@in_loop
async def test_search_near_operator_finds_posts_within_radius_on_every_index(url: str) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.update_profile(place_precision="exact")
        moved = await ann.create("tide at the harbour", place=(54.1, -0.2))
        await ann.create("tide up the tower", place=(54.13, -0.2))
        await ann.create("tide abroad", place=(47.38, 8.54))
        await ann.create("tide anywhere")
        await ann.create("tide for friends", place=(54.1, -0.2), visibility="followers")
        await shoal.settle()
        near, both = ["tide at the harbour"], ["tide up the tower", "tide at the harbour"]
        expected = {
            "near:54.1,-0.2": both,
            "tide near:54.1,-0.2,10": both,
            "tide near:54.1,-0.2,3.2": near,
            'near:"54.1, -0.2, 3.2"': near,
            "NEAR:54.1,-0.2,0.1": near,
            "tower near:54.1,-0.2,3.4": ["tide up the tower"],
            "near:54.1,-0.2 near:54.07,-0.2,4": near,
            "near:54.1,-0.2 near:47.38,8.54": [],
            "near:47.38,8.54,400": ["tide abroad"],
            "ebb near:54.1,-0.2": [],
            "near:54.1": [],
            "near:54.1,-0.2,3,4": [],
            "near:harbour": [],
            "near:91,0": [],
            "near:54.1,-0.2,501": [],
            "near:54.1,-0.2,nan": [],
            "-near:54.1,-0.2": [],
        }
        assert {question: await texts(shoal, ben, question) for question in expected} == expected
        assert await texts(shoal, ann, "near:54.1,-0.2,1") == ["tide for friends", "tide at the harbour"]
        await ann.update(moved, "tide gone abroad", place=(47.38, 8.54))
        assert await texts(shoal, ben, "near:54.1,-0.2") == ["tide up the tower"]
        await shoal.settle()
        assert await texts(shoal, ben, "near:47.38,8.54") == ["tide abroad", "tide gone abroad"]


@in_loop
async def test_search_date_operators_use_creation_date_of_imported_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await shoal.settle()
        long_ago = 1_262_304_000_000  # 2010-01-01
        posts = shoal.network.writes
        from_then = await _imported(posts, ann, "old tide", long_ago)
        await shoal.settle()
        assert from_then.created_at == long_ago
        assert await texts(shoal, ben, "tide during:2010-01-01") == ["old tide"]
        assert await texts(shoal, ben, "tide after:2010-01-01") == []


async def _imported(writes: Any, author: Handle, text: str, moment: int) -> Any:
    return await post_services.create(writes, author.id, post_services.Draft(text=text), created_at=moment)


@in_loop
async def test_search_undiscoverable_member_is_found_by_exact_name_only() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, bea = await register(shoal, "ann", "ben", "bea")
        await ben.create("a quiet tide, @bea")
        await change(shoal, ben, discoverable=False, indexable=False)
        await shoal.settle()
        assert await named(shoal, ann, "be") == ["bea"]
        assert await named(shoal, ann, "BEN") == ["ben"]
        assert await texts(shoal, ann, "tide") == []
        assert await texts(shoal, bea, "tide") == await texts(shoal, ben, "tide") == ["a quiet tide, @bea"]
        await ann.follow(ben)
        await shoal.settle()
        assert await named(shoal, ann, "be", following=True) == ["ben"]
        await change(shoal, ben, discoverable=True, indexable=True)
        await shoal.settle()
        assert await texts(shoal, ann, "tide") == ["a quiet tide, @bea"]


@in_loop
async def test_account_search_ranks_exact_name_then_followees_then_popular_members() -> None:
    async with Shoal.open("memory://") as shoal:
        crowd = await register(shoal, "sun", "sun_a", "sun_b", "sun_c", "viewer")
        _, _, second, third, viewer = crowd
        for fan in crowd[:2]:
            await fan.follow(second)
        await viewer.follow(third)
        await shoal.settle()
        assert await named(shoal, None, "sun") == ["sun", "sun_b", "sun_c", "sun_a"]
        assert await named(shoal, viewer, "sun") == ["sun", "sun_c", "sun_b", "sun_a"]
        await second.block(viewer)
        assert await named(shoal, viewer, "sun") == ["sun", "sun_c", "sun_a"]
        assert await named(shoal, viewer, "sun_b") == ["sun_b"]


@in_loop
async def test_search_excludes_suspended_members_until_restored() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.create("tide #reef")
        await shoal.settle()
        reads = shoal.network.reads

        async def seen() -> list[list[Any]]:
            listed = await members.directory_page(reads, None, "new", 9)
            return [
                await named(shoal, ann, "ben"),
                await texts(shoal, ann, "tide"),
                await search.tags(reads, None, "reef", EVERYBODY),
                [profile.member.name for profile in listed],
            ]

        assert await seen() == [["ben"], ["tide #reef"], ["reef"], ["ben", "ann"]]
        await shoal.suspend(ben)
        assert (await seen())[:2] == [[], []]
        await shoal.settle()
        assert await seen() == [[], [], [], ["ann"]]
        await shoal.restore(ben)
        await shoal.settle()
        assert await seen() == [["ben"], ["tide #reef"], ["reef"], ["ben", "ann"]]


@in_loop
async def test_tag_search_excludes_denied_tags_and_resolves_merged_tags() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.create("#seaside #seashore #seamonster")
        await shoal.settle()
        await shoal.network.tags.rule(merging("seashore", "seaside"))
        await shoal.network.tags.rule(denying("seamonster"))
        assert await search.tags(shoal.network.reads, None, "sea", EVERYBODY) == ["seaside"]
        assert await search.tags(shoal.network.reads, None, "seash", EVERYBODY) == ["seaside"]
        assert await search.tags(shoal.network.reads, None, "seamonster", EVERYBODY) == []


@in_loop
async def test_follow_suggestions_exclude_known_blocked_muted_and_dismissed_members() -> None:
    async with Shoal.open("memory://") as shoal:
        me, friend, *others = await register(
            shoal, "me", "friend", "good", "blocked", "blocker", "muted", "dismissed", "gone", "shy", "known"
        )
        await me.follow(friend)
        for other in others:
            await friend.follow(other)
        await friend.follow(me)
        _, blocked, blocker, muted, dismissed, gone, shy, known = others
        await me.block(blocked)
        await blocker.block(me)
        await me.mute(muted)
        await suggestion_services.dismiss_suggestion(shoal.network.writes, me.id, dismissed.id)
        await shoal.suspend(gone)
        await change(shoal, shy, discoverable=False)
        await me.follow(known)
        await shoal.settle()
        suggested = await suggestions.suggestions(fresh(shoal), me.id, 40)
        assert [(one.profile.member.name, one.friends) for one in suggested] == [("good", 1)]


@pytest.mark.parametrize(("active", "followers"), [(2_000, "quiet"), (6, "talkers")])
@in_loop
async def test_follow_suggestions_rank_most_followed_above_recently_active(
    active: int, followers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a small network, all members are candidates; in a large network, the followees of active members.
    monkeypatch.setattr(suggestions, "_ACTIVE", active)
    monkeypatch.setattr(suggestions, "MOST", 4)
    async with Shoal.open("memory://") as shoal:
        star, me, *quiet = await register(shoal, "star", "me", *(f"quiet_{n}" for n in range(5)))
        talkers = await register(shoal, *(f"talker_{n}" for n in range(12)))
        for one in talkers:
            await one.create("so much to say")
        for one in quiet if followers == "quiet" else talkers:
            await one.follow(star)
        await shoal.settle()
        suggested = await suggestions.suggestions(fresh(shoal), me.id, 4)
        assert (suggested[0].profile.member.name, len(suggested)) == ("star", 4)


@in_loop
async def test_search_suggestions_and_trends_read_count_is_independent_of_result_count() -> None:
    async with Shoal.open("memory://") as shoal:
        me, _stranger, *crowd = await register(shoal, "me", "stranger", *(f"crowd_{n}" for n in range(12)))
        counted: list[dict[str, int]] = []
        for part in (crowd[:2], crowd[2:]):
            for one in part:
                await me.follow(one)
                await one.follow(me)
                await crowd[-1].like(await one.create("tide #tide"))
            await shoal.settle()
            graph = Counting(shoal.network.writes.graph)
            reads: Any = replace(fresh(shoal), graph=graph)
            costs = {}
            for name, ask in {
                "posts": search.posts(reads, me.id, "tide", Cursor(limit=20)),
                "members": search.members(reads, me.id, "crowd", EVERYBODY),
                "tags": search.tags(reads, me.id, "tide", EVERYBODY),
                "directory": members.directory_page(reads, me.id, "active", 40),
                "suggestions": suggestions.suggestions(reads, me.id, 40),
                "popular": trends.page(reads, me.id, 20),
            }.items():
                graph.reads.clear()
                assert await ask
                costs[name] = len(graph.reads)
            counted.append(costs)
        assert counted[0] == counted[1]
        assert counted[1].pop("popular") <= 19
        assert counted[1].pop("suggestions") <= 27
        assert max(counted[1].values()) <= 11


@in_loop
async def test_search_results_contain_only_posts_visible_to_viewer() -> None:
    async with a_scene(suspended=False) as scene:
        store, reads = scene.network.store, scene.network.reads
        author = (await store.obj_get((scene.people["author"].id,)))[scene.people["author"].id]
        assert isinstance(author, Member)
        for viewer in VIEWERS:
            if viewer == "anonymous":
                continue
            me = scene.people[viewer].id
            stand = (await relations(store, me, (author.id,)))[author.id]
            entries = await search.posts(reads, me, "mentioned from:author", MOST)
            allowed = {
                cell
                for cell, post in scene.posts.items()
                if cell[1] not in ("deleted", "held")
                and (current := (await store.obj_get((post.id,))).get(post.id)) is not None
                and may_list(me, current, author, stand)  # type: ignore[arg-type]
                and (cell[0] is Visibility.PUBLIC or viewer in ("author", "mentioned"))
                and (cell[1] != "waiting" or viewer == "author" or stand.following)
                and viewer != "reporter"
            }
            assert scene.cells({entry.post.id for entry in entries}) == allowed, viewer


@in_loop
async def test_search_results_exclude_posts_of_suspended_author() -> None:
    async with a_scene(suspended=True) as scene:
        for viewer in VIEWERS[:-1]:
            assert await search.posts(scene.network.reads, scene.people[viewer].id, "mentioned from:author", MOST) == []


@dataclass(frozen=True)
class Act:
    """An action of a member."""

    who: int
    what: str
    text: str
    whom: int


acts = st.builds(
    Act,
    st.integers(0, 2),
    st.sampled_from(
        ("post", "direct", "followers", "edit", "delete", "block", "mute", "hide", "suspend", "shy", "rename")
    ),
    st.sampled_from(("tide #sea", "blue tide", "#sea #sky", "海辺 @bob", "@ann @cyd tide")),
    st.integers(0, 2),
)


async def _do(shoal: Shoal, people: Sequence[Handle], act: Act) -> None:
    me, other = people[act.who], people[act.whom]
    node = (await shoal.network.store.obj_get((me.id,)))[me.id]
    assert isinstance(node, Member)
    if act.what == "suspend":
        await (shoal.restore(me) if node.suspended else shoal.suspend(me))
        return
    if node.suspended:
        return
    visibilities = {"post": Visibility.PUBLIC, "direct": Visibility.DIRECT, "followers": Visibility.FOLLOWERS}
    mine = await search.own_newest(shoal.network.reads, me.id)
    if act.what in visibilities:
        await me.create(act.text, visibility=visibilities[act.what])
    elif act.what == "shy":
        await change(shoal, me, indexable=not node.indexable, discoverable=not node.discoverable)
    elif act.what == "rename":
        changed = member_services.ProfileChange(display_name=act.text)
        await member_services.update_profile(shoal.network.writes, me.id, changed)
    elif act.what in ("block", "mute") and me.id != other.id:
        # Blocking a suspended member is refused.
        with contextlib.suppress(Gone):
            await (me.block(other) if act.what == "block" else me.mute(other))
    elif mine and act.what == "edit":
        await me.update(mine[-1], act.text)
    elif mine and act.what == "delete":
        await me.delete(mine[0])
    elif mine and act.what == "hide":
        await shoal.hide(mine[0])


async def _contents(index: Any) -> list[Any]:
    ids = await index.ids(-1, 9_999)
    return [
        ids,
        await index.rows(ids),
        await index.tags("", 99),
        await index.directory("active", 99),
        await index.directory("new", 99),
    ]


@given(st.lists(acts, max_size=14))
@settings(max_examples=examples(20, full=40), deadline=None)
def test_search_index_equals_rebuilt_index_and_respects_visibility(happened: list[Act]) -> None:
    async def story() -> None:
        async with Shoal.open("memory://") as shoal:
            people = await register(shoal, "ann", "bob", "cyd")
            for act in happened:
                await _do(shoal, people, act)
            await shoal.settle()
            store, reads = shoal.network.store, shoal.network.reads
            anew = Filler(MemoryIndex())
            await fill(store, store, anew)
            assert await _contents(reads.search) == await _contents(anew.index)
            for viewer in people:
                for question in ("tide", "-nothing", "海辺"):
                    for entry in await search.posts(reads, viewer.id, question, MOST):
                        author = entry.author.member
                        stand = (await relations(store, viewer.id, (author.id,)))[author.id]
                        assert may_list(viewer.id, entry.post, author, stand)
                        mentions = {mention.id for mention in entry.post.mentions}
                        open_to_all = entry.post.visibility is Visibility.PUBLIC and author.indexable
                        assert open_to_all or viewer.id in (author.id, *mentions)

    run(story())


class Slow(MemoryIndex):
    """An index whose writes wait for a gate, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.writes = 0
        self.fails = False

    async def write(self, change: Any) -> None:
        self.writes += 1
        self.begun.set()
        await self.gate.wait()
        if self.fails:
            raise ConnectionError("the index is away")
        await super().write(change)


@asynccontextmanager
async def _written() -> AsyncIterator[tuple[Shoal, Handle, Any]]:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        yield shoal, ann, await ann.create("the first words")


@in_loop
async def test_search_indexer_post_edit_during_index_write_is_indexed() -> None:
    async with _written() as (shoal, ann, post):
        slow = Slow()
        done = Filler(slow).look(shoal.network.store, (post.id,))
        await slow.begun.wait()
        await ann.update(post, "the last words")
        slow.gate.set()
        await done
        assert slow.writes == 2
        row = (await slow.rows((post.id,)))[post.id]
        assert row.words == ("the", "last", "words")


@in_loop
async def test_search_indexer_batches_requests_during_a_write() -> None:
    async with _written() as (shoal, ann, post):
        slow = Slow()
        filler = Filler(slow)
        futures = [filler.look(shoal.network.store, (post.id,))]
        await slow.begun.wait()
        futures += [filler.look(shoal.network.store, (id_,)) for id_ in (ann.id, post.id, 7, ann.id)]
        slow.gate.set()
        await asyncio.gather(*futures)
        assert slow.writes == 2
        assert await slow.ids(-1, 9) == [ann.id, post.id]


@in_loop
async def test_search_indexer_write_failure_is_raised_and_can_be_retried() -> None:
    async with _written() as (shoal, _, post):
        slow = Slow()
        slow.fails = True
        slow.gate.set()
        filler = Filler(slow)
        (failed,) = await asyncio.gather(filler.look(shoal.network.store, (post.id,)), return_exceptions=True)
        assert isinstance(failed, ConnectionError)
        slow.fails = False
        await filler.look(shoal.network.store, (post.id,))
        assert await slow.ids(-1, 9) == [post.id]


@in_loop
async def test_search_index_missing_at_start_is_rebuilt(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    async with Shoal.open(url) as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.create("an old tide")
        await shoal.settle()
    for path in sorted(tmp_path.glob("shoal.db.search*")):  # noqa: ASYNC240  # three files
        path.unlink()
    async with Shoal.open(url) as shoal:
        index = shoal.network.reads.search
        async with asyncio.timeout(60):
            while not (await index.state()).complete:  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0.01)
        ben = await shoal.register("ben")
        assert await texts(shoal, ben, "tide") == ["an old tide"]


@in_loop
async def test_search_index_fill_resumes_and_refill_removes_deleted_rows() -> None:
    async with _written() as (shoal, ann, post):
        store, index = shoal.network.store, MemoryIndex()
        filler = Filler(index)
        await index.keep_state(FillState(FORM, ann.id))
        assert await fill(store, store, filler) == 1
        assert await index.ids(-1, 9) == [post.id]
        assert await fill(store, store, filler) == 0
        await ann.delete(post)
        assert await refill(store, store, filler) == 1
        assert await index.ids(-1, 9) == [ann.id]
        await index.keep_state(FillState(FORM + 1, MAX_TIME))
        assert await fill(store, store, filler) == 1
