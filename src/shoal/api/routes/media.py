"""Media files."""

from __future__ import annotations

from functools import partial

from shoal.api import media
from shoal.api.calls import Route
from shoal.api.media_entities import MediaAttachment
from shoal.api.routes.making import FORM, one, route
from shoal.settings import Settings


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large an upload may be."""
    upload = partial(
        Route,
        "POST",
        handler=media.upload,
        scope="write:media",
        limit_class="media",
        params=media.NewMedia,
        answer=MediaAttachment,
        max_body=settings.max_upload_bytes + FORM,
    )
    return (
        upload("/api/v1/media"),
        upload("/api/v2/media"),
        one("GET", "/api/v1/media/{id}", media.one, scope="write:media", answer=MediaAttachment),
        route(
            "PUT",
            "/api/v1/media/{id}",
            media.describe,
            scope="write:media",
            params=media.Described,
            answer=MediaAttachment,
        ),
    )
