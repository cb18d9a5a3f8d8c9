"""A FastAPI site with its own users and sessions: its log-in is enough, because Shoal runs in the site and asks for none.

    fastapi run examples/fastapi_site.py

The member of a user has the name of the site and the user's id as external id, and is created on first use. `board.py` shows more
of the library.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.middleware.sessions import SessionMiddleware

from shoal import Handle, Shoal, ShoalError, http_status

SITE = "https://site.example"
hasher = PasswordHasher()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Shoal.open("sqlite:///feed.db") as shoal:
        app.state.shoal = shoal
        yield


app = FastAPI(lifespan=lifespan)
# Without this secret, a restart logs all users out.
app.add_middleware(SessionMiddleware, secret_key=os.environ.get("SITE_SECRET") or os.urandom(32).hex(), same_site="lax")
users = sqlite3.connect("site.db", check_same_thread=False, isolation_level=None)
users.execute(
    "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, password TEXT NOT NULL)"
)


class Credentials(BaseModel):
    name: str = Field(min_length=1, max_length=30)
    password: str = Field(min_length=8, max_length=200)


class Text(BaseModel):
    text: str


async def member(request: Request) -> Handle:
    """Return the member of the logged-in user of the site."""
    if "user" not in request.session:
        raise HTTPException(401, "log in first")
    id_, name = request.session["user"]
    shoal: Shoal = request.app.state.shoal
    return await shoal.external_ids.upsert(SITE, str(id_), user_name=name, display_name=name)


Member = Annotated[Handle, Depends(member)]


@app.exception_handler(ShoalError)
async def refuse(_request: Request, error: ShoalError) -> JSONResponse:
    return JSONResponse({"error": str(error)}, http_status(error))


@app.post("/signup", status_code=204)
def sign_up(request: Request, new: Credentials) -> None:
    sql = "INSERT INTO users (name, password) VALUES (?, ?) RETURNING id"
    try:
        ((id_,),) = users.execute(sql, (new.name, hasher.hash(new.password))).fetchall()
    except sqlite3.IntegrityError:
        raise HTTPException(422, "this name is taken") from None
    request.session["user"] = id_, new.name


@app.post("/login", status_code=204)
def log_in(request: Request, given: Credentials) -> None:
    found = users.execute("SELECT id, password FROM users WHERE name = ?", (given.name,)).fetchone()
    try:
        hasher.verify(found[1] if found else hasher.hash(""), given.password)
    except VerificationError:
        raise HTTPException(401, "the name or the password is wrong") from None
    request.session["user"] = found[0], given.name


@app.get("/feed")
async def feed(member: Member) -> list[dict[str, Any]]:
    """Return the posts by the user and by followed members."""
    page = await member.home()
    return [{"author": entry.author.member.display_name, "text": entry.post.text} for entry in page.entries]


@app.post("/posts", status_code=201)
async def post(member: Member, new: Text) -> dict[str, str]:
    return {"id": str((await member.create(new.text)).id)}


@app.post("/follow/{name}", status_code=204)
async def follow(member: Member, name: str) -> None:
    await member.follow(name)
