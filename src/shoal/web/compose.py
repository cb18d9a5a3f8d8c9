"""The compose form for posts and comments: its view model, and creating or scheduling the post.

A refused post shows the form again, with its values and the reason.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal import gazetteer
from shoal.commands import members, polls, posts, scheduled_posts
from shoal.commands.members import ProfileChange
from shoal.core.errors import Held, InvalidInput, NotFound, ShoalError
from shoal.core.licenses import License
from shoal.core.model import Media, Member, Post, ScheduledPost, Visibility
from shoal.core.places import PlacePrecision
from shoal.core.text import addressed, is_blank
from shoal.core.visibility import narrower
from shoal.graph.access import own_object, own_post
from shoal.http.params import Id
from shoal.http.routes import Route
from shoal.i18n import Translated
from shoal.queries.hydration import Entry
from shoal.settings import Settings
from shoal.web import form_errors, routing
from shoal.web.compose_form import (
    NO_ID,
    FileOfPost,
    Writing,
    arranged,
    as_id,
    draft_of,
    moment_of,
    of_draft,
    of_post,
    picture_of,
)
from shoal.web.media import PictureCard, Refused, cards_of, describe_pictures, own_files, take_files
from shoal.web.photo_details import license_choices
from shoal.web.rendering import page
from shoal.web.request_context import PageContext, TagName, Text
from shoal.web.view_models import Face, PostView, entry_with_id, post_of

_LANGUAGES = """
    ar bg bn ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl he hi hr hu hy id is it ja ka kk ko ku lt lv mk ml mr ms my nb nl
    nn oc pa pl pt ro ru sk sl sq sr sv sw ta te th tr uk ur vi zh
"""
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_DURATIONS = (5 * _MINUTE, 30 * _MINUTE, _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY, 30 * _DAY)
_MIB = 1 << 20
_ZONES = """
    UTC Pacific/Honolulu America/Anchorage America/Los_Angeles America/Denver America/Chicago America/New_York America/Halifax
    America/Sao_Paulo Atlantic/Azores Europe/London Europe/Lisbon Europe/Berlin Europe/Paris Europe/Madrid Europe/Rome Europe/Athens
    Europe/Kyiv Europe/Istanbul Africa/Lagos Africa/Cairo Africa/Johannesburg Africa/Nairobi Asia/Dubai Asia/Tehran Asia/Karachi
    Asia/Kolkata Asia/Dhaka Asia/Bangkok Asia/Jakarta Asia/Shanghai Asia/Singapore Asia/Tokyo Asia/Seoul Australia/Perth
    Australia/Sydney Pacific/Auckland
