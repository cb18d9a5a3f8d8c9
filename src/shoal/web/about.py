"""About: the network, its rules, contact and software, and the operator's terms of service and privacy policy."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import msgspec
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response

from shoal import gazetteer
from shoal.core.errors import NotFound
from shoal.core.model import Role
from shoal.web import routing
from shoal.web.rendering import page
from shoal.web.request_context import PageContext

_FOR_VISITORS = ("contact_account", "contact_email", "rules", "terms_of_service", "privacy_policy")
"""Settings that the page shows, in the order of the page."""


class AboutPath(msgspec.Struct, frozen=True, kw_only=True):
    document: Annotated[str, Meta(max_length=100)]


async def about(ctx: PageContext, _params: None) -> Response:
    settings, viewer = ctx.settings, ctx.viewer
    is_admin = viewer is not None and viewer.role.rank >= Role.ADMIN.rank
    return await page(
        ctx,
        "about",
        title=ctx.words.text("About"),
        shown=settings,
        unset=[name for name in _FOR_VISITORS if not getattr(settings, name)] if is_admin else [],
        names_places=gazetteer.installed() is not None,
        version=version("shoal"),
    )


async def document(ctx: PageContext, path: AboutPath) -> Response:
    """Show the terms of service or the privacy policy. Raises `NotFound` if the operator has not written it."""
    settings, _ = ctx.settings, ctx.words.text
    title, text = {
        "terms": (_("Terms of service"), settings.terms_of_service),
        "privacy": (_("Privacy policy"), settings.privacy_policy),
    }.get(path.document, ("", ""))
    if not text:
        raise NotFound("There is no such page")
    return await page(ctx, "about_document", title=title, text=Markup(ctx.app.at.html(text)))  # noqa: S704 (escaped when it was made)


ROUTES = (
    routing.page("/about", about),
    routing.page("/about/{document}", document, AboutPath),
)
