"""I7: viewers see only permitted posts on any surface; every viewer, post and surface is checked against a handwritten table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest

from shoal import Visibility, hash_address
from shoal.commands import reactions
from shoal.core.errors import Gone, NotFound, Taken, Unfit
from shoal.core.feeds.declarations import (
    ByAuthor,
    ByExpression,
    FeedDeclaration,
    Filters,
    Followees,
    FromEverybody,
    NamedFeed,
    Newest,
    OfFeed,
    OfKind,
    OnList,
    Order,
    Popular,
    Source,
    WithTag,
)
from shoal.core.feeds.declarations import Nearby as NearPlace
from shoal.core.places import disk
from shoal.graph.access import access_post
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.queries import albums, home, members, posts, public_timelines, threads, trends
from shoal.queries.context import Renewed
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.hydration import Entry, hydrate, profiles_by_id
from shoal.queries.kinds import posts_page
from shoal.queries.named_feeds import feed as named_feeds
from shoal.queries.public_timelines import TagQuery
from shoal.queries.streaming import Arrived, Edited, Removed, updates_for_viewer
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.hub import Hub
from shoal.streaming.subscriptions import FeedInterest
from shoal.streaming.updates import FiltersChanged
from tests.async_runner import in_loop
from tests.flows.visibility_cases import AUTHORS_ADDRESS, HARBOUR, KINDS, VIEWERS, Cell, Scene, a_scene

PUBLIC, UNLISTED, FOLLOWERS, DIRECT = Visibility
OPEN = {PUBLIC, UNLISTED}
ALL = set(Visibility)
EVERYTHING = Cursor(limit=500)

# Visibilities of posts that a viewer can request directly.
ASKED: dict[str, set[Visibility]] = {
    "author": ALL,
    "follower": OPEN | {FOLLOWERS},
    "half": OPEN | {FOLLOWERS},
    "stranger": OPEN,
    "mentioned": ALL,
    "blocked": set(),
    "blocker": set(),
    "muter": OPEN | {FOLLOWERS},
    "tagger": OPEN,
    "cutter": OPEN | {FOLLOWERS},
    "deaf": OPEN | {FOLLOWERS},
    "reporter": set(),
    "anonymous": OPEN,
}
# Visibilities of posts that a viewer can get in a list.
UNASKED = ASKED | {"muter": set()}
# Visibilities of posts in the home timeline. A comment requires a follow of the author of the parent as well.
HOME = {viewer: set[Visibility]() for viewer in VIEWERS} | {
    "author": ALL,
    "follower": OPEN | {FOLLOWERS},
    "half": OPEN | {FOLLOWERS},
    "cutter": OPEN | {FOLLOWERS},
    "deaf": OPEN | {FOLLOWERS},
}
TAGGED_HOME = HOME | {"tagger": {PUBLIC}}
COMMENT_HOME = HOME | {"half": set(), "cutter": set(), "deaf": set()}
# Visibilities in public lists, and in public lists for held posts.
PUBLIC_LISTS = {viewer: allowed & {PUBLIC} for viewer, allowed in UNASKED.items()}
FOLLOWING = ("author", "follower", "half", "cutter", "deaf")
WAITING_LISTS = {viewer: {PUBLIC} if viewer in FOLLOWING else set[Visibility]() for viewer in VIEWERS}
# Visibilities of shares in the home timeline: by the sharer, or by the author for followers-only posts.
SHARE_HOME = dict.fromkeys(VIEWERS, OPEN) | {
    "follower": OPEN | {FOLLOWERS},
    "half": OPEN | {FOLLOWERS},
    "author": {FOLLOWERS},
    "blocked": set(),
    "blocker": set(),
    "muter": set(),
    "cutter": {FOLLOWERS},
    "deaf": {FOLLOWERS},
    "reporter": set(),
}
# Visibilities of shares on the profile of the sharer.
SHARE_LISTED = {viewer: allowed - {DIRECT} for viewer, allowed in ASKED.items()} | {
    "mentioned": OPEN,
    "muter": {FOLLOWERS},
    "cutter": {FOLLOWERS},
}

Table = dict[str, set[Visibility]]
Surface = Callable[[Scene, str], Awaitable[set[Cell]]]


def _home_table(kind: str) -> Table:
    return {"tagged": TAGGED_HOME, "comment": COMMENT_HOME}.get(kind, HOME)


def _public_table(kind: str) -> Table:
    return WAITING_LISTS if kind == "waiting" else PUBLIC_LISTS


async def _ids(entries: list[Entry], scene: Scene) -> set[Cell]:
    return scene.cells({entry.post.id for entry in entries if entry.share is None})


async def read(scene: Scene, viewer: str) -> set[Cell]:
    found = await hydrate(
        scene.network.store, scene.id_of(viewer), [post.id for post in scene.posts.values()], unasked=False
    )
    return await _ids(found, scene)


async def read_as_a_handle(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await scene.people[viewer].read(scene.posts[cell])
        await scene.people[viewer].history(scene.posts[cell])

    return await _granted(scene, one)


async def access(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await access_post(scene.network.store, scene.id_of(viewer), scene.posts[cell].id)

    return await _granted(scene, one)


async def likers(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await members.likers(scene.network.reads, scene.id_of(viewer), scene.posts[cell].id)

    return await _granted(scene, one)


async def reactors(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await members.emoji_reactors(scene.network.reads, scene.id_of(viewer), scene.posts[cell].id)
        await members.emoji_page(scene.network.reads, scene.id_of(viewer), scene.posts[cell].id, "👍", EVERYTHING)

    return await _granted(scene, one)


async def like_and_keep(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await reactions.like(scene.network.writes, scene.people[viewer].id, scene.posts[cell].id)
        await scene.people[viewer].bookmark(scene.posts[cell])
        await scene.people[viewer].react(scene.posts[cell], "👍")
        await scene.people[viewer].comment(scene.posts[cell], "me too")

    return await _granted(scene, one)


async def share(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await scene.people[viewer].share(scene.posts[cell])

    return await _granted(scene, one)


async def thread_of_it(scene: Scene, viewer: str) -> set[Cell]:
    async def one(cell: Cell) -> None:
        await threads.thread(scene.network.reads, scene.id_of(viewer), scene.posts[cell].id, above=50, below=50)

    return await _granted(scene, one)


async def thread_above(scene: Scene, viewer: str) -> set[Cell]:
    found: set[Cell] = set()
    for answer in scene.answers.values():
        told = await threads.thread(scene.network.reads, scene.id_of(viewer), answer.id, above=50, below=50)
        found |= await _ids(told.above, scene)
    return found


async def thread_below(scene: Scene, viewer: str) -> set[Cell]:
    told = await threads.thread(scene.network.reads, scene.id_of(viewer), scene.question.id, above=50, below=500)
    return await _ids(told.below, scene)


async def user_timeline(scene: Scene, viewer: str) -> set[Cell]:
    page = await posts.authored_page(scene.network.reads, scene.id_of(viewer), scene.people["author"].id, EVERYTHING)
    return await _ids(page.entries, scene)


async def home_page(scene: Scene, viewer: str) -> set[Cell]:
    page = await home.page(scene.network.reads, scene.people[viewer].id, EVERYTHING)
    return await _ids(page.entries, scene)


async def home_definition(scene: Scene, viewer: str) -> set[Cell]:
    page = await home.definition(scene.network.reads, scene.people[viewer].id, EVERYTHING)
    return await _ids(page.entries, scene)


async def ranked_feed(scene: Scene, viewer: str) -> set[Cell]:
    """Return posts that pass the filters of For you, and assert that its pages show no others."""

    async def one(cell: Cell) -> None:
        if (await scene.people[viewer].why_not(scene.posts[cell])).stage == "filter":
            raise NotFound("kept out")

    found = await _granted(scene, one)
    page = await feed.page(scene.network.reads, scene.people[viewer].id, 500, deadline=60.0)
    assert scene.cells({ranked.entry.post.id for ranked in page.entries}) <= found
    assert not page.by_time
    as_list, _ = await feed.list_page(scene.network.reads, scene.people[viewer].id, EVERYTHING, deadline=60.0)
    assert scene.cells({entry.post.id for entry in as_list.entries}) == scene.cells(
        {ranked.entry.post.id for ranked in page.entries}
    )
    missed = await catch_up(scene.network.reads, scene.people[viewer].id, 0, 500)
    assert scene.cells({one.entry.post.id for one in (*missed.quiet, *missed.best)}) <= found
    return found


async def public_feed(scene: Scene, viewer: str) -> set[Cell]:
    return await _ids(await scene.people[viewer].list_public_feed(0, 1_000), scene)


async def recent(scene: Scene, viewer: str) -> set[Cell]:
    return await _ids(await scene.people[viewer].list_recent(0, 1_000), scene)


async def public_timeline(scene: Scene, viewer: str) -> set[Cell]:
    page = await public_timelines.public_page(scene.network.reads, scene.id_of(viewer), EVERYTHING)
    return await _ids(page.entries, scene)


async def tag_timeline(scene: Scene, viewer: str) -> set[Cell]:
    query = TagQuery(frozenset({"tide"}))
    page = await public_timelines.tag_page(scene.network.reads, scene.id_of(viewer), query, EVERYTHING)
    return await _ids(page.entries, scene)


async def _read_feed(scene: Scene, viewer: str, *sources: Source, expression: str = "") -> set[Cell]:
    """Return the posts in a feed, and assert that the feed has the same posts as a list."""
    order: Order = ByExpression(expression=expression) if expression else Newest()
    declared = FeedDeclaration(sources=sources, order=order, filters=Filters(replies=True))
    feed = NamedFeed(id=1, owner_id=0, title="all", declaration=declared)
    page = await named_feeds.page(scene.network.reads, scene.id_of(viewer), feed, EVERYTHING)
    found = await _ids([shown.entry for shown in page.entries], scene)
    if viewer != "anonymous":
        listed = await named_feeds.list_page(scene.network.reads, scene.people[viewer].id, feed, EVERYTHING)
        assert await _ids(listed.entries, scene) == found
        if not expression and sources != (Popular(),):
            assert await _stream_feed(scene, viewer, declared) == found
    return found


async def _stream_feed(scene: Scene, viewer: str, declared: FeedDeclaration) -> set[Cell]:
    """Return the posts in the stream of a feed that resumes before the first post.

    Assert that only posts which the viewer could see are reported as removed.
    """
    who, network = scene.people[viewer], scene.network
    try:
        made = await who.feeds.create("streamed", declared)
    except Gone:
        # A suspended author has no streams.
        return set()
    hub = Hub(network.effects.channel, network.store, capacity=5_000)
    start = await network.effects.channel.end(10_000)
    async with hub.connect(who.id, start, to=FeedInterest(made.id)) as connection:
        # The last update, so that there is one.
        connection.offer(PlacedUpdate(start, FiltersChanged(who.id)))
        told = await updates_for_viewer(network.reads, connection, await connection.take())
    await hub.close()
    removed = scene.cells({update.id for update in told if isinstance(update, Removed)})
    if viewer != "reporter":
        assert {scene.posts[cell].visibility for cell in removed} <= NOT_DIRECT[viewer]
    return await _ids([update.entry for update in told if isinstance(update, Arrived | Edited)], scene)


async def feed_of_everybody(scene: Scene, viewer: str) -> set[Cell]:
    return await _read_feed(scene, viewer, FromEverybody())


async def feed_of_a_tag(scene: Scene, viewer: str) -> set[Cell]:
    return await _read_feed(scene, viewer, WithTag(tag="tide"))


async def feed_of_a_kind(scene: Scene, viewer: str) -> set[Cell]:
    return await _read_feed(scene, viewer, OfKind(kind="note"))


async def feed_of_a_place(scene: Scene, viewer: str) -> set[Cell]:
    latitude, longitude = HARBOUR
    return await _read_feed(scene, viewer, NearPlace(latitude=latitude, longitude=longitude, radius_km=10.0))


async def feed_of_the_author(scene: Scene, viewer: str) -> set[Cell]:
    return await _read_feed(scene, viewer, ByAuthor(author=scene.people["author"].name))


async def ranked_feed_of_the_author(scene: Scene, viewer: str) -> set[Cell]:
    author = ByAuthor(author=scene.people["author"].name, most=500)
    return await _read_feed(scene, viewer, author, expression="likes - age_hours")


async def feed_of_followees(scene: Scene, viewer: str) -> set[Cell]:
    return await _read_feed(scene, viewer, Followees())


async def feed_of_a_list(scene: Scene, viewer: str) -> set[Cell]:
    who, author = scene.people[viewer], scene.people["author"]
    try:
        made = await who.lists.create("authors")
    except Gone:
        return set()
    with suppress(NotFound, Unfit):
        await who.lists.put_on(made, author)
    return await _read_feed(scene, viewer, OnList(list=str(made.id)))


async def feed_of_a_feed(scene: Scene, viewer: str) -> set[Cell]:
    with suppress(Taken):
        declared = {"sources": [{"from": "author", "author": "author"}], "filters": {"replies": True}}
        await scene.shoal.server_feeds.create("inner", declared)
    return await _read_feed(scene, viewer, OfFeed(feed="inner"))


async def feed_of_popular_posts(scene: Scene, viewer: str) -> set[Cell]:
    await _like_everything(scene)
    return await _read_feed(scene, viewer, Popular())


async def offered_examples(scene: Scene, viewer: str) -> set[Cell]:
    found = await scene.people[viewer].interests()
    return scene.cells({one.example.post.id for one in found if one.example is not None})


async def near_the_harbour(scene: Scene, viewer: str) -> set[Cell]:
    page = await public_timelines.nearby_page(scene.network.reads, scene.id_of(viewer), disk(*HARBOUR), EVERYTHING)
    return await _ids(page.entries, scene)


async def posts_of_a_kind(scene: Scene, viewer: str) -> set[Cell]:
    kind = await scene.shoal.kinds.get("note")
    page = await posts_page(scene.network.reads, scene.id_of(viewer), kind, (), EVERYTHING)
    return await _ids(page.entries, scene)


async def posts_with_a_property(scene: Scene, viewer: str) -> set[Cell]:
    kind = await scene.shoal.kinds.get("note")
    page = await posts_page(scene.network.reads, scene.id_of(viewer), kind, kind.filters({"mood": "calm"}), EVERYTHING)
    return await _ids(page.entries, scene)


async def posts_of_a_kind_by_the_author(scene: Scene, viewer: str) -> set[Cell]:
    kind, author = await scene.shoal.kinds.get("note"), scene.people["author"].id
    page = await posts_page(scene.network.reads, scene.id_of(viewer), kind, (), EVERYTHING, author_id=author)
    return await _ids(page.entries, scene)


async def trending_posts(scene: Scene, viewer: str) -> set[Cell]:
    """Return trending posts after every permitted member has liked every post."""
    await _like_everything(scene)
    reads = replace(scene.network.reads, trending=Renewed())
    return await _ids(await trends.page(reads, scene.id_of(viewer), 1_000), scene)


async def _like_everything(scene: Scene) -> None:
    for handle in scene.people.values():
        for post in scene.posts.values():
            with suppress(NotFound):
                await handle.like(post)
    await scene.shoal.settle()


async def shares_at_home(scene: Scene, viewer: str) -> set[Cell]:
    page = await home.page(scene.network.reads, scene.people[viewer].id, EVERYTHING)
    return _shares(page.entries, scene)


async def shares_on_profiles(scene: Scene, viewer: str) -> set[Cell]:
    found: set[Cell] = set()
    for sharer in ("sharer", "author"):
        page = await posts.authored_page(scene.network.reads, scene.id_of(viewer), scene.people[sharer].id, EVERYTHING)
        found |= _shares(page.entries, scene)
    return found


async def photos_of_an_album(scene: Scene, viewer: str) -> set[Cell]:
    found: set[Cell] = set()
    for album in scene.albums.values():
        with suppress(NotFound, Gone):
            page = await albums.page(scene.network.reads, scene.id_of(viewer), album)
            assert len(page.photos) == page.total
            found |= scene.cells({one.entry.post.id for one in page.photos})
    return found


async def covers_of_albums(scene: Scene, viewer: str) -> set[Cell]:
    author = scene.people["author"].id
    with suppress(Gone):
        listed = await albums.of_member(scene.network.reads, scene.id_of(viewer), author, MAX_TIME, len(scene.albums))
        shown = {one.album.id for one in listed.covers if one.photos}
        return {cell for cell, album in scene.albums.items() if album in shown}
    return set()


def _shares(entries: list[Entry], scene: Scene) -> set[Cell]:
    shown = {entry.id for entry in entries if entry.share is not None}
    return {cell for cell, share_id in scene.shares.items() if share_id in shown}


async def _granted(scene: Scene, ask: Callable[[Cell], Awaitable[None]]) -> set[Cell]:
    found: set[Cell] = set()
    for cell in scene.posts:
        try:
            await ask(cell)
        except NotFound:
            continue
        found.add(cell)
    return found


# Visibilities in a ranked feed: public posts for strangers, all except direct posts for followers.
RANKED = {viewer: allowed & {PUBLIC} for viewer, allowed in UNASKED.items()} | {
    viewer: OPEN | {FOLLOWERS} for viewer in FOLLOWING if viewer != "author"
}
RANKED["author"] = set()


def _ranked_table(kind: str) -> Table:
    if kind == "comment":
        return NOBODYS
    if kind == "waiting":
        return {viewer: allowed if viewer in FOLLOWING else set() for viewer, allowed in RANKED.items()}
    return RANKED


SHAREABLE = {viewer: allowed & OPEN for viewer, allowed in ASKED.items()} | {"author": OPEN | {FOLLOWERS}}
NOBODYS: Table = {viewer: set() for viewer in VIEWERS}

NOT_DIRECT: Table = {viewer: allowed - {DIRECT} for viewer, allowed in UNASKED.items()}
RANKED_BY_AUTHOR: Table = {viewer: allowed if viewer in FOLLOWING else set() for viewer, allowed in NOT_DIRECT.items()}
FOLLOWED: Table = NOBODYS | {viewer: OPEN | {FOLLOWERS} for viewer in FOLLOWING if viewer != "author"}

PICTURED = ("media", "tagged", "waiting")

# The expected table of each surface per kind of post.
SURFACES: dict[Surface, Callable[[str], Table]] = {
    read: lambda kind: ASKED,
    read_as_a_handle: lambda kind: ASKED,
    access: lambda kind: ASKED,
    likers: lambda kind: ASKED,
    reactors: lambda kind: ASKED,
    like_and_keep: lambda kind: ASKED,
    share: lambda kind: SHAREABLE,
    thread_of_it: lambda kind: ASKED,
    thread_above: lambda kind: ASKED,
    thread_below: lambda kind: UNASKED if kind == "comment" else NOBODYS,
    user_timeline: lambda kind: ASKED,
    home_page: _home_table,
    home_definition: _home_table,
    ranked_feed: _ranked_table,
    public_feed: _home_table,
    recent: lambda kind: NOBODYS | {"author": ALL},
    public_timeline: lambda kind: NOBODYS if kind == "comment" else _public_table(kind),
    tag_timeline: lambda kind: _public_table(kind) if kind in ("tagged", "waiting") else NOBODYS,
    feed_of_everybody: lambda kind: NOBODYS if kind == "comment" else _public_table(kind),
    feed_of_a_tag: lambda kind: _public_table(kind) if kind in ("tagged", "waiting") else NOBODYS,
    feed_of_a_kind: _public_table,
    feed_of_a_place: _public_table,
    feed_of_the_author: lambda kind: NOT_DIRECT,
    ranked_feed_of_the_author: lambda kind: RANKED_BY_AUTHOR if kind == "waiting" else NOT_DIRECT,
    feed_of_followees: lambda kind: FOLLOWED,
    feed_of_a_list: lambda kind: FOLLOWED | {"author": NOT_DIRECT["author"]},
    feed_of_a_feed: lambda kind: NOT_DIRECT,
    feed_of_popular_posts: lambda kind: NOBODYS if kind in ("comment", "hidden", "waiting") else PUBLIC_LISTS,
    offered_examples: lambda kind: PUBLIC_LISTS if kind == "tagged" else NOBODYS,
    near_the_harbour: _public_table,
    posts_of_a_kind: _public_table,
    posts_with_a_property: _public_table,
    posts_of_a_kind_by_the_author: lambda kind: ASKED,
    trending_posts: lambda kind: NOBODYS if kind in ("comment", "hidden", "waiting") else PUBLIC_LISTS,
    shares_at_home: lambda kind: SHARE_HOME if kind == "shared" else NOBODYS,
    shares_on_profiles: lambda kind: SHARE_LISTED if kind == "shared" else NOBODYS,
    photos_of_an_album: lambda kind: ASKED if kind in PICTURED else NOBODYS,
    covers_of_albums: lambda kind: ASKED if kind in PICTURED else NOBODYS,
}
NEED_A_MEMBER = {
    read_as_a_handle,
    like_and_keep,
    share,
    home_page,
    home_definition,
    ranked_feed,
    public_feed,
    recent,
    feed_of_a_list,
    offered_examples,
    shares_at_home,
}


def _expected(surface: Surface, viewer: str, *, suspended: bool) -> set[Cell]:
    if suspended:
        return set()
    return {
        (visibility, kind)
        for visibility, kind in product(Visibility, KINDS)
        if kind not in ("deleted", "held")
        and (kind != "hidden" or viewer == "author")
        and visibility in SURFACES[surface](kind)[viewer]
    }


@pytest.mark.parametrize("state", ["author", "suspended author", "narrowed posts"])
@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: str(surface.__name__))
@in_loop
async def test_visibility_matrix_surface_shows_exactly_the_permitted_posts(surface: Surface, state: str) -> None:
    wrong, suspended = [], state == "suspended author"
    async with a_scene(suspended=suspended, narrowed=state == "narrowed posts") as scene:
        for viewer in VIEWERS:
            if viewer == "anonymous" and surface in NEED_A_MEMBER:
                continue
            seen, expected = await surface(scene, viewer), _expected(surface, viewer, suspended=suspended)
            wrong += [(viewer, *cell, "is shown" if cell in seen else "is not shown") for cell in seen ^ expected]
    assert not wrong


# Visibilities included in the status count of a profile: never direct posts, for any viewer.
COUNTED: Table = dict.fromkeys(VIEWERS, OPEN) | dict.fromkeys(
    ("author", "follower", "half", "muter", "cutter", "deaf", "reporter"), OPEN | {FOLLOWERS}
)
OUT_OF_COUNTS = {"hidden", "deleted", "held"}


@in_loop
async def test_profile_post_count_includes_exactly_the_posts_visible_to_viewer() -> None:
    async with a_scene(suspended=False) as scene:
        reads, author = scene.network.reads, scene.people["author"].id
        own_shares = {visibility for visibility, _ in scene.shares if visibility is FOLLOWERS}
        for viewer in VIEWERS:
            id_ = scene.id_of(viewer)
            (profile,) = await profiles_by_id(reads.graph, id_, (author,))
            counted = COUNTED[viewer]
            expected = len(counted) * (len(KINDS) - len(OUT_OF_COUNTS)) + len(counted & own_shares)
            assert profile.posts == expected, viewer
            entries = await hydrate(reads.graph, id_, [post.id for post in scene.posts.values()], unasked=False)
            assert {entry.author.posts for entry in entries} <= {expected}, viewer
            if ASKED[viewer]:
                # The count equals the listed entries, except for entries visible to only some viewers.
                page = await posts.authored_page(reads, id_, author, EVERYTHING)
                listed = [e for e in page.entries if e.post.visibility is not DIRECT and not e.post.hidden]
                assert len([e for e in listed if e.share or e.post.visibility in counted]) == expected, viewer


@in_loop
async def test_post_reply_count_includes_publicly_visible_replies_only() -> None:
    async with a_scene(suspended=False) as scene:
        for kind in ("hidden", "plain"):
            for visibility in Visibility:
                post = await scene.people["author"].comment(scene.question, f"@mentioned {kind}", visibility=visibility)
                if kind == "hidden":
                    await scene.shoal.hide(post)
        await scene.shoal.settle()
        for viewer in VIEWERS:
            found = await hydrate(scene.network.store, scene.id_of(viewer), [scene.question.id])
            assert [entry.comments for entry in found] == [2 * len(OPEN)], viewer


def test_visibility_matrix_tables_cover_all_viewers_kinds_and_surfaces() -> None:
    for table in (
        ASKED,
        UNASKED,
        HOME,
        TAGGED_HOME,
        COMMENT_HOME,
        SHARE_HOME,
        SHARE_LISTED,
        SHAREABLE,
        PUBLIC_LISTS,
        WAITING_LISTS,
        RANKED,
    ):
        assert set(table) == set(VIEWERS)
    assert len(SURFACES) * len(VIEWERS) * len(Visibility) * len(KINDS) == 38 * 13 * 4 * 9


# Viewers who get the author as a suggestion: members without a relationship, block or mute.
SUGGESTED = {"stranger", "mentioned", "tagger"}


@pytest.mark.parametrize("suspended", [False, True], ids=["author", "suspended author"])
@in_loop
async def test_follow_suggestions_include_author_for_exactly_the_eligible_viewers(suspended: bool) -> None:
    async with a_scene(suspended=suspended) as scene:
        found = {
            viewer
            for viewer in VIEWERS
            if viewer != "anonymous"
            and "author" in {one.profile.member.name for one in await scene.people[viewer].suggestions(80)}
        }
        assert found == (set() if suspended else SUGGESTED)


# Viewers who find the author by address or handle: all members without a block or mute, except the author.
FOUND_FROM_ELSEWHERE = set(VIEWERS) - {"author", "anonymous", "blocked", "blocker", "muter"}


@pytest.mark.parametrize("hidden", ["", "suspended", "silenced", "not discoverable"])
@in_loop
async def test_contact_and_handle_search_finds_author_for_exactly_the_permitted_viewers(hidden: str) -> None:
    async with a_scene(suspended=False) as scene:
        author = scene.people["author"]
        fields = [("Fediverse", "@harbour@mastodon.social")]
        await author.update_profile(fields=fields, discoverable=hidden != "not discoverable", findable_by_email=True)
        if hidden == "silenced":
            await scene.shoal.moderation.silence(author)
        if hidden == "suspended":
            await scene.shoal.moderation.suspend(author)
        await scene.shoal.settle()
        for asked in ("harbour@mastodon.social", "author@mastodon.social", AUTHORS_ADDRESS):
            found = {viewer for viewer in VIEWERS if viewer != "anonymous" and await _finds(scene, viewer, asked)}
            assert found == (set() if hidden else FOUND_FROM_ELSEWHERE), asked


async def _finds(scene: Scene, viewer: str, known: str) -> bool:
    who = scene.people[viewer]
    hashes = [hash_address(await who.contact_salt(), known)]
    found = await (who.find_contacts(hashes) if known == AUTHORS_ADDRESS else who.find_handles([known]))
    return "author" in {one.profile.member.name for one in found.matches}
