"""Sending of web push messages: bounded concurrency, backoff per push service, and guarded connections.

Members name push services, so messages leave through `shoal.outgoing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from urllib.parse import urlsplit

from shoal.backoff import Backoff
from shoal.core.errors import NotYet
from shoal.locks import ConcurrencyLimits, KeyedQueue, Work
from shoal.outgoing import Network, RequestFailed, open_pool, request
from shoal.push.encryption import ServerKey, seal
from shoal.push.messages import PushSubscription

_log = logging.getLogger("shoal.push")

_LIMITS = ConcurrencyLimits(at_once=32, of_one=16, held=1_024, held_of_one=512, patience=20.0)
"""`of_one` and `held_of_one` limit the messages to one push service, the other limits all messages."""
_SECONDS = 10.0
"""Timeout of a message. Together with the wait for a slot, it is shorter than the lease of the message's job."""
_TTL_SECONDS = 48 * 3_600
"""How long a push service keeps a message for an app that is offline."""
_FIRST_SECONDS, _LONGEST_SECONDS = 2.0, 600.0
_REMEMBERED = 1_000


class Sent(Enum):
    DONE = "done"
    ENDED = "ended"
    REFUSED = "refused"


class PushSender:
    """A queue of tasks that send one push message each: 32 concurrently, and half as many per push service."""

    def __init__(self, key: ServerKey, root: str, allowed: Sequence[Network] = ()) -> None:
        self.key = key
        self.root = root
        """Root of the network's URLs, such as `https://example.org`."""
        self._pool = open_pool(allowed)
        self._queue = KeyedQueue(_LIMITS, "other messages come first")
        self._backoff = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, _REMEMBERED)
        self.outcomes: Counter[Sent] = Counter()
        self.put_off = 0
        """Attempts since the start of the process that failed and will be retried."""

    def begin(self, endpoint: str, work: Work) -> asyncio.Future[None]:
        """Queue a task that sends a push message, and return a future that is done when the task is.

        The call and the future raise `NotYet` if the queue is full, or during the backoff after a failure of the push service.
        """
        service = origin_of(endpoint)
        return self._queue.begin(service, lambda: self._check_backoff(service), work)

    @property
    def in_flight(self) -> int:
        return len(self._queue)

    def _check_backoff(self, service: str) -> None:
        if self._backoff.is_active(service):
            raise NotYet("the push service was unreachable a moment ago")

    async def deliver(self, subscription: PushSubscription, plain: bytes) -> Sent:
        """Send a message to the push service of a subscription. Raises `NotYet` if the message should be sent again later."""
        service = origin_of(subscription.endpoint)
        try:
            status = await self._send(subscription, service, plain)
        except RequestFailed as error:
            self._postpone(service)
            raise NotYet(f"a push service is unreachable: {error}") from error
        if status in {408, 429} or status >= 500:
            self._postpone(service)
            raise NotYet(f"a push service returned status {status}")
        self._backoff.reset(service)
        found = _outcome(status)
        if found is Sent.REFUSED:
            _log.warning("a push service rejected a message: %s returned status %d", service, status)
        self.outcomes[found] += 1
        return found

    async def _send(self, subscription: PushSubscription, service: str, plain: bytes) -> int:
        sealed = seal(plain, subscription.key, subscription.secret, standard=subscription.standard)
        token, ours = self.key.token_for(service), self.key.public
        headers = {"TTL": str(_TTL_SECONDS), "Urgency": "normal", **sealed.headers}
        if subscription.standard:
            headers["Authorization"] = f"vapid t={token}, k={ours}"
        else:
            headers["Authorization"] = f"WebPush {token}"
            headers["Crypto-Key"] = f"{sealed.crypto_key};p256ecdsa={ours}"
        headers["Content-Type"] = "application/octet-stream"
        # Ignore the response body, which may be endless: only the status is used.
        response = await request(
            self._pool,
            "POST",
            subscription.endpoint,
            headers=headers,
            content=sealed.body,
            seconds=_SECONDS,
            max_bytes=0,
        )
        return response.status

    def _postpone(self, service: str) -> None:
        self.put_off += 1
        self._backoff.extend(service)

    async def close(self) -> None:
        """Cancel pending push messages. They are sent after the next start of the process."""
        await self._queue.close()
        await self._pool.aclose()


def origin_of(endpoint: str) -> str:
    """Return the scheme, host and port of an endpoint, which are the audience of a signature (RFC 8292, section 2)."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}"


def _outcome(status: int) -> Sent:
    if 200 <= status < 300:
        return Sent.DONE
    return Sent.ENDED if status in {404, 410} else Sent.REFUSED
