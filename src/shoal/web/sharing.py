"""The share target of the installed app: what another app shares, such as photos of the gallery, opens the compose form.

A share has no form token, because the browser sends it instead of a page of this server. So it never publishes anything: it
fills in the form, as a link to it can, and stores the files, which are deleted after a day unless they are posted. Pages of
other sites cannot do even that. Browsers send their forms without the login cookie (`SameSite=Lax`), and mark each request
that a page causes with its origin in `Sec-Fetch-Site`, which is `none` only for a request of the browser itself, as a share
is. The service worker does not answer the request, so that the mark and the cookies stay as they are.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal.http.params import Upload
from shoal.http.routes import Route
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.compose import SheetState, begun, form_bytes, sheet
from shoal.web.media import Refused, take_files
from shoal.web.pending_actions import PendingAction
from shoal.web.request_context import LogInFirst, PageContext

_LONGEST_TEXT = 20_000
"""Characters of each shared text that are kept. The author shortens the rest in the form."""
_LONGEST_PATH = 6_000
"""Characters of a URL that browsers and proxies accept for certain."""

_Long = Annotated[str, Meta(max_length=1_000_000)]
"""A text that is cut: a share has no form in which its author could correct it."""


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `share_target` in the manifest (https://w3c.github.io/web-share-target/)."""

    title: _Long = ""
    text: _Long = ""
    url: _Long = ""
    files: Annotated[tuple[Upload, ...], Meta(max_length=1_000)] = ()

    def in_words(self) -> str:
        """Return title, text and link on one line each, cut to a maximum length.

        Many apps repeat one of them in another. A part that another part contains is left out.
        """
        parts = dict.fromkeys(
            filter(None, (part.strip()[:_LONGEST_TEXT] for part in (self.title, self.text, self.url)))
        )
        return "\n".join(part for part in parts if not any(part in other for other in parts if other != part))


async def share(ctx: PageContext, shared: Shared) -> Response:
    """Open the compose form with the shared text and files. A visitor must log in first, which keeps only the text."""
    ctx.check_sent_by_browser()
    text = shared.in_words()
    if ctx.viewer is None:
        raise LogInFirst(partial(_after_login, text, files=len(shared.files)), to="/compose")
    most = ctx.limits.media
    pictures, refused = await take_files(ctx, ctx.viewer, shared.files[:most])
    full = ctx.words.counted("A post can have up to %(n)s photo.", "A post can have up to %(n)s photos.", most)
    refused += tuple(Refused(file.filename[-80:], full) for file in shared.files[most:])
    query = [*([("text", text)] if text else []), *(("files[]", str(picture.id)) for picture in pictures)]
    path = f"/compose?{urlencode(query)}"
    if refused or len(path) > _LONGEST_PATH:
        form = replace(begun(ctx.viewer), text=text, pictures=pictures)
        return await sheet(ctx, ctx.viewer, SheetState(form=form, refused=refused))
    # A phone may terminate the app and load its page again. That works for this URL, but not for the request with the files.
    return ctx.go(path)


def _after_login(text: str, page: str, *, files: int) -> str:
    """Return the cookie value that fills in the form after the login. A text that is too long for a cookie is left out."""
    return PendingAction("draft", text=text, lost=files > 0).at(page) or PendingAction("draft", lost=True).at(page)


def routes(settings: Settings) -> tuple[Route, ...]:
    return (routing.form("/share", share, Shared, max_body=form_bytes(settings)),)
