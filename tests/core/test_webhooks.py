"""Secrets, signatures and retries of webhooks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.webhooks import (
    Pause,
    Webhook,
    WebhookSecret,
    backoff_ms,
    check_url,
    new_secret,
    rotated,
    signature,
    signed_headers,
)

SPEC_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_webhook_signature_equals_test_vector_of_standard_webhooks() -> None:
    made = signature(SPEC_SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_webhook_secrets_are_random_and_long() -> None:
    made = {new_secret() for _ in range(50)}
    assert len(made) == 50
    assert all(secret.startswith("whsec_") and len(secret) == 50 for secret in made)


def test_webhook_rotation_signs_with_both_secrets_until_the_former_expires() -> None:
    now = 1_700_000_000_000
    secrets = rotated((WebhookSecret(SPEC_SECRET), WebhookSecret(new_secret(), 1)), new_secret(), now, 60)
    hook = Webhook(id=1, url="", log_id=2, position="", secrets=secrets)

    def signatures(at: int) -> list[str]:
        return signed_headers(hook, "a", at, b"{}")["webhook-signature"].split()

    assert signatures(now) == [signature(secret.text, "a", now // 1_000, b"{}") for secret in secrets]
    assert len(signatures(now + 59_000)) == 2
    assert len(signatures(now + 60_000)) == 1
    assert len(rotated(secrets, new_secret(), now, 0)) == 1
    with pytest.raises(InvalidInput, match=r"grace: 0 to 2592000 seconds \(got -1\)"):
        rotated(secrets, new_secret(), now, -1)


def test_webhook_retries_double_up_to_two_hours_and_last_for_three_days() -> None:
    waits = [backoff_ms(attempts, 0.0) for attempts in range(1, 60)]
    assert waits[:3] == [5_000, 10_000, 20_000]
    assert max(waits) == 7_200_000
    assert 2 * backoff_ms(3, 1.0) == backoff_ms(3, 0.0)
    assert backoff_ms(100_000, 0.5) == 5_400_000


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://shop.example",
        "https://",
        "https://a:b@shop.example",
        "https://x/#a",
        "https://x/ y",
        "https://ä",
        "https://[",
        "https://x:99999",
    ],
)
def test_webhook_url_that_is_not_plain_https_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="url: "):
        check_url(url)


def test_webhook_url_of_at_most_2000_characters_is_accepted() -> None:
    url = "https://shop.example/".ljust(2_000, "x")
    assert check_url(url) == url
    with pytest.raises(InvalidInput, match="at most 2000 characters"):
        check_url(url + "x")


def test_webhook_resumed_has_no_failures() -> None:
    hook = Webhook(id=1, url="", log_id=2, position="p", delivered=("a",))
    failed = replace(
        hook, paused=Pause.FAILING, failing_id="b", attempts=3, failing_ms=4, wait_ms=5, retry_at=6, parked_last=True
    )
    assert failed.resumed() == hook
