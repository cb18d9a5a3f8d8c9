"""Responses of a populated server have exactly the keys that the OpenAPI document declares."""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from shoal.commands import account_deletions, declared_reactions, external_ids, kinds, moderation, posts, server_keys
from shoal.commands.posts import Draft
from shoal.core.errors import Held
from shoal.core.external_ids import ExternalId, ExternalKind
from shoal.core.kinds import KindDraft
from shoal.core.model import Role
from shoal.core.publishing import Checks
from shoal.core.reactions import Reaction
from shoal.http.openapi import document_of, name_of
from shoal.http.routes import Body, Route
from shoal.mastodon_api.routes import parts, table
from shoal.push.encryption import new_key
from shoal.settings import Settings
from tests.api.entities.golden import answers, small_network
from tests.api.in_memory_network import SCOPES, NetworkFixture, Someone, picture
from tests.moderation.checks import WordCheck
from tests.push.service import App

ENDLESS = "/api/v1/streaming"


def _is_no_json(answer: Any) -> bool:
    return isinstance(answer, Body) and answer.shape is None


READING = [
    route
    for route in table(Settings())
    if route.method == "GET" and not _is_no_json(route.answer) and not route.path.startswith(ENDLESS)
]
QUERIES = {
    "/api/v1/accounts/lookup": {"acct": "ann"},
    "/api/v1/accounts": {"id[]": "{account}"},
    "/api/v1/accounts/relationships": {"id[]": "{account}"},
    "/api/v1/accounts/familiar_followers": {"id[]": "{account}"},
    "/api/v1/accounts/search": {"q": "lighthouse"},
    "/api/v1/statuses": {"id[]": "{status}"},
    "/api/v1/markers": {"timeline[]": "home"},
    "/api/shoal/v1/timelines/nearby": {"latitude": "54.3", "longitude": "10.1"},
    "/api/v1/search": {"q": "lighthouse"},
    "/api/v2/search": {"q": "lighthouse"},
    "/api/shoal/v1/events": {"after": "start", "limit": "200"},
    "/.well-known/webfinger": {"resource": "acct:ann@shoal.test"},
}
"""Query parameters required for a useful response."""

NOUNS = {
    "filters/keywords": "keyword",
    "filters/statuses": "filter_status",
    "v1/filters": "keyword",
    "v2/filters": "filter",
    "v2/notifications": "group",
    "v1/notifications/requests": "request",
    "v1/notifications": "notification",
    "scheduled_statuses": "scheduled",
    "statuses": "status",
    "media": "media",
    "polls": "poll",
    "albums": "album",
    "invites": "invite",
    "lists": "list",
    "timelines/list": "list",
    "reports": "report",
    "email_domain_blocks": "email_domain",
    "canonical_email_blocks": "email",
    "ip_blocks": "network",
    "webhooks": "webhook",
    "held": "held",
    "moderation_rules": "rule",
    "v1/feeds": "feed",
    "bulk_actions": "bulk",
}
"""Object type of the id in a path, by the words before it; the first match applies, the default is account."""

NOT_WRITTEN = ("/api/v1/instance/privacy_policy", "/api/v1/instance/terms_of_service")
"""These routes return 404 because the text is not set."""


def closed(value: Any) -> Any:
    """Return the schema with `additionalProperties: false` in every object."""
    if isinstance(value, dict):
        inner = {key: closed(each) for key, each in value.items()}
        return {**inner, "additionalProperties": False} if isinstance(value.get("properties"), dict) else inner
    return [closed(each) for each in value] if isinstance(value, list) else value


DOCUMENT = document_of(parts(Settings()))
COMPONENTS = closed(copy.deepcopy(DOCUMENT["components"]))


