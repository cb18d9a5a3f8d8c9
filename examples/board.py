"""A notice board: FastAPI handles requests, Shoal stores the feed in a file.

The board has its own users. Here a header names the current user; a real board would read a session. Run it with
`fastapi run examples/board.py`. Only one process may open the file: `guestbook.py` shows several processes that share one.
For a network on servers, set `BOARD_STORE` and the settings of Shoal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Request, WebSocket, WebSocketDisconnect
from fastapi.requests import HTTPConnection
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from shoal import Handle, Shoal, ShoalError, errors, http_status


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the network at startup and close it at shutdown."""
    async with Shoal.open(os.environ.get("BOARD_STORE", "sqlite:///board.db")) as shoal:
        app.state.shoal = shoal
        yield


app = FastAPI(title="Notice board", lifespan=lifespan)


class Notice(BaseModel):
    """A new notice. `price` belongs to the board: Shoal stores it as data of the post."""

    text: str
    price: int | None = None


class Shown(BaseModel):
    """A notice as a reader sees it."""

    id: str
    author: str
    text: str
    likes: int


async def reader(connection: HTTPConnection, x_user: Annotated[str, Header()]) -> Handle:
    """Return the current member; a new name creates a member."""
    shoal: Shoal = connection.app.state.shoal
    try:
        return await shoal.member(x_user)
    except errors.NotFound:
        return await shoal.register(x_user)


Reader = Annotated[Handle, Depends(reader)]


@app.exception_handler(ShoalError)
async def refuse(_request: Request, error: ShoalError) -> JSONResponse:
    """Return an error of Shoal, whose message may be shown to any user."""
    return JSONResponse({"error": str(error)}, http_status(error))


@app.post("/notices", status_code=201)
async def pin_up(notice: Notice, member: Reader) -> dict[str, str]:
    """Post a notice. It is durable when the response is sent."""
    post = await member.create(notice.text, data=None if notice.price is None else {"price": notice.price})
    return {"id": str(post.id)}


@app.get("/notices")
async def home(member: Reader) -> list[Shown]:
    """Return the newest notices by the reader and by followed members."""
    page = await member.home()
    return [
        Shown(id=str(entry.id), author=entry.author.member.name, text=entry.post.text, likes=entry.likes)
        for entry in page.entries
    ]


@app.post("/notices/{notice_id}/like", status_code=204)
async def like(notice_id: int, member: Reader) -> None:
    await member.like(notice_id)


@app.post("/follow/{name}", status_code=204)
async def follow(name: str, member: Reader) -> None:
    await member.follow(name)


@app.websocket("/live")
async def live(socket: WebSocket, member: Reader) -> None:
    """Send new entries of the reader's home timeline until the client disconnects."""
    await socket.accept()
    telling = asyncio.create_task(_tell(socket, member))
    try:
        while True:
            await socket.receive_text()
    except WebSocketDisconnect:
        telling.cancel()


async def _tell(socket: WebSocket, member: Handle) -> None:
    async for news in member.live():
        told: dict[str, Any] = {"kind": type(news).__name__}
        if entry := getattr(news, "entry", None):
            told |= {"author": entry.author.member.name, "text": entry.post.text}
        await socket.send_json(told)
