"""The frame around every plain page, and the page that says what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from starlette.responses import HTMLResponse, Response

from shoal.api.http.replies import Reply

_HEADERS = {"Referrer-Policy": "same-origin"}
_REFUSAL_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'"


def sheet(
    title: str, body: str, *, base: str, policy: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A page: `title` is text, `body` is HTML, `base` the path of the root of all pages, `policy` its Content-Security-Policy."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><meta name="referrer" content="same-origin">'
        f'<link rel="stylesheet" href="{escape(base)}/style.css"></head><body><main>{body}</main></body></html>',
        status,
        {**_HEADERS, "Content-Security-Policy": policy, **(headers or {})},
    )


def refusal(reply: Reply, base: str) -> Response:
    """The page of a request that was refused with this reply."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    words = escape(str(body.get("error_description") or body.get("error") or "Something went wrong"))
    return sheet(
        "This did not work",
        f'<section class="card"><h1>This did not work</h1><p class="wrong">{words}</p>'
        "<p>Go back to the app that sent you here, and try again.</p></section>",
        base=base,
        policy=_REFUSAL_POLICY,
        status=reply.status,
        headers=dict(reply.headers) | {"Cache-Control": "no-store"},
    )
