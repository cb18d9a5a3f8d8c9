"""Scopes: what a token may do."""

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
        ("", "read", False),
    ],
)
def test_a_parent_grants_its_children_and_follow_its_bundle(scopes: str, needed: str, may: object) -> None:
    assert granted(frozenset(scopes.split()), needed) is may


def test_scopes_are_read_in_order_and_once() -> None:
    assert parse("write read  write follow push") == ("write", "read", "follow", "push")
    assert parse("read+write") == ("read", "write")
    assert parse("") == ("read",)


@pytest.mark.parametrize("text", ["everything", "read:everything", "read:", ":read", "READ", "read,write"])
def test_an_unknown_scope_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="invalid"):
        parse(text)


def test_a_token_is_never_given_more_than_its_app_asked_for() -> None:
    assert check_subset(["read:statuses", "follow"], ["read", "follow"]) == ("read:statuses", "follow")
    with pytest.raises(InvalidInput, match="wider"):
        check_subset(["read", "write"], ["read"])
    with pytest.raises(InvalidInput, match="wider"):
        check_subset(["read"], ["read:statuses"])


def test_every_known_scope_grants_itself() -> None:
    assert all(granted(frozenset({scope}), scope) for scope in KNOWN)
