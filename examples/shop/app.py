"""The web server of the shop: its pages, log-in and products, and the feeds of its users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, File, Form, Header, HTTPException, Request, Response, UploadFile
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from shop import moderation, webhooks
from shop.config import Config, from_environment
from shop.products import PRODUCTS
from shop.shoal_server import ShoalServer
from shop.users import SESSION_COOKIE, Database, EmailTaken, User

_HERE = Path(__file__).resolve().parent
_LIBRARIES = {
    "react.js": "react/umd/react.production.min.js",
    "react-dom.js": "react-dom/umd/react-dom.production.min.js",
    "htm.js": "htm/dist/htm.umd.js",
}
"""Files of npm packages, which `npm ci` installs."""
_MAX_PHOTO = 8_000_000


class Credentials(BaseModel):
    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)
    password: str = Field(min_length=8, max_length=200)


class NewUser(Credentials):
    name: str = Field(min_length=1, max_length=30, pattern=r"\S")


def current_user(request: Request) -> User:
    """Return the logged-in user of the shop."""
    user = _database(request).user_of(request.cookies.get(SESSION_COOKIE, ""))
    if user is None:
        raise HTTPException(401, "Log in first.")
    return user


CurrentUser = Annotated[User, Depends(current_user)]


def create_app(config: Config | None = None) -> FastAPI:
    config = config or from_environment()
    database = Database(config.folder / "shop.db")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await app.state.shoal.close()

    app = FastAPI(title="Driftwood", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.config, app.state.database, app.state.shoal = config, database, ShoalServer(config, database)
    app.include_router(webhooks.router)
    app.include_router(moderation.router)
    app.middleware("http")(_secured)
    app.get("/.well-known/jwks.json")(public_keys)
    app.get("/api/shop")(shop)
    app.post("/api/signup")(sign_up)
    app.post("/api/login")(log_in)
    app.post("/api/logout")(log_out)
    app.post("/api/token")(token)
    app.get("/api/feed")(feed)
    app.post("/api/products/{slug}/reviews")(review)
    app.get("/libraries/{name}")(library)
    app.mount("/static", StaticFiles(directory=_HERE / "static"))
    app.get("/{path:path}")(page)
    return app


async def _secured(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    """Refuse changes that pages of other origins request, and restrict what the shop's own pages may load."""
    origin = request.headers.get("origin")
    if origin is not None and request.method != "GET" and urlsplit(origin).netloc != request.headers.get("host"):
        return JSONResponse({"detail": "This request comes from another site."}, 403)
    response = await answer(request)
    shoal: str = request.app.state.config.shoal_url
    response.headers["Content-Security-Policy"] = (
        f"default-src 'self'; img-src 'self' blob: {shoal}; connect-src 'self' {shoal} {shoal.replace('http', 'ws', 1)}; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
    return response


def _database(request: Request) -> Database:
    found: Database = request.app.state.database
    return found


def _shoal(request: Request) -> ShoalServer:
    found: ShoalServer = request.app.state.shoal
    return found


def public_keys(request: Request) -> dict[str, Any]:
    return _shoal(request).public_keys()


def shop(request: Request) -> dict[str, Any]:
    """Return the products with their ratings, and the current user with news and points."""
    database = _database(request)
    ratings = database.rows("SELECT product, count(*), avg(stars) FROM reviews GROUP BY product")
    by_product = {product: {"reviews": count, "stars": round(stars, 1)} for product, count, stars in ratings}
    user = database.user_of(request.cookies.get(SESSION_COOKIE, ""))
    return {
        "shoal": request.app.state.config.shoal_url,
        "products": [product._asdict() | by_product.get(product.slug, {"reviews": 0}) for product in PRODUCTS.values()],
        "user": user
        and {"name": user.name, "member_id": user.member_id, "is_staff": bool(user.is_staff), **_news(database, user)},
    }


def _news(database: Database, user: User) -> dict[str, Any]:
    sql = "SELECT text, points FROM news WHERE member_id = ? ORDER BY id DESC LIMIT 20"
    ((points,),) = database.rows("SELECT coalesce(sum(points), 0) FROM news WHERE member_id = ?", user.member_id)
    news = [{"text": text, "points": earned} for text, earned in database.rows(sql, user.member_id)]
    return {"points": points, "news": news}


def sign_up(request: Request, response: Response, new: NewUser) -> dict[str, bool]:
    try:
        user = _database(request).sign_up(new.email, new.name.strip(), new.password)
    except EmailTaken:
        raise HTTPException(422, "There is an account with this address already.") from None
    return _logged_in(request, response, user)


def log_in(request: Request, response: Response, given: Credentials) -> dict[str, bool]:
    user = _database(request).log_in(given.email, given.password)
    if user is None:
        raise HTTPException(401, "The address or the password is wrong.")
    return _logged_in(request, response, user)


def _logged_in(request: Request, response: Response, user: User) -> dict[str, bool]:
    session = _database(request).start_session(user)
    secure = request.app.state.config.url.startswith("https:")
    response.set_cookie(SESSION_COOKIE, session, max_age=30 * 86_400, httponly=True, samesite="lax", secure=secure)
    return {"ok": True}


def log_out(request: Request, response: Response) -> dict[str, bool]:
    _database(request).end_session(request.cookies.get(SESSION_COOKIE, ""))
    response.delete_cookie(SESSION_COOKIE)
    return {"ok": True}


async def token(request: Request, user: CurrentUser) -> dict[str, Any]:
    """Return a short-lived token of Shoal, with which the browser reads feeds, likes, comments and follows."""
    return await _shoal(request).token_for(user)


async def feed(request: Request, user: CurrentUser) -> Any:
    """Return the reviews by the user and by followed members."""
    return await _shoal(request).as_user(user, "GET", "/api/v1/timelines/home", params={"limit": 20, "with_data": True})


async def review(
    request: Request,
    user: CurrentUser,
    slug: str,
    text: Annotated[str, Form(min_length=1, max_length=2_000)],
    stars: Annotated[int, Form(ge=1, le=5)],
    photo: Annotated[UploadFile | None, File()] = None,
    idempotency_key: Annotated[str, Header(max_length=100)] = "",
) -> Any:
    """Post a review. The product and the stars are data of the shop, which Shoal stores with the post."""
    product = PRODUCTS.get(slug)
    if product is None:
        raise HTTPException(404, "There is no such product.")
    media = []
    if photo is not None and photo.size:
        if photo.size > _MAX_PHOTO:
            raise HTTPException(413, "A photo may have 8 MB.")
        files = {"file": (photo.filename, photo.file, photo.content_type)}
        described = {"description": f"{product.name}, photo by {user.name}"}
        # Waits until the photo is ready.
        media.append(await _shoal(request).as_user(user, "POST", "/api/v1/media", files=files, data=described))
    status = {
        "status": f"{text}\n\n#{product.tag}",
        "media_ids": [one["id"] for one in media],
        "shoal": {"data": {"product": slug, "stars": stars}},
    }
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    return await _shoal(request).as_user(user, "POST", "/api/v1/statuses", json=status, headers=headers)


def library(name: str) -> FileResponse:
    if name not in _LIBRARIES:
        raise HTTPException(404)
    return FileResponse(_HERE / "node_modules" / _LIBRARIES[name])


def page(path: str) -> FileResponse:
    """Return the page of all paths: the script shows the product, feed or form of the path."""
    if path.startswith("api/"):
        raise HTTPException(404)
    return FileResponse(_HERE / "static" / "index.html", headers={"Cache-Control": "no-cache"})
