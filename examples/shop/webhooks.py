"""The webhook by which Shoal reports reviews, likes and follows: ratings, news and bonus points are the shop's own data.

Each event is processed once: its id is stored in the transaction of its changes.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, HTTPException, Request

from shop.products import PRODUCTS
from shop.users import Database

_MAX_AGE_SECONDS = 300
_MAX_BYTES = 1_000_000

router = APIRouter()


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Check a signature (https://www.standardwebhooks.com). Raises `HTTPException`."""
    id_, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.digest(key, b".".join((id_.encode(), sent_at.encode(), body)), "sha256")
    signature = "v1," + base64.b64encode(expected).decode()
    # During a rotation of the secret there are two signatures.
    if not any(hmac.compare_digest(signature, one) for one in headers.get("webhook-signature", "").split(" ")):
        raise HTTPException(401, "The signature is invalid.")
    if abs(time.time() - int(sent_at)) > _MAX_AGE_SECONDS:
        raise HTTPException(401, "The request is too old.")


@router.post("/webhooks/shoal")
async def receive(request: Request) -> dict[str, bool]:
    body = await request.body()
    if len(body) > _MAX_BYTES:
        raise HTTPException(413, "The request is too large.")
    verify(request.app.state.config.webhook_secret, request.headers, body)
    process(request.app.state.database, json.loads(body))
    return {"ok": True}


def process(database: Database, event: Mapping[str, Any]) -> None:
    """Apply an event, unless it was applied before."""
    with database.lock:
        database.rows("BEGIN IMMEDIATE")
        try:
            is_new = database.rows("INSERT INTO seen_events VALUES (?) ON CONFLICT DO NOTHING RETURNING 1", event["id"])
            if is_new and event["type"] in _HANDLERS:
                _HANDLERS[event["type"]](database, event["data"])
            database.rows("COMMIT")
        except BaseException:
            database.rows("ROLLBACK")
            raise


def _reviewed(database: Database, post: Mapping[str, Any]) -> None:
    review = post["data"] if isinstance(post["data"], dict) else {}
    product, stars = review.get("product"), review.get("stars")
    # Any app of a member can store data with a post, so they are checked. A member's newest review of a product counts.
    is_review = isinstance(product, str) and product in PRODUCTS and type(stars) is int and 1 <= stars <= 5
    if is_review and post["in_reply_to_id"] is None:
        sql = "INSERT OR REPLACE INTO reviews (post_id, author_id, product, stars) VALUES (?, ?, ?, ?)"
        database.rows(sql, post["id"], post["author_id"], product, stars)


def _deleted(database: Database, post: Mapping[str, Any]) -> None:
    database.rows("DELETE FROM reviews WHERE post_id = ?", post["id"])


def _liked(database: Database, like: Mapping[str, Any]) -> None:
    for author, product in database.rows("SELECT author_id, product FROM reviews WHERE post_id = ?", like["post_id"]):
        if author != like["member_id"]:
            name = database.name_of(like["member_id"])
            _report(database, author, f"{name} likes your review of the {PRODUCTS[product].name}", 5)


def _followed(database: Database, follow: Mapping[str, Any]) -> None:
    _report(database, follow["followee_id"], f"{database.name_of(follow['follower_id'])} follows you", 0)


def _report(database: Database, member_id: str, text: str, points: int) -> None:
    database.rows("INSERT INTO news (member_id, text, points) VALUES (?, ?, ?)", member_id, text, points)


_HANDLERS = {
    "post.created": _reviewed,
    "post.updated": _reviewed,
    "post.deleted": _deleted,
    "like.created": _liked,
    "follow.created": _followed,
}
