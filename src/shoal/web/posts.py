"""A post: its page with the thread, its photos, actions such as like and share, and lists of comments, likes and reactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import reactions
from shoal.commands.context import Writes
from shoal.core.errors import NotFound
from shoal.core.filters import FilterContext
from shoal.core.model import Post, Share, Visibility
from shoal.core.text import isolated
from shoal.graph.payloads.conversations import root_of
from shoal.graph.schema import BOOKMARK, LIKED_BY, SHARED_BY
from shoal.http.params import Id
from shoal.queries import members, threads
from shoal.queries.hydration import Entry, hydrate_taken_back
from shoal.queries.members import MemberPage
from shoal.queries.pipeline import filtered
from shoal.web import routing
from shoal.web.comments import Order, comment_form, known_of, thread_of
from shoal.web.grid_neighbors import Neighbors, neighbors_of
from shoal.web.pending_actions import PendingAction
from shoal.web.photo_details import photo_notes
from shoal.web.rendering import IdQuery, feed_page, next_of, page, part
from shoal.web.request_context import Handle, IdForm, Line, PageContext, address
from shoal.web.syndication import post_card
from shoal.web.view_models import PostView, entry_with_id, people_of, post_of, relationship_of, with_first_photo

_ABOVE, _BELOW = 30, 120
"""Maximum numbers of ancestors and of comments that the page of a post shows."""

_NEW_MS = 600_000
"""Milliseconds for which the page of a post offers its author to install the app."""

Verb = Callable[[Writes, int, int], Awaitable[Post | Share]]
_VERBS: dict[str, Verb] = {
    "like": reactions.like,
    "unlike": reactions.unlike,
    "share": reactions.share,
    "unshare": reactions.unshare,
    "save": partial(reactions.mark, mark=BOOKMARK),
    "unsave": partial(reactions.unmark, mark=BOOKMARK),
    "pin": reactions.pin,
    "unpin": reactions.unpin,
    "mute": reactions.mute_thread,
    "unmute": reactions.unmute_thread,
}
_TAKEN_BACK = frozenset({"unlike", "unshare", "unsave"})


ReactionName = Annotated[str, Meta(max_length=100)]


class PostPath(msgspec.Struct, frozen=True):
    handle: Handle
    id: Id


class PathFromGrid(PostPath, frozen=True):
    grid: Line = ""
    """The path of the page with the photos of several posts that the visitor came from."""


class PostPage(PathFromGrid, frozen=True):
    order: Order = "oldest"
    """The order of the comments on the same post."""


class PhotoPath(PathFromGrid, frozen=True, kw_only=True):
    place: Annotated[int, Meta(ge=1, le=100)]


class PostActForm(IdForm, frozen=True, kw_only=True):
    do: Literal["", "like", "unlike", "share", "unshare", "save", "unsave", "pin", "unpin", "mute", "unmute"] = ""
    """The action; empty for a declared reaction."""
    react: ReactionName = ""
    """The name of a declared reaction to add."""
    unreact: ReactionName = ""
    """The name of a declared reaction to remove."""
    entry: Id = Id(0)
    """The id of the share if a list showed the post as a share; 0 if it showed the post itself."""
    depth: Annotated[int, Meta(ge=-1, le=100)] = -1
    """Depth of a comment on the page of a post; -1 on other pages."""


async def show(ctx: PageContext, path: PostPage) -> Response:
    """Show a post with its ancestors above and its comments below. A script gets the content of the photo viewer."""
    entry = await _entry_at(ctx, path)
    most_liked = path.order == "liked"
    found = await threads.thread(
        ctx.reads, ctx.viewer_id, entry.post.id, above=_ABOVE, below=_BELOW, most_liked=most_liked
    )
    known = known_of({one.post.id: one for one in found.above}, entry)
    post, form = post_of(ctx, entry, known=known), comment_form(ctx, entry)
    below = thread_of(ctx, entry, found, path.order, path.grid)
    title = ctx.words.text("%(name)s: %(text)s") % {"name": post.author.shown, "text": isolated(post.excerpt)}
    author = relationship_of(ctx, entry.author.member, entry.relation)
    follow = None if author.self or author.following or author.muting or author.blocking else author
    if ctx.partial:
        words = msgspec.structs.replace(post, photos=(), covered=False)
        views: dict[str, Any] = {
            "whole": post,
            "post": words,
            "notes": photo_notes(ctx, entry),
            "form": form,
            "thread": below,
            "relationship": follow,
        }
        return part(ctx, "viewed", title=title, token=ctx.form_token, **views)
    (shown,) = with_first_photo([post])
    return await page(
        ctx,
        "post",
        title=title,
        post=shown,
        card=post_card(ctx, entry),
        notes=photo_notes(ctx, entry),
        form=form,
        thread=below,
        relationship=follow,
        token=ctx.form_token,
        conversation=_conversation(ctx, entry.post),
        is_new=entry.post.author_id == ctx.viewer_id and ctx.now_ms - entry.post.created_at < _NEW_MS,
        neighbors=await neighbors_of(ctx, path.grid, post),
    )


def _conversation(ctx: PageContext, post: Post) -> str:
    """Return the URL of the conversation of a direct post; empty for other posts."""
    is_message = post.visibility is Visibility.DIRECT and ctx.viewer
    return ctx.url(f"/conversations/{root_of(post)}") if is_message else ""


async def photo(ctx: PageContext, path: PhotoPath) -> Response:
    """Show one photo of a post in full size. Links lead to the previous and next photo or, beyond the post, to other posts."""
    entry = await _entry_at(ctx, path)
    post = post_of(ctx, entry)
    if path.place > len(post.photos):
        raise NotFound("There is no such photo")
    title = ctx.words.text("Photo by %(name)s") % {"name": post.author.shown}
    first, last = path.place == 1, path.place == len(post.photos)
    neighbors = await neighbors_of(ctx, path.grid, post) if first or last else Neighbors()
    views: dict[str, Any] = {
        "photo": post.photos[path.place - 1],
        "notes": photo_notes(ctx, entry, path.place),
        "query": address("", "", grid=path.grid),
        "neighbors": neighbors._replace(
            previous=neighbors.previous if first else "", following=neighbors.following if last else ""
        ),
    }
    return await page(ctx, "photo", title=title, post=post, place=path.place, **views)


async def act(ctx: PageContext, asked: PostActForm) -> Response:
    """Perform or undo an action on a post. A script gets the updated buttons."""
    pending = PendingAction(asked.do, asked.id).at if asked.do in {"like", "share", "save"} else None
    member = ctx.checked(asked, pending)
    if asked.do:
        await _VERBS[asked.do](ctx.writes, member.id, asked.id)
    elif asked.react:
        await reactions.react(ctx.writes, member.id, asked.id, asked.react)
    else:
        await reactions.unreact(ctx.writes, member.id, asked.id, asked.unreact)
    if not ctx.partial:
        return ctx.back(asked)
    return part(ctx, "actions", post=await _after(ctx, asked, member.id))


async def _after(ctx: PageContext, asked: PostActForm, member_id: int) -> PostView:
    if asked.do in _TAKEN_BACK or asked.unreact:
        entry = await hydrate_taken_back(ctx.reads.graph, member_id, asked.id)
        if entry is None:
            raise NotFound("There is no such post")
    else:
        entry = await entry_with_id(ctx, asked.id)
    return msgspec.structs.replace(post_of(ctx, entry, depth=asked.depth), entry_id=asked.entry or asked.id)


async def _entry_at(ctx: PageContext, path: PostPath) -> Entry:
    """Return the post or share with the id in the path.

    Raises `NotFound` if the name in the path is not that of its author or sharer.
    """
    entry = await entry_with_id(ctx, path.id)
    if path.handle.lower() != (entry.sharer or entry.author).member.name:
        raise NotFound("There is no such post")
    return entry


async def comments(ctx: PageContext, path: IdQuery) -> Response:
    reads = ctx.reads
    entry = await entry_with_id(ctx, path.id)
    found = await threads.replies(reads, ctx.viewer_id, entry.post.id, path.cursor())
    entries = await filtered(reads.graph, ctx.viewer_id, found.entries, FilterContext.THREAD)
    return await feed_page(
        ctx,
        "comments",
        entries,
        next_of(ctx, f"/posts/{entry.post.id}/comments", found.next),
        title=ctx.words.text("Comments"),
        about=post_of(ctx, entry),
        end=ctx.words.text("No more comments."),
    )


_LISTS = {"likes": LIKED_BY, "shares": SHARED_BY}


class LikesPath(IdQuery, frozen=True, kw_only=True):
    """A post, and the reactions to list: `likes`, `shares`, an emoji, or the name of a declared reaction."""

    by: Annotated[str, Meta(max_length=100)] = "likes"


async def likes(ctx: PageContext, path: LikesPath) -> Response:
    """List the members who liked a post, shared it, or reacted in another way, the latest reaction first."""
    entry = await entry_with_id(ctx, path.id)
    found = await _reacting_members(ctx, path, entry)
    persons = await people_of(ctx, found.profiles)
    following = next_of(ctx, f"/posts/{entry.post.id}/likes", found.next, by=path.by)
    if ctx.partial:
        return part(ctx, "people", people=persons, next=following)
    words = ctx.words
    tabs = [
        ("likes", words.counted("%(n)s like", "%(n)s likes", entry.likes)),
        ("shares", words.counted("%(n)s share", "%(n)s shares", entry.shares)),
        *((counted.emoji, f"{counted.emoji} {words.number(counted.count)}") for counted in entry.emoji),
        *(
            (counted.emoji, f"{isolated(each.title)} {words.number(counted.count)}")
            for counted in entry.named
            if (each := ctx.reactions.find(counted.emoji)) is not None
        ),
    ]
    return await page(
        ctx,
        "likes",
        title=words.text("Likes and shares"),
        post=post_of(ctx, entry),
        people=persons,
        next=following,
        tabs=tabs,
        tab=path.by,
    )


async def _reacting_members(ctx: PageContext, path: LikesPath, entry: Entry) -> MemberPage:
    reads, cursor = ctx.reads, path.cursor(members.PAGE)
    atype = _LISTS.get(path.by)
    if atype is not None:
        return await members.page(reads, ctx.viewer_id, entry.post.id, atype, cursor)
    try:
        return (await members.emoji_page(reads, ctx.viewer_id, entry.post.id, path.by, cursor))[1]
    except NotFound:
        return MemberPage([], [], None)


ROUTES = (
    routing.page("/@{handle}/{id}", show, PostPage, cached=True),
    routing.page("/@{handle}/{id}/photos/{place}", photo, PhotoPath, cached=True),
    routing.form("/posts/{id}/act", act, PostActForm),
    routing.page("/posts/{id}/comments", comments, IdQuery, cached=True),
    routing.page("/posts/{id}/likes", likes, LikesPath),
)