"""
"""Time zones offered in the form; any other may be typed."""


class SheetChoice(msgspec.Struct, frozen=True):
    value: str
    words: str
    chosen: bool
    sentence: str = ""
    icon: str = ""


class Sheet(msgspec.Struct, frozen=True):
    """The labels and choices of the compose form; the typed values are in `SheetState`."""

    action: str
    back: str
    heading: str
    button: str
    pictures: tuple[PictureCard, ...]
    visibilities: tuple[SheetChoice, ...]
    visible_to: SheetChoice
    """The selected visibility; the first one if none is selected."""
    languages: tuple[SheetChoice, ...]
    language: str
    durations: tuple[SheetChoice, ...]
    licenses: tuple[tuple[License, str, str], ...]
    """Value, name and description of each."""
    options: tuple[str, ...]
    """Poll options as typed. Empty options follow them, up to the maximum number."""
    zones: tuple[str, ...]
    takes: str
    accepts: str
    place_words: str
    names_places: bool
    draft: str
    """The key under which the browser stores the draft; empty when a published post is edited."""
    lacking: str


class SheetState(msgspec.Struct, frozen=True, kw_only=True):
    form: Writing
    media: Sequence[Media] = ()
    refused: tuple[Refused, ...] = ()
    wrong: Mapping[str, str] = {}
    """Error messages by the part of the form that they belong to; "" is the key of a message for the whole form."""
    lacking: frozenset[int] = frozenset()
    """Ids of the pictures for which the member is asked for a description."""
    answers: PostView | None = None
    """The post that the new post replies to, if the member may still see it."""
    replying: str = ""
    """A phrase with the members whom the reply will mention."""
    mentions: str | None = None
    """User names of the members whom the reply will mention, separated by spaces; None for a post that is no reply."""
    edits: Post | None = None
    recipients: str | None = None
    """The recipients of a direct message as typed; None for a post."""
    offered: tuple[Face, ...] = ()


def _sheet(ctx: PageContext, member: Member, shown: SheetState) -> Sheet:
    _, limits, form, edits = ctx.words.text, ctx.limits, shown.form, shown.edits
    cards = cards_of(ctx, shown.media, form.pictures, lacking=shown.lacking)
    visibilities, languages = _visibilities(ctx.words, form, edits), _languages(ctx.words, form.language)
    drafts = f"shoal:draft:{member.id}"
    if edits:
        action, back = f"/posts/{edits.id}/edit", ctx.url(f"/@{member.name}/{edits.id}")
        heading, button, draft = _("Edit post"), _("Save"), ""
    elif shown.recipients is not None:
        action, back = "/conversations/new", ctx.url("/conversations")
        heading, button, draft = _("New message"), _("Send"), f"{drafts}:message"
    else:
        action, back = "/compose", shown.answers.path if shown.answers else ctx.url("/")
        is_message = shown.answers is not None and shown.answers.visibility == Visibility.DIRECT
        heading = _("New message") if is_message else _("New comment") if form.reply_to else _("New post")
        button, draft = _("Post"), f"{drafts}:{form.reply_to or form.instead_of or 'new'}"
    return Sheet(
        action=ctx.url(action),
        back=back,
        heading=heading,
        button=button,
        pictures=cards,
        visibilities=visibilities,
        visible_to=next((choice for choice in visibilities if choice.chosen), visibilities[0]),
        languages=languages,
        language=next((choice.words for choice in languages if choice.chosen and choice.value), ""),
        durations=_durations(ctx, form.seconds, edits),
        licenses=license_choices(ctx.words),
        options=(*form.options, *("",) * max(0, limits.poll_options - len(form.options))),
        zones=tuple(_ZONES.split()),
        takes=_takes(ctx),
        accepts=",".join(ctx.app.media.accepted_types),
        place_words=_place_words(ctx.words, member.place_precision),
        names_places=gazetteer.installed() is not None,
        draft=draft,
        lacking=_lacking(ctx.words, cards) if shown.lacking else "",
    )


def _visibilities(words: Translated, form: Writing, edits: Post | None) -> tuple[SheetChoice, ...]:
    allowed = (edits.visibility, *narrower(edits.visibility)) if edits else tuple(Visibility)
    return tuple(
        SheetChoice(visibility.value, name, visibility.value == form.visibility, sentence, icon)
        for visibility, (name, sentence, icon) in visibility_words(words).items()
        if visibility in allowed
    )


def visibility_words(words: Translated) -> dict[Visibility, tuple[str, str, str]]:
    _ = words.text
    return {
        Visibility.PUBLIC: (
            _("Public"),
            _("Anyone can see it, and it appears in public timelines, tags and search."),
            "globe",
        ),
        Visibility.UNLISTED: (
            _("Unlisted"),
            _("Anyone can see it on your profile, but it does not appear in public timelines."),
            "link",
        ),
        Visibility.FOLLOWERS: (
            _("Followers"),
            _("Only your followers and the people you mention can see it."),
            "users",
        ),
        Visibility.DIRECT: (
            _("Only people you mention"),
            _("Only the people you mention with @ can see it."),
            "mail",
        ),
    }


def _languages(words: Translated, chosen: str) -> tuple[SheetChoice, ...]:
    names = words.locale.languages
    codes = _LANGUAGES.split()
    known = [*codes, *([chosen] if chosen and chosen not in codes else [])]
    found = sorted((str(names.get(code, code)), code) for code in known)
    none = SheetChoice("", words.text("not specified"), not chosen)
    return (none, *(SheetChoice(code, name, code == chosen) for name, code in found))


def _durations(ctx: PageContext, chosen: int, edits: Post | None) -> tuple[SheetChoice, ...]:
    words, limits = ctx.words, ctx.limits
    fits = [seconds for seconds in _DURATIONS if limits.poll_least_seconds <= seconds <= limits.poll_most_seconds]
    unchanged = [SheetChoice("0", words.text("unchanged"), chosen == 0)] if edits and edits.poll_id else []
    usual = chosen or (0 if unchanged else _DAY)
    return (*unchanged, *(SheetChoice(str(fit), _span_words(words, fit), fit == usual) for fit in fits))


def _span_words(words: Translated, seconds: int) -> str:
    if seconds % _DAY == 0:
        return words.counted("%(n)s day", "%(n)s days", seconds // _DAY)
    if seconds % _HOUR == 0:
        return words.counted("%(n)s hour", "%(n)s hours", seconds // _HOUR)
    return words.counted("%(n)s minute", "%(n)s minutes", seconds // _MINUTE)


def _takes(ctx: PageContext) -> str:
    settings, words, media = ctx.settings, ctx.words, ctx.app.media
    kinds = [kind.removeprefix("image/").upper().replace("WEBP", "WebP") for kind in media.accepted_types]
    text = (
        words.text("Up to %(n)s pictures (%(kinds)s) of %(size)s MB each, or one video or audio file of %(clip)s MB.")
        if media.clips
        else words.text("Up to %(n)s pictures (%(kinds)s) of %(size)s MB each.")
    )
    return text % {
        "n": words.number(ctx.limits.media),
        "kinds": ", ".join(kind for kind in kinds if "/" not in kind),
        "size": settings.max_upload_bytes // _MIB,
        "clip": settings.max_video_bytes // _MIB,
    }


def _place_words(words: Translated, precision: PlacePrecision) -> str:
    _ = words.text
    return {
        PlacePrecision.EXACT: _("The place is stored exactly as you enter it."),
        PlacePrecision.M100: _("The place is rounded to about 100 meters."),
        PlacePrecision.KM: _("The place is rounded to about one kilometer."),
        PlacePrecision.KM10: _("The place is rounded to about ten kilometers."),
        PlacePrecision.CITY: _("Only the town is stored."),
        PlacePrecision.NONE: _("Your settings do not store places, so this one is discarded."),
    }[precision]


def _undescribed(form: Writing, edits: Post | None) -> frozenset[int]:
    """Return the pictures without a description, except those that the edited post already contains."""
    stored = frozenset(edits.media if edits else ())
    return frozenset(picture.id for picture in form.pictures if is_blank(picture.description)) - stored


def _lacking(words: Translated, cards: Sequence[PictureCard]) -> str:
    number = sum(card.lacks for card in cards)
    if not number:
        return ""
    return words.counted(
        "One picture has no description. Add one for people who can't see it.",
        "%(n)s pictures have no description. Add them for people who can't see.",
        number,
    )


def local_time(ms: int, zone: str) -> str:
    return datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M")


_FORM_BYTES = 1 << 20
_FIELDS = {
    "media_ids": "pictures",
    "description": "pictures",
    "focus": "pictures",
    "options": "poll",
    "expires_in": "poll",
    "scheduled_at": "at",
}
"""Fields of commands, each with the part of the form in which its error is shown, where both names differ."""
_PARTS = {"recipients", "text", "spoiler", "pictures", "poll", "place", "at", "visibility", "language"}
_ORDER = tuple(Visibility)


class ComposeQuery(msgspec.Struct, frozen=True):
    tag: TagName = ""
    text: Text = ""
    reply_to: Id = NO_ID
    scheduled: Id = NO_ID
    files: Annotated[tuple[Id, ...], Meta(max_length=100)] = ()
    """Files of the member to begin with."""
    again: Id = NO_ID


async def new(ctx: PageContext, query: ComposeQuery) -> Response:
    member = ctx.member
    if query.scheduled:
        return await sheet(ctx, member, SheetState(form=await _planned(ctx, member, query.scheduled)))
    if query.again:
        return await sheet(ctx, member, SheetState(form=await _again(ctx, member, query.again)))
    form = answering(member, await entry_with_id(ctx, query.reply_to)) if query.reply_to else begun(member)
    text = f"#{query.tag.removeprefix('#')}" if query.tag else query.text
    asked = tuple(dict.fromkeys(query.files))[: ctx.limits.media]
    own = {file.id: file for file in await own_files(ctx, member, asked)}
    # Leave out files that a post uses: a link from someone else must not bring the photos of a message into a public post.
    free = [id_ for id_ in asked if id_ not in own or own[id_].unused_since]
    pictures = tuple(picture_of(own[id_]) if id_ in own else FileOfPost(id=id_) for id_ in free)
    return await sheet(ctx, member, SheetState(form=replace(form, text=text, pictures=pictures)))


def begun(member: Member) -> Writing:
    return Writing(
        visibility=member.default_visibility.value,
        sensitive=member.default_sensitive,
        language=member.default_language,
        license=member.default_license,
        downloads=member.allows_downloads,
        request=secrets.token_urlsafe(12),
        asks=member.asks_descriptions,
    )


def answering(member: Member, entry: Entry) -> Writing:
    """Return an empty reply form with the content warning of the post. Its visibility is at most as wide as the post's."""
    post = entry.post
    visibility = max(post.visibility, member.default_visibility, key=_ORDER.index)
    return replace(begun(member), reply_to=as_id(post.id), visibility=visibility.value, spoiler=post.spoiler)


