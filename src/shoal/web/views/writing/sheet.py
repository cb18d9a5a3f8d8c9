"""The form in which a post is written, with everything that stands in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from shoal.core.model import Media, Member, Post, Visibility
from shoal.core.places import PlacePrecision
from shoal.core.visibility import narrower
from shoal.web.views.posts import PostView
from shoal.web.views.writing.pictures import PictureCard, Refused, cards_of
from shoal.web.views.writing.writing import Writing
from shoal.web.visit import Visit
from shoal.words.languages import Translated

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
"""Time zones that are offered; any other may be typed."""


class SheetChoice(msgspec.Struct, frozen=True):
    """One of several values."""

    value: str
    words: str
    chosen: bool
    sentence: str = ""
    icon: str = ""


class Sheet(msgspec.Struct, frozen=True):
    """The form, whole."""

    action: str
    back: str
    heading: str
    button: str
    said: Writing
    pictures: tuple[PictureCard, ...]
    refused: tuple[Refused, ...]
    wrong: Mapping[str, str]
    """Errors in words, by the name of the part of the form; "" for those that belong to none."""
    visibilities: tuple[SheetChoice, ...]
    languages: tuple[SheetChoice, ...]
    durations: tuple[SheetChoice, ...]
    options: tuple[str, ...]
    """Options of a poll as typed, with empty lines up to the maximum."""
    zones: tuple[str, ...]
    most: int
    """Characters of a text."""
    most_pictures: int
    most_description: int
    takes: str
    """The accepted files, in words."""
    accepts: str
    """The content types that the file picker offers."""
    place_words: str
    draft: str
    """The name under which a browser keeps the draft; empty in an edit."""
    lacking: str
    """The question about pictures without a description; empty if there is none to ask."""
    answers: PostView | None = None
    recipients: str = ""
    """The recipients of a message as typed."""
    is_message: bool = False
    is_edit: bool = False
    may_schedule: bool = True
    waits: bool = False
    """Whether something is still being made ready."""


class SheetState(msgspec.Struct, frozen=True, kw_only=True):
    """A form as typed, and all that is known about it."""

    said: Writing
    media: Sequence[Media] = ()
    refused: tuple[Refused, ...] = ()
    wrong: Mapping[str, str] = {}
    lacking: bool = False
    """Whether to ask about pictures without a description."""
    answers: PostView | None = None
    edits: Post | None = None
    recipients: str | None = None
    """The recipients of a direct message as typed; None for a post."""


def sheet_of(visit: Visit, member: Member, shown: SheetState) -> Sheet:
    """Return the form of a new post, or of the one that is edited."""
    _, limits, said, edits = visit.words.text, visit.front.writes.limits, shown.said, shown.edits
    cards = cards_of(visit, shown.media, said.pictures, lacking=shown.lacking)
    is_message = shown.recipients is not None
    return Sheet(
        action=visit.url(_path(shown)),
        back=_back(visit, member, shown),
        heading=_heading(visit.words, shown),
        button=_("Save") if edits else (_("Send") if is_message else _("Post")),
        said=said,
        pictures=cards,
        refused=shown.refused,
        wrong=shown.wrong,
        visibilities=_visibilities(visit.words, said, edits),
        languages=_languages(visit.words, said.language),
        durations=_durations(visit, said.seconds, edits),
        options=(*said.options, *("",) * max(0, limits.poll_options - len(said.options))),
        zones=tuple(_ZONES.split()),
        most=limits.text,
        most_pictures=limits.media,
        most_description=limits.description,
        takes=_takes(visit),
        accepts=",".join(visit.front.media.accepted_types),
        place_words=_place_words(visit.words, member.place_precision),
        draft=_draft(member, shown),
        lacking=_lacking(visit.words, cards) if shown.lacking else "",
        answers=shown.answers,
        recipients=shown.recipients or "",
        is_message=is_message,
        is_edit=edits is not None,
        may_schedule=edits is None and not is_message,
        waits=any(not card.photo.ready and not card.photo.failed for card in cards),
    )


def _path(shown: SheetState) -> str:
    if shown.edits:
        return f"/posts/{shown.edits.id}/edit"
    return "/compose" if shown.recipients is None else "/conversations/new"


def _heading(words: Translated, shown: SheetState) -> str:
    if shown.edits:
        return words.text("Edit the post")
    if shown.recipients is not None:
        return words.text("New message")
    return words.text("New comment") if shown.said.reply_to else words.text("New post")


def _draft(member: Member, shown: SheetState) -> str:
    """Return the name under which a browser keeps the draft."""
    if shown.edits:
        return ""
    if shown.recipients is not None:
        return f"shoal:draft:{member.id}:message"
    return f"shoal:draft:{member.id}:{shown.said.reply_to or shown.said.instead_of or 'new'}"


def _back(visit: Visit, member: Member, shown: SheetState) -> str:
    if shown.recipients is not None:
        return visit.url("/conversations")
    if shown.edits:
        return visit.url(f"/@{member.name}/{shown.edits.id}")
    return shown.answers.path if shown.answers else visit.url("/")


def _visibilities(words: Translated, said: Writing, edits: Post | None) -> tuple[SheetChoice, ...]:
    allowed = (edits.visibility, *narrower(edits.visibility)) if edits else tuple(Visibility)
    return tuple(
        SheetChoice(one.value, name, one.value == said.visibility, sentence, icon)
        for one, (name, sentence, icon) in visibility_words(words).items()
        if one in allowed
    )


def visibility_words(words: Translated) -> dict[Visibility, tuple[str, str, str]]:
    """Return the name of each visibility, a plain sentence about it, and its icon."""
    _ = words.text
    return {
        Visibility.PUBLIC: (
            _("Everybody"),
            _("Anybody can see it; it stands in public lists, under its tags and in search."),
            "globe",
        ),
        Visibility.UNLISTED: (
            _("Unlisted"),
            _("Anybody can see it on your profile, but it stands in no public list."),
            "link",
        ),
        Visibility.FOLLOWERS: (
            _("Followers"),
            _("Only those who follow you, and those whom it names, can see it."),
            "users",
        ),
        Visibility.DIRECT: (
            _("Those it names"),
            _("Only those whom it names with @ can see it; if it names nobody, only you."),
            "mail",
        ),
    }


def _languages(words: Translated, chosen: str) -> tuple[SheetChoice, ...]:
    names = words.locale.languages
    codes = _LANGUAGES.split()
    known = [*codes, *([chosen] if chosen and chosen not in codes else [])]
    found = sorted((str(names.get(code, code)), code) for code in known)
    none = SheetChoice("", words.text("not said"), not chosen)
    return (none, *(SheetChoice(code, name, code == chosen) for name, code in found))


def _durations(visit: Visit, chosen: int, edits: Post | None) -> tuple[SheetChoice, ...]:
    words, limits = visit.words, visit.front.writes.limits
    fits = [one for one in _DURATIONS if limits.poll_least_seconds <= one <= limits.poll_most_seconds]
    kept = [SheetChoice("0", words.text("as it is"), chosen == 0)] if edits and edits.poll_id else []
    usual = chosen or (0 if kept else _DAY)
    return (*kept, *(SheetChoice(str(one), span_words(words, one), one == usual) for one in fits))


def span_words(words: Translated, seconds: int) -> str:
    """Return a time span in words."""
    if seconds % _DAY == 0:
        return words.plural("%(n)s day", "%(n)s days", seconds // _DAY) % {"n": seconds // _DAY}
    if seconds % _HOUR == 0:
        return words.plural("%(n)s hour", "%(n)s hours", seconds // _HOUR) % {"n": seconds // _HOUR}
    return words.plural("%(n)s minute", "%(n)s minutes", seconds // _MINUTE) % {"n": seconds // _MINUTE}


def _takes(visit: Visit) -> str:
    settings, words, media = visit.front.settings, visit.words, visit.front.media
    kinds = [kind.removeprefix("image/").upper().replace("WEBP", "WebP") for kind in media.accepted_types]
    text = (
        words.text("Up to %(n)s pictures (%(kinds)s) of %(size)s MB, or one video or sound of %(clip)s MB.")
        if media.clips
        else words.text("Up to %(n)s pictures (%(kinds)s) of %(size)s MB.")
    )
    return text % {
        "n": words.number(visit.front.writes.limits.media),
        "kinds": ", ".join(kind for kind in kinds if "/" not in kind),
        "size": settings.max_upload_bytes // _MIB,
        "clip": settings.max_video_bytes // _MIB,
    }


def _place_words(words: Translated, precision: PlacePrecision) -> str:
    _ = words.text
    return {
        PlacePrecision.EXACT: _("It is kept as exactly as you give it."),
        PlacePrecision.M100: _("It is kept to about 100 metres."),
        PlacePrecision.KM: _("It is kept to about a kilometre."),
        PlacePrecision.KM10: _("It is kept to about ten kilometres."),
        PlacePrecision.NONE: _("Your settings say that no places are kept: this one will not be."),
    }[precision]


def _lacking(words: Translated, cards: Sequence[PictureCard]) -> str:
    number = sum(card.lacks for card in cards)
    if not number:
        return ""
    return words.plural(
        "One of the pictures has no description. Whoever cannot see it will not know what it shows.",
        "%(n)s of the pictures have no description. Whoever cannot see them will not know what they show.",
        number,
    ) % {"n": words.number(number)}


def local_time(ms: int, zone: str) -> str:
    """Return a moment (Unix ms) as a local time of a zone, the way a field for it takes it."""
    return datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M")
