"""A post after it was written: edited, its former wordings, deleted, or deleted and written again."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal.commands import polls, posts
from shoal.commands.polls import PollDraft
from shoal.core.errors import NotFound, ShoalError
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Media, Member, Poll, Post, Visibility
from shoal.graph.access import own_post
from shoal.http.convert import Id
from shoal.http.routes import Route
from shoal.queries.posts import revisions
from shoal.settings import Settings
from shoal.web import rows
from shoal.web.pages.writing.compose import form_bytes, lacks_descriptions, seen_post, sheet, taken, wrong_of
from shoal.web.pages.writing.files import check_descriptions, describe_pictures, own_files
from shoal.web.rendering import page
from shoal.web.views.posts import post_of
from shoal.web.views.writing.history import MOST_WORDINGS, wordings_of
from shoal.web.views.writing.sheet import SheetState
from shoal.web.views.writing.writing import Writing, arranged, draft_of, of_post, poll_of
from shoal.web.visit import Form, Visit, is_local

_Path = Annotated[str, Meta(max_length=2_000)]


class OwnPostPath(msgspec.Struct, frozen=True):
    """A post of one's own, and where to go afterwards."""

    id: Id
    to: _Path = ""


class HistoryPath(msgspec.Struct, frozen=True):
    """A post, and in its page's address also the name of its author."""

    id: Id
    handle: Annotated[str, Meta(max_length=300)] = ""


class EditForm(Writing, frozen=True, kw_only=True):
    """An edited post as it stands in the form."""

    id: Id


class DeleteForm(Form, frozen=True, kw_only=True):
    """A post that is to be deleted."""

    id: Id


async def form(visit: Visit, path: OwnPostPath) -> Response:
    """The form with a post of one's own."""
    member = visit.member
    post = await own_post(visit.front.graph, member.id, path.id)
    said = of_post(post, await _files(visit, member, post), await polls.poll_of(visit.front.graph, post))
    return await sheet(visit, member, SheetState(said=replace(said, asks=member.asks_descriptions), edits=post))


async def save(visit: Visit, asked: EditForm) -> Response:
    """Store the post as it is now; what it said before is in its history."""
    member = visit.checked(asked)
    post = await own_post(visit.front.graph, member.id, asked.id)
    said, refused = await taken(visit, member, asked)
    shown = SheetState(said=said, refused=refused, edits=post)
    if said.do not in {"post", "anyway"}:
        return await sheet(visit, member, replace(shown, said=arranged(said)), status=422 if refused else 200)
    if refused:
        return await sheet(visit, member, shown, status=422)
    if lacks_descriptions(said):
        return await sheet(visit, member, replace(shown, lacking=True), status=422)
    try:
        await _store(visit, member, post, said)
    except ShoalError as error:
        return await sheet(visit, member, replace(shown, wrong=wrong_of(visit, error)), status=422)
    return visit.go(f"/@{member.name}/{post.id}")


async def _store(visit: Visit, member: Member, post: Post, said: Writing) -> None:
    writes = visit.front.writes
    old = await polls.poll_of(writes.graph, post)
    now = milliseconds_of(writes.new_id(shard_of(member.id)))
    poll = _poll(old, poll_of(said), now)
    draft = replace(draft_of(said), poll=poll, data=post.data)
    await check_descriptions(visit, member, said.pictures)
    # The revision that this makes has the descriptions as they were.
    await posts.update(writes, member.id, post.id, draft, visibility=Visibility(said.visibility))
    await describe_pictures(visit, member, said.pictures)


def _poll(old: Poll | None, asked: PollDraft | None, now: int) -> PollDraft | None:
    """Return what an edit asks of a poll; None where nothing changes. Without a new span it ends when it was to end."""
    if asked is None or old is None:
        return asked
    seconds = asked.seconds or max(1, (old.expires_at - now) // 1_000)
    before = (polls.titles(old), old.multiple, old.hide_totals)
    if not asked.seconds and before == (asked.options, asked.multiple, asked.hide_totals):
        return None
    return replace(asked, seconds=seconds)


async def history(visit: Visit, path: HistoryPath) -> Response:
    """Every wording of a post, the newest first, each with what changed."""
    entry = await seen_post(visit, path.id)
    if path.handle and path.handle.lower() != entry.author.member.name:
        raise NotFound("There is no such post")
    former = await revisions(visit.front.graph, visit.viewer_id, entry.post.id)
    # One more than are shown: what the oldest of them exchanged is told, too.
    compared = former[-MOST_WORDINGS:]
    ids = {id_ for media_ids in (*(one.media for one in compared), entry.post.media) for id_ in media_ids}
    nodes = await visit.front.graph.obj_get(list(ids)) if ids else {}
    media = {id_: node for id_, node in nodes.items() if isinstance(node, Media)}
    title = visit.words.text("Edits")
    # In a thread: it may take a tenth of a second, and nobody else is to wait for it.
    wordings = await asyncio.to_thread(wordings_of, visit, entry, former, media)
    return await page(
        visit, "history", title=title, post=post_of(visit, entry), wordings=wordings, older=not wordings[-1].first
    )


async def ask(visit: Visit, path: OwnPostPath) -> Response:
    """Ask whether to delete a post."""
    member = visit.member
    await own_post(visit.front.graph, member.id, path.id)
    post = post_of(visit, await seen_post(visit, path.id))
    to = path.to if is_local(path.to) else post.path
    return await page(visit, "delete", title=visit.words.text("Delete the post"), post=post, to=to)


async def delete(visit: Visit, asked: DeleteForm) -> Response:
    """Delete a post of one's own."""
    member = visit.checked(asked)
    await posts.delete(visit.front.writes, member.id, asked.id)
    mine = f"/@{member.name}"
    # Its own page is no place to go back to.
    return visit.go(mine) if asked.to.startswith(f"{mine}/{asked.id}") else visit.back(asked, mine)


async def _files(visit: Visit, member: Member, post: Post) -> list[Media]:
    return await own_files(visit, member, post.media)


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large a form with files may be."""
    return (
        rows.page("/posts/{id}/edit", form, OwnPostPath),
        rows.form("/posts/{id}/edit", save, EditForm, max_body=form_bytes(settings)),
        rows.page("/posts/{id}/history", history, HistoryPath),
        rows.page("/@{handle}/{id}/history", history, HistoryPath),
        rows.page("/posts/{id}/delete", ask, OwnPostPath),
        rows.form("/posts/{id}/delete", delete, DeleteForm, limit_class="delete"),
    )
