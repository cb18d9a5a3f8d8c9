"""Timelines on the DynamoDB test server."""

from __future__ import annotations

import functools
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shoal.timelines.dynamodb import DynamoTimelines
from tests.engines import dynamodb


def new_url(*, at: str = "") -> str:
    """Return the URL of a new table, on the test server or on a proxy in front of it."""
    return f"dynamodb://timelines-{uuid.uuid4().hex}?region=local&endpoint={at or dynamodb.endpoint()}"


@functools.cache
def shared_url() -> str:
    """Return the URL of a table for tests that clear it."""
    return new_url()


@asynccontextmanager
async def timelines_on(
    url: str,
    length: int = 800,
    *,
    idle_seconds: float = 14 * 86_400,
    patience: float = dynamodb.PATIENT_SECONDS,
    **more: Any,
) -> AsyncIterator[DynamoTimelines]:
    """Open timelines, with other values for the arguments of `DynamoTimelines`."""
    opened = await DynamoTimelines.open(url, length, idle_seconds=idle_seconds, patience=patience)
    timelines = DynamoTimelines(opened.service, length, idle_seconds=idle_seconds, **more)
    try:
        yield timelines
    finally:
        await timelines.close()
