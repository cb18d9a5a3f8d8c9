"""The JSON of every API entity has exactly the expected keys, with values of the expected types."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.api.in_memory_network import BASE, NetworkFixture, Someone, picture

TEXT, FLAG, NUMBER, MOMENT = str, bool, int, "moment"
MAYBE_TEXT = (str, type(None))
MOMENT_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

ACCOUNT = {
    **dict.fromkeys(("id", "username", "acct", "url", "uri", "display_name", "note"), TEXT),
    **dict.fromkeys(("avatar", "avatar_static", "header", "header_static"), TEXT),
    **dict.fromkeys(("locked", "bot", "group", "discoverable", "indexable", "noindex", "hide_collections"), FLAG),
    **dict.fromkeys(("statuses_count", "followers_count", "following_count"), NUMBER),
    **dict.fromkeys(("fields", "emojis", "roles"), list),
    "created_at": MOMENT,
    "last_status_at": type(None),
}
CREDENTIALS = {**ACCOUNT, "source": dict, "role": dict, "shoal": dict}
SOURCE = {
    **dict.fromkeys(("privacy", "language", "note", "quote_policy"), TEXT),
    **dict.fromkeys(("sensitive", "hide_collections", "discoverable", "indexable"), FLAG),
    **dict.fromkeys(("fields", "attribution_domains"), list),
    "follow_requests_count": NUMBER,
}
ROLE = {**dict.fromkeys(("id", "name", "permissions", "color"), TEXT), "highlighted": FLAG}
STATUS = {
    **dict.fromkeys(("id", "uri", "url", "content", "visibility", "spoiler_text"), TEXT),
    **dict.fromkeys(("replies_count", "reblogs_count", "favourites_count", "quotes_count"), NUMBER),
    **dict.fromkeys(("media_attachments", "mentions", "tags", "emojis"), list),
    **dict.fromkeys(("in_reply_to_id", "in_reply_to_account_id", "language"), MAYBE_TEXT),
    **dict.fromkeys(("poll", "card", "quote", "reblog"), type(None)),
    "created_at": MOMENT,
    "edited_at": MAYBE_TEXT,
    "account": dict,
    "sensitive": FLAG,
    "application": (dict, type(None)),
}
SEEN = {**dict.fromkeys(("favourited", "reblogged", "muted", "bookmarked"), FLAG), "filtered": list}
OWN = {**STATUS, **SEEN, "pinned": FLAG}
ATTACHMENT = {
    **dict.fromkeys(("id", "type", "url", "preview_url"), TEXT),
    **dict.fromkeys(("remote_url", "preview_remote_url", "text_url"), type(None)),
    **dict.fromkeys(("description", "blurhash"), MAYBE_TEXT),
    "meta": dict,
}
RELATIONSHIP = {
    **dict.fromkeys(("following", "showing_reblogs", "notifying", "followed_by", "blocking", "blocked_by"), FLAG),
    **dict.fromkeys(("muting", "muting_notifications", "requested", "requested_by", "domain_blocking"), FLAG),
    **dict.fromkeys(("id", "note"), TEXT),
    **dict.fromkeys(("languages", "muting_expires_at"), type(None)),
    "endorsed": FLAG,
}
APPLICATION = {
    **dict.fromkeys(("id", "name", "redirect_uri", "vapid_key"), TEXT),
    **dict.fromkeys(("scopes", "redirect_uris"), list),
    "website": MAYBE_TEXT,
}
CREDENTIAL_APPLICATION = {
    **APPLICATION,
    "client_id": TEXT,
    "client_secret": TEXT,
    "client_secret_expires_at": NUMBER,
}
TOKEN = {**dict.fromkeys(("access_token", "token_type", "scope"), TEXT), "created_at": NUMBER}
INSTANCE_1 = {
    **dict.fromkeys(("uri", "title", "short_description", "description", "email", "version", "thumbnail"), TEXT),
    **dict.fromkeys(("registrations", "approval_required", "invites_enabled"), FLAG),
    **dict.fromkeys(("urls", "stats", "configuration"), dict),
    **dict.fromkeys(("languages", "rules"), list),
    "contact_account": type(None),
}
INSTANCE_2 = {
    **dict.fromkeys(("domain", "title", "version", "source_url", "description"), TEXT),
    **dict.fromkeys(("usage", "thumbnail", "configuration", "registrations", "api_versions", "contact"), dict),
    **dict.fromkeys(("icon", "languages", "rules"), list),
}


def fits(value: Any, shape: dict[str, Any]) -> None:
    """Assert that the value has exactly the keys of the shape, with values of the declared types."""
    assert set(value) == set(shape)
    for key, kind in shape.items():
        if kind == MOMENT:
            assert MOMENT_FORM.fullmatch(value[key]), key
        elif kind is NUMBER:
            assert type(value[key]) is int, key
        else:
            assert isinstance(value[key], kind), (key, value[key])


@pytest.fixture(scope="module")
def ann(shared: NetworkFixture) -> Someone:
    """A member shared by the tests of this module."""
    return shared.join("ann")


def test_account_entity_has_expected_keys_and_types(shared: NetworkFixture, ann: Someone) -> None:
    account = shared.json("GET", f"/api/v1/accounts/{ann.id}")
    fits(account, ACCOUNT)
    assert account["display_name"] == ""
    assert account["avatar"] == f"{BASE}/avatars/original/missing.png"
    assert account["url"] == account["uri"] == f"{BASE}/@ann"


def test_credential_account_entity_has_source_and_role(shared: NetworkFixture, ann: Someone) -> None:
    form = {"fields_attributes[0][name]": "Web", "fields_attributes[0][value]": "https://example.org", "note": "a < b"}
    form |= {"source[privacy]": "private", "source[language]": "fr"}
    account = shared.json("PATCH", "/api/v1/accounts/update_credentials", ann, data=form)
    fits(account, CREDENTIALS)
    fits(account["source"], SOURCE)
    fits(account["role"], ROLE)
    assert (account["note"], account["source"]["note"]) == ("<p>a &lt; b</p>", "a < b")
    assert account["source"]["fields"] == [{"name": "Web", "value": "https://example.org", "verified_at": None}]
    assert account["fields"][0]["value"].startswith('<a href="https://example.org"')
    assert (account["source"]["privacy"], account["source"]["language"]) == ("private", "fr")


def test_status_entity_with_media_mentions_tags_and_place_has_exact_keys_and_types(shared: NetworkFixture) -> None:
    cyd, ben = shared.join("cyd"), shared.join("ben")
    photo = shared.json("POST", "/api/v2/media", cyd, files={"file": ("x", picture())}, data={"description": "sea"})
    fits(photo, ATTACHMENT)
    assert set(photo["meta"]) == {"original", "small", "focus"}
    assert photo["meta"]["original"] == {"width": 32, "height": 20, "size": "32x20", "aspect": 1.6}
    parent = shared.json("POST", "/api/v1/statuses", ben, json={"status": "parent"})
    body = {
        "status": 'Hello @ben, #Dawn "quoted"',
        "spoiler_text": "sea",
        "language": "en",
        "media_ids": [photo["id"]],
        "in_reply_to_id": parent["id"],
        "shoal": {"data": {"camera": [1, 2.5, None, "é"]}, "place": {"latitude": 0.0, "longitude": "-4.5"}},
    }
    status = shared.json("POST", "/api/v1/statuses", cyd, json=body)
    assert status.pop("shoal") == {
        "data": {"camera": [1, 2.5, None, "é"]},
        "place": {"latitude": 0.0, "longitude": -4.5},
    }
    fits(status, OWN)
    fits(status["account"], ACCOUNT)
    fits(status["media_attachments"][0], ATTACHMENT)
    assert status["url"] == f"{BASE}/@cyd/{status['id']}"
    assert status["mentions"] == [{"id": ben.id, "username": "ben", "url": f"{BASE}/@ben", "acct": "ben"}]
    assert status["tags"] == [{"name": "dawn", "url": f"{BASE}/tags/dawn"}]
    assert status["application"] == {"name": "Test", "website": None}
    assert (status["in_reply_to_id"], status["in_reply_to_account_id"]) == (parent["id"], ben.id)
    assert status["sensitive"] is True


def test_status_entity_has_different_keys_for_author_other_member_and_visitor(
    shared: NetworkFixture, ann: Someone
) -> None:
    dan = shared.join("dan")
    form = {"status": "hello", "visibility": "public", "shoal[data]": '{"n": 1}', "shoal[place][latitude]": "0"}
    form["shoal[place][longitude]"] = "2"
    made = shared.json("POST", "/api/v1/statuses", ann, data=form)
    assert made.pop("shoal") == {"data": {"n": 1}, "place": {"latitude": 0.0, "longitude": 2.0}}
    fits(made, OWN)
    for token, shape in ((dan, {**STATUS, **SEEN}), ("", STATUS)):
        status = shared.json("GET", f"/api/v1/statuses/{made['id']}", token)
        del status["shoal"]
        fits(status, shape)


def test_reblog_entity_contains_original_status(shared: NetworkFixture, ann: Someone) -> None:
    fay = shared.join("fay")
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "share me", "visibility": "public"})
    share = shared.json("POST", f"/api/v1/statuses/{post['id']}/reblog", fay)
    fits(share, {**OWN, "reblog": dict})
    fits(share["reblog"], {**STATUS, **SEEN})
    assert (share["account"]["id"], share["reblog"]["account"]["id"]) == (fay.id, ann.id)
    assert (share["reblogged"], share["reblog"]["reblogged"], share["reblog"]["reblogs_count"]) == (True, True, 1)
    again = shared.json("GET", f"/api/v1/statuses/{share['id']}")
    assert again["reblog"]["id"] == post["id"]
    original = shared.json("POST", f"/api/v1/statuses/{post['id']}/unreblog", fay)
    assert (original["id"], original["reblogged"], original["reblog"]) == (post["id"], False, None)


def test_deleted_status_entity_includes_source_text(shared: NetworkFixture, ann: Someone) -> None:
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": 'say "no"\nmore'})
    fits(shared.json("DELETE", f"/api/v1/statuses/{post['id']}", ann), {**OWN, "text": TEXT})


def test_status_source_history_and_context_entities_have_exact_keys_and_types(
    shared: NetworkFixture, ann: Someone
) -> None:
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "one"})
    address = f"/api/v1/statuses/{post['id']}"
    edited = shared.json("PUT", address, ann, json={"status": "two"})
    assert edited["edited_at"].endswith("Z")
    fits(shared.json("GET", f"{address}/source", ann), {"id": TEXT, "text": TEXT, "spoiler_text": TEXT})
    for edit in shared.json("GET", f"{address}/history", ann):
        fits(
            edit,
            {
                **dict.fromkeys(("content", "spoiler_text"), TEXT),
                **dict.fromkeys(("media_attachments", "emojis"), list),
                "created_at": MOMENT,
                "sensitive": FLAG,
                "account": dict,
            },
        )
    fits(shared.json("GET", f"{address}/context", ann), {"ancestors": list, "descendants": list})
    shared.json("POST", f"{address}/favourite", ann)
    assert shared.json("GET", f"/api/shoal/v1/statuses/{post['id']}/likers", ann)["count"] == 1
    likers = shared.json("GET", f"/api/shoal/v1/statuses/{post['id']}/likers", ann)["newest"]
    assert [liker["id"] for liker in likers] == [ann.id]
    assert shared.json("GET", f"/api/shoal/v1/accounts/{ann.id}/received", ann) == {"likes": 1, "shares": 0}


def test_relationship_entity_has_expected_keys_and_values(shared: NetworkFixture, ann: Someone) -> None:
    gus = shared.join("gus")
    fits(shared.json("POST", f"/api/v1/accounts/{gus.id}/follow", ann), RELATIONSHIP)
    for query in (f"id[]={gus.id}", f"id={gus.id}"):
        [stand] = shared.json("GET", f"/api/v1/accounts/relationships?{query}", ann)
        fits(stand, RELATIONSHIP)
        assert (stand["following"], stand["showing_reblogs"], stand["followed_by"]) == (True, True, False)
    strangers = shared.json("GET", f"/api/v1/accounts/relationships?id[]=77&id[]={gus.id}", ann)
    assert [stand["id"] for stand in strangers] == ["77", gus.id]


def test_tag_entity_has_history_and_viewer_state(shared: NetworkFixture, ann: Someone) -> None:
    tag = shared.json("POST", "/api/v1/tags/Dawn/follow", ann)
    fits(tag, {"id": TEXT, "name": TEXT, "url": TEXT, "history": list, "following": FLAG, "featuring": FLAG})
    assert (tag["name"], tag["following"]) == ("dawn", True)
    assert len(tag["history"]) == 7
    fits(tag["history"][0], {"day": TEXT, "uses": TEXT, "accounts": TEXT})
    fits(shared.json("GET", "/api/v1/tags/dawn"), {"id": TEXT, "name": TEXT, "url": TEXT, "history": list})


def test_application_and_token_entities_have_exact_keys_and_types(shared: NetworkFixture) -> None:
    body = {"client_name": "C", "redirect_uris": "urn:a\nhttps://b.example/c", "scopes": "read write:statuses"}
    app = shared.json("POST", "/api/v1/apps", json=body)
    fits(app, CREDENTIAL_APPLICATION)
    assert (app["redirect_uris"], app["scopes"]) == (["urn:a", "https://b.example/c"], ["read", "write:statuses"])
    ask = {key: app[key] for key in ("client_id", "client_secret")} | {"grant_type": "client_credentials"}
    token = shared.json("POST", "/oauth/token", json=ask | {"scope": "write:statuses"})
    fits(token, TOKEN)
    assert (token["token_type"], token["scope"]) == ("Bearer", "write:statuses")
    fits(shared.json("GET", "/api/v1/apps/verify_credentials", token["access_token"]), APPLICATION)
    basic = {"grant_type": "client_credentials"}
    answer = shared.run(shared._client.post("/oauth/token", data=basic, auth=(app["client_id"], app["client_secret"])))
    assert answer.json()["scope"] == "read"


def test_instance_entities_v1_and_v2_have_exact_keys_and_types(shared: NetworkFixture) -> None:
    fits(shared.json("GET", "/api/v1/instance"), INSTANCE_1)
    second = shared.json("GET", "/api/v2/instance/")
    fits(second, INSTANCE_2)
    assert set(second["configuration"]) == {
        *("accounts", "statuses", "reactions", "media_attachments", "polls", "urls", "vapid"),
        *("translation", "timelines_access", "limited_federation"),
    }
    assert shared.json("GET", "/api/v1/instance/")["uri"] == "shoal.test"


def test_error_entity_of_missing_status_is_json_404(shared: NetworkFixture) -> None:
    answer = shared.ask("GET", "/api/v1/statuses/1")
    assert (answer.status_code, answer.json()) == (404, {"error": "Record not found"})
    assert answer.headers["content-type"] == "application/json"
