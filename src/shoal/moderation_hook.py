"""The moderation hook: a URL or a callable that decides about content before it is public.

The author waits for the decision, so it has a time budget. If the hook fails, the configured decision applies: to allow, or to
hold. After several failures in a row, the hook is skipped for a while, so that an outage does not delay every author.
Afterwards, a single check probes it before it is used again.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from typing import Annotated, Any, Literal
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta

from shoal.backoff import Backoff
from shoal.core.errors import InvalidInput, TooMany
from shoal.core.ids import now_ms
from shoal.core.publishing import MAX_REASON, Action, Candidate, Check, Decision
from shoal.core.text import as_text
from shoal.core.webhooks import check_url, signature
from shoal.outgoing import Network, RequestFailed, networks_of, open_pool, request
from shoal.settings import Settings
from shoal.throttled_log import ThrottledLog

_log = ThrottledLog(logging.getLogger("shoal.moderation"))

TYPE = "moderation.check"
FAILING = 5
"""Number of members with a failure since the last success, after which the hook is skipped."""
CONCURRENT = 32
"""Maximum number of concurrent checks of a process. A URL gets one connection for each, so no check waits for a connection."""
CONCURRENT_OF_MEMBER = 8
"""Maximum number of concurrent checks of a member. Further ones wait, so that they do not displace those of other members."""
_FIRST_SECONDS, _LONGEST_SECONDS = 2.0, 60.0
_PREFIX = "whsec_"
_LEAST_SECRET = 24
"""Minimum bytes of the secret, as Standard Webhooks specifies."""

Outcome = Literal["allow", "hold", "reject", "failed", "busy", "skipped"]
_HOOK = "hook"


class HookAnswer(msgspec.Struct, frozen=True):
    """The response of the hook URL."""

    action: Action
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""


class HookRequest(msgspec.Struct, frozen=True):
    """The body of a request to the hook URL. `data` is a `Candidate`. Ids are strings, as in the API."""

    type: str
    timestamp: str
    data: dict[str, Any]


_decode = msgspec.json.Decoder(HookAnswer).decode


class HookFailed(Exception):
    """The hook gave no valid decision."""


class ModerationHook:
    """A check with a time budget, a circuit breaker and counts of its outcomes.

    The circuit breaker counts the members whose checks fail, so a single member cannot open it.

    Args:
        check: The callable or the request. Any exception is a failure.
        seconds: The time budget.
        on_failure: The decision after a failure, while the hook is skipped, and above `CONCURRENT` checks.
        clock: The clock of the circuit breaker, in seconds.
    """

    def __init__(
        self, check: Check, seconds: float, on_failure: Action, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.seconds = 0.0
        """Time that all checks took."""
        self._check = check
        self._budget = seconds
        reason = "the moderation hook gave no decision" if on_failure == "hold" else ""
        self._failure = Decision(on_failure, reason, unchecked=True)
        self._failing: set[int] = set()
        self._running = 0
        self._of_members: MutableMapping[int, asyncio.Semaphore] = WeakValueDictionary()
        self._is_probing = False
        self._backoff = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, 1, clock=clock)

    async def __call__(self, candidate: Candidate) -> Decision:
        slots = self._of_members.setdefault(candidate.member_id, asyncio.Semaphore(CONCURRENT_OF_MEMBER))
        try:
            async with asyncio.timeout(self._budget):
                await slots.acquire()
        except TimeoutError:
            raise TooMany("Too much of your content is being checked; try again in a moment", retry_after=1.0) from None
        try:
            return await self._decide(candidate)
        finally:
            slots.release()

    async def _decide(self, candidate: Candidate) -> Decision:
        probes = len(self._failing) >= FAILING
        if probes and (self._is_probing or self._backoff.is_active(_HOOK)):
            self.outcomes["skipped"] += 1
            return self._failure
        if self._running >= CONCURRENT:
            self.outcomes["busy"] += 1
            return self._failure
        began = time.monotonic()
        self._running += 1
        self._is_probing |= probes
        try:
            async with asyncio.timeout(self._budget):
                decision = _checked(await self._check(candidate))
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            # A callable raises CancelledError too if it awaits a task that was cancelled. Then the author still gets a decision.
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            self._failed(error, candidate.member_id)
            return self._failure
        finally:
            self.seconds += time.monotonic() - began
            self._running -= 1
            if probes:
                self._is_probing = False
        self._failing.clear()
        self._backoff.reset(_HOOK)
        self.outcomes[decision.action] += 1
        return decision

    def _failed(self, error: BaseException, member_id: int) -> None:
        self.outcomes["failed"] += 1
        self._failing.add(member_id)
        cause = _cause_of(error, self._budget)
        if len(self._failing) < FAILING:
            _log.warning("the moderation hook failed: %s", cause)
            return
        skipped = self._backoff.extend(_HOOK)
        _log.warning("the moderation hook failed, and is skipped for %.0f seconds: %s", skipped, cause)


def _cause_of(error: BaseException, seconds: float) -> str:
    """Return the cause of a failure. The message of a callable's error is left out, because it may contain a private text."""
    if isinstance(error, TimeoutError):
        return f"no decision within {seconds:g} seconds"
    return str(error) if isinstance(error, HookFailed | RequestFailed) else type(error).__name__


