"""The moderation hook: signed requests, a time budget, and the decision after a failure."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from shoal import Shoal, moderation_hook
from shoal import settings as configuration
from shoal.core.errors import Held, InvalidInput, Rejected, TooMany
from shoal.core.publishing import ALLOW, Candidate, Check, Decision, MediaFacts
from shoal.core.webhooks import signature
from shoal.moderation_hook import (
    CONCURRENT,
    CONCURRENT_OF_MEMBER,
    FAILING,
    ModerationHook,
    UrlCheck,
    guarded,
    url_check,
)
from shoal.outgoing import RequestFailed
from shoal.throttled_log import ThrottledLog
from tests.async_runner import in_loop, run
from tests.moderation.checks import WordCheck
from tests.push.service import PushService, push_service

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
LOCAL = "127.0.0.0/8"
CANDIDATE = Candidate(
    kind="post",
    member_id=7,
    member_name="ann",
    member_created_at=1.5,
    member_posts=3,
    text="Héllo #tide",
    tags=("tide",),
    media=(MediaFacts(id=2**60 + 1, kind="image"),),
)


def by(member_id: int) -> Candidate:
    return replace(CANDIDATE, member_id=member_id)


async def fail_for_all(hook: ModerationHook) -> None:
    """Fail a check of each of so many members that the hook is skipped."""
    for member_id in range(FAILING):
        await hook(by(member_id))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with push_service(tmp_path_factory.mktemp("tls")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(running.trusted))
        yield running


def ask(service: PushService, path: str, *, allowed: str = LOCAL, seconds: float = 10.0) -> Decision:
    """Send one request to a path of the service, and return the decision."""

    async def send() -> Decision:
        chosen = configuration.build(
            moderation_hook=service.url + path,
            moderation_hook_secret=SECRET,
            moderation_hook_ms=round(1_000 * seconds),
            outgoing_networks=(allowed,) if allowed else (),
        )
        check = url_check(chosen)
        assert isinstance(check, UrlCheck)
        try:
            return await check(CANDIDATE)
        finally:
            await check.close()

    return run(send())


def answer(service: PushService, path: str, body: Any, status: int = 200) -> None:
    service.answers[path] = status
    service.bodies[path] = body if isinstance(body, bytes) else json.dumps(body).encode()


def test_hook_request_is_signed_as_standard_webhooks_and_has_the_candidate(service: PushService) -> None:
    answer(service, "/signed", {"action": "reject", "reason": "off topic", "unknown": 1})
    assert ask(service, "/signed") == Decision("reject", "off topic")
    (sent,) = service.at("/signed")
    id_, seconds = sent.headers["webhook-id"], int(sent.headers["webhook-timestamp"])
    assert sent.headers["webhook-signature"] == signature(SECRET, id_, seconds, sent.body)
    assert abs(seconds - time.time()) < 600
    content = json.loads(sent.body)
    assert content["type"] == "moderation.check"
    assert (content["data"]["text"], content["data"]["kind"]) == ("Héllo #tide", "post")
    assert content["data"]["member_name"] == "ann"
    # A number of this size is not exact in JavaScript.
    assert (content["data"]["id"], content["data"]["member_id"]) == (str(CANDIDATE.id), "7")
    assert content["data"]["media"][0]["id"] == str(2**60 + 1)


def test_signature_equals_test_vector_of_standard_webhooks() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    made = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("action", ["allow", "hold"])
def test_hook_decision_follows_the_response(service: PushService, action: str) -> None:
    answer(service, f"/{action}", {"action": action})
    assert ask(service, f"/{action}").action == action


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/error", 500, {"action": "allow"}),
        ("/redirect", 302, {"action": "allow"}),
        ("/created", 201, {"action": "allow"}),
        ("/garbage", 200, b"\xff\x00 not JSON"),
        ("/empty", 200, b""),
        ("/list", 200, ["allow"]),
        ("/unknown", 200, {"action": "maybe"}),
        ("/long", 200, {"action": "reject", "reason": "x" * 501}),
        ("/large", 200, b'{"action":"allow","more":"' + b"x" * 70_000 + b'"}'),
    ],
)
def test_invalid_response_of_hook_is_a_failure(service: PushService, path: str, status: int, body: Any) -> None:
    answer(service, path, body, status)
    with pytest.raises((RequestFailed, ValueError)):
        ask(service, path)
    assert not service.at("/elsewhere")


def test_hook_without_response_fails_within_the_budget(service: PushService) -> None:
    answer(service, "/silent", b"", 0)
    with pytest.raises(RequestFailed, match="no response within"):
        ask(service, "/silent", seconds=0.2)


def test_endless_response_of_hook_is_a_failure(service: PushService) -> None:
    answer(service, "/endless", b"", -1)
    with pytest.raises(RequestFailed):
        ask(service, "/endless")


def test_hook_at_private_address_is_refused_unless_the_setting_allows_it(service: PushService) -> None:
    answer(service, "/private", {"action": "allow"})
    with pytest.raises(RequestFailed, match="no public address"):
        ask(service, "/private", allowed="")
    assert not service.at("/private")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"moderation_hook": "http://hooks.example"}, "moderation_hook: expected an https URL"),
        ({"moderation_hook": "https://a:b@hooks.example"}, "moderation_hook: expected an https URL"),
        ({"moderation_hook_secret": ""}, "moderation_hook_secret: expected whsec_"),
        ({"moderation_hook_secret": "whsec_c2hvcnQ="}, "moderation_hook_secret: expected whsec_"),
        ({"moderation_hook_secret": "whsec_!"}, "moderation_hook_secret: expected whsec_"),
        ({"moderation_hook_secret": "whsec_é" + SECRET}, "moderation_hook_secret: expected whsec_"),
        ({"moderation_hook_secret": SECRET.removeprefix("whsec_")}, "moderation_hook_secret: expected whsec_"),
    ],
)
def test_invalid_hook_setting_names_the_setting(changes: dict[str, str], message: str) -> None:
    given = {"moderation_hook": "https://hooks.example", "moderation_hook_secret": SECRET, **changes}
    with pytest.raises(InvalidInput, match=message):
        url_check(configuration.build(**given))


def failing(error: BaseException) -> Check:
    async def check(_candidate: Candidate) -> Decision:
        raise error

    return check


async def slow(_candidate: Candidate) -> Decision:
    await asyncio.sleep(60)
    return ALLOW


async def no_decision(_candidate: Candidate) -> Decision:
    return cast("Decision", "allow")


@pytest.mark.parametrize(
    "check",
    [
        failing(ValueError("broken")),
        failing(TimeoutError()),
        failing(asyncio.CancelledError()),
        slow,
        no_decision,
    ],
)
@pytest.mark.parametrize("on_failure", ["allow", "hold"])
@in_loop
async def test_failing_callable_leads_to_the_configured_decision(check: Check, on_failure: Any) -> None:
    hook = ModerationHook(check, 0.01, on_failure)
    assert (await hook(CANDIDATE)).action == on_failure
    assert hook.outcomes == {"failed": 1}


@in_loop
async def test_hook_is_skipped_after_failures_and_tried_again_later() -> None:
    now, broken, calls = 0.0, True, 0

    async def check(_candidate: Candidate) -> Decision:
        nonlocal calls
        calls += 1
        if broken:
            raise ValueError
        return Decision("reject", "no")

    hook = ModerationHook(check, 1.0, "hold", clock=lambda: now)
    for member_id in range(FAILING + 3):
        assert (await hook(by(member_id))).action == "hold"
    assert calls == FAILING
    assert hook.outcomes == {"failed": FAILING, "skipped": 3}
    now += 2.5
    await hook(CANDIDATE)
    assert calls == FAILING + 1
    # The pause has doubled.
    now += 2.5
    await hook(CANDIDATE)
    assert calls == FAILING + 1
    now, broken = now + 2.5, False
    assert (await hook(CANDIDATE)).action == "reject"
    assert (await hook(CANDIDATE)).action == "reject"
    assert calls == FAILING + 3


@in_loop
async def test_failures_of_one_member_do_not_skip_the_hook_for_others() -> None:
    async def check(candidate: Candidate) -> Decision:
        if candidate.member_id == 1:
            raise ValueError
        return Decision("reject", "no")

    hook = ModerationHook(check, 1.0, "allow")
    for _ in range(3 * FAILING):
        assert (await hook(by(1))).unchecked
    assert (await hook(by(2))).action == "reject"
    assert hook.outcomes == {"failed": 3 * FAILING, "reject": 1}


@in_loop
async def test_excess_of_concurrent_checks_of_one_member_waits_without_delaying_others() -> None:
    check = _Blocked()
    check.calls = FAILING
    hook = ModerationHook(check, 60.0, "allow")
    running = [asyncio.create_task(hook(by(1))) for _ in range(CONCURRENT_OF_MEMBER + 1)]
    await asyncio.sleep(0)
    assert check.calls == FAILING + CONCURRENT_OF_MEMBER
    other = asyncio.create_task(hook(by(2)))
    await asyncio.sleep(0)
    assert check.calls == FAILING + CONCURRENT_OF_MEMBER + 1
    check.release.set()
    assert {decision.action for decision in await asyncio.gather(*running, other)} == {"reject"}


@in_loop
async def test_excess_of_concurrent_checks_of_one_member_is_refused_after_the_time_budget() -> None:
    hook = ModerationHook(slow, 0.05, "allow")
    many = 3 * CONCURRENT_OF_MEMBER
    ended = await asyncio.gather(*(hook(by(1)) for _ in range(many)), return_exceptions=True)
    refused = [error for error in ended if isinstance(error, TooMany)]
    assert len(refused) >= CONCURRENT_OF_MEMBER
    assert {str(error) for error in refused} == {"Too much of your content is being checked; try again in a moment"}
    # Refused content has no outcome, so it does not become public without a check.
    assert hook.outcomes == {"failed": many - len(refused)}


class _Blocked:
    """A check that fails `FAILING` times, and then waits for `release`."""

    def __init__(self) -> None:
        self.calls = 0
        self.release = asyncio.Event()

    async def __call__(self, _candidate: Candidate) -> Decision:
        self.calls += 1
        if self.calls <= FAILING:
            raise ValueError
        await self.release.wait()
        return Decision("reject", "no")


@in_loop
async def test_hook_after_a_pause_is_probed_by_one_check_until_it_has_an_outcome() -> None:
    now, check = 0.0, _Blocked()
    hook = ModerationHook(check, 60.0, "hold", clock=lambda: now)
    await fail_for_all(hook)
    now += 2.5
    probe = asyncio.create_task(hook(CANDIDATE))
    await asyncio.sleep(0)
    assert check.calls == FAILING + 1
    assert [(await hook(CANDIDATE)).action for _ in range(3)] == ["hold"] * 3
    assert (check.calls, hook.outcomes["skipped"]) == (FAILING + 1, 3)
    check.release.set()
    assert (await probe).action == "reject"
    assert (await hook(CANDIDATE)).action == "reject"


@in_loop
async def test_cancelled_probe_of_the_hook_is_followed_by_another_probe() -> None:
    now, check = 0.0, _Blocked()
    hook = ModerationHook(check, 60.0, "hold", clock=lambda: now)
    await fail_for_all(hook)
    now += 2.5
    probe = asyncio.create_task(hook(CANDIDATE))
    await asyncio.sleep(0)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    check.release.set()
    assert (await hook(CANDIDATE)).action == "reject"


@in_loop
async def test_excess_of_concurrent_checks_gets_the_failure_decision_without_opening_the_breaker() -> None:
    check = _Blocked()
    check.calls = FAILING
    hook = ModerationHook(check, 60.0, "hold")
    running = [asyncio.create_task(hook(by(number))) for number in range(CONCURRENT)]
    await asyncio.sleep(0)
    excess = [(await hook(by(number))).action for number in range(FAILING + 1)]
    assert excess == ["hold"] * (FAILING + 1)
    check.release.set()
    assert {decision.action for decision in await asyncio.gather(*running)} == {"reject"}
    assert (await hook(CANDIDATE)).action == "reject"
    assert hook.outcomes == {"busy": FAILING + 1, "reject": CONCURRENT + 1}


@in_loop
async def test_reason_of_callable_is_stored_without_invalid_characters() -> None:
    async def check(_candidate: Candidate) -> Decision:
        return Decision("hold", "a\ud800b\0c" + "x" * 600, "rule\x07")

    assert await ModerationHook(check, 60.0, "allow")(CANDIDATE) == Decision("hold", "abc" + "x" * 495, "rule")


@in_loop
async def test_log_of_failed_callable_is_throttled_and_has_no_message_of_its_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moderation_hook, "_log", ThrottledLog(logging.getLogger("shoal.moderation")))
    hook = ModerationHook(failing(ValueError("private words")), 5.0, "allow")
    await fail_for_all(hook)
    # Once for the first failure, and once because the hook is skipped.
    assert caplog.text.count("ValueError") == 2
    assert "private words" not in caplog.text


@in_loop
async def test_cancelled_request_is_no_failure_of_the_hook() -> None:
    hook = ModerationHook(slow, 60.0, "allow")
    task = asyncio.create_task(cast("Any", hook(CANDIDATE)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not hook.outcomes


@in_loop
async def test_network_asks_the_hook_url_about_each_post(service: PushService) -> None:
    answer(service, "/posts", {"action": "hold", "reason": "review"})
    options: dict[str, Any] = {
        "moderation_hook": f"{service.url}/posts",
        "moderation_hook_secret": SECRET,
        "moderation_hook_ms": 10_000,
        "outgoing_networks": (LOCAL,),
    }
    async with Shoal.open("memory://", **options) as shoal:
        ann = await shoal.register("ann")
        with pytest.raises(Held):
            await ann.create("hello")
        (item,) = (await shoal.moderation.held()).items
        assert item.reason == "review"
        # The hook decides later by the id that it got.
        asked = json.loads(service.at("/posts")[-1].body)["data"]["id"]
        await shoal.moderation.approve_held(int(asked))
        await shoal.settle()
        assert [entry.post.text for entry in (await shoal.visitor.posts_by(ann)).entries] == ["hello"]
        answer(service, "/posts", {"action": "reject", "reason": "off topic"})
        with pytest.raises(Rejected, match="off topic"):
            await ann.create("hello")
        answer(service, "/posts", b"", 500)
        assert (await ann.create("hello")).text == "hello"
    async with Shoal.open("memory://", **options, moderation_hook_failure="hold") as shoal:
        ann = await shoal.register("ann")
        with pytest.raises(Held):
            await ann.create("hello")


@in_loop
async def test_callable_and_hook_url_exclude_each_other() -> None:
    with pytest.raises(InvalidInput, match="either a callable or the setting"):
        async with Shoal.open(
            "memory://", moderation=slow, moderation_hook="https://h.example", moderation_hook_secret=SECRET
        ):
            pass


class _OrdinaryCheck:
    def __call__(self, _candidate: Candidate) -> Decision:
        return ALLOW


@pytest.mark.parametrize("check", [lambda _: ALLOW, _OrdinaryCheck(), "check"])
@in_loop
async def test_callable_that_is_not_asynchronous_is_refused_when_the_network_opens(check: Any) -> None:
    with pytest.raises(InvalidInput, match="moderation: expected an async function"):
        async with Shoal.open("memory://", moderation=check):
            pass


@pytest.mark.parametrize("check", [slow, WordCheck(), WordCheck().__call__, functools.partial(slow)])
def test_asynchronous_callable_of_any_type_is_accepted(check: Check) -> None:
    assert isinstance(guarded(check, configuration.build()), ModerationHook)


@in_loop
async def test_shared_network_takes_no_callable(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a shared network needs the setting"):
        async with Shoal.open(f"sqlite:///{tmp_path / 'a.db'}", shared=True, moderation=slow):
            pass
