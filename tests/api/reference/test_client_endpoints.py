"""The catalog of client endpoints: required ones are implemented, optional ones have routes, others return an error."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shoal.mastodon_api.routes import table
from shoal.settings import Settings
from shoal.web.routes import pages
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.api_page import PAGE

NEEDED = """
    GET /api/v1/instance
    GET /api/v2/instance
    GET /api/v1/instance/rules
    GET /health
    GET /ready
    GET /.well-known/nodeinfo
    GET /nodeinfo/2.0
    POST /api/v1/apps
    GET /api/v1/apps/verify_credentials
    POST /oauth/token
    POST /oauth/revoke
    GET /.well-known/oauth-authorization-server
    GET /api/v1/streaming/health
    GET POST /api/v1/accounts
    GET /api/v1/accounts/verify_credentials
    PATCH /api/v1/accounts/update_credentials
    DELETE /api/v1/profile/avatar
    DELETE /api/v1/profile/header
    GET /api/v1/accounts/{}
    GET /api/v1/accounts/lookup
    GET /api/v1/accounts/search
    GET /api/v1/accounts/relationships
    GET /api/v1/accounts/familiar_followers
    GET /api/v1/accounts/{}/statuses
    GET /api/v1/accounts/{}/followers
    GET /api/v1/accounts/{}/following
    GET /api/v1/accounts/{}/featured_tags
    GET /api/v1/accounts/{}/lists
    POST /api/v1/accounts/{}/follow
    POST /api/v1/accounts/{}/unfollow
    POST /api/v1/accounts/{}/block
    POST /api/v1/accounts/{}/unblock
    POST /api/v1/accounts/{}/mute
    POST /api/v1/accounts/{}/unmute
    POST /api/v1/accounts/{}/remove_from_followers
    POST /api/v1/accounts/{}/note
    POST /api/v1/accounts/{}/endorse
    POST /api/v1/accounts/{}/unendorse
    POST /api/v1/accounts/{}/pin
    POST /api/v1/accounts/{}/unpin
    GET /api/v1/endorsements
    GET /api/v1/mutes
    GET /api/v1/blocks
    GET /api/v1/follow_requests
    POST /api/v1/follow_requests/{}/authorize
    POST /api/v1/follow_requests/{}/reject
    GET /api/v1/directory
    GET PATCH /api/v2/notifications/policy
    GET PATCH /api/v1/notifications/policy
    GET /api/v1/notifications/requests
    GET /api/v1/notifications/requests/merged
    POST /api/v1/notifications/requests/accept
    POST /api/v1/notifications/requests/dismiss
    GET /api/v1/notifications/requests/{}
    POST /api/v1/notifications/requests/{}/accept
    POST /api/v1/notifications/requests/{}/dismiss
    GET POST /api/v1/statuses
    GET PUT DELETE /api/v1/statuses/{}
    GET /api/v1/statuses/{}/context
    POST /api/v1/statuses/{}/favourite
    POST /api/v1/statuses/{}/unfavourite
    POST /api/v1/statuses/{}/reblog
    POST /api/v1/statuses/{}/unreblog
    POST /api/v1/statuses/{}/bookmark
    POST /api/v1/statuses/{}/unbookmark
    POST /api/v1/statuses/{}/pin
    POST /api/v1/statuses/{}/unpin
    POST /api/v1/statuses/{}/mute
    POST /api/v1/statuses/{}/unmute
    GET /api/v1/statuses/{}/reblogged_by
    GET /api/v1/statuses/{}/favourited_by
    GET /api/v1/statuses/{}/source
    GET /api/v1/statuses/{}/history
    GET /api/v1/scheduled_statuses
    GET PUT DELETE /api/v1/scheduled_statuses/{}
    GET /api/v1/polls/{}
    POST /api/v1/polls/{}/votes
    POST /api/v1/media
    POST /api/v2/media
    GET PUT /api/v1/media/{}
    GET /api/v1/timelines/home
    GET /api/v1/timelines/public
    GET /api/v1/timelines/tag/{}
    GET /api/v1/timelines/list/{}
    GET /api/v1/favourites
    GET /api/v1/bookmarks
    GET /api/v1/conversations
    POST /api/v1/conversations/{}/read
    DELETE /api/v1/conversations/{}
    GET /api/v1/tags/{}
    POST /api/v1/tags/{}/follow
    POST /api/v1/tags/{}/unfollow
    POST /api/v1/tags/{}/feature
    POST /api/v1/tags/{}/unfeature
    GET /api/v1/followed_tags
    GET POST /api/v1/featured_tags
    DELETE /api/v1/featured_tags/{}
    GET /api/v1/featured_tags/suggestions
    GET POST /api/v1/lists
    GET PUT DELETE /api/v1/lists/{}
    GET POST DELETE /api/v1/lists/{}/accounts
    GET /api/v2/search
    GET /api/v1/search
    GET /api/v2/suggestions
    GET /api/v1/suggestions
    DELETE /api/v1/suggestions/{}
    GET /api/v1/trends/tags
    GET /api/v1/trends
    GET /api/v1/trends/statuses
    GET /api/v1/notifications
    GET /api/v1/notifications/{}
    POST /api/v1/notifications/clear
    POST /api/v1/notifications/{}/dismiss
    POST /api/v1/notifications/dismiss
    GET /api/v1/notifications/unread_count
    GET /api/v2/notifications
    GET /api/v2/notifications/{}
    GET /api/v2/notifications/{}/accounts
    POST /api/v2/notifications/{}/dismiss
    GET /api/v2/notifications/unread_count
    GET POST /api/v1/markers
    GET /api/v1/preferences
    GET POST /api/v2/filters
    GET PUT DELETE /api/v2/filters/{}
    GET POST /api/v2/filters/{}/keywords
    GET PUT DELETE /api/v2/filters/keywords/{}
    GET POST /api/v2/filters/{}/statuses
    GET DELETE /api/v2/filters/statuses/{}
    GET POST /api/v1/filters
    GET PUT DELETE /api/v1/filters/{}
    POST /api/v1/reports
    GET /api/v1/admin/accounts
    GET /api/v2/admin/accounts
    GET /api/v1/admin/accounts/{}
    POST /api/v1/admin/accounts/{}/action
    GET /api/v1/admin/reports
    GET /api/v1/admin/reports/{}
    POST /api/v1/admin/reports/{}/resolve
    GET POST /api/v1/admin/email_domain_blocks
    GET DELETE /api/v1/admin/email_domain_blocks/{}
    GET POST /api/v1/admin/canonical_email_blocks
    POST /api/v1/admin/canonical_email_blocks/test
    GET DELETE /api/v1/admin/canonical_email_blocks/{}
    GET POST /api/v1/admin/ip_blocks
    GET PUT DELETE /api/v1/admin/ip_blocks/{}
    GET /api/v1/streaming/user
    GET /api/v1/streaming/user/notification
    GET /api/v1/streaming/public
    GET /api/v1/streaming/public/local
    GET /api/v1/streaming/public/remote
    GET /api/v1/streaming/hashtag
    GET /api/v1/streaming/hashtag/local
    GET /api/v1/streaming/list
    GET /api/v1/streaming/direct
