"""The middleware around every request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from shoal.server import build
from tests.api.harness import ask, make_app
from tests.api.in_memory_network import NetworkFixture, network_fixture


@pytest.mark.parametrize(
    "path", ["/api/v1/instance", "/api/v1/nothing", "/api/v1/refuse", "/api/v1/crash", "/api/v1/statuses/home"]
)
def test_cors_headers_are_sent_on_responses_and_errors(path: str) -> None:
    headers = ask(make_app(), "GET", path, headers={"Origin": "https://phanpy.test"}).headers
    assert headers["access-control-allow-origin"] == "*"
    exposed = {name.strip() for name in headers["access-control-expose-headers"].split(",")}
    assert exposed == {
        "Link",
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
        "X-Request-Id",
        "Retry-After",
    }


@pytest.mark.parametrize(
    "path", ["/api/v1/statuses", "/oauth/token", "/oauth/revoke", "/.well-known/nodeinfo", "/nodeinfo/2.0"]
)
def test_cors_preflight_without_token_returns_204(path: str) -> None:
    asked = {"Origin": "https://phanpy.test", "Access-Control-Request-Method": "PATCH"}
    answer = ask(make_app(), "OPTIONS", path, headers=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "GET, POST, PUT, PATCH, DELETE"
    assert (
        answer.headers["access-control-allow-headers"] == "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
    )


def test_authorize_page_sends_no_cors_headers() -> None:
    answer = ask(make_app(), "GET", "/oauth/authorize")
    assert "access-control-allow-origin" not in answer.headers


def test_request_id_is_unique_per_response() -> None:
    app = make_app()
    ids = {ask(app, "GET", path).headers["x-request-id"] for path in ("/api/v1/instance", "/api/v1/crash", "/nothing")}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("sent", "kept"), [("abc-123.x_Y", True), ("a b", False), ("x" * 65, False), ("<script>", False)]
)
def test_request_id_of_proxy_is_kept_only_if_valid(sent: str, kept: object) -> None:
    got = ask(make_app(), "GET", "/api/v1/instance", headers={"X-Request-Id": sent}).headers["x-request-id"]
    assert (got == sent) is kept


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    """A page of the web app."""
    await PlainTextResponse("a page")(scope, receive, send)


def test_unknown_api_paths_return_json_404_and_other_paths_reach_web_app() -> None:
    app = make_app(fallback=page)
    for path in ("/api", "/api/", "/api/v1/nothing", "/api/v9/instance"):
        answer = ask(app, "GET", path)
        assert (answer.status_code, answer.json()) == (404, {"error": "Record not found"})
        assert answer.headers["content-type"] == "application/json"
    assert ask(app, "GET", "/@bob").text == "a page"
    assert ask(app, "GET", "/apiary").text == "a page"


def test_unknown_path_without_web_app_returns_json_404() -> None:
    assert ask(make_app(), "GET", "/@bob").json() == {"error": "Record not found"}


def test_unsupported_method_returns_405_with_allow_header() -> None:
    answer = ask(make_app(), "DELETE", "/api/v1/statuses/5")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json() == {"error": "This path takes GET"}


def test_request_path_with_trailing_slash_is_served_without_redirect() -> None:
    for path in ("/api/v1/instance/", "/api/v1/statuses/5/"):
        assert ask(make_app(), "GET", path, token="member").status_code == 200


PUBLIC = (
    "/api/v1/instance",
    "/api/v1/nothing",
    "/api/v1/crash",
    "/oauth/nothing",
    "/nodeinfo/2.0",
    "/health",
    "/media/x",
)


@pytest.mark.parametrize("path", [*PUBLIC, "/", "/@nobody", "/docs", "/openapi.json", "/oauth/authorize"])
def test_nosniff_header_is_sent_once_on_every_response(shared: NetworkFixture, path: str) -> None:
    answer = shared.ask("GET", path)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert "strict-transport-security" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/@nobody", "/@framed", "/docs", "/oauth/authorize", "/nothing"])
def test_html_pages_send_headers_that_forbid_framing(shared: NetworkFixture, path: str) -> None:
    if path == "/@framed":
        shared.join("framed")
    answer = shared.ask("GET", path)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers.get_list("x-frame-options") == ["DENY"]


def test_hsts_header_is_sent_when_base_url_is_https() -> None:
    with network_fixture() as shoal:
        app = build(replace(shoal.app_parts, base_url="https://shoal.test"))
        for path in ("/", "/api/v1/instance", "/api/v1/timelines/home", "/oauth/authorize", "/media/none.jpg"):
            assert ask(app, "GET", path).headers["strict-transport-security"] == "max-age=31536000", path


def test_cache_control_of_authenticated_response_is_private_no_store(shared: NetworkFixture) -> None:
    ann = shared.join("private_ann")
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})["id"]
    asked = [
        ("GET", "/api/v1/timelines/home"),
        ("GET", f"/api/v1/statuses/{post}"),
        ("GET", "/api/v1/statuses/1"),
        ("GET", "/api/v1/admin/accounts"),
        ("POST", f"/api/v1/statuses/{post}/favourite"),
    ]
    for method, path in asked:
        assert shared.ask(method, path, ann).headers.get_list("cache-control") == ["private, no-store"], path
    assert "cache-control" not in shared.ask("GET", f"/api/v1/statuses/{post}").headers
    # A response with its own Cache-Control header has exactly one.
    for order in ("for_you", "name"):
        drawn = shared.ask("GET", f"/api/shoal/v1/tags/cloud.svg?order={order}", ann)
        assert len(drawn.headers.get_list("cache-control")) == 1, (drawn.status_code, drawn.text)
