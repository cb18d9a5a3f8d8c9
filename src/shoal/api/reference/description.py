"""The two descriptions of the API that a server gives: an OpenAPI document, and a page to read. Both are made once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
from starlette.responses import HTMLResponse, Response

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.http.calls import Body, RouteGroup
from shoal.api.reference import page as reference
from shoal.api.reference.openapi import document_of

_KEPT = "public, max-age=300"


class Description:
    """The description of the API's parts. Set `parts` before the first request: this is itself one of them."""

    parts: Sequence[RouteGroup] = ()

    async def document(self, _context: Context, _params: None) -> object:
        """The API as an OpenAPI 3.1 document."""
        return Response(self._document, media_type="application/json", headers={"Cache-Control": _KEPT})

    async def page(self, _context: Context, _params: None) -> object:
        """The API as a page to read."""
        return HTMLResponse(self._page, headers={**reference.HEADERS, "Cache-Control": _KEPT})

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(document_of(self.parts))

    @cached_property
    def _page(self) -> str:
        return reference.page_of(document_of(self.parts))


def part(others: Sequence[RouteGroup]) -> RouteGroup:
    """The rows, which describe those of the others and themselves."""
    described = Description()
    own = RouteGroup(
        "description",
        "The API, described for programs and for people.",
        (
            rows.public("GET", "/openapi.json", described.document, answer=dict),
            rows.public("GET", "/docs", described.page, answer=Body("text/html")),
        ),
    )
    described.parts = (*others, own)
    return own
