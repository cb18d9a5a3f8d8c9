"""Moderation before publication: Shoal asks the shop about each review, and the shop's staff decides about the held ones.

The first review of a user is held. The rule is the shop's own, because it knows which reviews it has seen.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel, Field

from shop.products import PRODUCTS
from shop.users import SESSION_COOKIE, Database, User
from shop.webhooks import verify

_PATH = "/api/shoal/v1/moderation/held"
_TAGS = {product.tag.lower() for product in PRODUCTS.values()}

router = APIRouter()


@router.post("/hooks/moderation")
async def check(request: Request) -> dict[str, str]:
    """Decide whether a post becomes public at once. Shoal waits for the response."""
    body = await request.body()
    verify(request.app.state.config.hook_secret, request.headers, body)
    candidate = json.loads(body)["data"]
    is_review = candidate["kind"] == "post" and not _TAGS.isdisjoint(candidate["tags"])
    if is_review and not _has_reviewed(request.app.state.database, str(candidate["member_id"])):
        return {"action": "hold", "reason": "the first review of this user"}
    return {"action": "allow"}


def _has_reviewed(database: Database, member_id: str) -> bool:
    return bool(database.rows("SELECT 1 FROM reviews WHERE author_id = ?", member_id))


def staff(request: Request) -> User:
    """Return the logged-in user, who must be on the staff."""
    user: User | None = request.app.state.database.user_of(request.cookies.get(SESSION_COOKIE, ""))
    if user is None or not user.is_staff:
        raise HTTPException(403, "This page is for the staff of the shop.")
    return user


Staff = Annotated[User, Depends(staff)]


class Decision(BaseModel):
    action: Literal["approve", "reject"]
    reason: str = Field("", max_length=500)


@router.get("/api/staff/held")
async def list_held(request: Request, _staff: Staff) -> list[dict[str, Any]]:
    """Return the reviews that wait for a decision, with the names of their authors."""
    held = await request.app.state.shoal.as_shop("GET", _PATH)
    return [
        {"id": one["id"], "text": one["text"], "author": request.app.state.database.name_of(one["account_id"])}
        for one in held
    ]


@router.post("/api/staff/held/{held_id}")
async def decide(request: Request, _staff: Staff, held_id: int, decision: Decision) -> Any:
    """Publish a review, or reject it for a reason that its author sees."""
    return await request.app.state.shoal.as_shop("POST", f"{_PATH}/{held_id}/decision", json=decision.model_dump())
