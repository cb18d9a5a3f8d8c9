"""The two descriptions of the API that a server gives: an OpenAPI document, and a page to read. Both are made once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import msgspec
from starlette.responses import HTMLResponse, Response

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.http.calls import Body, RouteGroup
from shoal.api.reference import page as reference
from shoal.api.reference.openapi import document_of
from shoal.api.reference.openapi_schemas import Schema

_KEPT = "public, max-age=300"


class Description:
    """The description of the API's parts. Set `parts` before the first request: this is itself one of them."""

    parts: Sequence[RouteGroup] = ()

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._documents: dict[str, str] = {}
        self._pages: dict[str, str] = {}
        """By the path of the root, of which an application has one."""

    async def document(self, context: Context, _params: None) -> object:
        """The API as an OpenAPI 3.1 document."""
        made = await self._made(self._documents, context, lambda document: msgspec.json.encode(document).decode())
        return Response(made, media_type="application/json", headers={"Cache-Control": _KEPT})

    async def page(self, context: Context, _params: None) -> object:
        """The API as a page to read."""
        made = await self._made(self._pages, context, reference.page_of)
        return HTMLResponse(made, headers={**reference.HEADERS, "Cache-Control": _KEPT})

    async def _made(self, known: dict[str, str], context: Context, make: Callable[[Schema], str]) -> str:
        """Return a description, which a thread makes: it takes a second of processor time, and nobody else is to wait for it."""
        base = context.deps.at.path
        if base not in known:
            await asyncio.to_thread(self._make, known, base, make)
        return known[base]

    def _make(self, known: dict[str, str], base: str, make: Callable[[Schema], str]) -> None:
        with self._making:
            if base not in known:
                known[base] = make(document_of(self.parts, base))


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
