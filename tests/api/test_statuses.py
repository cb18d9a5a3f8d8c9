"""Statuses over HTTP: edits, history, context, languages and blank text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.errors import NotFound
from shoal.core.model import Media, Revision
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.schema import AssocType
from shoal.queries import posts as post_queries
from shoal.queries.posts import media_then
from tests.api.in_memory_network import NetworkFixture, picture

PLACE = {"latitude": 0.0, "longitude": -4.5}


@pytest.mark.parametrize(
    "sent",
    [
        {"json": {"shoal": {"place": None}}},
        {"json": {"shoal": {"place": {}}}},
        {"json": {"shoal": {"place": {"latitude": None, "longitude": None}}}},
        {"data": {"shoal[place]": ""}},
        {"data": {"shoal[place][latitude]": "", "shoal[place][longitude]": ""}},
    ],
    ids=["null", "empty", "nulls", "an empty form field", "empty form fields"],
)
def test_status_edit_with_empty_place_removes_place(shoal: NetworkFixture, sent: dict[str, Any]) -> None:
    ann = shoal.join("ann")
    body = {"status": "here", "shoal": {"data": {"n": 1}, "place": PLACE}}
    post = shoal.json("POST", "/api/v1/statuses", ann, json=body)
    path = f"/api/v1/statuses/{post['id']}"
    assert shoal.json("PUT", path, ann, json={"status": "still here"})["shoal"]["place"] == PLACE
    assert shoal.json("PUT", path, ann, **sent)["shoal"] == {"data": {"n": 1}}
    assert shoal.json("POST", "/api/v1/statuses", ann, json={"status": "x", "shoal": {"place": None}})["id"]


def test_status_edit_narrows_visibility_and_refuses_to_widen_it(shared: NetworkFixture) -> None:
    ann, ben = shared.join("narrowing_ann"), shared.join("narrowing_ben")
    path = f"/api/v1/statuses/{shared.json('POST', '/api/v1/statuses', ann, json={'status': 'low tide'})['id']}"
    # Clients send the member's default visibility with each edit.
    assert shared.json("PUT", path, ann, json={"visibility": "direct"})["visibility"] == "public"
    narrow = shared.json("PUT", path, ann, data={"shoal[visibility]": "private"})
    assert (narrow["visibility"], narrow["edited_at"]) == ("private", None)
    assert len(shared.json("GET", f"{path}/history", ann)) == 1
    assert shared.ask("GET", path, ben).status_code == 404
    refused = shared.ask("PUT", path, ann, json={"shoal": {"visibility": "unlisted"}})
    assert refused.status_code == 422
    assert "an edit can only reduce the visibility" in refused.json()["error"]
    assert shared.ask("PUT", path, ann, json={"shoal": {"visibility": "public"}}).status_code == 422


class Shuffled:
    """A graph that returns revisions in a given order that differs from the order of their ids."""

    def __init__(self, graph: Any, order: list[int]) -> None:
        self._graph = graph
        self._order = order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        ids = self._order if at.oldest_first else self._order[::-1]
        return [Assoc(id_, 0, b"") for id_ in ids][: at.limit]


def test_status_history_is_ordered_by_time_and_limited(shared: NetworkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = shared.join("revising_ann"), shared.join("revising_ben")
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "0", "visibility": "private"})
    id_ = int(post["id"])
    for n in range(1, 5):
        shared.json("PUT", f"/api/v1/statuses/{id_}", ann, json={"status": str(n)})
    store: Any = shared.network.store
    found = shared.run(post_queries.revisions(store, ann.member.id, id_))
    assert [revision.text for revision in found] == ["0", "1", "2", "3"]
    ids = [revision.id for revision in found]
    shuffled: Any = Shuffled(store, [ids[2], ids[0], ids[3], ids[1]])
    told = shared.run(post_queries.revisions(shuffled, ann.member.id, id_))
    assert [revision.text for revision in told] == ["2", "0", "3", "1"]
    monkeypatch.setattr(post_queries, "MAX_REVISIONS", 2)
    found = shared.run(post_queries.revisions(store, ann.member.id, id_))
    assert [revision.text for revision in found] == ["2", "3"]
    said = shared.json("GET", f"/api/v1/statuses/{id_}/history", ann)
    assert [edit["content"] for edit in said] == ["<p>2</p>", "<p>3</p>", "<p>4</p>"]
    with pytest.raises(NotFound):
        shared.run(post_queries.revisions(store, ben.member.id, id_))


def test_status_context_of_long_thread_links_to_remaining_replies(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    root = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "root"})["id"]
    made = [
        shoal.json("POST", "/api/v1/statuses", ben, json={"status": str(n), "in_reply_to_id": root})["id"]
        for n in range(63)
    ]
    last = shoal.json("POST", "/api/v1/statuses", ben, json={"status": "deep", "in_reply_to_id": made[-1]})["id"]
    path = f"/api/v1/statuses/{root}/context"
    whole = shoal.json("GET", path, ann)
    assert [one["id"] for one in whole["descendants"]] == [*made, last]
    assert "shoal" not in whole
    part = shoal.json("GET", path)
    assert [one["id"] for one in part["descendants"]] == [*made[-59:], last]
    found, address = [], part["shoal"]["replies"]
    while address:
        page = shoal.ask("GET", address)
        found += [one["id"] for one in page.json()]
        address = page.links.get("next", {}).get("url")
    assert found == made[::-1]
    assert [one["id"] for one in shoal.json("GET", f"/api/shoal/v1/statuses/{made[-1]}/replies", ann)] == [last]
    secret = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "psst", "visibility": "direct"})["id"]
    assert shoal.ask("GET", f"/api/shoal/v1/statuses/{secret}/replies", ben).status_code == 404


def test_status_context_without_token_is_limited_to_60_ancestors_and_60_descendants(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    chain = [shoal.json("POST", "/api/v1/statuses", ann, json={"status": "0"})["id"]]
    for n in range(1, 123):
        post = {"status": str(n), "in_reply_to_id": chain[-1]}
        chain.append(shoal.json("POST", "/api/v1/statuses", ann, json=post)["id"])
    found = shoal.json("GET", f"/api/v1/statuses/{chain[61]}/context")
    assert [one["id"] for one in found["ancestors"]] == chain[1:61]
    assert [one["id"] for one in found["descendants"]] == chain[62:122]
    whole = shoal.json("GET", f"/api/v1/statuses/{chain[61]}/context", ann)
    assert len(whole["ancestors"]) + len(whole["descendants"]) == 122


def test_status_with_allowed_mentions_refuses_other_mentions(shoal: NetworkFixture) -> None:
    ann, ben, eve = shoal.join("ann"), shoal.join("ben"), shoal.join("eve")
    text, later = "Only for @ben, not @eve", (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for allowed, unexpected in (([ben.id], [eve.id]), ([], [ben.id, eve.id]), ([ann.id, eve.id], [ben.id])):
        for when in ({}, {"scheduled_at": later}):
            before = shoal.state()
            body = {"status": text, "allowed_mentions": allowed, **when}
            answer = shoal.ask("POST", "/api/v1/statuses", ann, json=body)
            assert answer.status_code == 422
            assert answer.json()["error"] == "Post would be sent to unexpected accounts"
            assert [one["id"] for one in answer.json()["unexpected_accounts"]] == unexpected
            assert shoal.state() == before
    for allows in ({"allowed_mentions": [ben.id, eve.id]}, {}):
        made = shoal.json("POST", "/api/v1/statuses", ann, json={"status": text, **allows})
        assert [one["id"] for one in made["mentions"]] == [ben.id, eve.id]
    planned = {"status": text, "allowed_mentions": [ben.id, eve.id], "scheduled_at": later}
    assert shoal.json("POST", "/api/v1/statuses", ann, json=planned)["params"]["text"] == text


NO_LANGUAGES = (
    "startrek_it",
    "__",
    "e n",
    '"><script>',
    "english language",
    "\u65e5\u672c\u8a9e",
    "a-DE",
    "qq",
    "en-Xxxx-QZ",
    "x" * 36,
)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [("en", "en"), ("pt-br", "pt-BR"), ("zh-hant", "zh-Hant"), ("de_DE", "de-DE"), ("zh-YUE", "yue"), ("ldn", "ldn")],
)
def test_status_language_is_stored_in_canonical_form(shared: NetworkFixture, typed: str, shown: str) -> None:
    writer = shared.join(f"lang_{typed.replace('-', '_')}")
    assert shared.json("POST", "/api/v1/statuses", writer, json={"status": "x", "language": typed})["language"] == shown


def test_status_language_invalid_falls_back_to_default_of_author(shared: NetworkFixture) -> None:
    writer = shared.join("no_language")
    for default in (None, "de"):
        shared.json(
            "PATCH", "/api/v1/accounts/update_credentials", writer, json={"source": {"language": default or ""}}
        )
        for typed in NO_LANGUAGES[:-1]:
            made = shared.json("POST", "/api/v1/statuses", writer, json={"status": "x", "language": typed})
            assert made["language"] == default, typed


@pytest.mark.parametrize("typed", NO_LANGUAGES)
def test_default_language_invalid_is_refused(shared: NetworkFixture, typed: str) -> None:
    writer = shared.join(f"default_{NO_LANGUAGES.index(typed)}")
    answer = shared.ask("PATCH", "/api/v1/accounts/update_credentials", writer, json={"source": {"language": typed}})
    assert answer.status_code == 422
    assert "language" in answer.text


def test_status_language_stored_invalid_is_returned_as_null(
    shared: NetworkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = shared.join("old_language")
    with monkeypatch.context() as before:
        before.setattr("shoal.commands.posts.language_tag", str)
        made = shared.run(posts.create(shared.writes, writer.member.id, Draft(text="x", language="startrek_it")))
    assert shared.json("GET", f"/api/v1/statuses/{made.id}", writer)["language"] is None
    edited = shared.json("PUT", f"/api/v1/statuses/{made.id}", writer, json={"status": "y"})
    assert (edited["content"], edited["language"]) == ("<p>y</p>", None)


INVISIBLE = {
    "a zero-width space": "\u200b",
    "joiners": "\u200d\u200c",
    "a byte order mark": "\ufeff",
    "a word joiner": "\u2060",
    "a soft hyphen": "\u00ad",
    "a Hangul filler": "\u3164",
    "a half-width filler": "\uffa0",
    "a braille blank": "\u2800",
    "Egyptian blanks": "\U00013441\U00013442",
    "an override": "\u202e",
    "an isolate": "\u2066\u2069",
    "a tag character": "\U000e0041",
    "a variation selector": "\ufe0f",
    "a grapheme joiner": "\u034f",
    "an invisible plus": "\u2064",
    "an annotation anchor": "\ufff9",
    "spaces of all kinds": " \u00a0\u2003\u3000\u1680\n\t",
    "several": "\u200b \u3164\n\u2800",
}


@pytest.mark.parametrize("kind", INVISIBLE)
def test_text_without_visible_characters_is_treated_as_blank(shared: NetworkFixture, kind: str) -> None:
    text, writer = INVISIBLE[kind], shared.join(f"blank{list(INVISIBLE).index(kind)}")
    poll = {"options": ["a", text], "expires_in": 300}
    for path, sent in (
        ("/api/v1/statuses", {"status": text}),
        ("/api/v1/statuses", {"status": "p", "poll": poll}),
        ("/api/v1/statuses", {"status": "p", "poll": {"options": ["yes", f"yes{text}"], "expires_in": 300}}),
        ("/api/v1/lists", {"title": text}),
        ("/api/v1/apps", {"client_name": text, "redirect_uris": "urn:x"}),
        ("/api/shoal/v1/albums", {"title": text}),
        ("/api/v2/filters", {"title": text, "context": ["home"]}),
        ("/api/v2/filters", {"title": "t", "context": ["home"], "keywords_attributes": [{"keyword": text}]}),
    ):
        answer = shared.ask("POST", path, writer, json=sent)
        assert answer.status_code == 422, (path, answer.text)
    changed = {"display_name": text, "note": text, "fields_attributes": [{"name": text, "value": text}]}
    account = shared.json("PATCH", "/api/v1/accounts/update_credentials", writer, json=changed)
    assert (account["display_name"], account["note"], account["fields"]) == ("", "", [])
    warned = shared.json("POST", "/api/v1/statuses", writer, json={"status": "p", "spoiler_text": text})
    assert (warned["spoiler_text"], warned["sensitive"]) == ("", False)


def test_status_text_of_emoji_with_joiners_or_variation_selectors_is_accepted(shared: NetworkFixture) -> None:
    writer = shared.join("visible")
    for text in ("\U0001f468\u200d\U0001f469", "\u2764\ufe0f", "\u0645\u06cc\u200c\u062e", "."):
        assert shared.ask("POST", "/api/v1/statuses", writer, json={"status": text}).status_code == 200


@pytest.mark.parametrize(
    ("written", "edit", "sensitive"),
    [
        ({"spoiler_text": "careful"}, {"spoiler_text": ""}, False),
        ({"spoiler_text": "careful"}, {"spoiler_text": "\u200b"}, False),
        ({"spoiler_text": "careful", "sensitive": True}, {"spoiler_text": ""}, False),
        ({"spoiler_text": "careful"}, {"spoiler_text": "", "sensitive": True}, True),
        ({"spoiler_text": "careful"}, {}, True),
        ({"sensitive": True}, {}, True),
        ({"sensitive": True}, {"spoiler_text": ""}, True),
        ({"sensitive": True}, {"sensitive": False}, False),
    ],
)
def test_status_edit_that_removes_spoiler_text_clears_sensitive_flag(
    shared: NetworkFixture, written: dict[str, Any], edit: dict[str, Any], sensitive: bool
) -> None:
    writer = shared.join(f"warning{shared.network.writes.new_id(0) % 10**9}")
    made = shared.json("POST", "/api/v1/statuses", writer, json={"status": "x", **written})
    edited = shared.json("PUT", f"/api/v1/statuses/{made['id']}", writer, json={"status": "x", **edit})
    assert edited["sensitive"] is sensitive


def test_status_has_up_to_ten_photos_when_created_edited_and_scheduled(shared: NetworkFixture) -> None:
    writer = shared.join("egret")
    offered = shared.json("GET", "/api/v2/instance")["configuration"]["statuses"]["max_media_attachments"]
    upload = {"file": ("a.png", picture())}
    ids = [shared.json("POST", "/api/v2/media", writer, files=upload)["id"] for _ in range(offered + 1)]
    made = shared.json("POST", "/api/v1/statuses", writer, json={"status": "all", "media_ids": ids[:offered]})
    assert [media["id"] for media in made["media_attachments"]] == ids[:10]
    path = f"/api/v1/statuses/{made['id']}"
    edited = shared.json("PUT", path, writer, json={"status": "turned", "media_ids": ids[offered:0:-1]})
    assert [media["id"] for media in edited["media_attachments"]] == ids[:0:-1]
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    plan = {"status": "later", "media_ids": ids[:offered], "scheduled_at": later}
    scheduled = shared.json("POST", "/api/v1/statuses", writer, json=plan)
    assert [media["id"] for media in scheduled["media_attachments"]] == ids[:10]
    for method, where, more in (
        ("POST", "/api/v1/statuses", {}),
        ("PUT", path, {}),
        ("POST", "/api/v1/statuses", plan),
    ):
        refused = shared.ask(method, where, writer, json={**more, "status": "more", "media_ids": ids})
        assert (refused.status_code, "up to 10 photos (got 11)" in refused.text) == (422, True)


def test_status_history_keeps_media_descriptions_of_each_version(shared: NetworkFixture) -> None:
    writer = shared.join("heron")
    upload = {"file": ("a.png", picture())}
    held = shared.json("POST", "/api/v2/media", writer, files=upload, data={"description": "a heron"})["id"]
    other = shared.json("POST", "/api/v2/media", writer, files=upload, data={"description": "a reed"})["id"]
    made = shared.json("POST", "/api/v1/statuses", writer, json={"status": "look", "media_ids": [held, other]})["id"]
    edit = {
        "status": "look here",
        "media_ids": [held],
        "media_attributes": [{"id": held, "description": "a cormorant"}],
    }
    shared.json("PUT", f"/api/v1/statuses/{made}", writer, json=edit)
    shared.json("PUT", f"/api/v1/media/{held}", writer, json={"description": "a shag"})
    shared.json("PUT", f"/api/v1/statuses/{made}", writer, json={"status": "look there"})
    history = shared.json("GET", f"/api/v1/statuses/{made}/history", writer)
    described = [[media["description"] for media in version["media_attachments"]] for version in history]
    assert described == [["a heron", "a reed"], ["a shag"], ["a shag"]]


def test_status_history_without_stored_descriptions_uses_current_ones() -> None:
    media = {1: Media(id=1, owner_id=1, description="today"), 2: Media(id=2, owner_id=1, description="two")}
    assert [each.description for each in media_then(Revision(id=3, post_id=4, media=(1, 2)), media).values()] == [
        "today",
        "two",
    ]
    kept = Revision(id=3, post_id=4, media=(1, 5, 2), descriptions=("then", "gone", ""))
    assert {id_: each.description for id_, each in media_then(kept, media).items()} == {1: "then", 2: ""}
