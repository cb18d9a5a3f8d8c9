"""Edit, delete or redraft a post, and its revision history with the changes in each revision."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from shoal.commands import polls, posts
from shoal.commands.polls import PollDraft
from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Media, Member, Poll, Post, Revision, Visibility
from shoal.core.text import isolated
from shoal.graph.access import own_post
from shoal.http.params import Id
from shoal.http.routes import Route
from shoal.i18n import Translated, When
from shoal.queries.hydration import Entry
from shoal.queries.posts import media_then, revisions
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.compose import SheetState, form_bytes, sheet, submit
from shoal.web.compose_form import Writing, digests, draft_of, of_post, poll_of
from shoal.web.media import check_descriptions, describe_pictures, own_files
from shoal.web.rendering import page
from shoal.web.request_context import Handle, IdForm, Line, PageContext, local
from shoal.web.view_models import Photo, entry_with_id, photo_of, post_of

_WORDS = re.compile(r"\s+|[^\s]+")
_MOST_PAIRS = 250_000
"""Maximum of word pairs compared between two revisions.

Beyond it, all words between the common prefix and suffix count as changed.
"""
_PAIRS_OF_PAGE = 1_000_000
"""Maximum of word pairs compared for a page, which takes about 0.1 s."""
MOST_WORDINGS = 100


class Piece(msgspec.Struct, frozen=True):
    text: str
    kind: str = ""
    """`ins` for added text, `del` for removed text, and empty for unchanged text."""


class PastWording(msgspec.Struct, frozen=True):
    when: When
    pieces: tuple[Piece, ...]
    changed: tuple[str, ...]
    added: tuple[Photo, ...]
    removed: tuple[Photo, ...]
    first: bool
    present: bool


def wordings_of(
    ctx: PageContext, entry: Entry, former: Sequence[Revision], media: Mapping[int, Media]
) -> tuple[PastWording, ...]:
    """Return the view models of a post's newest revisions, newest first.

    The comparison of their texts may take tenths of a second.
    """
    post = entry.post
    options = tuple(option.title for option in entry.poll.poll.options) if entry.poll else ()
    states: list[Revision | Post] = [*former, post]
    begin = max(0, len(states) - MOST_WORDINGS)
    pairs = min(_MOST_PAIRS, _PAIRS_OF_PAGE // (len(states) - begin))
    made = []
    for n, state in enumerate(states[begin:], begin):
        before = states[n - 1] if n else None
        written = state.written if isinstance(state, Revision) else post.edited_at or post.created_at
        added, removed = _exchanged(before, state)
        now, then = media_then(state, media), media_then(before, media) if before else {}
        made.append(
            PastWording(
                when=ctx.when(written),
                pieces=difference(before.text if before else state.text, state.text, pairs),
                changed=_changed(ctx.words, before, state, options),
                added=tuple(photo_of(ctx, now[id_]) for id_ in added if id_ in now),
                removed=tuple(photo_of(ctx, then[id_]) for id_ in removed if id_ in then),
                first=n == 0,
                present=n == len(states) - 1,
            )
        )
    return tuple(reversed(made))


def difference(before: str, after: str, pairs: int = _MOST_PAIRS) -> tuple[Piece, ...]:
    """Return the differences of two texts as unchanged, added and removed pieces.

    Between the common prefix and suffix, a longest common subsequence of words is unchanged. The time is proportional
    to the product of the word counts; `pairs` is its limit.
    """
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    middle = (
        _compared(a, b)
        if len(a) * len(b) <= pairs
        else [*[(word, "del") for word in a], *[(word, "ins") for word in b]]
    )
    return _pieces([*[(word, "") for word in old[:head]], *middle, *[(word, "") for word in old[len(old) - tail :]]])


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of words that two texts have in common at their beginning."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _compared(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    lengths = [[0] * (len(new) + 1)]
    for a in reversed(old):
        below, row = lengths[-1], [0]
        for n, b in enumerate(reversed(new)):
            row.append(below[n] + 1 if a == b else max(below[n + 1], row[n]))
        lengths.append(row)
    words, x, y = [], len(old), len(new)
    while x and y:
        # `x` and `y` count the words of the two texts that are not compared yet.
        a, b = old[len(old) - x], new[len(new) - y]
        if a == b:
            words.append((a, ""))
            x, y = x - 1, y - 1
        elif lengths[x - 1][y] >= lengths[x][y - 1]:
            words.append((a, "del"))
            x -= 1
        else:
            words.append((b, "ins"))
            y -= 1
    return [*words, *[(a, "del") for a in old[len(old) - x :]], *[(b, "ins") for b in new[len(new) - y :]]]


def _pieces(words: Sequence[tuple[str, str]]) -> tuple[Piece, ...]:
    """Join successive words of one kind (unchanged, removed or added) into pieces.

    Between two unchanged pieces, the removed piece precedes the added piece.
    """
    made: list[Piece] = []
    for unchanged, run in groupby(words, key=lambda word: not word[1]):
        part = list(run)
        kinds = ("",) if unchanged else ("del", "ins")
        made += [Piece("".join(word for word, what in part if what == kind), kind) for kind in kinds]
    return tuple(piece for piece in made if piece.text)


def _exchanged(before: Revision | Post | None, after: Revision | Post) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if before is None:
        return after.media, ()
    added = tuple(id_ for id_ in after.media if id_ not in before.media)
    return added, tuple(id_ for id_ in before.media if id_ not in after.media)


def _changed(
    words: Translated, before: Revision | Post | None, after: Revision | Post, present: tuple[str, ...]
) -> tuple[str, ...]:
    if before is None:
        return ()
    _, found = words.text, []
    if before.spoiler != after.spoiler:
        text = _("Content warning: %(text)s") if after.spoiler else _("Content warning removed.")
        found.append(text % {"text": isolated(after.spoiler)} if after.spoiler else text)
    if before.sensitive != after.sensitive:
        found.append(_("Media marked as sensitive.") if after.sensitive else _("Media no longer marked as sensitive."))
    if set(before.media) == set(after.media) and before.media != after.media:
        found.append(_("Pictures reordered."))
    old, new = (version.options if isinstance(version, Revision) else present for version in (before, after))
    if old != new:
        found.append(_("Poll options: %(options)s") % {"options": ", ".join(new)} if new else _("Poll removed."))
    return tuple(found)


class OwnPostPath(msgspec.Struct, frozen=True):
    id: Id
    to: Line = ""


class HistoryPath(msgspec.Struct, frozen=True):
    """The post whose history is shown. `handle` is the author's name; the page has one URL with it and one without."""

    id: Id
    handle: Handle = ""


