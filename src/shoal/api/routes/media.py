"""Media files."""

from __future__ import annotations

from functools import partial

from shoal.api import media
from shoal.api.entities.media import MediaAttachment
from shoal.api.http.calls import Route
from shoal.api.rows import FORM, one
from shoal.settings import Settings

_LATER = (202, "It is being processed; `url` is null until it is ready.")
_NOT_YET = (206, "It is still being processed.")


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large an upload may be."""
    picture = settings.max_upload_bytes + FORM
    upload = partial(
        Route,
        "POST",
        scope="write:media",
        limit_class="media",
        params=media.NewMedia,
        max_body=max(settings.max_upload_bytes, settings.max_video_bytes) + picture,
        answer=MediaAttachment,
        also=(_LATER,),
    )
    mine = partial(one, scope="write:media")
    return (
        upload("/api/v1/media", media.upload_and_wait),
        upload("/api/v2/media", media.upload),
        mine("GET", "/api/v1/media/{id}", media.one, answer=MediaAttachment, also=(_NOT_YET,)),
        mine(
            "PUT",
            "/api/v1/media/{id}",
            media.describe,
            params=media.Described,
            max_body=picture,
            answer=MediaAttachment,
        ),
        mine("DELETE", "/api/v1/media/{id}", media.delete, answer=dict),
    )
