"""Lifetimes of asyncio tasks."""

from __future__ import annotations

import asyncio

import pytest

from shoal.tasks import cancel, running
from tests.async_runner import in_loop


@in_loop
async def test_background_task_error_is_raised_at_exit_of_its_context_manager() -> None:
    async def fail() -> None:
        raise ValueError("it broke")

    with pytest.raises(ValueError, match="it broke"):
        async with running(fail(), "test"):
            await asyncio.sleep(0)


@in_loop
async def test_background_task_is_cancelled_at_exit_of_its_context_manager() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(wait(), "test"):
        await asyncio.sleep(0)
    assert ended.is_set()
    await cancel(None)
