"""Mapping of errors to HTTP responses."""

from __future__ import annotations

import logging

import pytest

from shoal.core import errors
from shoal.graph.failover import Histories
from shoal.http import errors as api_errors
from shoal.http.errors import TABLE, reply_for
from shoal.http.routes import Context, Route
from tests.api.harness import ask, make_app


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (api_errors.Malformed("client_id is missing"), 400, "client_id is missing"),
        (errors.Unauthenticated(), 401, "The access token is invalid"),
        (errors.NotAllowed(), 403, "This action is not allowed"),
        (errors.NotAllowed("Your login is currently disabled"), 403, "Your login is currently disabled"),
        (api_errors.OutsideScopes(), 403, "This action is outside the authorized scopes"),
        (errors.NotFound("post 5 is only for friends of bob"), 404, "Record not found"),
        (errors.Conflict("again"), 409, "again"),
        (errors.Gone(), 410, "This account is gone"),
        (errors.TooLarge("at most 5 bytes"), 413, "at most 5 bytes"),
        (errors.InvalidInput("Text can't be blank"), 422, "Validation failed: Text can't be blank"),
        (errors.Unsupported("a GIF is not taken"), 422, "Validation failed: a GIF is not taken"),
        (api_errors.RecordInvalid("scheduled_at is no date"), 422, "Record invalid"),
        (api_errors.NeedsMember(), 422, "This method requires an authenticated user"),
        (errors.TooMany("of bob", retry_after=1), 429, "Too many requests"),
        (errors.TooManyStreams("at most 5 streams", retry_after=1), 429, "at most 5 streams"),
        (errors.Unavailable("the store is busy"), 503, "the store is busy"),
        (errors.StorageFull("the disk is full"), 507, "the disk is full"),
        (errors.ShoalError("unforeseen"), 500, api_errors.INTERNAL),
    ],
)
def test_http_error_class_maps_to_status_and_message(error: Exception, status: int, text: str) -> None:
    reply = reply_for(error)
    assert (reply.status, reply.body) == (status, {"error": text})


def test_validation_error_response_has_details_by_field() -> None:
    body = reply_for(errors.Taken("Username has already been taken", field="username")).body
    assert body == {
        "error": "Validation failed: Username has already been taken",
        "details": {"username": [{"error": "ERR_TAKEN", "description": "Username has already been taken"}]},
    }


def test_error_during_store_failover_returns_503_with_retry_after() -> None:
    histories = Histories()
    histories.note("store", 1, "store")

    async def replaced(_context: Context[object], _params: object) -> object:
        # The second request sees no store failover, so its error is returned unchanged.
        histories.note("store", 2, "store")
        raise errors.NotFound

    app = make_app(Route("GET", "/api/v1/replaced", replaced, auth="public", limit_class="api", answer=dict))
    first, second = (ask(app, "GET", "/api/v1/replaced") for _ in range(2))
    assert (first.status_code, first.headers["retry-after"]) == (503, "5")
    assert second.status_code == 404


def test_oauth_error_response_has_code_and_description() -> None:
    reply = reply_for(api_errors.OAuthRefused("invalid_client", "No such client", status=401))
    assert (reply.status, reply.body) == (401, {"error": "invalid_client", "error_description": "No such client"})


def test_retry_after_header_is_rounded_up_to_whole_seconds() -> None:
    assert reply_for(errors.TooMany("", retry_after=1.2)).headers == (("Retry-After", "2"),)
    assert reply_for(errors.Unavailable("", retry_after=0)).headers == (("Retry-After", "1"),)


def test_http_error_table_rows_are_not_hidden_by_earlier_rows_of_base_classes() -> None:
    for at, row in enumerate(TABLE):
        assert not any(issubclass(row.error, earlier.error) for earlier in TABLE[:at])


def test_http_error_table_covers_every_error_class() -> None:
    known = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ShoalError)]
    rows = tuple(row.error for row in TABLE)
    assert all(issubclass(kind, rows) for kind in known if kind is not errors.ShoalError)


def test_unexpected_error_is_logged_and_returns_generic_500(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "shoal.api"):
        answer = ask(make_app(), "GET", "/api/v1/crash", headers={"X-Request-Id": "abc-1"})
    assert (answer.status_code, answer.json()) == (500, {"error": api_errors.INTERNAL})
    assert "hunter2" in caplog.text
    assert "GET /api/v1/crash (abc-1)" in caplog.text
