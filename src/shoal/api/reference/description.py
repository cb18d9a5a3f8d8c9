"""The two descriptions of the API that a server gives: an OpenAPI document, and a page to read. Both are made once."""

from __future__ import annotations

from collections.abc import Sequence

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

    def __init__(self) -> None:
        self._documents: dict[str, bytes] = {}
        self._pages: dict[str, str] = {}
        """By the path of the root, of which an application has one."""

    async def document(self, context: Context, _params: None) -> object:
        """The API as an OpenAPI 3.1 document."""
        return Response(
            self._document(context.deps.at.path), media_type="application/json", headers={"Cache-Control": _KEPT}
        )

    async def page(self, context: Context, _params: None) -> object:
        """The API as a page to read."""
        return HTMLResponse(self._page(context.deps.at.path), headers={**reference.HEADERS, "Cache-Control": _KEPT})

    def _document(self, base: str) -> bytes:
        if base not in self._documents:
            self._documents[base] = msgspec.json.encode(document_of(self.parts, base))
        return self._documents[base]

    def _page(self, base: str) -> str:
        if base not in self._pages:
            self._pages[base] = reference.page_of(document_of(self.parts, base))
        return self._pages[base]


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
