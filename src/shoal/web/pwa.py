"""The web app as an installable app: manifest, service worker, and offline pages."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from shoal.http.routes import Body, Route
from shoal.mastodon_api.context import Context
from shoal.web import routing
from shoal.web.assets import assets
from shoal.web.layout import bare_shell
from shoal.web.rendering import framed
from shoal.web.request_context import PageContext

_AN_HOUR = {"Cache-Control": "public, max-age=3600"}
_WORKER = "scripts/worker.js"


async def manifest(ctx: PageContext, _params: None) -> Response:
    settings, version, _ = ctx.settings, assets().version, ctx.words.text
    icons = [
        {
            "src": ctx.url(f"/static/{version}/mark-{size}.png"),
            "type": "image/png",
            "sizes": f"{size}x{size}",
            "purpose": purpose,
        }
        for size in (192, 512)
        for purpose in ("any", "maskable")
    ]
    screenshots = [
        {
            "src": ctx.url(f"/static/{version}/{name}.webp"),
            "type": "image/webp",
            "sizes": sizes,
            "form_factor": form_factor,
            "label": label,
        }
        for name, sizes, form_factor, label in (
            ("screenshot-phone", "390x844", "narrow", _("Home")),
            ("screenshot-desktop", "1280x900", "wide", _("Explore")),
        )
    ]
    shortcuts = [
        {"name": _("New post"), "url": ctx.url("/compose")},
        {"name": _("Notifications"), "url": ctx.url("/notifications")},
    ]
    about = {
        "id": ctx.url("/"),
        "name": settings.title,
        "short_name": settings.title[:12],
        "description": settings.description,
        "lang": ctx.words.code,
        "dir": ctx.words.direction,
        "start_url": ctx.url("/"),
        "scope": ctx.url("/"),
        "display": "standalone",
        "background_color": "#f7f5f2",
        "theme_color": "#0b5c66",
        "icons": icons,
        "screenshots": screenshots,
        "shortcuts": shortcuts,
        "share_target": {
            "action": ctx.url("/share"),
            "method": "POST",
            "enctype": "multipart/form-data",
            "params": {
                "title": "title",
                "text": "text",
                "url": "url",
                "files": [{"name": "files[]", "accept": ctx.app.media.accepted_types}],
            },
        },
    }
    return JSONResponse(about, headers=_AN_HOUR, media_type="application/manifest+json")


async def worker(context: Context, _params: None) -> object:
    """Return the service worker from the root of the app, because a service worker only controls pages below its own folder."""
    base, version = context.app.at.path, assets().version
    script = assets().get(_WORKER).data.decode().replace("{base}", base).replace("{version}", version)
    return Response(script, headers={"Cache-Control": "no-cache"}, media_type="text/javascript")


async def offline(ctx: PageContext, _params: None) -> Response:
    return framed(ctx, bare_shell(ctx, ctx.words.text("Offline")), "offline")


async def offline_home(ctx: PageContext, _params: None) -> Response:
    """Show the page into which the service worker inserts the copy of Home."""
    return framed(ctx, bare_shell(ctx, ctx.words.text("Home")), "offline_home")


async def keys(ctx: PageContext, _params: None) -> Response:
    return framed(ctx, bare_shell(ctx, ctx.words.text("Keyboard shortcuts")), "keys")


ROUTES = (
    routing.page("/manifest.webmanifest", manifest),
    Route("GET", "/worker.js", worker, auth="public", limit_class="files", answer=Body("text/javascript")),
    routing.page("/offline", offline),
    routing.page("/offline/home", offline_home),
    routing.page("/keys", keys),
)
