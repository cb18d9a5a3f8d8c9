"""Comparisons of e-mail blocklists, and the figures of refused attempts."""

from __future__ import annotations

from hashlib import sha256

from shoal.core.blocklists import EmailDomainBlock, attempted, canonical_digest, canonical_digests, domains_of, history

DAY = 86_400_000
BLOCK = EmailDomainBlock(id=7, domain="spam.example")


def figures(block: EmailDomainBlock, now: int) -> list[tuple[int, int]]:
    return [(day.uses, day.accounts) for day in history(block, now)]


def test_email_domain_block_lookup_includes_parent_domains() -> None:
    assert domains_of("a@x.Spam.example") == ["x.spam.example", "spam.example", "example"]
    assert domains_of("a@localhost") == ["localhost"]
    assert domains_of("a@bücher.example.") == ["xn--bcher-kva.example", "example"]


def test_canonical_email_digest_ignores_case_dots_and_plus_suffix() -> None:
    one = canonical_digest("test@example.com")
    assert one == "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"
    for same in ("Test@example.com", "te.st@example.com", "test+other@EXAMPLE.com", " t.e.s.t+a+b@example.com "):
        assert canonical_digest(same) == one
    assert canonical_digest("test@exam.ple.com") != one


def test_canonical_email_digest_of_compatibility_characters_equals_ascii_digest() -> None:
    for same in (
        "\uff54\uff45\uff53\uff54@example.com",
        "test\uff20example.com",
        "te\uff0est\uff0bother@example\uff0ecom",
    ):
        assert canonical_digest(same) == canonical_digest("test@example.com")


def test_canonical_email_digest_of_international_domain_is_equal_in_unicode_and_punycode() -> None:
    assert canonical_digest("a@b\u00fccher.example") == canonical_digest("a@xn--bcher-kva.example")
    before = sha256("a@b\u00fccher.example".encode()).hexdigest()
    for spelling in ("a@b\u00fccher.example", "a@xn--bcher-kva.example"):
        assert canonical_digests(spelling) == (canonical_digest(spelling), before)
    assert canonical_digests("a@b.example") == (canonical_digest("a@b.example"),)


def test_email_block_attempts_are_kept_for_seven_days() -> None:
    block = BLOCK
    for day in (10, 10, 11, 16):
        block = attempted(block, "192.0.2.1", day * DAY + 5)
    assert figures(block, 16 * DAY) == [(1, 1), (0, 0), (0, 0), (0, 0), (0, 0), (1, 1), (2, 1)]
    assert figures(block, 17 * DAY)[-1] == (1, 1)
    assert figures(block, 40 * DAY) == [(0, 0)] * 7
    assert len(attempted(block, "192.0.2.1", 17 * DAY).days) == 3


def test_email_block_attempt_after_clock_set_back_counts_for_earlier_day() -> None:
    block = attempted(attempted(BLOCK, "a", 10 * DAY), "a", 9 * DAY)
    assert figures(block, 10 * DAY)[:2] == [(1, 1), (1, 1)]


def test_email_block_unique_client_count_is_approximate_in_fixed_size() -> None:
    block = BLOCK
    for number in range(1_000):
        for _ in range(2):
            block = attempted(block, f"192.0.{number // 250}.{number % 250}", 10 * DAY)
    (day,) = block.days
    assert day.uses == 2_000
    assert abs(day.accounts - 1_000) < 60
    assert len(day.seen) == 256
