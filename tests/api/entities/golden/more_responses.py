"""More golden responses: relationships, polls, filters, moderation, notifications, search and the instance."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from shoal.commands import moderation
from shoal.core.model import Role
from tests.api.in_memory_network import SCOPES, NetworkFixture, Someone, picture

STAFF = ("read", "write", "profile", "admin:read", "admin:write")


def moderator(shoal: NetworkFixture, name: str, role: Role = Role.MODERATOR) -> Someone:
    """Register a member with a staff role, moderator by default, and a token with admin scopes."""
    made = shoal.join(name, STAFF)
    shoal.run(moderation.set_role(shoal.network.writes, made.member.id, role))
    shoal.settle()
    return made


def more_answers(shoal: NetworkFixture, ann: Someone, ben: Someone, status: str) -> dict[str, Any]:
    """Return one response per entity, keyed by file name. `ben` follows `ann`, the author of `status`."""
    mo, cara = moderator(shoal, "mo"), shoal.join("cara")
    about = {"display_name": "Lighthouse keeper"}
    shoal.json("PATCH", "/api/v1/accounts/update_credentials", cara, json=about)
    light = _written(shoal, cara, "lighthouse #lighthouse")
    shoal.json("POST", f"/api/v1/statuses/{status}/favourite", cara)
    shoal.json("POST", f"/api/v1/accounts/{cara.id}/follow", ben)
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
    shoal.settle()
    return {
        **_of_people(shoal, ann, ben, cara),
        **_of_statuses(shoal, ann, ben, status),
        **_of_filters(shoal, ann, light),
        **_of_moderation(shoal, ben, mo, cara, light),
        **_of_blocklists(shoal),
        **_of_notifications(shoal, ann, ben, mo),
        **_of_search(shoal, ann),
        **_of_the_server(shoal, ann),
    }


def _written(shoal: NetworkFixture, who: Someone, text: str, **more: object) -> Mapping[str, Any]:
    made: Mapping[str, Any] = shoal.json("POST", "/api/v1/statuses", who, json={"status": text, **more})
    shoal.settle()
    return made


def _of_people(shoal: NetworkFixture, ann: Someone, ben: Someone, cara: Someone) -> dict[str, Any]:
    dan = shoal.join("dan")
    shoal.json("PATCH", "/api/v1/accounts/update_credentials", dan, json={"locked": True})
    asked = shoal.json("POST", f"/api/v1/accounts/{dan.id}/follow", ben, json={"notify": True, "languages": ["en"]})
    shoal.json("POST", f"/api/v1/accounts/{dan.id}/note", ben, json={"comment": "a friend of a friend"})
    muting = shoal.json("POST", f"/api/v1/accounts/{dan.id}/mute", ann, json={"duration": 3600})
    familiar = shoal.json("GET", "/api/v1/accounts/familiar_followers", ann, params={"id[]": cara.id})
    return {
        "relationship_requested": asked,
        "relationship_muting": muting,
        "follow_request": shoal.json("GET", "/api/v1/follow_requests", dan)[0],
        "muted_account": shoal.json("GET", "/api/v1/mutes", ann)[0],
        "familiar_followers": familiar[0],
        "list": shoal.json("POST", "/api/v1/lists", ann, json={"title": "friends", "replies_policy": "followed"}),
        "featured_tag": shoal.json("POST", "/api/v1/featured_tags", ann, json={"name": "Dawn"}),
        "preferences": shoal.json("GET", "/api/v1/preferences", ann),
        "suggestion": shoal.json("GET", "/api/v2/suggestions", ann)[0],
        "received": shoal.json("GET", f"/api/shoal/v1/accounts/{ann.id}/received"),
        "session": shoal.json("GET", "/api/shoal/v1/sessions", ann)[0],
        "user_info": shoal.json("GET", "/oauth/userinfo", shoal.token(ann.app_id, ann.member.id, (*SCOPES, "profile"))),
    }


def _of_statuses(shoal: NetworkFixture, ann: Someone, ben: Someone, status: str) -> dict[str, Any]:
    poll = {"options": ["tea", "coffee"], "expires_in": 86_400, "multiple": True}
    asking = _written(shoal, ann, "tea or coffee?", poll=poll)
    voted = shoal.json("POST", f"/api/v1/polls/{asking['poll']['id']}/votes", ben, json={"choices": [0, 1]})
    shoal.settle()
    upload = shoal.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture())})
    later = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)).isoformat()
    said = {"spoiler_text": "soon", "media_ids": [upload["id"]], "scheduled_at": later}
    moving = shoal.json("POST", "/api/v1/markers", ann, json={"home": {"last_read_id": status}})
    return {
        "poll": voted,
        "poll_for_anybody": shoal.json("GET", f"/api/v1/polls/{asking['poll']['id']}"),
        "status_poll": shoal.json("GET", f"/api/v1/statuses/{asking['id']}", ben),
        "scheduled_status": _written(shoal, ann, "later", **said),
        "scheduled_poll": _written(shoal, ann, "tea again?", scheduled_at=later, poll=poll),
        "likers": shoal.json("GET", f"/api/shoal/v1/statuses/{status}/likers", ben),
        "marker": moving["home"],
    }


def _of_filters(shoal: NetworkFixture, ann: Someone, light: Mapping[str, Any]) -> dict[str, Any]:
    words = [{"keyword": "lighthouse", "whole_word": True}]
    wanted = {"title": "sea", "context": ["home", "public"], "expires_in": 3600, "keywords_attributes": words}
    made = shoal.json("POST", "/api/v2/filters", ann, json=wanted)
    here = f"/api/v2/filters/{made['id']}"
    held = shoal.json("POST", f"{here}/statuses", ann, json={"status_id": light["id"]})
    public = shoal.json("GET", "/api/v1/timelines/public", ann)
    return {
        "filter": shoal.json("GET", here, ann),
        "filter_keyword": shoal.json("GET", f"{here}/keywords", ann)[0],
        "filter_status": held,
        "filter_v1": shoal.json("GET", "/api/v1/filters", ann)[0],
        "status_filtered": next(one for one in public if one["id"] == light["id"]),
    }


def _of_moderation(
    shoal: NetworkFixture, ben: Someone, mo: Someone, cara: Someone, light: Mapping[str, Any]
) -> dict[str, Any]:
    said = {"account_id": cara.id, "status_ids": [light["id"]], "comment": "too bright"}
    report = shoal.json("POST", "/api/v1/reports", ben, json={**said, "category": "violation", "rule_ids": ["1"]})
    shoal.settle()
    shoal.json("POST", f"/api/v1/admin/reports/{report['id']}/assign_to_self", mo)
    return {
        "report": report,
        "admin_report": shoal.json("GET", f"/api/v1/admin/reports/{report['id']}", mo),
        "admin_account": shoal.json("GET", f"/api/v1/admin/accounts/{cara.id}", mo),
        "admin_tag": shoal.json("POST", "/api/v1/admin/trends/tags/spam/reject", mo),
    }


def _of_blocklists(shoal: NetworkFixture) -> dict[str, Any]:
    ada = moderator(shoal, "ada", Role.ADMIN)
    shoal.json("POST", "/api/v1/admin/email_domain_blocks", ada, json={"domain": "spam.example"})
    rude = {"email": "Ru.de+news@example.org"}
    network = {"ip": "203.0.113.7/24", "severity": "no_access", "comment": "scrapers", "expires_in": 3600}
    return {
        "admin_ip_block": shoal.json("POST", "/api/v1/admin/ip_blocks", ada, json=network),
        "admin_email_domain_block": shoal.json("GET", "/api/v1/admin/email_domain_blocks", ada)[0],
        "admin_canonical_email_block": shoal.json("POST", "/api/v1/admin/canonical_email_blocks", ada, json=rude),
    }


def _of_notifications(shoal: NetworkFixture, ann: Someone, ben: Someone, mo: Someone) -> dict[str, Any]:
    _written(shoal, ben, "@ann psst", visibility="direct")
    liked = {"types[]": "favourite"}
    grouped = shoal.json("GET", "/api/v2/notifications", ann, params=liked)
    in_part = shoal.json("GET", "/api/v2/notifications", ann, params={**liked, "expand_accounts": "partial_avatars"})
    return {
        "notification": shoal.json("GET", "/api/v1/notifications", ann, params=liked)[0],
        "notification_follow": shoal.json("GET", "/api/v1/notifications", ann, params={"types[]": "follow"})[0],
        "notification_report": shoal.json("GET", "/api/v1/notifications", mo, params={"types[]": "admin.report"})[0],
        "notification_group": grouped["notification_groups"][0],
        "notification_groups_partial": in_part,
        "notification_policy": shoal.json("GET", "/api/v2/notifications/policy", ann),
        "notification_policy_v1": shoal.json("GET", "/api/v1/notifications/policy", ann),
        "unread_count": shoal.json("GET", "/api/v1/notifications/unread_count", ann),
        "conversation": shoal.json("GET", "/api/v1/conversations", ann)[0],
    }


def _of_search(shoal: NetworkFixture, ann: Someone) -> dict[str, Any]:
    looked = {"q": "lighthouse"}
    return {
        "search": shoal.json("GET", "/api/v2/search", ann, params=looked),
        "search_v1": shoal.json("GET", "/api/v1/search", ann, params=looked),
    }


def _of_the_server(shoal: NetworkFixture, ann: Someone) -> dict[str, Any]:
    own = shoal.token(ann.app_id)
    return {
        "rule": shoal.json("GET", "/api/v1/instance/rules")[0],
        "activity": shoal.json("GET", "/api/v1/instance/activity")[0],
        "extended_description": shoal.json("GET", "/api/v1/instance/extended_description"),
        "language": shoal.json("GET", "/api/v1/instance/languages")[0],
        "web_finger": shoal.json("GET", "/.well-known/webfinger", params={"resource": "acct:ann@shoal.test"}),
        "nodeinfo_links": shoal.json("GET", "/.well-known/nodeinfo"),
        "error_of_oauth": shoal.ask("POST", "/oauth/token", json={"grant_type": "password"}).json(),
        "error_in_fields": shoal.ask("POST", "/api/v1/accounts", own, json={"username": "a b"}).json(),
    }
