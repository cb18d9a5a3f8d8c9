"""Invalid, oversized or hostile input is refused with a JSON error and changes nothing."""

from __future__ import annotations

import json
import socket
import struct
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shoal.http.routes import Body
from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from tests.api.in_memory_network import NetworkFixture, Someone, picture, served
from tests.example_counts import examples

MIB = 1 << 20


@pytest.fixture(scope="module")
def ann(shared: NetworkFixture) -> Someone:
    """A member with one post."""
    ann = shared.join("ann")
    shared.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    shared.settle()
    return ann


def refused(
    shared: NetworkFixture, status: int, method: str, path: str, token: Any = "", **more: Any
) -> dict[str, Any]:
    """Assert that the request is refused with this status and changes nothing; return the body."""
    before = shared.state()
    answer = shared.ask(method, path, token, **more)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert shared.state() == before
    body: dict[str, Any] = answer.json()
    assert body["error"]
    return body


def bomb(side: int) -> bytes:
    """Return a small PNG file whose header declares `side` by `side` pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * (10 * MIB), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


# Size limits


@pytest.mark.parametrize("path", ["/api/v1/media", "/api/v2/media"])
def test_media_upload_over_size_limit_returns_413(shared: NetworkFixture, ann: Someone, path: str) -> None:
    refused(shared, 413, "POST", path, ann, files={"file": ("x.png", picture() + b"\0" * (17 * MIB))})


def test_media_upload_of_100_mb_is_refused_before_body_is_read() -> None:
    with served() as address:
        parts = urlsplit(address)
        token = _token(address)
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60) as line:
            line.sendall(
                f"POST /api/v2/media HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
                "Content-Type: multipart/form-data; boundary=b\r\n"
                f"Content-Length: {100 * MIB}\r\n\r\n".encode()
            )
            answer = line.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"application/json" in answer


def _token(address: str) -> str:
    """Sign up a member over the API and return the access token."""
    with httpx.Client(base_url=address) as client:
        app = client.post(
            "/api/v1/apps", json={"client_name": "x", "redirect_uris": "urn:x", "scopes": "read write"}
        ).json()
        keys = {"client_id": app["client_id"], "client_secret": app["client_secret"]}
        grant = {**keys, "grant_type": "client_credentials", "scope": "read write"}
        own = client.post("/oauth/token", json=grant).json()["access_token"]
        form = {"username": "ann", "email": "ann@example.org", "password": "low tide", "agreement": "true"}
        made = client.post("/api/v1/accounts", data=form, headers={"Authorization": f"Bearer {own}"}).json()
    return str(made["access_token"])


def test_image_upload_decompression_bomb_returns_413(shared: NetworkFixture, ann: Someone) -> None:
    refused(shared, 413, "POST", "/api/v2/media", ann, files={"file": ("bomb.png", bomb(30_000))})
    refused(
        shared, 413, "PATCH", "/api/v1/accounts/update_credentials", ann, files={"avatar": ("bomb.png", bomb(30_000))}
    )


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", picture()[:60], b"<svg></svg>"])
def test_media_upload_of_invalid_image_returns_422(shared: NetworkFixture, ann: Someone, data: bytes) -> None:
    refused(shared, 422, "POST", "/api/v2/media", ann, files={"file": ("x.png", data)})


def test_media_upload_without_file_or_with_invalid_focus_is_refused(shared: NetworkFixture, ann: Someone) -> None:
    refused(shared, 400, "POST", "/api/v2/media", ann)
    refused(shared, 422, "POST", "/api/v2/media", ann, data={"file": "text"})
    refused(shared, 422, "POST", "/api/v2/media", ann, files={"file": picture()}, data={"focus": "1;2"})
    refused(shared, 422, "POST", "/api/v2/media", ann, files={"file": picture()}, data={"focus": "nan,2"})


def test_status_post_with_body_of_1_mb_returns_413(shared: NetworkFixture, ann: Someone) -> None:
    refused(shared, 413, "POST", "/api/v1/statuses", ann, json={"status": "x" * MIB})


def test_status_post_over_character_limit_returns_422(shared: NetworkFixture, ann: Someone) -> None:
    body = refused(shared, 422, "POST", "/api/v1/statuses", ann, json={"status": "x" * 5_001})
    assert "5000" in body["error"]
    assert body["details"]["text"][0]["error"] == "ERR_TOO_LONG"


def test_status_post_with_oversized_or_malformed_app_data_returns_422(shared: NetworkFixture, ann: Someone) -> None:
    refused(shared, 422, "POST", "/api/v1/statuses", ann, json={"status": "x", "shoal": {"data": ["x" * 70_000]}})
    refused(shared, 422, "POST", "/api/v1/statuses", ann, data={"status": "x", "shoal[data]": "{broken"})


# Unknown ids and paths


@pytest.mark.parametrize("id_", ["1", "0", "abc", "-1", "9" * 30, "1.5", "٣", "%00", "1%20", "99999999999999999999"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/statuses/{}"),
        ("GET", "/api/v1/statuses/{}/context"),
        ("GET", "/api/v1/statuses/{}/history"),
        ("GET", "/api/v1/statuses/{}/favourited_by"),
        ("PUT", "/api/v1/statuses/{}"),
        ("DELETE", "/api/v1/statuses/{}"),
        ("POST", "/api/v1/statuses/{}/favourite"),
        ("POST", "/api/v1/statuses/{}/reblog"),
        ("POST", "/api/v1/statuses/{}/unbookmark"),
        ("PUT", "/api/v1/statuses/{}/react/👍"),
        ("POST", "/api/v1/statuses/{}/unreact/👍"),
        ("GET", "/api/v1/pleroma/statuses/{}/reactions"),
        ("GET", "/api/v1/accounts/{}"),
        ("GET", "/api/v1/accounts/{}/statuses"),
        ("GET", "/api/v1/accounts/{}/followers"),
        ("POST", "/api/v1/accounts/{}/follow"),
        ("POST", "/api/v1/accounts/{}/unfollow"),
        ("POST", "/api/v1/accounts/{}/block"),
        ("GET", "/api/v1/media/{}"),
        ("GET", "/api/shoal/v1/statuses/{}/likers"),
    ],
)
def test_unknown_or_malformed_id_returns_404(
    shared: NetworkFixture, ann: Someone, method: str, path: str, id_: str
) -> None:
    assert refused(shared, 404, method, path.format(id_), ann) == {"error": "Record not found"}


def test_id_of_other_object_type_returns_404(shared: NetworkFixture, ann: Someone) -> None:
    shown = shared.json("GET", f"/api/v1/accounts/{ann.id}/statuses")[0]["id"]
    refused(shared, 404, "GET", f"/api/v1/accounts/{shown}")
    refused(shared, 404, "POST", f"/api/v1/accounts/{shown}/follow", ann)
    refused(shared, 404, "POST", f"/api/v1/statuses/{ann.id}/favourite", ann)
    refused(shared, 404, "GET", f"/api/v1/statuses/{ann.app_id}", ann)
    refused(shared, 404, "POST", "/api/v1/statuses", ann, json={"status": "x", "media_ids": [shown]})
    refused(shared, 404, "POST", "/api/v1/statuses", ann, json={"status": "x", "in_reply_to_id": ann.id})
    refused(shared, 404, "POST", "/api/v1/accounts/-12345/unfollow", ann)


@pytest.mark.parametrize("path", ["/api", "/api/v1/nothing", "/api/v9/x", "/api/v1/statuses/1/nothing"])
def test_unknown_api_path_returns_404_as_json(shared: NetworkFixture, ann: Someone, path: str) -> None:
    refused(shared, 404, "GET", path, ann)


def test_unsupported_method_returns_405_and_lists_allowed_methods(shared: NetworkFixture, ann: Someone) -> None:
    assert "GET, POST" in refused(shared, 405, "DELETE", "/api/v1/statuses", ann)["error"]


@pytest.mark.parametrize("path", ["/media/x", "/media/%2e%2e/x", "/media//", "/media/a%00b"])
def test_unknown_media_path_returns_404(shared: NetworkFixture, path: str) -> None:
    refused(shared, 404, "GET", path)
    refused(shared, 405, "DELETE", path)


# Invalid tokens and member names


@pytest.mark.parametrize("token", ["x", "é", "A" * 43, "A" * 44, "=" * 44, "Bearer", "\x01", "a b c", "A" * 5_000])
def test_malformed_access_token_returns_401(shared: NetworkFixture, ann: Someone, token: str) -> None:
    header = {"Authorization": f"Bearer {token}".encode("latin-1")}
    refused(shared, 401, "GET", "/api/v1/timelines/home", headers=header)
    refused(shared, 401, "GET", f"/api/v1/timelines/home?access_token={quote(token)}")


def test_authorization_header_without_bearer_scheme_returns_401(shared: NetworkFixture, ann: Someone) -> None:
    refused(shared, 401, "GET", "/api/v1/timelines/home", headers={"Authorization": f"Basic {ann.token}"})
    refused(shared, 401, "GET", "/api/v1/timelines/home", headers={"Authorization": ""})


def sign_up(shared: NetworkFixture, **form: str) -> dict[str, Any]:
    """Return the error details of a refused sign-up."""
    app = shared.join(f"m{len(shared.state().objects)}")
    given = {"username": "zoe", "email": "zoe@example.org", "password": "low tide", "agreement": "true", **form}
    token = shared.token(app.app_id)
    details: dict[str, Any] = refused(shared, 422, "POST", "/api/v1/accounts", token, data=given)["details"]
    return details


def test_sign_up_validation_errors_are_reported_per_field(shared: NetworkFixture, ann: Someone) -> None:
    found = sign_up(shared, username="", password="", agreement="false")
    assert {field: said[0]["error"] for field, said in found.items()} == {
        "username": "ERR_BLANK",
        "password": "ERR_BLANK",
        "agreement": "ERR_ACCEPTED",
    }
    assert sign_up(shared, username="ann")["username"][0]["error"] == "ERR_TAKEN"
    assert sign_up(shared, username="ANN")["username"][0]["error"] == "ERR_TAKEN"
    for name in ("a b", "é", "../x", "a\r\nb"):
        assert sign_up(shared, username=name)["username"][0]["error"] == "ERR_INVALID"
    assert sign_up(shared, username="admin")["username"][0]["error"] == "ERR_RESERVED"
    assert sign_up(shared, username="x" * 31)["username"][0]["error"] == "ERR_TOO_LONG"
    assert sign_up(shared, email="nowhere")["email"][0]["error"] == "ERR_INVALID"
    assert sign_up(shared, password="short")["password"][0]["error"] == "ERR_TOO_SHORT"


def test_app_registration_with_invalid_parameters_is_refused(shared: NetworkFixture) -> None:
    good = {"client_name": "x", "redirect_uris": "urn:x", "scopes": "read"}
    for wrong, status in (
        ({"client_name": ""}, 422),
        ({"client_name": "x" * 300}, 422),
        ({"redirect_uris": "no address"}, 422),
        ({"redirect_uris": "javascript:alert(1)"}, 422),
        ({"redirect_uris": "  "}, 422),
        ({"redirect_uris": ["urn:x"] * 30}, 422),
        ({"scopes": "everything"}, 422),
        ({"website": "javascript:alert(1)"}, 422),
        ({"client_name": None}, 400),
    ):
        refused(shared, status, "POST", "/api/v1/apps", json=good | wrong)


def test_oauth_errors_use_oauth_error_codes(shared: NetworkFixture, ann: Someone) -> None:
    form = {"client_name": "x", "redirect_uris": "urn:x", "scopes": "read"}
    app = shared.json("POST", "/api/v1/apps", json=form)
    good = {"client_id": app["client_id"], "client_secret": app["client_secret"]}
    for wrong, status, error in (
        ({}, 400, "invalid_request"),
        ({"grant_type": "magic"}, 400, "unsupported_grant_type"),
        ({"grant_type": "authorization_code", "code": "x"}, 400, "invalid_request"),
        ({"grant_type": "authorization_code", "code": "x", "redirect_uri": "urn:x"}, 400, "invalid_grant"),
        ({"grant_type": "client_credentials", "client_id": "x"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": ann.id}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_secret": "é"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "9" * 19}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "scope": "write"}, 400, "invalid_scope"),
        ({"grant_type": "client_credentials", "scope": "magic"}, 400, "invalid_scope"),
        ({"grant_type": "password", "username": "ann"}, 400, "invalid_request"),
        ({"grant_type": "password", "username": "ann", "password": "x"}, 400, "invalid_grant"),
        ({"grant_type": "password", "username": "no@where", "password": "x"}, 400, "invalid_grant"),
    ):
        body = refused(shared, status, "POST", "/oauth/token", json=good | wrong)
        assert (body["error"], bool(body["error_description"])) == (error, True)
    body = refused(shared, 403, "POST", "/oauth/revoke", json=good | {"token": ann.token})
    assert body["error"] == "unauthorized_client"
    assert shared.json("POST", "/oauth/revoke", json=good | {"token": "unknown"}) == {}


# Invalid bodies

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BODIES: dict[str, tuple[bytes, Mapping[str, str], int]] = {
    "JSON that is cut off": (b'{"status": "x', JSON, 400),
    "JSON that is not UTF-8": (b'{"status": "\xff\xfe"}', JSON, 400),
    "half a pair of surrogates": (b'{"status": "\\ud800"}', JSON, 400),
    "a JSON list": (b"[1, 2]", JSON, 400),
    "a JSON text": (b'"x"', JSON, 400),
    "a form that is not UTF-8": (b"status=%ff%fe", FORM, 400),
    "raw bytes in a form": (b"status=\xff\xfe", FORM, 400),
    "U+0000 in JSON": (b'{"status": "a\\u0000b"}', JSON, 422),
    "U+0000 in a form": (b"status=a%00b", FORM, 422),
    "U+0001 in a form": (b"status=a%01b", FORM, 422),
    "multipart without an end": (b"--b\r\n", {"Content-Type": "multipart/form-data; boundary=b"}, 400),
    "multipart without a boundary": (b"--b\r\n", {"Content-Type": "multipart/form-data"}, 400),
    "a type that nobody speaks": (b"\x00\x01", {"Content-Type": "application/x-cbor"}, 400),
    "JSON deeper than anybody needs": (b'{"shoal":{"data":' + b"[" * 5_000 + b"]" * 5_000 + b"}}", JSON, 400),
    "an empty body": (b"", JSON, 422),
    "an empty object": (b"{}", JSON, 422),
    "only blanks": (b'{"status": " \\n "}', JSON, 422),
    "a number of medias": (b'{"status": "x", "media_ids": {"a": 1}}', JSON, 404),
    "a list for a text": (b'{"status": ["x"]}', JSON, 422),
    "an object for a text": (b'{"status": {"a": 1}}', JSON, 422),
    "a list for a truth": (b'{"status": "x", "sensitive": [true]}', JSON, 422),
    "a visibility of nobody's": (b'{"status": "x", "visibility": "everyone"}', JSON, 422),
    "a place off the globe": (b'{"status": "x", "shoal": {"place": {"latitude": 91, "longitude": 0}}}', JSON, 422),
    "half a place": (b'{"status": "x", "shoal": {"place": {"latitude": 1}}}', JSON, 400),
    "eleven pictures": (b'{"status": "x", "media_ids": [1,2,3,4,5,6,7,8,9,10,11]}', JSON, 422),
    "a poll without an end": (b'{"status": "x", "poll": {"options": ["a", "b"]}}', JSON, 422),
    "a poll without a choice": (b'{"status": "x", "poll": {"options": ["a"], "expires_in": 600}}', JSON, 422),
    "a poll of the same twice": (b'{"status": "x", "poll": {"options": ["a", "a "], "expires_in": 600}}', JSON, 422),
    "a poll of too many": (
        b'{"status": "x", "poll": {"options": ["1","2","3","4","5"], "expires_in": 600}}',
        JSON,
        422,
    ),
    "a poll that asks nothing": (b'{"status": "", "poll": {"options": ["a", "b"], "expires_in": 600}}', JSON, 422),
    "a quote, of which there are none": (b'{"status": "x", "quoted_status_id": "1"}', JSON, 422),
}


@pytest.mark.parametrize("what", BODIES)
def test_status_post_with_invalid_body_is_refused(shared: NetworkFixture, ann: Someone, what: str) -> None:
    body, headers, status = BODIES[what]
    refused(shared, status, "POST", "/api/v1/statuses", ann, content=body, headers=dict(headers))


def test_scheduled_status_with_invalid_time_returns_record_invalid(shared: NetworkFixture, ann: Someone) -> None:
    for moment in ("tomorrow", "2099-13-01T00:00:00Z", "9" * 50):
        body = {"status": "x", "scheduled_at": moment}
        assert refused(shared, 422, "POST", "/api/v1/statuses", ann, json=body) == {"error": "Record invalid"}


def test_status_edit_with_invalid_parameters_changes_nothing(shared: NetworkFixture, ann: Someone) -> None:
    path = f"/api/v1/statuses/{shared.json('GET', f'/api/v1/accounts/{ann.id}/statuses')[0]['id']}"
    refused(shared, 422, "PUT", path, ann, json={"status": ""})
    refused(shared, 422, "PUT", path, ann, json={"status": "x" * 6_000})
    refused(shared, 404, "PUT", path, ann, json={"status": "new", "media_attributes": [{"id": "1"}]})
    photo = shared.json("POST", "/api/v2/media", ann, files={"file": picture()})
    described = {"status": "new", "media_attributes": [{"id": photo["id"], "focus": "5,5", "description": "x"}]}
    refused(shared, 422, "PUT", path, ann, json=described)


def test_profile_update_with_invalid_field_changes_nothing(shared: NetworkFixture, ann: Someone) -> None:
    path = "/api/v1/accounts/update_credentials"
    for wrong in (
        {"display_name": "x" * 101},
        {"note": "x" * 501},
        {"note": "a\0b"},
        {"fields_attributes": [{"name": str(n), "value": "x"} for n in range(5)]},
        {"source": {"privacy": "nobody"}},
        {"avatar": "not a file"},
        {"bot": ["true"]},
    ):
        refused(shared, 422, "PATCH", path, ann, json={"display_name": "New", **wrong})
    refused(shared, 422, "PATCH", path, ann, data={"display_name": "New"}, files={"header": b"no picture"})
    both = {"avatar": ("a", picture()), "header": ("b", b"no picture")}
    refused(shared, 422, "PATCH", path, ann, data={"display_name": "New"}, files=both)


@pytest.mark.parametrize("missing", ["undefined", "null"])
def test_profile_update_with_javascript_undefined_as_value_keeps_fields(
    shared: NetworkFixture, ann: Someone, missing: str
) -> None:
    path = "/api/v1/accounts/update_credentials"
    shared.json("PATCH", path, ann, json={"fields_attributes": [{"name": "Boat", "value": "Selma"}]})
    said = shared.json("PATCH", path, ann, data={"note": "hi", "fields_attributes": missing, "source": missing})
    assert [field["name"] for field in said["fields"]] == ["Boat"]
    assert said["source"]["note"] == "hi"


@pytest.mark.parametrize("missing", ["undefined", "null"])
@pytest.mark.parametrize("name", ["media_ids", "media_ids[]", "in_reply_to_id", "allowed_mentions", "quoted_status_id"])
def test_status_post_with_javascript_undefined_as_id_is_published_without_that_id(
    shared: NetworkFixture, ann: Someone, missing: str, name: str
) -> None:
    sent = shared.json("POST", "/api/v1/statuses", ann, data={"status": f"{name} {missing}", name: missing})
    assert (sent["media_attachments"], sent["in_reply_to_id"]) == ([], None)
    shared.json("DELETE", f"/api/v1/statuses/{sent['id']}", ann)


def test_request_path_with_javascript_undefined_as_id_returns_404(shared: NetworkFixture, ann: Someone) -> None:
    refused(shared, 404, "GET", "/api/v1/statuses/undefined", ann)
    refused(shared, 404, "POST", "/api/v1/accounts/undefined/follow", ann)


def test_status_edit_with_javascript_undefined_as_media_ids_keeps_media(shared: NetworkFixture, ann: Someone) -> None:
    media = shared.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture())})
    sent = shared.json("POST", "/api/v1/statuses", ann, data={"status": "a gull", "media_ids[]": media["id"]})
    for name in ("media_ids", "media_ids[]"):
        path = f"/api/v1/statuses/{sent['id']}"
        edited = shared.json("PUT", path, ann, data={"status": f"a gull, {name}", name: "undefined"})
        assert [item["id"] for item in edited["media_attachments"]] == [media["id"]]
    shared.json("DELETE", f"/api/v1/statuses/{sent['id']}", ann)


def test_account_follow_block_or_mute_of_oneself_returns_403(shared: NetworkFixture, ann: Someone) -> None:
    for verb in ("follow", "block", "mute"):
        refused(shared, 403, "POST", f"/api/v1/accounts/{ann.id}/{verb}", ann)


def test_tag_follow_with_invalid_name_returns_422_and_lookup_returns_404(shared: NetworkFixture, ann: Someone) -> None:
    for name in ("123", "a%20b", "%F0%9F%8C%8A", "x" * 101):
        refused(shared, 422, "POST", f"/api/v1/tags/{name}/follow", ann)
        refused(shared, 404, "GET", f"/api/v1/tags/{name}", ann)


def test_pagination_parameters_that_are_invalid_are_ignored(shared: NetworkFixture, ann: Someone) -> None:
    for query in ("limit=0", "limit=-5", "limit=x", "max_id=abc&since_id=&min_id=-1", f"max_id={'9' * 30}"):
        assert len(shared.json("GET", f"/api/v1/timelines/home?{query}", ann)) == 1, query


# Random input

PATHS = sorted({route.path for route in table(Settings())})
NOT_JSON = {route.path for route in table(Settings()) if isinstance(route.answer, Body)}
STREAMS = {route.path for route in table(Settings()) if route.answer == Body("text/event-stream")}
FIELDS = [
    *("status", "media_ids", "media_ids[]", "visibility", "in_reply_to_id", "sensitive", "spoiler_text", "language"),
    *("shoal[data]", "shoal[place][latitude]", "shoal", "id", "id[]", "limit", "max_id", "min_id", "since_id", "acct"),
    *("tagged", "pinned", "display_name", "note", "avatar", "fields_attributes[0][name]", "source[privacy]", "focus"),
    *("client_name", "redirect_uris", "scopes", "grant_type", "client_id", "client_secret", "token", "username"),
    *("order", "offset", "media_attributes[][id]", "description", "file", "poll[options][]", "name", "a[b", "]["),
]
text = st.text(st.characters(codec="utf-8"), max_size=20)
scalar = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    text,
    st.sampled_from(["", "true", "0", "1", "public", "private", "read", "client_credentials", "\0", "a,b", "0.1,0.2"]),
)
value = st.recursive(scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    """Draw a method, a path from the route table with random path parameters, and a request body."""
    path = draw(st.sampled_from(PATHS))
    for brace in ("{id}", "{name}"):
        path = path.replace(brace, quote(draw(text | st.just("1")), safe="") or "x")
    fields = draw(st.dictionaries(st.sampled_from(FIELDS), value, max_size=5))
    plain = {name: str(each) for name, each in fields.items()}
    parts: dict[str, Any] = {name: (None, each) for name, each in plain.items()}
    how = draw(st.sampled_from(["nothing", "json", "form", "multipart", "query", "bytes"]))
    hows: dict[str, dict[str, Any]] = {
        "nothing": {},
        "json": {"json": fields},
        "form": {"data": plain},
        "multipart": {"files": parts or {"file": ("x", b"x")}},
        "query": {"params": plain},
        "bytes": {"content": draw(st.binary(max_size=50)), "headers": {"Content-Type": draw(st.sampled_from(TYPES))}},
    }
    more = hows[how]
    return draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])), path, more


TYPES = ["", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]


@given(request=requests(), known=st.booleans())
@example(request=("GET", "/api/v1/streaming/health", {}), known=False)
@example(request=("GET", "/api/v1/streaming/public", {}), known=True)
@settings(
    max_examples=examples(100, full=200),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_api_request_with_random_input_never_returns_5xx(
    shared: NetworkFixture, ann: Someone, request: tuple[str, str, dict[str, Any]], known: bool
) -> None:
    method, path, more = request
    # A stream that opens successfully never finishes.
    token = ann if known and path not in STREAMS else ""
    answer = shared.ask(method, path, token, **more)
    assert answer.status_code < 500, answer.text
    as_declared = path in NOT_JSON and answer.status_code == 200
    if method not in {"HEAD", "OPTIONS"} and not as_declared:
        assert answer.headers["content-type"] == "application/json"
        json.loads(answer.content)
