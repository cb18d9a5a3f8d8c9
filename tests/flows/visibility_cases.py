"""A network with posts of every kind and visibility by one author, and viewers with different relationships to the author."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shoal import Handle, Shoal, Visibility
from shoal.app.network import Network
from shoal.core.errors import Held
from shoal.core.ids import shard_of
from shoal.core.kinds import KindDraft
from shoal.core.model import Album, Media, Member, Post, Review
from shoal.core.places import Place
from shoal.core.publishing import ALLOW, Candidate, Decision
from shoal.graph.contract import Batch
from shoal.graph.payloads.members import Collected, encode_collected
from shoal.graph.schema import COLLECTS, OWNS, OWNS_ALBUM

AUTHORS_ADDRESS = "author@example.org"
HARBOUR = Place(54.1, -0.2)
"""The place of every post."""
NOTE: dict[str, Any] = {"kind": "note", "data": {"mood": "calm"}}
"""The kind and data of every post."""
KINDS = ("plain", "tagged", "comment", "media", "shared", "hidden", "waiting", "deleted", "held")
VIEWERS = (
    "author",
    "follower",
    "half",
    "stranger",
    "mentioned",
    "blocked",
    "blocker",
    "muter",
    "tagger",
    "cutter",
    "deaf",
    "reporter",
    "anonymous",
)
Cell = tuple[Visibility, str]


@dataclass
class Scene:
    """A network with `posts` and `shares` by visibility and kind.

    `answers` are public comments on the posts by another member, the host.
    """

    shoal: Shoal
    people: dict[str, Handle]
    question: Post
    posts: dict[Cell, Post] = field(default_factory=dict)
    shares: dict[Cell, int] = field(default_factory=dict)
    answers: dict[Cell, Post] = field(default_factory=dict)
    albums: dict[Cell, int] = field(default_factory=dict)
    """The author's albums, one for each post with a picture. An album contains only that picture."""

    @property
    def network(self) -> Network:
        return self.shoal.network

    def id_of(self, viewer: str) -> int | None:
        return None if viewer == "anonymous" else self.people[viewer].id

    def cells(self, post_ids: set[int]) -> set[Cell]:
        """Return the visibility and kind of each of the author's posts among `post_ids`."""
        return {cell for cell, post in self.posts.items() if post.id in post_ids}


@asynccontextmanager
async def a_scene(*, suspended: bool, narrowed: bool = False) -> AsyncIterator[Scene]:
    """Create a scene in which the viewers, except the author and the cutter, follow the sharer.

    The cutter blocks the sharer, and the deaf viewer mutes the sharer. The reporter also follows the author, and reports every
    visible post of the author.

    With `narrowed`, all posts were public at first: they were delivered to home timelines and shared by the sharer before their
    visibility was narrowed.
    """
    # After all these posts, the workers of a loaded machine may be seconds behind. The limit is tested elsewhere.
    async with Shoal.open(
        "memory://", most_behind_seconds=0, moderation=_hold_if_asked, moderation_direct=True
    ) as shoal:
        names = [*(name for name in VIEWERS if name != "anonymous"), "host", "sharer"]
        people = {name: await shoal.register(name, email=f"{name}@example.org") for name in names}
        question = await people["host"].create("What do you see?")
        for handle in people.values():
            # Show a share even if the timeline has its post.
            await handle.update_profile(folds_shares=False)
        schema = {"type": "object", "properties": {"mood": {"type": "string"}}}
        await shoal.kinds.declare(KindDraft(name="note", schema=schema, index={"mood": "string"}))
        scene = Scene(shoal, people, question)
        await _relate(people)
        if narrowed:
            for viewer in people.values():
                # Posts are pushed only to warm timelines.
                await viewer.home()
        for visibility in Visibility:
            for kind in KINDS:
                await _write(scene, (visibility, kind), narrowed=narrowed)
        if narrowed:
            await _narrow(scene)
        await _report(scene)
        await _fall_out(people)
        if suspended:
            await _suspend(shoal, people["author"])
        await shoal.settle()
        yield scene


async def _relate(people: dict[str, Handle]) -> None:
    author, host = people["author"], people["host"]
    for name in ("follower", "half", "muter", "cutter", "deaf", "reporter"):
        await people[name].follow(author)
    for name in ("follower", "muter", "reporter"):
        await people[name].follow(host)
    await people["tagger"].follow_tag("tide")
    for name, viewer in people.items():
        if name not in ("sharer", "author", "cutter"):
            await viewer.follow(people["sharer"])


async def _fall_out(people: dict[str, Handle]) -> None:
    """Block and mute members after the posts have reached the timelines."""
    author, sharer = people["author"], people["sharer"]
    await author.block(people["blocked"])
    await people["blocker"].block(author)
    await people["muter"].mute(author)
    await people["cutter"].block(sharer)
    await people["deaf"].mute(sharer)


