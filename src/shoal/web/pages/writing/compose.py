"""New posts and comments: the form, and what it sends."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal.commands import members, polls, posts, scheduled_posts
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput, NotFound, ShoalError
from shoal.core.model import Member, Post, Visibility
from shoal.core.text import is_blank
from shoal.graph.access import own_post
from shoal.http.convert import Id
from shoal.http.routes import Route
from shoal.queries.hydration import Entry, hydrate
from shoal.settings import Settings
from shoal.web import rows
from shoal.web.pages.writing.files import describe_pictures, own_files, take_files
from shoal.web.rendering import page
from shoal.web.views.errors import refusals
from shoal.web.views.posts import post_of
from shoal.web.views.writing.pictures import Refused
from shoal.web.views.writing.sheet import SheetState, local_time, sheet_of
from shoal.web.views.writing.writing import NO_ID, Writing, arranged, as_id, draft_of, moment_of, of_draft, of_post
from shoal.web.visit import Visit

_FORM_BYTES = 1 << 20
_FIELDS = {
    "media_ids": "pictures",
    "description": "pictures",
    "focus": "pictures",
    "options": "poll",
    "expires_in": "poll",
    "scheduled_at": "at",
}
"""The part of the form in which a field of the services stands, where it has another name."""
_PARTS = {"recipients", "text", "spoiler", "pictures", "poll", "place", "at", "visibility", "language"}
_ORDER = tuple(Visibility)


class ComposeQuery(msgspec.Struct, frozen=True):
    """The beginning of a new post."""

    tag: Annotated[str, Meta(max_length=400)] = ""
    text: Annotated[str, Meta(max_length=20_000)] = ""
    reply_to: Id = NO_ID
    scheduled: Id = NO_ID
    """A scheduled post that is to be written again."""
    again: Id = NO_ID
    """A post of one's own that is to be written again: it is deleted once the new one is posted."""


async def new(visit: Visit, query: ComposeQuery) -> Response:
    """The form of a new post, of a comment, or of a scheduled post that is written again."""
    member = visit.member
    if query.scheduled:
        return await sheet(visit, member, SheetState(said=await _planned(visit, member, query.scheduled)))
    if query.again:
        return await sheet(visit, member, SheetState(said=await _again(visit, member, query.again)))
    said = answering(member, await seen_post(visit, query.reply_to)) if query.reply_to else begun(member)
    text = f"#{query.tag.removeprefix('#')}" if query.tag else query.text
    return await sheet(visit, member, SheetState(said=replace(said, text=text) if text else said))


def begun(member: Member) -> Writing:
    """Return an empty form as this member wants it."""
    return Writing(
        visibility=member.default_visibility.value,
        sensitive=member.default_sensitive,
        language=member.default_language,
        request=secrets.token_urlsafe(12),
        asks=member.asks_descriptions,
    )


def answering(member: Member, entry: Entry) -> Writing:
    """Return an empty form to answer a post: it names whom that concerns, and is for no more people than the post."""
    parent = entry.post
    visibility = max(parent.visibility, member.default_visibility, key=_ORDER.index)
    # They are told of it by their names alone.
    names = [entry.author.member.name, *(mention.name for mention in parent.mentions)]
    text = "".join(f"@{name} " for name in dict.fromkeys(names) if name != member.name)
    return replace(begun(member), reply_to=as_id(parent.id), visibility=visibility.value, text=text)


async def seen_post(visit: Visit, post_id: int) -> Entry:
    """Return a post that the viewer may see. Raises `NotFound`."""
    found = await hydrate(visit.front.reads.graph, visit.viewer_id, (post_id,), unasked=False)
    if not found:
        raise NotFound("There is no such post")
    return found[0]


async def _planned(visit: Visit, member: Member, id_: int) -> Writing:
    plan = await scheduled_posts.own_scheduled(visit.front.graph, member.id, id_)
    draft = scheduled_posts.draft_of(plan)
    said = of_draft(draft, await own_files(visit, member, draft.media))
    at, request = local_time(plan.at, "UTC"), secrets.token_urlsafe(12)
    return replace(said, at=at, zone="UTC", instead_of=as_id(id_), request=request, asks=member.asks_descriptions)


async def _again(visit: Visit, member: Member, id_: int) -> Writing:
    post = await own_post(visit.front.graph, member.id, id_)
    said = of_post(post, await own_files(visit, member, post.media), await polls.poll_of(visit.front.graph, post))
    return replace(said, instead_of=as_id(id_), request=secrets.token_urlsafe(12), asks=member.asks_descriptions)