def addressees(member: Member, entry: Entry, named: str | None = None) -> list[str]:
    """Return the names of the participants, whom a reply mentions: a member is notified of a reply only if it mentions them.

    `named` are the user names that the form contained, separated by spaces. Names that an edit added to the post later
    are left out, because the author of the reply did not see them.
    """
    names = [entry.author.member.name, *(mention.name for mention in entry.post.mentions)]
    seen = names if named is None else named.split()
    return [name for name in dict.fromkeys(names) if name != member.name and name in seen]


_NAMED = 3
"""Maximum number of participants whose names the form shows. It shows only the number of the others."""


def replying_to(words: Translated, names: Sequence[str], *, everyone: bool = False) -> str:
    """Return a phrase with the members whom a reply mentions; empty for no names.

    With `everyone`, which direct messages use, the phrase contains all names.
    """
    if not names:
        return ""
    most = len(names) if everyone else _NAMED
    shown, others = ", ".join(f"@{name}" for name in names[:most]), len(names) - most
    if others > 0:
        return words.counted(
            "Replying to %(names)s and %(n)s other", "Replying to %(names)s and %(n)s others", others, names=shown
        )
    return words.text("Replying to %(names)s") % {"names": shown}


async def _planned(ctx: PageContext, member: Member, id_: int) -> Writing:
    plan = await own_object(ctx.graph, ScheduledPost, member.id, id_)
    draft = scheduled_posts.draft_of(plan)
    form = of_draft(ctx.words, draft, await own_files(ctx, member, draft.media))
    at, request = local_time(plan.at, "UTC"), secrets.token_urlsafe(12)
    return replace(form, at=at, zone="UTC", instead_of=as_id(id_), request=request, asks=member.asks_descriptions)


