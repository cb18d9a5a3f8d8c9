"""A check whose decision follows from the text, and networks that use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from shoal import Shoal
from shoal.core.publishing import ALLOW, Candidate, Decision
from tests.engines import dynamodb, postgres, redis

STORES = ("memory", "sqlite", "postgres", "dynamodb")


class WordCheck:
    """Holds texts and data with "hold", rejects texts with "reject", and allows all others."""

    def __init__(self) -> None:
        self.seen: list[Candidate] = []
        self.holds_uploads = False
        self.held_files: set[str] = set()
        """SHA-256 of the files that are held."""
        self.during: Callable[[], Awaitable[object]] | None = None
        """Called during the next check."""

    async def __call__(self, candidate: Candidate) -> Decision:
        self.seen.append(candidate)
        during, self.during = self.during, None
        if during is not None:
            await during()
        if "reject" in candidate.text:
            return Decision("reject", "no such words here")
        files = {facts.sha256 for facts in candidate.media}
        if "hold" in candidate.text + candidate.data or files & self.held_files:
            return Decision("hold", "a word")
        if self.holds_uploads and candidate.kind == "media":
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