async def _report(scene: Scene) -> None:
    seen = [post for (visibility, kind), post in scene.posts.items() if _is_there(visibility, kind)]
    await scene.people["reporter"].report(scene.people["author"], posts=seen)


def _is_there(visibility: Visibility, kind: str) -> bool:
    return visibility is not Visibility.DIRECT and kind not in ("hidden", "deleted", "held")


async def _write(scene: Scene, cell: Cell, *, narrowed: bool) -> None:
    visibility, kind = cell
    first = Visibility.PUBLIC if narrowed else visibility
    author, host = scene.people["author"], scene.people["host"]
    text = f"{kind} for @mentioned and @host" + (" #tide" if kind in ("tagged", "waiting", "held") else "")
    if kind == "held":
        scene.posts[cell] = await _held(scene, text, first)
        return
    if kind == "comment":
        post = await author.comment(scene.question, text, visibility=first, place=HARBOUR, **NOTE)
    else:
        media = [await _picture(scene.shoal, author)] if kind in ("media", "tagged", "waiting") else []
        post = await author.create(text, visibility=first, media=media, place=HARBOUR, **NOTE)
    scene.posts[cell] = post
    scene.answers[cell] = await host.comment(post, "I see", visibility="public")
    if kind == "shared" and first is visibility:
        await _share(scene, cell)
    if kind == "hidden":
        await scene.shoal.hide(post)
    if kind == "waiting":
        await _hold(scene.shoal, post)
    if post.media:
        scene.albums[cell] = await _album(scene.shoal, post)
    if kind == "deleted":
        await author.delete(post)


async def _hold_if_asked(candidate: Candidate) -> Decision:
    return Decision("hold") if candidate.text.startswith("held") else ALLOW


async def _held(scene: Scene, text: str, visibility: Visibility) -> Post:
    """Have the author write a post that waits for approval, and return the post that its id would name."""
    try:
        return await scene.people["author"].create(text, visibility=visibility, place=HARBOUR, **NOTE)
    except Held as held:
        return Post(id=held.held_id, author_id=scene.people["author"].id, text=text, visibility=visibility)


async def _share(scene: Scene, cell: Cell) -> None:
    if cell[0] is not Visibility.DIRECT:
        by = scene.people["author" if cell[0] is Visibility.FOLLOWERS else "sharer"]
        scene.shares[cell] = (await by.share(scene.posts[cell])).id


async def _narrow(scene: Scene) -> None:
    there = {cell: post for cell, post in scene.posts.items() if cell[1] not in ("deleted", "held")}
    for (visibility, kind), post in there.items():
        if kind != "hidden" and visibility in (Visibility.FOLLOWERS, Visibility.DIRECT):
            await scene.people["sharer"].share(post)
    await scene.shoal.settle()
    for cell, post in there.items():
        await scene.people["author"].update(post, visibility=cell[0])
        if cell[1] == "shared" and cell not in scene.shares:
            await _share(scene, cell)


async def _album(shoal: Shoal, post: Post) -> int:
    """Create an album of a post's picture, even if the post is direct: it may have been narrowed after it came to the album."""
    shard = shard_of(post.author_id)
    album = Album(id=shoal.network.writes.new_id(shard), owner_id=post.author_id, title="Pictures")
    batch = Batch(shard)
    batch.obj_add(album)
    batch.assoc_add(post.author_id, OWNS_ALBUM, album.id, album.id)
    batch.assoc_add(album.id, COLLECTS, post.media[0], album.id, encode_collected(Collected(post.id, 1)))
    await shoal.network.store.commit(batch)
    return album.id


async def _hold(shoal: Shoal, post: Post) -> None:
    batch = Batch(shard_of(post.id))
    batch.obj_set(msgspec.structs.replace(post, review=Review.WAITING, version=post.version + 1))
    await shoal.network.store.commit(batch)


async def _picture(shoal: Shoal, owner: Handle) -> int:
    """Create a media object without a file, which no viewer opens."""
    shard = shard_of(owner.id)
    media = Media(id=shoal.network.writes.new_id(shard), owner_id=owner.id)
    batch = Batch(shard)
    batch.obj_add(media)
    batch.assoc_add(owner.id, OWNS, media.id, media.id)
    await shoal.network.store.commit(batch)
    return media.id


async def _suspend(shoal: Shoal, who: Handle) -> None:
    member = (await shoal.network.store.obj_get((who.id,)))[who.id]
    assert isinstance(member, Member)
    batch = Batch(shard_of(who.id))
    batch.obj_set(msgspec.structs.replace(member, suspended=True, version=member.version + 1))
    await shoal.network.store.commit(batch)