class EditForm(Writing, frozen=True, kw_only=True):
    id: Id


_PARTS = (
    ("text",),
    ("spoiler",),
    ("sensitive",),
    ("language",),
    ("visibility",),
    ("pictures",),
    ("options", "multiple", "hide_totals", "seconds"),
    ("place", "coordinates"),
    ("license",),
    ("downloads",),
)
"""Fields of a form that change together."""


def _digests(form: Writing) -> list[str]:
    """Return a digest of each part of a form. For pictures, it covers only their order: see `FileOfPost.changes`."""
    listed = {
        "options": "\n".join(filter(str.strip, form.options)),
        "pictures": [picture.id for picture in form.pictures],
    }
    return digests([listed.get(name, getattr(form, name)) for name in part] for part in _PARTS)


def _merged(form: Writing, stored: Writing) -> Writing:
    """Return the form with the stored values of all parts that the member did not change.

    These may have been changed elsewhere while the form was open.
    """
    before = form.made_from.split()
    if len(before) != len(_PARTS):
        return form
    mine = {picture.id: picture for picture in form.pictures}
    stored = replace(stored, pictures=tuple(mine.get(picture.id, picture) for picture in stored.pictures))
    same = [part for part, one, other in zip(_PARTS, before, _digests(form), strict=True) if one == other]
    return replace(form, **{name: getattr(stored, name) for part in same for name in part})


async def edit_form(ctx: PageContext, path: OwnPostPath) -> Response:
    member = ctx.member
    post = await own_post(ctx.graph, member.id, path.id)
    media, poll = await own_files(ctx, member, post.media), await polls.poll_of(ctx.graph, post)
    form = of_post(ctx.words, post, media, poll)
    form = replace(form, asks=member.asks_descriptions, made_from=" ".join(_digests(form)))
    return await sheet(ctx, member, SheetState(form=form, edits=post))