"""
"""Calls that existing clients or common user actions require."""

SHAPES = """
    GET /api/v1/instance/activity
    GET /api/v1/instance/peers
    GET /api/v1/instance/extended_description
    GET /api/v1/instance/translation_languages
    GET /api/v1/instance/languages
    GET /api/v1/custom_emojis
    GET /api/v1/announcements
    GET POST DELETE /api/v1/domain_blocks
    GET /api/v1/accounts/{}/endorsements
    GET /api/v1/trends/links
"""
"""Calls that clients make and that may return an empty result."""


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        *methods, path = line.split() or [""]
        yield from ((method, path) for method in methods)


def _bare(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


ROUTES = {(route.method, _bare(route.path)): route for route in table(Settings())}


def test_authorize_page_is_served_by_web_app() -> None:
    there = {route.method for route in pages(Settings()) if route.path == "/oauth/authorize"}
    assert there == {"GET", "POST"}


def test_mastodon_client_required_endpoints_are_implemented() -> None:
    missing = [pair for pair in _pairs(NEEDED) if pair not in ROUTES]
    assert missing == []
    assert [pair for pair in _pairs(NEEDED) if ROUTES[pair].stub] == []


def test_mastodon_client_optional_endpoints_have_routes() -> None:
    assert [pair for pair in _pairs(SHAPES) if pair not in ROUTES] == []


@pytest.fixture(scope="module")
def network() -> Iterator[NetworkFixture]:
    """A server that the tests do not modify."""
    with network_fixture() as made:
        yield made


def test_unsupported_mastodon_endpoints_return_json_404_or_405(network: NetworkFixture) -> None:
    section = PAGE.read_text().partition("## Out of scope")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z, ]+) \| `([^`]+)` \| [^|]+ \|$", section, re.MULTILINE)
    assert len(rows) > 10
    ann = network.join("ann")
    for methods, path in rows:
        for method in methods.split(", "):
            assert (method, _bare(path)) not in ROUTES
            answer = network.ask(method, re.sub(r"\{\w+\}", ann.id, path), ann)
            assert answer.status_code in {404, 405}, (method, path)
            assert "error" in answer.json()