async def sheet(visit: Visit, member: Member, shown: SheetState, *, status: int = 200) -> Response:
    """Return the page with the form as it stands."""
    said = shown.said
    media = await own_files(visit, member, [one.id for one in said.pictures])
    answers = shown.answers
    if said.reply_to and answers is None and shown.edits is None:
        found = await hydrate(visit.front.reads.graph, member.id, (said.reply_to,), unasked=False)
        answers = post_of(visit, found[0]) if found else None
    refused = (*shown.refused, *_lost(visit, said, {one.id for one in media}))
    made = sheet_of(visit, member, replace(shown, media=media, answers=answers, refused=refused))
    return await page(visit, "compose", status=status, title=made.heading, sheet=made)


def _lost(visit: Visit, said: Writing, there: set[int]) -> Sequence[Refused]:
    """Return what is told of pictures that are gone: files that no post has are kept for a day."""
    words = visit.words.text("It was deleted: files that stand in no post are kept for a day. Please add it again.")
    name = visit.words.text("A picture")
    return [Refused(name, words) for one in said.pictures if one.id not in there]


async def send(visit: Visit, asked: Writing) -> Response:
    """Create or schedule the post, or show the form again with the reason why not."""
    return await submit(visit, visit.checked(asked), SheetState(said=asked), _posted)


async def submit(
    visit: Visit, member: Member, typed: SheetState, create: Callable[[Visit, Member, Writing], Awaitable[str]]
) -> Response:
    """Create what was typed, or show the form again with the reason why not. `create` returns the path to go to."""
    said, refused = await taken(visit, member, typed.said)
    shown = replace(typed, said=said, refused=refused)
    if said.asks != member.asks_descriptions:
        member = await members.update_profile(visit.front.writes, member.id, ProfileChange(asks_descriptions=said.asks))
    if said.do not in {"post", "anyway"}:
        return await sheet(visit, member, replace(shown, said=arranged(said)), status=422 if refused else 200)
    if refused:
        return await sheet(visit, member, shown, status=422)
    if lacks_descriptions(said):
        return await sheet(visit, member, replace(shown, lacking=True), status=422)
    try:
        return visit.go(await create(visit, member, said))
    except ShoalError as error:
        return await sheet(visit, member, replace(shown, wrong=wrong_of(visit, error)), status=422)


async def taken(visit: Visit, member: Member, asked: Writing) -> tuple[Writing, tuple[Refused, ...]]:
    """Return the form with the files that came with it among its pictures, and those that were not taken."""
    pictures, refused = await take_files(visit, member, asked.files)
    return replace(asked, files=(), pictures=(*asked.pictures, *pictures)), refused


def lacks_descriptions(said: Writing) -> bool:
    """Return whether to ask about a picture without a description first."""
    return said.asks and said.do != "anyway" and any(is_blank(one.description) for one in said.pictures)


async def _posted(visit: Visit, member: Member, said: Writing) -> str:
    """Create or schedule a post, and return the path of its page or of the list of scheduled posts."""
    writes, draft, at = visit.front.writes, draft_of(said), moment_of(said)
    writes.pressure.check()
    if draft.parent_id and not draft.media and not says_something(said.text):
        raise InvalidInput("Text can't be blank", field="text")
    await describe_pictures(visit, member, said.pictures)
    if at:
        await scheduled_posts.schedule(writes, member.id, draft, at, request=said.request)
        path = "/scheduled"
    else:
        made = await posts.create(writes, member.id, draft, request=said.request)
        path = f"/@{member.name}/{made.id}"
    if said.instead_of:
        await _drop(visit, member, said.instead_of)
    return path


def says_something(text: str) -> bool:
    """Return whether a comment says more than whom it answers."""
    return any(not word.startswith("@") and not is_blank(word) for word in text.split())


async def _drop(visit: Visit, member: Member, id_: int) -> None:
    """Delete the post, or cancel the scheduled one, in whose place another was written."""
    writes = visit.front.writes
    node = (await writes.graph.obj_get((id_,))).get(id_)
    # It may have been posted, cancelled or deleted in between.
    with contextlib.suppress(NotFound):
        await (posts.delete if isinstance(node, Post) else scheduled_posts.cancel)(writes, member.id, id_)


def wrong_of(visit: Visit, error: ShoalError) -> dict[str, str]:
    """Return what is wrong in words, by the part of the form."""
    _, field = visit.words.text, error.field or "" if isinstance(error, InvalidInput) else ""
    part = _FIELDS.get(field, field)
    if str(error) == "Text can't be blank":
        return {"text": _("Write something, or add a picture.")}
    if isinstance(error, NotFound):
        return {"": _("What this belongs to is gone: a picture, or the post that it answers.")}
    return {part if part in _PARTS else "": refusals.told(visit.words, error)}


def form_bytes(settings: Settings) -> int:
    """Return how large a form with files may be."""
    pictures = settings.max_media_per_post * settings.max_upload_bytes
    return max(pictures, settings.max_video_bytes) + _FORM_BYTES


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large a form with files may be."""
    return (
        rows.page("/compose", new, ComposeQuery),
        rows.form("/compose", send, Writing, max_body=form_bytes(settings)),
    )
