"""Scheduled statuses as they stand on the wire of the Mastodon API."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from shoal.api.entities.media import MediaAttachment


class ScheduledPoll(msgspec.Struct, kw_only=True):
    """The poll that will come with the status; it is open from then on."""

    options: list[str]
    expires_in: int | None
    multiple: bool
    hide_totals: bool


class ScheduledParams(msgspec.Struct, kw_only=True):
    """Parameters of the status to be posted."""

    text: str
    poll: ScheduledPoll | None
    media_ids: list[str] | None
    sensitive: bool
    spoiler_text: str
    visibility: str
    in_reply_to_id: str | None
    language: str | None
    application_id: int | None
    idempotency: None = None
    scheduled_at: None = None
    with_rate_limit: bool = False


class ScheduledExtras(msgspec.Struct):
    """Facts about a scheduled status that Mastodon does not report."""

    refused: str
    """Why it could not be posted at its time."""


class ScheduledStatus(msgspec.Struct, kw_only=True):
    """A status for a moment to come."""

    id: str
    scheduled_at: str
    params: ScheduledParams
    media_attachments: list[MediaAttachment]
    shoal: ScheduledExtras | UnsetType = UNSET
    """Present if the status could not be posted at its time. It stays until it is given another time, or canceled."""
