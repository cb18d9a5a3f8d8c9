"""The invitation model: uses, holds and expiry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.core.model import Member, Role
from shoal.core.signup import Hold, Invitation, Inviters, may_invite
from shoal.core.tokens import opened

NOW = 1_000


def invitation(**values: object) -> Invitation:
    return replace(Invitation(id=1, owner_id=2, secret=b"s" * 16, most=2), **values)


def test_invitation_code_contains_id_and_secret() -> None:
    assert opened(invitation().code) == (1, b"s" * 16)


def test_invitation_is_open_until_expiry_and_while_uses_remain() -> None:
    assert invitation().is_open(NOW)
    assert invitation(expires_at=NOW + 1).is_open(NOW)
    assert not invitation(expires_at=NOW).is_open(NOW)
    assert invitation(used=1).is_open(NOW)
    assert not invitation(used=2).is_open(NOW)
    assert invitation(most=0, used=1_000).is_open(NOW)


def test_invitation_reservations_of_same_user_name_count_as_one_use() -> None:
    held = invitation(holds=(Hold(7, "ann", NOW + 9), Hold(8, "ann", NOW + 9)))
    assert not held.is_used_up()
    full = replace(held, holds=(*held.holds, Hold(9, "ben", NOW + 9)))
    assert full.is_used_up()
    assert (full.admits("ann"), full.admits("ben"), full.admits("cyd")) == (True, True, False)


def test_invitation_reservation_becomes_one_use_after_sign_up_or_is_released_after_refusal() -> None:
    held = invitation(holds=(Hold(7, "ann", NOW + 9),))
    came, refused = held.without(7, came=True), held.without(7, came=False)
    assert (came.used, came.holds) == (1, ())
    assert (refused.used, refused.holds) == (0, ())
    assert came.without(7, came=True) == came
    assert held.without(8, came=True) == held


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(NOW - 3, NOW + 3)), unique_by=lambda hold: hold[0]))
def test_invitation_expired_reservation_counts_as_use_only_if_reserved_member_exists(
    found: list[tuple[int, int]],
) -> None:
    held = invitation(most=0, holds=tuple(Hold(id_, f"name{id_}", until) for id_, until in found))
    settled = held.settled(NOW, {1, 2, 3})
    assert settled.used == sum(id_ <= 3 and until <= NOW for id_, until in found)
    assert [hold.until > NOW for hold in settled.holds] == [True] * sum(until > NOW for _, until in found)


@pytest.mark.parametrize(
    ("inviters", "member", "staff"), [("off", False, False), ("staff", False, True), ("members", True, True)]
)
def test_invitation_permission_by_role_depends_on_inviters_setting(
    inviters: Inviters, member: bool, staff: bool
) -> None:
    ann = Member(id=1, name="ann")
    mod = replace(ann, role=Role.MODERATOR)
    assert (may_invite(inviters, ann), may_invite(inviters, mod)) == (member, staff)
    assert not may_invite(inviters, replace(mod, suspended=True))
    assert not may_invite(inviters, replace(mod, disabled=True))
