"""The For You feed in an imported real network: for each term, one change moves the ranking as documented."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from shoal import Handle, Shoal
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.model import Post
from shoal.core.places import Place
from shoal.core.ranking.recipes import BALANCED, TERM_NAMES, Recipe
from shoal.queries.foryou.interests import interests_of
from shoal.queries.foryou.sources import closest_followees
from tests.async_runner import run
from tests.flows.feeds.test_for_you import only, ranked
from tests.real_data import real_data

GRAPH, EDGES, POSTS = "graph/nodes.csv", "graph/edges.csv", "posts/photos_cc0_pdm.jsonl.gz"
SEA = Place(52.5, 13.4)
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import 37,700 members, their follows and 26,293 posts into a separate store."""
    data, folder = real_data(GRAPH, EDGES, POSTS), tmp_path_factory.mktemp("real")
    (folder / "data").mkdir()
    for part in ("graph", "posts"):
        (folder / "data" / part).symlink_to(data / part)
    (folder / "store").mkdir()
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{folder}/store/shoal.db", "import"]
    subprocess.run([*command, str(folder / "data")], check=True, stdout=subprocess.DEVNULL, timeout=600)
    return folder / "store"


class Scene(NamedTuple):
    """A viewer in the real network, a post of their feed, and members who act on it."""

    shoal: Shoal
    viewer: Handle
    post: Post
    """In the middle of the feed, with a tag used by other posts, not written by the friend."""
    friend: Handle
    """One of the sixty followees whose likes are considered."""
    strangers: list[Handle]

    @property
    def author(self) -> int:
        """Return the id of the author of the post."""
        return self.post.author_id


async def values(scene: Scene) -> dict[int, dict[str, float]]:
    """Return the values of all terms by post, for the whole feed; contributions add up."""
    found = {}
    for one in await ranked(scene.viewer, limit=500):
        assert one.why is not None
        assert sum(term.contribution for term in one.why.terms) == pytest.approx(one.why.score, abs=1e-6)
        found[one.entry.post.id] = {term.name: term.value for term in one.why.terms}
    return found


async def place(scene: Scene, term: str, sign: int) -> int:
    """Return the rank of the post with a weight of 10 for this term, or 500 if the post is missing."""
    weights = replace(BALANCED.weights, **{term: 10.0 * sign})
    recipe = Recipe(weights=weights, exploration=0.0, author_most=10)
    ids = [one.entry.post.id for one in await ranked(scene.viewer, recipe, 500)]
    return ids.index(scene.post.id) if scene.post.id in ids else 500


async def liked_by_strangers(scene: Scene) -> None:
    for one in scene.strangers:
        await one.like(scene.post)


async def another_with_its_tag_is_liked(scene: Scene) -> None:
    found = await scene.viewer.tagged(scene.post.tags[0], limit=40)
    for entry in found.entries:
        if entry.post.author_id not in (scene.author, scene.viewer.id):
            await scene.viewer.like(entry.post)


async def its_author_is_liked(scene: Scene) -> None:
    author = await scene.shoal.member(scene.author)
    for entry in (await author.posts(limit=4)).entries:
        if entry.post.id != scene.post.id:
            await scene.viewer.bookmark(entry.post)


async def the_viewer_is_where_it_is(scene: Scene) -> None:
    await scene.viewer.create("Here", place=SEA)


async def a_friend_likes_it(scene: Scene) -> None:
    await scene.friend.like(scene.post)


async def its_tag_rises(scene: Scene) -> None:
    for one in scene.strangers:
        for n in range(3):
            await one.create(f"{n} #{scene.post.tags[0]}")


async def its_author_follows_whom_the_viewer_follows(scene: Scene) -> None:
    author = await scene.shoal.member(scene.author)
    following = {one.member.id for one in (await author.following(limit=500)).profiles}
    for one in (await scene.viewer.following(limit=30)).profiles:
        if one.member.id not in {*following, author.id}:
            await author.follow(one.member.id)


async def it_is_seen(scene: Scene) -> None:
    await scene.viewer.mark_seen(scene.post)


async def it_says_more(scene: Scene) -> None:
    author = await scene.shoal.member(scene.author)
    tags = " ".join(f"#{tag}" for tag in scene.post.tags[:1])
    await author.update(scene.post, text=f"The sea was calm in the morning and nobody else was there yet {tags}")


Act = Callable[[Scene], Awaitable[None]]

