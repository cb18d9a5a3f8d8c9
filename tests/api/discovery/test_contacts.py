"""Contact search over HTTP: archives, handles, e-mail hashes and rate limits."""

from __future__ import annotations

import hmac
import json
from itertools import count

import pytest

from shoal.core.handles import MAX_ARCHIVE_BYTES
from tests.api.in_memory_network import NetworkFixture, network_fixture

CONTACTS = "/api/shoal/v1/contacts"
SALT = "/api/shoal/v1/contacts/salt"
ARCHIVE = "/api/shoal/v1/contacts/archive"
CREDENTIALS = "/api/v1/accounts/update_credentials"
_NUMBERS = count()
CSV = b"Account address,Show boosts\nharbour@mastodon.social,true\nben@mastodon.social,true\nno one,\n"


def test_contact_archive_import_finds_accounts_with_match_kind(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    fields = {"fields_attributes": [{"name": "Mastodon", "value": "https://mastodon.social/@harbour"}]}
    shoal.json("PATCH", CREDENTIALS, cyd, json=fields)
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
    found = shoal.json("POST", ARCHIVE, ann, files={"file": ("following_accounts.csv", CSV, "text/csv")})
    assert (found["asked"], found["unreadable"], found["more"]) == (2, 1, False)
    assert [(one["account"]["username"], one["given"], one["match"]) for one in found["contacts"]] == [
        ("cyd", "harbour@mastodon.social", "link"),
        ("ben", "ben@mastodon.social", "name"),
    ]
    assert [(one["following"], one["requested"]) for one in found["contacts"]] == [(False, False), (True, False)]
    handles = {"handles": ["https://mastodon.social/@harbour", "@ben@mastodon.social", "no one"]}
    assert shoal.json("POST", ARCHIVE, ann, json=handles) == found
    # The result never contains the caller's own account.
    assert shoal.json("POST", ARCHIVE, cyd, json={"handles": ["harbour@mastodon.social"]})["contacts"] == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"json": {}}, 422),
        ({"json": {"handles": ["a" * 500]}}, 422),
        ({"json": {"handles": ["ann"] * 10_001}}, 422),
        ({"json": {"handles": {"deep": {"er": 1}}}}, 422),
        ({"files": {"file": ("following.json", b"{}", "application/json")}}, 422),
        ({"files": {"file": ("following.json", b"[" * 100_000, "application/json")}}, 422),
        ({"files": {"file": ("following.zip", b"PK\x03\x04\xff", "application/zip")}}, 422),
        ({"files": {"file": ("f.csv", CSV, "text/csv")}, "data": {"handles[]": "ann@x.org"}}, 422),
        ({"files": {"file": ("f.csv", CSV * (MAX_ARCHIVE_BYTES // len(CSV) + 2_000), "text/csv")}}, 413),
    ],
    ids=["nothing", "long", "many", "shape", "empty", "deep", "zip", "both", "large"],
)
def test_contact_archive_import_with_invalid_file_is_refused(
    shared: NetworkFixture, sent: dict[str, object], status: int
) -> None:
    ann = shared.join(f"ann{next(_NUMBERS)}")
    refused = shared.ask("POST", ARCHIVE, ann, **sent)
    assert refused.status_code == status
    assert refused.json()["error"]


def test_contact_search_by_email_hash_finds_only_members_who_opted_in(shoal: NetworkFixture) -> None:
    me = shoal.join("me")
    ann, ben = (shoal.join(name, email=f"{name}@example.org") for name in ("ann", "ben"))
    terms = shoal.json("GET", SALT, me)
    assert (terms["algorithm"], terms["bits"], terms["most"]) == ("HMAC-SHA256", 256, 2_000)
    key = bytes.fromhex(terms["salt"])
    hashes = [hmac.digest(key, f"{name}@example.org".encode(), "sha256").hex() for name in ("ann", "ben", "cyd")]
    assert shoal.json("POST", CONTACTS, me, json={"hashes": hashes})["contacts"] == []
    shoal.json("PATCH", CREDENTIALS, ann, data={"shoal[findable_by_email]": "true"})
    assert shoal.json("GET", "/api/v1/preferences", ann)["shoal:findable_by_email"] is True
    assert shoal.json("GET", "/api/v1/preferences", ben)["shoal:findable_by_email"] is False
    found = shoal.json("POST", CONTACTS, me, json={"hashes": hashes})
    assert (found["asked"], found["unreadable"], found["more"]) == (3, 0, False)
    (one,) = found["contacts"]
    assert (one["account"]["username"], one["given"], one["match"]) == ("ann", hashes[0], "email")
    # Responses to other members contain neither the address nor its hash.
    shown = shoal.ask("GET", f"/api/v1/accounts/{ann.id}", me).text
    assert hashes[0] not in shown
    assert "example.org" not in shown
    assert hashes[0] not in json.dumps(one["account"])
    assert shoal.ask("PATCH", CREDENTIALS, me, data={"shoal[findable_by_email]": "true"}).status_code == 422
    shoal.json("PATCH", CREDENTIALS, ann, data={"shoal[findable_by_email]": "false"})
    assert shoal.json("POST", CONTACTS, me, json={"hashes": hashes})["contacts"] == []


@pytest.mark.parametrize(
    "hashes", [["ann@example.org"], ["A" * 64], ["a" * 65], ["a" * 64] * 2_001, "a" * 63], ids=lambda one: str(one)[:8]
)
def test_contact_search_with_invalid_hash_is_refused(shared: NetworkFixture, hashes: object) -> None:
    ann = shared.join(f"ann{next(_NUMBERS)}")
    assert shared.ask("POST", CONTACTS, ann, json={"hashes": hashes}).status_code == 422
    assert shared.ask("POST", CONTACTS, ann, json={}).status_code == 400


def test_contact_search_over_rate_limit_returns_429() -> None:
    with network_fixture(rate_limits=True) as shoal:
        ann = shoal.join("ann")
        codes = [shoal.ask("POST", CONTACTS, ann, json={"hashes": ["a" * 64]}).status_code for _ in range(11)]
        assert codes == [200] * 10 + [429]


def test_contact_endpoints_require_member_token_with_follow_scope(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    assert shoal.ask("POST", ARCHIVE, json={"handles": ["ann"]}).status_code == 401
    reader = shoal.token(ann.app_id, ann.member.id, ("read:statuses",))
    assert shoal.ask("POST", ARCHIVE, reader, json={"handles": ["ann"]}).status_code == 403
    assert shoal.ask("POST", CONTACTS, reader, json={"hashes": []}).status_code == 403
    assert shoal.ask("GET", SALT, reader).status_code == 403


def test_contact_archive_import_has_its_own_rate_limit() -> None:
    with network_fixture(rate_limits=True, limits={"archives": "2/1h"}) as shoal:
        ann, ben = map(shoal.join, ("ann", "ben"))
        codes = [shoal.ask("POST", ARCHIVE, ann, json={"handles": ["ben"]}).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        assert shoal.ask("POST", ARCHIVE, ben, json={"handles": ["ann"]}).status_code == 200
