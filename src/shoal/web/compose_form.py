"""The fields of the compose form, and their conversion from and to posts, drafts and polls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput
from shoal.core.licenses import License
from shoal.core.model import Media, Poll, Post, Visibility
from shoal.core.places import Place
from shoal.http.params import Id, Upload
from shoal.i18n import Translated
from shoal.web.place_names import as_typed, place_typed, town_label
from shoal.web.request_context import Form, Line, Names, Text

_Word = Annotated[str, Meta(max_length=100)]
_Percent = Annotated[int, Meta(ge=0, le=100)]
VisibilityName = Literal["public", "unlisted", "followers", "direct"]
MIDDLE = 50
NO_ID = cast("Id", 0)


class FileOfPost(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    description: Text = ""
    across: _Percent = MIDDLE
    """The focal point, in percent of the width from the left."""
    down: _Percent = MIDDLE
    """The focal point, in percent of the height from the top."""
    shows_details: bool = False
    made_from: _Word = ""
    """Digests of the stored values that the form was made from: see `changes`. Empty if they are not known."""

    @property
    def changes(self) -> dict[str, Any]:
        """The values that the member changed in the form, as arguments of `media.describe`."""
        values = {"description": self.description, "focus": self.focus, "shows_details": self.shows_details}
        before, now = self.made_from.split(), digests([value] for value in values.values())
        if len(before) != len(now):
            return values
        return {name: values[name] for name, one, other in zip(values, before, now, strict=True) if one != other}

    @property
    def focus(self) -> tuple[float, float]:
        return self.across / 50 - 1, 1 - self.down / 50


class Writing(Form, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=200_000)] = ""
    spoiler: Line = ""
    sensitive: bool = False
    language: _Word = ""
    visibility: VisibilityName = "public"
    pictures: Annotated[tuple[FileOfPost, ...], Meta(max_length=100)] = ()
    files: Annotated[tuple[Upload, ...], Meta(max_length=100)] = ()
    """Files in the request of this form, which a browser without scripts sends."""
    options: Annotated[tuple[Line, ...], Meta(max_length=20)] = ()
    multiple: bool = False
    hide_totals: bool = False
    seconds: Annotated[int, Meta(ge=0, le=10_000_000_000)] = 0
    """Duration of the poll in seconds. When a post is edited, 0 leaves the duration unchanged."""
    place: Annotated[str, Meta(max_length=2_000)] = ""
    """The name of a town, or latitude and longitude."""
    coordinates: _Word = ""
    """Coordinates that belong to the name in `place`, from a map or from the form before (see `place_names.place_typed`)."""
    at: _Word = ""
    """The local time at which to publish the post, in the format of a browser: `2026-11-24T18:30`."""
    zone: _Word = "UTC"
    license: License = License.RESERVED
    downloads: bool = False
    reply_to: Id = NO_ID
    mentions: Names | None = None
    """User names of the participants that a reply mentions, as the form contained them."""
    instead_of: Id = NO_ID
    """Id of a post or scheduled post that this post replaces: it is deleted when this post is published."""
    request: _Word = ""
    """Idempotency key of the form, so that a form that is sent twice creates one post."""
    made_from: Line = ""
    """Digests of the post that an edit form was made from; empty if they are not known."""
    asks: bool = False
    """Whether to ask the member before a picture without a description is published."""
    do: _Word = "post"
    """The pressed button: `post`, `anyway` or `add`; or `up`, `down` or `remove`, followed by the id of a picture."""


def digests(parts: Iterable[Iterable[object]]) -> list[str]:
    """Return a short digest of each part of a form, by which a change is recognized.

    Line ends do not count, because browsers change them.
    """
    texts = ("\0".join("\n".join(str(value).strip().splitlines()) for value in part) for part in parts)
    return [blake2b(text.encode(), digest_size=6, usedforsecurity=False).hexdigest() for text in texts]


def as_id(number: int) -> Id:
    """Return the number as an `Id`, the type of ids in forms.

    At run time it stays an int, because stores and encoders refuse subclasses.
    """
    return cast("Id", number)


def with_place(words: Translated, form: Writing, place: Place | None) -> Writing:
    """Return the form with a place as coordinates, and as the name of a town if it is known."""
    if place is None:
        return form
    return replace(form, place=town_label(words, place) or as_typed(place), coordinates=as_typed(place))


def of_post(words: Translated, post: Post, media: Sequence[Media], poll: Poll | None) -> Writing:
    form = replace(
        Writing(text=post.text, spoiler=post.spoiler, sensitive=post.sensitive, language=post.language),
        visibility=post.visibility.value,
        pictures=tuple(map(picture_of, media)),
        options=tuple(option.title for option in poll.options) if poll else (),
        multiple=poll.multiple if poll else False,
        hide_totals=poll.hide_totals if poll else False,
        license=post.license,
        downloads=post.downloads,
        reply_to=as_id(post.parent_id),
    )
    return with_place(words, form, post.place)


def of_draft(words: Translated, draft: Draft, media: Sequence[Media]) -> Writing:
    asked, place = draft.poll, draft.place
    form = Writing(
        text=draft.text,
        spoiler=draft.spoiler,
        sensitive=bool(draft.sensitive),
        language=draft.language,
        visibility=draft.visibility.value,
        pictures=tuple(map(picture_of, media)),
        options=asked.options if asked else (),
        multiple=asked.multiple if asked else False,
        hide_totals=asked.hide_totals if asked else False,
        seconds=(asked.seconds or 0) if asked else 0,
        license=draft.license or License.RESERVED,
        downloads=bool(draft.downloads),
        reply_to=as_id(draft.parent_id),
    )
    return with_place(words, form, Place(*place) if place else None)


def picture_of(media: Media) -> FileOfPost:
    across, down = round((media.focus[0] + 1) * 50), round((1 - media.focus[1]) * 50)
    stored = FileOfPost(
        id=as_id(media.id),
        description=media.description,
        across=across,
        down=down,
        shows_details=media.shows_details,
    )
    return replace(stored, made_from=" ".join(digests([value] for value in stored.changes.values())))


async def draft_of(words: Translated, form: Writing) -> Draft:
    """Return the draft of a post with the values of the compose form. Raises `InvalidInput` for an unknown place."""
    return Draft(
        text=form.text,
        spoiler=form.spoiler,
        sensitive=form.sensitive,
        visibility=Visibility(form.visibility),
        language=form.language,
        media=tuple(picture.id for picture in form.pictures),
        parent_id=form.reply_to,
        place=await place_typed(words, form.place, form.coordinates),
        poll=poll_of(form),
        license=form.license,
        downloads=form.downloads,
    )


def poll_of(form: Writing) -> PollDraft | None:
    options = tuple(option for option in form.options if option.strip())
    if not options:
        return None
    return PollDraft(options=options, seconds=form.seconds, multiple=form.multiple, hide_totals=form.hide_totals)


def moment_of(form: Writing) -> int:
    """Return the time at which to publish the post, in Unix milliseconds; 0 to publish it now.

    Raises `InvalidInput` for an invalid time or zone.
    """
    return moment_in(form.at, form.zone) if form.at.strip() else 0


def moment_in(at: str, zone: str) -> int:
    """Return a local time in a time zone as Unix milliseconds. Raises `InvalidInput` for an invalid time or zone."""
    try:
        place = ZoneInfo(zone.strip() or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput("This time zone is not known. It is written like Europe/Berlin.", field="at") from None
    try:
        return int(datetime.fromisoformat(at.strip()).replace(tzinfo=place).timestamp() * 1_000)
    except (ValueError, OverflowError):
        raise InvalidInput("A time is written like 2026-11-24T18:30.", field="at") from None


def arranged(form: Writing) -> Writing:
    """Return the compose form with its pictures changed by the pressed button (`do`), such as `up` or `remove`."""
    verb, _, number = form.do.partition(":")
    ids = [str(picture.id) for picture in form.pictures]
    if number not in ids:
        return form
    at, pictures = ids.index(number), list(form.pictures)
    moved = pictures.pop(at)
    if verb in {"up", "down"}:
        pictures.insert(max(0, at + (1 if verb == "down" else -1)), moved)
    elif verb != "remove":
        return form
    return replace(form, pictures=tuple(pictures))