async def _again(ctx: PageContext, member: Member, id_: int) -> Writing:
    post = await own_post(ctx.graph, member.id, id_)
    form = of_post(ctx.words, post, await own_files(ctx, member, post.media), await polls.poll_of(ctx.graph, post))
    return replace(form, instead_of=as_id(id_), request=secrets.token_urlsafe(12), asks=member.asks_descriptions)


async def sheet(ctx: PageContext, member: Member, shown: SheetState) -> Response:
    """Return the page with the compose form. Its status is 422 if the server refused a part of the form."""
    form, status = shown.form, 422 if shown.refused or shown.wrong or shown.lacking else 200
    media = await own_files(ctx, member, [picture.id for picture in form.pictures])
    if form.reply_to and shown.edits is None:
        with contextlib.suppress(NotFound):
            entry = await entry_with_id(ctx, form.reply_to)
            names = addressees(member, entry)
            replying = replying_to(ctx.words, names, everyone=entry.post.visibility is Visibility.DIRECT)
            shown = replace(shown, answers=post_of(ctx, entry), replying=replying, mentions=" ".join(names))
    refused = (*shown.refused, *_lost(ctx, form, {file.id for file in media}))
    shown = replace(shown, media=media, refused=refused)
    made = _sheet(ctx, member, shown)
    return await page(ctx, "compose", status=status, title=made.heading, sheet=made, typed=shown)


def _lost(ctx: PageContext, form: Writing, there: set[int]) -> Sequence[Refused]:
    """Return an error for each picture of the form that no longer exists. A file without a post is deleted after a day."""
    words = ctx.words.text(
        "This file was deleted, because files that are not in a post are kept for one day only. Add it again."
    )
    name = ctx.words.text("Picture")
    return [Refused(name, words) for picture in form.pictures if picture.id not in there]


