"""Webhooks: endpoints that receive events, with their secrets, signatures and retries.

Requests are signed as Standard Webhooks 1.0 (standardwebhooks.com) specifies. Endpoints in Mastodon's format also get the signature
of Mastodon's admin webhooks.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from shoal.core.errors import InvalidInput, Unfit
from shoal.core.model import Node

MAX_WEBHOOKS: Final = 50
MAX_PER_KEY: Final = 10
"""Maximum of the webhooks that one server key creates."""
MAX_SECRETS: Final = 5
"""Maximum of the secrets of an endpoint that are valid at a time."""
MAX_URL: Final = 2_000
MAX_DELIVERIES: Final = 50
"""Entries in the delivery log of an endpoint."""
MAX_EXCERPT: Final = 200
"""Characters of a response in the delivery log."""
MAX_PARKED: Final = 100
"""Parked events of an endpoint. When there is one more, the endpoint is paused."""
RETRY_MS: Final = 3 * 86_400_000
"""How long deliveries of an event fail until the event is parked."""
PROBE_MS: Final = 3_600_000
"""The same for the event after a parked one, until the endpoint is paused."""
USUAL_GRACE_SECONDS: Final = 86_400
MAX_GRACE_SECONDS: Final = 30 * 86_400
"""Maximum of the time for which a replaced secret stays valid."""

LONGEST_RETRY_MS: Final = 2 * 3_600_000
_FIRST_MS = 5_000
_PREFIX = "whsec_"
_SECRET_BYTES = 32

WebhookFormat = Literal["standard", "mastodon"]
DeliveryResult = Literal["accepted", "refused", "failed"]
"""`refused`: a status other than 2xx. `failed`: no response."""

MASTODON_TYPES: Final[Mapping[str, str]] = {
    "account.approved": "audit.created",
    "account.created": "member.created",
    "account.updated": "member.updated",
    "report.created": "report.created",
    "report.updated": "report.updated",
    "status.created": "post.created",
    "status.updated": "post.updated",
}
"""The events of Mastodon's admin webhooks, and the types of events from which they are made."""


class Pause(StrEnum):
    """Why an endpoint receives no events. The values are stored, and never change their meaning."""

    NONE = ""
    MANUAL = "manual"
    """An operator paused it."""
    KEY = "key"
    """The server key that created the endpoint paused it."""
    FAILING = "failing"
    """An event was parked, and the next one failed for an hour."""
    GONE = "gone"
    """The endpoint returned status 410."""
    FULL = "full"
    """An event failed for three days, and there are `MAX_PARKED` parked events already."""
    EXPIRED = "expired"
    """Events after the position of the endpoint were deleted from the event log, or lost."""
    NO_KEY = "no_key"
    """The server key that created the endpoint was deleted."""


PAUSE_CAUSES: Final[Mapping[Pause, str]] = {
    Pause.FAILING: "deliveries failed for three days",
    Pause.GONE: "the server says that this URL is gone",
    Pause.FULL: "too many events are parked",
    Pause.EXPIRED: "events were deleted from the event log before they were delivered",
    Pause.NO_KEY: "its server key was deleted",
}
"""The causes of pauses that the worker made, in words."""


class WebhookSecret(msgspec.Struct, frozen=True, array_like=True):
    text: str
    expires_at: int = 0
    """Unix milliseconds; 0 for the current secret."""


class Webhook(Node, frozen=True, tag="webhook"):
    """An endpoint, and how far the event log was delivered to it."""

    url: str
    log_id: int
    """Id of its `WebhookLog`."""
    position: str
    """All events up to this position in the event log have been delivered or parked."""
    types: str = ""
    """Types of events, separated by commas; empty for all."""
    filter: str = ""
    """Conditions on the data of events, see `queries.event_filter`; empty for none."""
    access: tuple[str, ...] = ()
    """What it receives in addition to public data: names of the fields of `queries.events.Access`."""
    format: WebhookFormat = "standard"
    secrets: tuple[WebhookSecret, ...] = ()
    """The current secret, and former ones while they are valid."""
    key_id: int = 0
    """The app of the server key that created the endpoint; 0 for an operator."""
    paused: Pause = Pause.NONE
    replaying: bool = False
    """Whether parked events are to be delivered again."""

    # The following fields are changed only by the process that has the lease.
    moved_at: int = 0
    """When `position` was written, in Unix milliseconds."""
    delivered: tuple[str, ...] = ()
    """Ids of the events after the position that were delivered or parked."""
    lease: str = ""
    """Identifies the work of the process that delivers to this endpoint now."""
    leased_until: int = 0
    failing_id: str = ""
    """Id of the event whose delivery failed last; empty after a success."""
    attempts: int = 0
    """Failed deliveries of that event."""
    failing_ms: int = 0
    """Time between the first and the last of them, without jumps of the clock and times in which no process delivered."""
    wait_ms: int = 0
    """The pause after the last of them."""
    retry_at: int = 0
    """When this pause ends, in Unix milliseconds."""
    parked_last: bool = False
    """Whether an event was parked since the last successful delivery."""

    def resumed(self) -> Webhook:
        """Return the endpoint without a pause and without its failures so far."""
        return msgspec.structs.replace(self, paused=Pause.NONE, parked_last=False, **NO_FAILURE)