async def save(ctx: PageContext, asked: EditForm) -> Response:
    member = ctx.checked(asked)
    post = await own_post(ctx.graph, member.id, asked.id)
    return await submit(ctx, member, SheetState(form=asked, edits=post), partial(_saved, post=post))


async def _saved(ctx: PageContext, member: Member, form: Writing, *, post: Post) -> str:
    writes = ctx.writes
    old = await polls.poll_of(writes.graph, post)
    form = _merged(form, of_post(ctx.words, post, await own_files(ctx, member, post.media), old))
    now = milliseconds_of(writes.new_id(shard_of(member.id)))
    poll = _poll(old, poll_of(form), now)
    draft = replace(await draft_of(ctx.words, form), poll=poll, data=post.data)
    await check_descriptions(ctx, member, form.pictures)
    # Update the post before the descriptions, because the revision that the update creates must contain the previous
    # descriptions.
    await posts.update(writes, member.id, post.id, draft, visibility=Visibility(form.visibility))
    await describe_pictures(ctx, member, form.pictures)
    return f"/@{member.name}/{post.id}"


def _poll(old: Poll | None, asked: PollDraft | None, now: int) -> PollDraft | None:
    """Return the edited poll; None if it does not change. If the form has no duration, the poll closes when it did before."""
    if asked is None or old is None:
        return asked
    seconds = asked.seconds or max(1, (old.expires_at - now) // 1_000)
    before = (polls.titles(old), old.multiple, old.hide_totals)
    if not asked.seconds and before == (asked.options, asked.multiple, asked.hide_totals):
        return None
    return replace(asked, seconds=seconds)


async def history(ctx: PageContext, path: HistoryPath) -> Response:
    entry = await entry_with_id(ctx, path.id)
    if path.handle and path.handle.lower() != entry.author.member.name:
        raise NotFound("There is no such post")
    former = await revisions(ctx.graph, ctx.viewer_id, entry.post.id)
    # Read one revision more than is shown, because the oldest shown revision is compared with it.
    compared = former[-MOST_WORDINGS:]
    ids = {id_ for media_ids in (*(version.media for version in compared), entry.post.media) for id_ in media_ids}
    nodes = await ctx.graph.obj_get(list(ids)) if ids else {}
    media = {id_: node for id_, node in nodes.items() if isinstance(node, Media)}
    # In a thread, because comparing the texts may take a tenth of a second and would block other requests.
    wordings = await asyncio.to_thread(wordings_of, ctx, entry, former, media)
    return await page(
        ctx,
        "history",
        title=ctx.words.text("Edit history"),
        post=post_of(ctx, entry),
        wordings=wordings,
        older=not wordings[-1].first,
    )


async def ask(ctx: PageContext, path: OwnPostPath) -> Response:
    member = ctx.member
    await own_post(ctx.graph, member.id, path.id)
    post = post_of(ctx, await entry_with_id(ctx, path.id))
    to = local(path.to, post.path)
    return await page(ctx, "delete", title=ctx.words.text("Delete post"), post=post, to=to)


async def delete(ctx: PageContext, asked: IdForm) -> Response:
    member = ctx.checked(asked)
    await posts.delete(ctx.writes, member.id, asked.id)
    mine = f"/@{member.name}"
    # A page of the deleted post no longer exists, so redirect to the profile instead.
    return ctx.go(mine) if asked.to.startswith(f"{mine}/{asked.id}") else ctx.back(asked, mine)


def routes(settings: Settings) -> tuple[Route, ...]:
    return (
        routing.page("/posts/{id}/edit", edit_form, OwnPostPath),
        routing.form("/posts/{id}/edit", save, EditForm, max_body=form_bytes(settings)),
        routing.page("/posts/{id}/history", history, HistoryPath),
        routing.page("/@{handle}/{id}/history", history, HistoryPath),
        routing.page("/posts/{id}/delete", ask, OwnPostPath),
        routing.form("/posts/{id}/delete", delete, IdForm, limit_class="delete"),
    )