class Cast:
    """A server with one object of each type."""

    def __init__(self, shoal: NetworkFixture) -> None:
        self.shoal = shoal
        answers(shoal)
        self.carol = shoal.join("carol", (*SCOPES, "profile", "admin:read", "admin:write"))
        shoal.run(moderation.set_role(shoal.network.writes, self.carol.member.id, Role.ADMIN))
        upload = shoal.json("POST", "/api/v2/media", self.carol, files={"file": ("a.png", picture())})
        said = {"status": "look at the lighthouse #dawn @ann", "media_ids": [upload["id"]]}
        status = shoal.json("POST", "/api/v1/statuses", self.carol, json=said)
        for verb in ("favourite", "bookmark"):
            shoal.json("POST", f"/api/v1/statuses/{status['id']}/{verb}", self.carol)
        shoal.json("PUT", f"/api/v1/statuses/{status['id']}/react/👍", self.carol)
        self.things = {"account": self.carol.id, "status": status["id"], "media": upload["id"]}
        shoal.json("POST", f"/api/v1/accounts/{self._id('ann')}/follow", self.carol)
        shoal.json("POST", f"/api/v1/accounts/{self._id('ben')}/mute", self.carol)
        dora = shoal.join("dora")
        self._make("list", "/api/v1/lists", title="friends")
        album = self._make("album", "/api/shoal/v1/albums", title="Ebb and flow")
        self._made(f"/api/shoal/v1/albums/{album['id']}/photos", status_id=status["id"])
        self._make("invite", "/api/shoal/v1/invites")
        later = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)).isoformat()
        self._make("scheduled", "/api/v1/statuses", status="later", scheduled_at=later)
        asking = self._made("/api/v1/statuses", status="tea?", poll={"options": ["yes", "no"], "expires_in": 3600})
        self.things["poll"] = asking["poll"]["id"]
        words = [{"keyword": "lighthouse", "whole_word": True}]
        made = self._make("filter", "/api/v2/filters", title="sea", context=["home"], keywords_attributes=words)
        self.things["keyword"] = made["keywords"][0]["id"]
        self._make("filter_status", f"/api/v2/filters/{made['id']}/statuses", status_id=status["id"])
        self._make("report", "/api/v1/reports", account_id=self._id("ben"), comment="rude")
        self._make("email_domain", "/api/v1/admin/email_domain_blocks", domain="junk.example")
        self._make("email", "/api/v1/admin/canonical_email_blocks", email="ruder@example.org")
        self._make("network", "/api/v1/admin/ip_blocks", ip="198.51.100.0/24", severity="no_access", expires_in=3600)
        self._make("rule", "/api/shoal/v1/admin/moderation_rules", name="Boats", words=["boat"])
        self._made("/api/shoal/v1/admin/moderation_rules/dry_run", days=1)
        parts = [{"from": "everybody"}, {"from": "tag", "tag": "dawn"}]
        self._make("feed", "/api/shoal/v1/admin/feeds", name="all", declaration={"sources": parts})
        best = {"sources": parts, "order": {"by": "expression", "expression": "likes + 1"}}
        self._made("/api/shoal/v1/admin/feeds", name="best", declaration=best)
        self._make("bulk", "/api/shoal/v1/admin/bulk_actions", action="hide", words=["lighthouse"])
        self._made("/api/v1/markers", home={"last_read_id": status["id"]})
        self._made(f"/api/v1/lists/{self.things['list']}/accounts", account_ids=[self._id("ann")])
        self._made("/api/v1/featured_tags", name="dawn")
        self._made(f"/api/v1/accounts/{self._id('ann')}/endorse")
        self._made("/api/v1/tags/dawn/follow")
        shoal.json("POST", f"/api/v1/statuses/{status['id']}/favourite", dora)
        shoal.json("PUT", f"/api/v1/statuses/{status['id']}/react/👍", dora)
        shoal.json("POST", f"/api/v1/accounts/{self.carol.id}/follow", dora)
        shoal.json("POST", "/api/v1/statuses", dora, json={"status": "@carol psst", "visibility": "direct"})
        shoal.settle()
        notified = shoal.json("GET", "/api/v1/notifications", self.carol, params={"types[]": "favourite"})[0]
        self.things |= {"notification": notified["id"], "group": notified["group_key"]}
        self._hold_back(dora)
        wish = {"endpoint": "https://push.test/1", "keys": App().keys, "standard": True}
        self._made("/api/v1/push/subscription", subscription=wish, data={"policy": "none"})
        left = shoal.join("left")
        writes = shoal.network.writes
        shoal.run(kinds.declare(writes, KindDraft(name="dawn", schema={"type": "object"}, title="")))
        shoal.run(declared_reactions.declare(writes, Reaction(name="dawn", title="Dawn")))
        shoal.json("PUT", f"/api/shoal/v1/statuses/{status['id']}/reactions/dawn", dora)
        self.key = shoal.run(server_keys.create(writes, "shop", ("server", "server:webhooks"))).secret
        made = shoal.json("POST", "/api/shoal/v1/webhooks", self.key, json={"url": "https://127.0.0.1:1/hook"})
        shoal.json("POST", f"/api/shoal/v1/webhooks/{made['id']}/test", self.key)
        self.things["webhook"] = made["id"]
        shoal.run(external_ids.link(writes, self.carol.member.id, ExternalId("shop", self.carol.id)))
        linked = {ExternalId("shop", self.carol.id): int(status["id"])}
        shoal.run(external_ids.link_objects(writes, ExternalKind.POSTS, linked))
        checked = replace(writes, checks=Checks((WordCheck(),)))
        with pytest.raises(Held) as held:
            shoal.run(posts.create(checked, self.carol.member.id, Draft(text="please hold this")))
        self.things["held"] = str(held.value.held_id)
        self.things["receipt"] = shoal.run(account_deletions.dismiss(shoal.network.writes, left.member.id, 30)).receipt

    def _hold_back(self, stranger: Someone) -> None:
        """Filter a notification from an account that carol does not follow."""
        policy = {"for_not_following": "filter"}
        self.shoal.json("PATCH", "/api/v2/notifications/policy", self.carol, json=policy)
        self.shoal.json("POST", "/api/v1/statuses", stranger, json={"status": "@carol hello"})
        self.shoal.settle()
        self.things["request"] = self.shoal.json("GET", "/api/v1/notifications/requests", self.carol)[0]["id"]

    def _made(self, path: str, **body: object) -> dict[str, Any]:
        made: dict[str, Any] = self.shoal.json("POST", path, self.carol, json=body)
        return made

    def _make(self, noun: str, path: str, **body: object) -> dict[str, Any]:
        made = self._made(path, **body)
        self.things[noun] = made["id"]
        return made

    def _id(self, name: str) -> str:
        return str(self.shoal.json("GET", f"/api/v1/accounts/lookup?acct={name}")["id"])

    def path(self, route: Route) -> str:
        """Return the path of a route with the ids of existing objects."""
        noun = next((noun for words, noun in NOUNS.items() if f"/{words}/{{" in route.path), "account")
        filled = (
            re.sub(r"\{(name|tag)\}", "dawn", route.path).replace("{emoji}", "👍").replace("{type}", "post.created")
        )
        filled = (
            filled.replace("{receipt}", self.things["receipt"]).replace("{issuer}", "shop").replace("{kind}", "posts")
        )
        return re.sub(r"\{(id|group_key)\}", self.things[noun], filled)

    def query(self, route: Route) -> dict[str, str]:
        """Return the query parameters for a route."""
        return {key: value.format(**self.things) for key, value in QUERIES.get(route.path, {}).items()}


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    """Return one server for all routes."""
    with small_network(push_key=new_key(), invitations="members", event_log="on") as shoal:
        # Some keys are sent over https only.
        shoal.app_parts = replace(shoal.app_parts, base_url="https://shoal.test")
        shoal.show(shoal.app_parts.reads.tags)
        yield Cast(shoal)


@pytest.mark.parametrize("route", READING, ids=name_of)
def test_api_response_matches_openapi_schema_exactly(cast: Cast, route: Route) -> None:
    (told,) = DOCUMENT["paths"][route.path]["get"]["responses"]["200"]["content"].values()
    schema = {**closed(copy.deepcopy(told["schema"])), "components": COMPONENTS}
    token = cast.carol if route.auth != "app" else cast.shoal.token(cast.carol.app_id)
    callers = {"public": ("",), "optional": ("", token), "app": (token,), "user": (token,), "server": (cast.key,)}
    for caller in callers[route.auth]:
        answer = cast.shoal.ask("GET", cast.path(route), caller, params=cast.query(route))
        if route.path == "/openapi.json":
            assert answer.json() == DOCUMENT
            continue
        if route.path in NOT_WRITTEN:
            assert answer.status_code == 404
            continue
        assert answer.status_code == 200, answer.text
        errors = [
            f"{list(error.instance_path)}: {error.message}"
            for error in jsonschema_rs.validator_for(schema).iter_errors(answer.json())
        ]
        assert not errors, errors