async def send(ctx: PageContext, asked: Writing) -> Response:
    return await submit(ctx, ctx.checked(asked), SheetState(form=asked), _posted)


async def submit(
    ctx: PageContext, member: Member, typed: SheetState, store: Callable[[PageContext, Member, Writing], Awaitable[str]]
) -> Response:
    """Store the post with `store`, which returns the path to redirect to. After an error, show the form with the error."""
    pictures, refused = await take_files(ctx, member, typed.form.files)
    form = replace(typed.form, files=(), pictures=(*typed.form.pictures, *pictures))
    shown = replace(typed, form=form, refused=refused)
    if form.asks != member.asks_descriptions and not typed.edits:
        member = await members.update_profile(ctx.writes, member.id, ProfileChange(asks_descriptions=form.asks))
    if form.do not in {"post", "anyway"}:
        return await sheet(ctx, member, replace(shown, form=arranged(form)))
    if refused:
        return await sheet(ctx, member, shown)
    if form.asks and form.do != "anyway" and (lacking := _undescribed(form, typed.edits)):
        return await sheet(ctx, member, replace(shown, lacking=lacking))
    try:
        return ctx.go(await store(ctx, member, form))
    except Held:
        # Show the post in the list of pending posts.
        raise
    except ShoalError as error:
        return await sheet(ctx, member, replace(shown, wrong=wrong_of(ctx, error)))


async def _posted(ctx: PageContext, member: Member, form: Writing) -> str:
    """Create or schedule a post. Return the path of the post's page or of the list of scheduled posts."""
    writes, at = ctx.writes, moment_of(form)
    writes.pressure.check()
    if form.reply_to:
        if not form.pictures:
            check_says_something(form.text)
        names = addressees(member, await entry_with_id(ctx, form.reply_to), form.mentions)
        form = replace(form, text=addressed(form.text.strip(), names, writes.domain))
    draft = await draft_of(ctx.words, form)
    await describe_pictures(ctx, member, form.pictures)
    if at:
        await scheduled_posts.schedule(writes, member.id, draft, at, request=form.request)
        path = "/scheduled"
    else:
        try:
            made = await posts.create(writes, member.id, draft, request=form.request)
        except Held:
            # A scheduled post would be published in addition. A public post stays, like the public version of a held edit.
            with contextlib.suppress(NotFound):
                await scheduled_posts.cancel(writes, member.id, form.instead_of)
            raise
        path = f"/@{member.name}/{made.id}"
    if form.instead_of:
        await _drop(ctx, member, form.instead_of)
    return path


def check_says_something(text: str) -> None:
    """Raise `InvalidInput` if a comment or message contains nothing but mentions."""
    if all(word.startswith("@") or is_blank(word) for word in text.split()):
        raise InvalidInput("Text can't be blank", field="text")


async def _drop(ctx: PageContext, member: Member, id_: int) -> None:
    writes = ctx.writes
    node = (await writes.graph.obj_get((id_,))).get(id_)
    # In the meantime, the old post may have been deleted, or the scheduled post published or cancelled.
    with contextlib.suppress(NotFound):
        await (posts.delete if isinstance(node, Post) else scheduled_posts.cancel)(writes, member.id, id_)


def wrong_of(ctx: PageContext, error: ShoalError) -> dict[str, str]:
    _, field = ctx.words.text, error.field or "" if isinstance(error, InvalidInput) else ""
    part = _FIELDS.get(field, field)
    if str(error) == "Text can't be blank":
        return {"text": _("Write something or add a picture.")}
    if isinstance(error, NotFound):
        return {"": _("A picture, or the post you are replying to, no longer exists.")}
    return {part if part in _PARTS else "": form_errors.error_text(ctx.words, error)}


def form_bytes(settings: Settings) -> int:
    pictures = settings.max_media_per_post * settings.max_upload_bytes
    return max(pictures, settings.max_video_bytes) + _FORM_BYTES


def routes(settings: Settings) -> tuple[Route, ...]:
    return (
        routing.page("/compose", new, ComposeQuery),
        routing.form("/compose", send, Writing, max_body=form_bytes(settings)),
    )