def _checked(decision: object) -> Decision:
    if not isinstance(decision, Decision) or decision.action not in {"allow", "hold", "reject"}:
        raise HookFailed("expected a Decision")
    return Decision(decision.action, _short_text(decision.reason), _short_text(decision.rule))


def _short_text(text: str) -> str:
    # The normal form may be longer than the text.
    return as_text(text[:MAX_REASON])[:MAX_REASON]


class UrlCheck:
    """A check by a signed request (Standard Webhooks 1.0) to a URL."""

    def __init__(self, url: str, secret: str, seconds: float, allowed: Sequence[Network] = ()) -> None:
        self._url = url
        self._secret = secret
        self._seconds = seconds
        self._pool = open_pool(allowed, CONCURRENT)

    async def __call__(self, candidate: Candidate) -> Decision:
        now, id_ = now_ms(), f"msg_{secrets.token_urlsafe(18)}"
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now // 1_000))}.{now % 1_000:03}Z"
        body = msgspec.json.encode(HookRequest(TYPE, stamp, _with_text_ids(candidate)))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Shoal",
            "webhook-id": id_,
            "webhook-timestamp": str(now // 1_000),
            "webhook-signature": signature(self._secret, id_, now // 1_000, body),
        }
        response = await request(self._pool, "POST", self._url, seconds=self._seconds, headers=headers, content=body)
        if response.status != 200:
            raise RequestFailed(f"the response has status {response.status}")
        answer = _decode(response.body)
        return Decision(answer.action, answer.reason)

    async def close(self) -> None:
        await self._pool.aclose()


def _with_text_ids(candidate: Candidate) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(candidate)
    media = [{**each, "id": str(each["id"])} for each in data["media"]]
    return {**data, "id": str(candidate.id), "member_id": str(candidate.member_id), "media": media}


def url_check(settings: Settings) -> UrlCheck | None:
    """Return the check of the hook URL in the settings; None without one. Raises `InvalidInput`."""
    url, secret = settings.moderation_hook, settings.moderation_hook_secret
    if not url:
        return None
    try:
        check_url(url)
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("url:", "moderation_hook:"), field="moderation_hook") from None
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < _LEAST_SECRET or not secret.startswith(_PREFIX):
        raise InvalidInput(
            f"moderation_hook_secret: expected {_PREFIX} and at least {_LEAST_SECRET} bytes in Base64",
            field="moderation_hook_secret",
        )
    allowed = networks_of(settings.outgoing_networks, "outgoing_networks")
    return UrlCheck(url, secret, settings.moderation_hook_ms / 1_000, allowed)


def guarded(check: Check, settings: Settings) -> ModerationHook:
    """Return a check with the time budget and the decision after a failure in the settings.

    Raises `InvalidInput` for a callable that is not asynchronous, because each of its checks would fail.
    """
    method = getattr(type(check), "__call__", None)  # noqa: B004  # the method, to see whether it is asynchronous
    if not (inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(method)):
        raise InvalidInput(
            f"moderation: expected an async function, or an object with an async __call__ (got {type(check).__name__})",
            field="moderation",
        )
    return ModerationHook(check, settings.moderation_hook_ms / 1_000, settings.moderation_hook_failure)
