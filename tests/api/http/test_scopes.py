"""OAuth scopes."""

from __future__ import annotations

import pytest

from shoal.core.errors import InvalidInput
from shoal.http.authentication import KNOWN, check_subset, granted, parse


@pytest.mark.parametrize(
    ("scopes", "needed", "may"),
    [
        ("read", "read", True),
        ("read", "read:statuses", True),
        ("read:statuses", "read:statuses", True),
        ("read:statuses", "read:accounts", False),
        ("read:statuses", "read", False),
        ("read", "write:statuses", False),
        ("follow", "write:follows", True),
        ("follow", "read:blocks", True),
        ("follow", "write:mutes", True),
        ("follow", "write:statuses", False),
        ("admin:read", "admin:read:accounts", True),
        ("read", "admin:read:accounts", False),
        ("admin:read", "read:accounts", False),
        ("push", "push", True),
        ("server", "server:events", True),
        ("server", "server:webhooks", False),
        ("server server:webhooks", "server:webhooks", True),
        ("", "read", False),
    ],
)
def test_oauth_scope_grants_child_scopes_and_follow_scope_grants_relationship_scopes(
    scopes: str, needed: str, may: object
) -> None:
    assert granted(frozenset(scopes.split()), needed) is may


def test_oauth_scope_text_is_parsed_in_order_without_duplicates() -> None:
    assert parse("write read  write follow push") == ("write", "read", "follow", "push")
    assert parse("read+write") == ("read", "write")
    assert parse("") == ("read",)


@pytest.mark.parametrize("text", ["everything", "read:everything", "read:", ":read", "READ", "read,write"])
def test_oauth_scope_that_is_unknown_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="invalid"):
        parse(text)


def test_token_scopes_wider_than_app_scopes_are_refused() -> None:
    assert check_subset(["read:statuses", "follow"], ["read", "follow"]) == ("read:statuses", "follow")
    with pytest.raises(InvalidInput, match="wider"):
        check_subset(["read", "write"], ["read"])
    with pytest.raises(InvalidInput, match="wider"):
        check_subset(["read"], ["read:statuses"])


def test_oauth_scope_grants_itself() -> None:
    assert all(granted(frozenset({scope}), scope) for scope in KNOWN)
