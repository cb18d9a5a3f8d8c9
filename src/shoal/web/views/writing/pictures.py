"""Files of a post that is being written: each with its state, its description and the point that a cut keeps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.core.model import Media, MediaKind
from shoal.web.views.posts import Photo, photo_of
from shoal.web.views.writing.writing import MIDDLE, FileOfPost, picture_of
from shoal.web.visit import Visit


class PictureCard(msgspec.Struct, frozen=True):
    """A file in the form."""

    id: int
    photo: Photo
    what: str
    """Its kind, in a word."""
    describe: str
    """A hint for its description."""
    description: str
    across: int
    down: int
    cut: bool
    """Whether it can be cropped, and has a point to keep."""
    first: bool = False
    last: bool = False
    lacks: bool = False
    """Whether its description was asked for in vain."""


class Refused(msgspec.Struct, frozen=True):
    """A file that was not taken, and why."""

    name: str
    words: str


def card_of(visit: Visit, media: Media, said: FileOfPost | None = None) -> PictureCard:
    """Return a file in the form. `said` is what the form says of it; as it is stored otherwise."""
    _, said = visit.words.text, said or picture_of(media)
    is_picture = media.kind is MediaKind.IMAGE
    what, describe = {
        MediaKind.IMAGE: (_("Picture"), _("What is to be seen, for those who cannot see it")),
        MediaKind.AUDIO: (_("Sound"), _("What is to be heard, for those who cannot hear it")),
    }.get(media.kind, (_("Video"), _("What happens in it, for those who cannot see or hear it")))
    return PictureCard(
        media.id, photo_of(visit, media), what, describe, said.description, said.across, said.down, cut=is_picture
    )


def cards_of(
    visit: Visit, media: Sequence[Media], said: Sequence[FileOfPost], *, lacking: bool
) -> tuple[PictureCard, ...]:
    """Return the files of a form in its order. `lacking`: mark those without a description."""
    there = {one.id: one for one in media}
    cards = [card_of(visit, there[one.id], one) for one in said if one.id in there]
    return tuple(
        msgspec.structs.replace(
            card, first=n == 0, last=n == len(cards) - 1, lacks=lacking and not card.description.strip()
        )
        for n, card in enumerate(cards)
    )


def is_moved(picture: FileOfPost) -> bool:
    """Return whether the point to keep is not the middle."""
    return (picture.across, picture.down) != (MIDDLE, MIDDLE)
