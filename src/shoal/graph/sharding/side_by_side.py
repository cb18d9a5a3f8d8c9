"""Questions to several stores at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def side_by_side(questions: Iterable[Awaitable[T]]) -> list[T]:
    """All answers, asked at once; one store alone is simply asked."""
    awaitables = list(questions)
    if len(awaitables) == 1:
        return [await awaitables[0]]
    return list(await asyncio.gather(*awaitables))