NO_FAILURE: Final[Mapping[str, Any]] = {
    "failing_id": "",
    "attempts": 0,
    "failing_ms": 0,
    "wait_ms": 0,
    "retry_at": 0,
}
"""Fields of an endpoint whose next event did not fail."""


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """A request to an endpoint."""

    at: int
    """Unix milliseconds."""
    event_id: str
    type: str
    status: int
    """The status of the response; 0 if there was none."""
    milliseconds: int
    excerpt: str
    """The beginning of the response, or the cause of the failure."""

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def result(self) -> DeliveryResult:
        if self.succeeded:
            return "accepted"
        return "refused" if self.status else "failed"


class WebhookLog(Node, frozen=True, tag="webhook_log"):
    """The newest deliveries to an endpoint, newest first."""

    deliveries: tuple[Delivery, ...] = ()


def check_url(url: str) -> str:
    """Return the URL of an endpoint. Raises `InvalidInput` if it is not an https URL of at most 2,000 printable characters."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        raise InvalidInput(f"url: expected an https URL without user name and fragment (got {url[:80]!r})", field="url")
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"url: at most {MAX_URL} characters, all printable ASCII without spaces", field="url")
    return url


def host_of(url: str) -> str:
    """Return the host of an endpoint, for logs and mails: the rest of a URL may be a secret."""
    return urlsplit(url).hostname or ""


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signed_headers(webhook: Webhook, event_id: str, now: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a request at a time (Unix ms), with each valid secret."""
    seconds = now // 1_000
    valid = [secret.text for secret in valid_secrets(webhook.secrets, now)]
    headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signature(secret, event_id, seconds, body) for secret in valid),
    }
    if webhook.format == "mastodon":
        headers["X-Hub-Signature"] = f"sha256={hmac.digest(valid[0].encode(), body, 'sha256').hex()}"
    return headers


def signature(secret: str, event_id: str, seconds: int, body: bytes) -> str:
    """Return the signature of a request in version 1: HMAC-SHA256 (RFC 2104) of id, timestamp and body."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = b"%b.%d.%b" % (event_id.encode(), seconds, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def valid_secrets(held: Sequence[WebhookSecret], now: int) -> tuple[WebhookSecret, ...]:
    return tuple(secret for secret in held if not secret.expires_at or secret.expires_at > now)


def rotated(held: Sequence[WebhookSecret], fresh: str, now: int, grace_seconds: int) -> tuple[WebhookSecret, ...]:
    """Return the secrets after a rotation: the fresh one, the current one for `grace_seconds`, and former ones that are valid.

    With a grace of 0, only the fresh one is valid. Raises `InvalidInput` for an invalid time, and `Unfit` for too many secrets.
    """
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        raise InvalidInput(f"grace: 0 to {MAX_GRACE_SECONDS} seconds (got {grace_seconds})", field="grace")
    if not grace_seconds:
        return (WebhookSecret(fresh),)
    current, *former = valid_secrets(held, now)
    if len(former) + 2 > MAX_SECRETS:
        raise Unfit(
            f"{MAX_SECRETS} secrets of this webhook are valid, which is the maximum: rotate with a grace of 0, or wait"
        )
    return (WebhookSecret(fresh), WebhookSecret(current.text, now + 1_000 * grace_seconds), *former)


def backoff_ms(attempts: int, draw: float) -> int:
    """Return the time until the next attempt: 5 seconds, doubled by each failure up to 2 hours, less a random part up to a half.

    `draw` is a random number from 0 to 1.
    """
    return int(min(_FIRST_MS * 2 ** min(attempts - 1, 20), LONGEST_RETRY_MS) * (1 - draw / 2))
