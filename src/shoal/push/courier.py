"""Sends messages to push services beside the jobs that want them: few at a time, and none for a while to one that failed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from urllib.parse import urlsplit

import httpcore

from shoal.backoff import Rests
from shoal.core.errors import NotYet
from shoal.locks import TurnLimits, Turns, Work
from shoal.push.connections import Network, open_pool
from shoal.push.encryption import seal
from shoal.push.server_key import ServerKey
from shoal.push.subscription import PushSubscription

_log = logging.getLogger("shoal.push")

_LIMITS = TurnLimits(at_once=32, of_one=16, held=1_024, held_of_one=512, patience=20.0)
"""Bounds on all messages, and on those to one push service."""
_SECONDS = 10.0
"""Seconds for one message, from the connection to the answer: with the wait for its turn less than the lease of its job."""
_KEPT_SECONDS = 48 * 3_600
"""How long a push service keeps a message for an app that is away."""
_FIRST_REST, _LONGEST_REST = 2.0, 600.0
_REMEMBERED = 1_000
"""Push services that rest, at most."""


class Sent(Enum):
    """The end that a message came to."""

    DONE = "done"
    """The push service has it."""
    ENDED = "ended"
    """The subscription is no more."""
    REFUSED = "refused"
    """The push service does not take this message, and never will."""


class Courier:
    """Does works, each of which sends one message: 32 at a time, for one push service half as many, and others wait their turn."""

    def __init__(self, key: ServerKey, root: str, allowed: Sequence[Network] = ()) -> None:
        self.key = key
        self.root = root
        """Begins every address of the network, as `https://example.org`."""
        self._pool = open_pool(allowed)
        self._turns = Turns(_LIMITS, "other messages come first")
        self._rests = Rests(_FIRST_REST, _LONGEST_REST, _REMEMBERED)
        self.outcomes: Counter[Sent] = Counter()
        """Messages that came to an end since the process began."""
        self.put_off = 0
        """Attempts since then that are to be made again."""

    def begin(self, endpoint: str, work: Work) -> asyncio.Future[None]:
        """Have the work of a message done in its turn; the future ends with it.

        Raises `NotYet` when too many wait, or the push service of this endpoint is left alone; the future does so too.
        """
        service = origin_of(endpoint)
        return self._turns.begin(service, lambda: self._check_rest(service), work)

    @property
    def under_way(self) -> int:
        """Return how many messages are being sent, or wait for their turn."""
        return len(self._turns)

    def _check_rest(self, service: str) -> None:
        if self._rests.is_resting(service):
            raise NotYet("the push service could not be reached a moment ago")

    async def deliver(self, subscription: PushSubscription, plain: bytes) -> Sent:
        """Hand a message over to the push service of a subscription. Raises `NotYet` where that is to be tried again."""
        service = origin_of(subscription.endpoint)
        try:
            async with asyncio.timeout(_SECONDS):
                status = await self._send(subscription, service, plain)
        except (
            TimeoutError,
            OSError,
            httpcore.NetworkError,
            httpcore.TimeoutException,
            httpcore.ProtocolError,
        ) as error:
            self._let_rest(service)
            raise NotYet(f"a push service could not be reached: {type(error).__name__}") from error
        if status in {408, 429} or status >= 500:
            self._let_rest(service)
            raise NotYet(f"a push service answered {status}")
        self._rests.end(service)
        found = _outcome(status)
        if found is Sent.REFUSED:
            _log.warning("a push service refused a message: %s answered %d", service, status)
        self.outcomes[found] += 1
        return found

    async def _send(self, subscription: PushSubscription, service: str, plain: bytes) -> int:
        sealed = seal(plain, subscription.key, subscription.secret, standard=subscription.standard)
        token, ours = self.key.token_for(service), self.key.public
        headers: dict[bytes | str, bytes | str] = {"TTL": str(_KEPT_SECONDS), "Urgency": "normal"}
        headers.update(sealed.headers)
        if subscription.standard:
            headers["Authorization"] = f"vapid t={token}, k={ours}"
        else:
            headers["Authorization"] = f"WebPush {token}"
            headers["Crypto-Key"] = f"{sealed.crypto_key};p256ecdsa={ours}"
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(len(sealed.body))}
        async with self._pool.stream("POST", subscription.endpoint, headers=headers, content=sealed.body) as answer:
            # What it says besides is of no use, and may have no end.
            return int(answer.status)

    def _let_rest(self, service: str) -> None:
        self.put_off += 1
        self._rests.lengthen(service)

    async def close(self) -> None:
        """Give up what is under way: it is sent when the process is back."""
        await self._turns.close()
        await self._pool.aclose()


def origin_of(endpoint: str) -> str:
    """Return the scheme, host and port of an endpoint: whom a signature is for (RFC 8292, section 2)."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}"


def _outcome(status: int) -> Sent:
    if 200 <= status < 300:
        return Sent.DONE
    return Sent.ENDED if status in {404, 410} else Sent.REFUSED
