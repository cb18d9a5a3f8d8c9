"""A check whose decision follows from the text, and networks that use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shoal import Shoal
from shoal.core.publishing import ALLOW, Candidate, Decision
from tests.engines import dynamodb, postgres, redis

STORES = ("memory", "sqlite", "postgres", "dynamodb")


class WordCheck:
    """Holds texts with "hold", rejects texts with "reject", and allows all others."""

    def __init__(self) -> None:
        self.seen: list[Candidate] = []
        self.holds_uploads = False

    async def __call__(self, candidate: Candidate) -> Decision:
        self.seen.append(candidate)
        if "reject" in candidate.text:
            return Decision("reject", "no such words here")
        if "hold" in candidate.text or (self.holds_uploads and candidate.kind == "media"):
            return Decision("hold", "a word")
        return ALLOW


class _Owner:
    """The owner of a test database, which is released with it."""


@asynccontextmanager
async def network(store: str, folder: Path, check: WordCheck) -> AsyncIterator[Shoal]:
    """Open a network with the check on a store."""
    owner = _Owner()
    if store in {"memory", "sqlite"}:
        url = "memory://" if store == "memory" else f"sqlite:///{folder / 'shoal.db'}"
        async with Shoal.open(url, moderation=check, most_behind_seconds=0) as shoal:
            yield shoal
        return
    url = await postgres.database(owner) if store == "postgres" else dynamodb.new_table()
    async with Shoal.open(
        url,
        moderation=check,
        most_behind_seconds=0,
        timelines=redis.single(),
        media=f"file://{folder / 'media'}",
        tags="memory://",
    ) as shoal:
        yield shoal
