"""The page that says what went wrong, where there is no web app that has a better one."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shoal.api.http.replies import Reply

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",
}


def plain_page(reply: Reply, _request: Request) -> Response:
    """Return the page of a request that was refused with this reply."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    words = escape(str(body.get("error_description") or body.get("error") or "Something went wrong"))
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>This did not work</title>'
        '<meta name="viewport" content="width=device-width"></head><body><main><h1>This did not work</h1>'
        f"<p>{words}</p><p>Go back to the page that sent you here, and try again.</p></main></body></html>"
    )
    return HTMLResponse(html, reply.status, dict(reply.headers) | _HEADERS)
