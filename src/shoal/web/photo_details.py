"""Camera details, license and download of photos: as shown below a post or photo, and as choices in forms."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from shoal.core.licenses import License
from shoal.core.model import Media, MediaKind, MediaState
from shoal.core.photo_details import PhotoDetails
from shoal.i18n import Translated
from shoal.queries.hydration import Entry
from shoal.web.request_context import PageContext


class PhotoFacts(NamedTuple):
    number: int
    camera: str
    lens: str
    exposure: tuple[str, ...]
    taken: str
    download: str
    file_name: str
    """The name of the downloaded file: author, post and number of the photo."""


class PhotoNotes(NamedTuple):
    photos: tuple[PhotoFacts, ...]
    license: str
    license_url: str
    several: bool
    """Whether each photo must be shown with its number, because there are several."""


def photo_notes(ctx: PageContext, entry: Entry, number: int = 0) -> PhotoNotes | None:
    """Return the license and the details of a post's photos, or of its photo with this number; None for a post without media."""
    post = entry.post
    if not entry.media:
        return None
    facts = [
        _facts(ctx, n, media, f"{entry.author.member.name}-{post.id}-{n}", downloads=post.downloads)
        for n, media in enumerate(entry.media, 1)
        if number in {0, n} and media.kind is MediaKind.IMAGE and media.state is MediaState.READY
    ]
    shown = tuple(
        found for found in facts if found.download or found.camera or found.lens or found.exposure or found.taken
    )
    return PhotoNotes(
        shown, license_words(ctx.words)[post.license], post.license.url, not number and len(entry.media) > 1
    )


def _facts(ctx: PageContext, number: int, media: Media, name: str, *, downloads: bool) -> PhotoFacts:
    details = media.shown_details or PhotoDetails()
    return PhotoFacts(
        number,
        details.camera,
        details.lens,
        exposure_of(ctx.words, details),
        day_of(ctx.words, details),
        ctx.app.at.download(media.largest_key) if downloads else "",
        f"{name}{PurePosixPath(media.largest_key).suffix}",
    )


def exposure_of(words: Translated, details: PhotoDetails) -> tuple[str, ...]:
    """Return the exposure as photographers write it, such as `35 mm`, `f/2`, `1/250 s`, `ISO 400`."""
    seconds = details.exposure
    time = f"1/{round(1 / seconds)}" if 0 < seconds < 0.3 else words.decimal(seconds)
    return tuple(
        text
        for text, known in (
            (f"{words.decimal(details.focal_length)}\u00a0mm", details.focal_length),
            (f"f/{words.decimal(details.aperture)}", details.aperture),
            (f"{time}\u00a0s", seconds),
            (f"ISO\u00a0{details.iso}", details.iso),
        )
        if known
    )


def day_of(words: Translated, details: PhotoDetails) -> str:
    """Return the date on which a photo was taken; empty if unknown."""
    if not details.taken:
        return ""
    return words.day(int(datetime.fromisoformat(details.taken).replace(tzinfo=UTC).timestamp() * 1_000))


def summary_of(words: Translated, details: PhotoDetails | None) -> str:
    """Return all details of a photo as one line; empty without details."""
    found = details or PhotoDetails()
    return " · ".join(filter(None, (found.camera, found.lens, *exposure_of(words, found), day_of(words, found))))


def license_words(words: Translated) -> dict[License, str]:
    return {License.RESERVED: words.text("All rights reserved"), License.CC_BY: "CC BY 4.0", License.CC0: "CC0 1.0"}


def license_choices(words: Translated) -> tuple[tuple[License, str, str], ...]:
    _ = words.text
    means = {
        License.RESERVED: _("Others need your permission to use your photos"),
        License.CC_BY: _("Anyone may use your photos and must name you"),
        License.CC0: _("Anyone may use your photos for any purpose"),
    }
    return tuple((license_, name, means[license_]) for license_, name in license_words(words).items())