ACTS: Mapping[str, tuple[Act, int, set[str]]] = {
    "reactions": (liked_by_strangers, 1, {"velocity"}),
    "tags": (another_with_its_tag_is_liked, 1, {"author", "seen"}),
    "author": (its_author_is_liked, 1, {"tags"}),
    "nearby": (the_viewer_is_where_it_is, 1, set()),
    "friends": (a_friend_likes_it, 1, {"reactions", "velocity"}),
    "rising": (its_tag_rises, 1, {"tags"}),
    "velocity": (liked_by_strangers, 1, {"reactions"}),
    "common": (its_author_follows_whom_the_viewer_follows, 1, {"friends"}),
    "seen": (it_is_seen, -1, set()),
    "quality": (it_says_more, 1, {"tags", "rising"}),
}
"""For each term: the action, the sign of its weight, and the other terms of the post that may change."""


async def a_scene(shoal: Shoal, store: Path, term: str) -> Scene:
    """Return a viewer with 80 to 150 followees whose feed is full, and a post in the middle of it."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as rows:
        statement = (
            "SELECT id1 FROM association WHERE alive = -1 AND atype = 1 AND time BETWEEN 80 AND 150 ORDER BY id1"
        )
        viewers = [row[0] for row in rows.execute(statement)]
    viewer = await shoal.member(viewers[0])
    friends = closest_followees(await interests_of(viewer._network.reads, viewer.id), 60)
    strangers = [await shoal.register(f"stranger{n}") for n in range(8)]
    feed = [one.entry.post for one in await ranked(viewer, limit=500)]
    assert len(feed) > 200
    if term == "nearby":
        # The real posts have no places, so a followee creates one.
        author = await shoal.member(friends[0])
        post = await posts.create(
            shoal.network.writes,
            author.id,
            Draft(text="At the sea #sea", place=SEA),
            created_at=viewer_now(viewer) - DAY_MS,
        )
        await shoal.settle()
    else:
        # For the term `quality`, the post must be short.
        fits = [one for one in feed[len(feed) // 2 :] if one.tags and (term != "quality" or _words(one) < 4)]
        post = next(one for one in fits if one.author_id != friends[0])
    friend = next(id_ for id_ in friends if id_ != post.author_id)
    return Scene(shoal, viewer, post, await shoal.member(friend), strangers)


def _words(post: Post) -> int:
    """Return the number of words of a post, without its tags."""
    return sum(not word.startswith("#") for word in post.text.split())


def viewer_now(viewer: Handle) -> int:
    return viewer._network.reads.tags.clock()


@pytest.mark.parametrize("term", ACTS)
def test_ranked_feed_term_value_in_imported_network_rises_after_matching_member_action(
    imported: Path, term: str, tmp_path: Path
) -> None:
    act, sign, besides = ACTS[term]
    store = tmp_path / "store" / "shoal.db"

    async def story() -> None:
        async with Shoal.open(f"sqlite:///{store}", media="memory://") as shoal:
            scene = await a_scene(shoal, store, term)
            before, stood = await values(scene), await place(scene, term, sign)
            await act(scene)
            await shoal.settle()
        # A new process has empty caches.
        async with Shoal.open(f"sqlite:///{store}", media="memory://") as shoal:
            scene = scene._replace(viewer=await shoal.member(scene.viewer.id))
            after, stands = await values(scene), await place(scene, term, sign)
        was, now = before[scene.post.id], after[scene.post.id]
        assert now[term] > was[term] + 0.01
        assert stands > stood if sign < 0 else stands < stood or stands == 0, (stood, stands)
        moved = {name for name in TERM_NAMES if name != "freshness" and now[name] != pytest.approx(was[name], abs=1e-3)}
        assert moved <= {term, *besides}

    shutil.copytree(imported, tmp_path / "store")
    run(story())


def test_ranked_feed_freshness_value_in_imported_network_halves_each_day(imported: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with Shoal.open(f"sqlite:///{tmp_path}/store/shoal.db", media="memory://") as shoal:
            scene = await a_scene(shoal, tmp_path / "store" / "shoal.db", "freshness")
            author, now = await shoal.member(scene.author), viewer_now(scene.viewer)
            dated = [
                await posts.create(
                    shoal.network.writes, author.id, Draft(text=f"{days} days"), created_at=now - days * DAY_MS
                )
                for days in (0, 1, 2)
            ]
            await shoal.settle()
            found = await values(scene)
            assert [found[post.id]["freshness"] for post in dated] == pytest.approx([1, 1 / 2, 1 / 4], abs=0.01)
            ids = [one.entry.post.id for one in await ranked(scene.viewer, only(freshness=1.0), 500)]
            assert ids[:3] == [post.id for post in dated]

    shutil.copytree(imported, tmp_path / "store")
    run(story())
