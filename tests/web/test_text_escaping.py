"""Stored text on pages and in feeds is escaped, and does not change the direction of the following text."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from msgspec import inspect

from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared
from shoal import settings
from shoal.commands import (
    filters,
    held_content,
    members,
    moderation,
    oauth,
    posts,
    publishing,
    reactions,
    relationships,
    scheduled_posts,
)
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.commands.members import ProfileChange
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.ids import shard_of
from shoal.core.model import Post, Presentation
from shoal.core.publishing import CheckedMedia, HeldContent
from shoal.graph.contract import Batch
from shoal.mastodon_api.routes import table
from tests.api.in_memory_network import SCOPES, NetworkFixture, network_fixture
from tests.object_factories import KINDS, _fields
from tests.web.browser import Page, member, visitor
from tests.web.pictures import posted

MARKUP = "\u202e\"'--><hostile onload=1></script></textarea></title>&lt;hostile&gt; \u05e9\u05dc\u05d5\u05dd"
TEXT = {
    "Member": ("display_name", "note", "fields"),
    "Login": ("reason", "passkeys"),
    "Post": ("text", "spoiler"),
    "Revision": ("text", "spoiler", "options", "descriptions"),
    "Media": ("description",),
    "Poll": ("options",),
    "MemberList": ("title",),
    "Album": ("title", "description"),
    "Filter": ("title", "keywords"),
    "Report": ("comment",),
    "IpBlock": ("comment",),
    "App": ("name",),
    "BulkAction": ("reason",),
    "WebhookLog": ("deliveries",),
    "HeldContent": ("text", "data", "checked", "reason", "rule", "refusal"),
}
"""The fields of stored objects with free text of users."""
NOT_TEXT = {
    "Member": {
        "name",
        "avatar",
        "header",
        "default_language",
        "attribution_domains",
        "email_hash",
        "mentions",
        "location",
    },
    "Login": {"email", "password", "kept"},
    "Invitation": {"holds"},
    "Post": {"language", "tags", "json", "mentions", "kind", "presentation"},
    "Media": {
        "blurhash",
        "content_type",
        "details",  # cleaned; see test_photo_details.py
        "failure",
        "frame_rate",
        "key",
        "original_key",
        "preview_key",
        "sound",
    },
    "Report": {"category", "rule_ids"},
    "EmailDomainBlock": {"domain"},
    "CanonicalEmailBlock": {"digest"},
    "IpBlock": {"network"},
    "NameBlock": {"word"},
    "App": {"redirect_uris", "scopes", "website"},
    "Token": {"scopes", "use"},
    "ProductToken": {"scopes", "use"},
    "ExternalLink": {"issuer", "subject", "profile", "applying"},
    "AuthorizationCode": {"scopes", "redirect_uri", "challenge"},
    "AccountDeletion": {"name", "counts"},
    "ScheduledPost": {"refused"},
    "HeldContent": {"files", "visibility"},
    "EmailToken": {"address"},
    "ImportProgress": {"positions"},
    "PostKind": {"building", "image", "index", "link", "name", "pairs", "schema", "title"},  # written by admins
    "NamedFeed": {"declaration", "name", "title"},  # only in the API
    "StoredRules": {"rules"},  # written by admins; see test_moderation_rules.py
    "StoredReactions": {"reactions"},  # written by admins; see test_declared_reactions.py
    "BulkAction": {"query", "verb", "actor_name"},
    "Webhook": {
        "access",
        "delivered",
        "failing_id",
        "filter",
        "format",
        "lease",
        "position",
        "secrets",
        "types",
        "url",
    },
}
"""The other text fields: names, addresses, keys and codes with a restricted alphabet, and reasons written by the server."""


def hostile(value: Any, place: str) -> Any:
    """Return a value with the name of its field and markup added to each text."""
    match value:
        case str():
            return f"{value} [{place}] {MARKUP}"
        case msgspec.Struct():
            return msgspec.structs.replace(
                value, **{name: hostile(getattr(value, name), place) for name in value.__struct_fields__}
            )
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(hostile(one, place) for one in value))
        case tuple():
            return tuple(hostile(one, place) for one in value)
    return value


async def write_hostile_text(here: NetworkFixture) -> None:
    """Put markup into every text of every stored object."""
    graph = here.network.writes.graph
    for node in await here.network.store.obj_scan(0, 10_000):
        fields = TEXT.get(type(node).__name__, ())
        changed = {name: hostile(getattr(node, name), f"{type(node).__name__}.{name}") for name in fields}
        if isinstance(node, Post):
            changed["json"] = msgspec.json.encode({"said": hostile("", "Post.json")}).decode()
            changed["presentation"] = Presentation(title=hostile("", "Post.presentation"))
        if changed:
            batch = Batch(shard_of(node.id))
            batch.obj_set(msgspec.structs.replace(node, **changed, version=node.version + 1))
            await graph.commit(batch)


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    shown = f"Shoal {MARKUP}"
    with network_fixture(
        title=shown, description=shown, rules=(shown,), contact_email="a@example.org", invitations="members"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def subjects(here: NetworkFixture) -> Subjects:
    """Subjects for all pages, with markup in each text."""
    run, writes = here.run, here.writes
    hal, ann = member(here, "hal"), member(here, "ann", reason="Boats")
    for author in (hal, ann):
        fields = (("Home", "Harbour"),)
        change = ProfileChange(display_name=author.name.title(), note="Walks #sea @hal", fields=fields)
        run(members.update_profile(writes, author.id, change))
    sea = posted(here, ann, "Low tide at the #sea, @hal", 2)
    own = posted(here, hal, "My first #sea", 2)
    run(posts.update(writes, hal.id, own.id, Draft(text="My second #sea", media=own.media[:1])))
    run(posts.create(writes, ann.id, Draft(text="Warned #sea", spoiler="Storm")))
    run(posts.create(writes, ann.id, Draft(text="Which? #sea", poll=PollDraft(options=("Ebb", "Flow"), seconds=3_600))))
    for author in (hal, ann):
        run(reactions.like(writes, author.id, sea.id))
        run(posts.create(writes, author.id, Draft(text="I was there", parent_id=sea.id)))
    found = run(prepared(writes, "hal", "ann", "sea"))
    run(reactions.share(writes, ann.id, own.id))
    run(relationships.follow(writes, ann.id, hal.id))
    run(relationships.note(writes, hal.id, ann.id, hostile("", "private note")))
    run(moderation.sensitize(writes.because(hostile("", "strike")), ann.id))
    words = (KeywordChange(keyword="storm"),)
    run(filters.update(writes, hal.id, found.filter, FilterChange(words=words)))
    run(
        scheduled_posts.schedule(
            writes, hal.id, Draft(text=hostile("", "scheduled")), at=(time.time_ns() // 1_000_000) + 3_600_000
        )
    )
    described = CheckedMedia(id=1, description="a boat", preview_key="")
    held = HeldContent(id=0, owner_id=hal.id, kind="post", text="held", data="{}", checked=(described,))
    run(publishing.hold(writes, held))
    run(held_content.reject(writes, run(publishing.hold(writes, held)).held_id))
    here.settle()
    run(write_hostile_text(here))
    here.settle()
    return found


def wrong_in(html: str) -> list[str]:
    """Return the errors that stored text causes in a page: elements, attributes, and direction changes."""
    soup = BeautifulSoup(html, "lxml")
    wrong = [f"an element: {one}"[:300] for one in soup.find_all("hostile")]
    wrong += [f"an attribute: {one}"[:300] for one in soup.find_all(_has_a_hostile_attribute)]
    texts = [*(soup.body or soup).find_all(string=_TURNS), *(soup.title.find_all(string=_TURNS) if soup.title else ())]
    wrong += [
        f"not isolated: {text.strip()[:200]!r} in {text.parent}"[:400] for text in texts if not _is_isolated(text)
    ]
    return wrong


def _has_a_hostile_attribute(element: Tag) -> bool:
    return any("hostile" in name or name == "onload" for name in element.attrs)


_TURNS = re.compile("[\u202a-\u202e\u0590-\u05ff]")
_ISOLATES = re.compile("\u2068[^\u2069]*\u2069")
_APART = {"bdi", "textarea", "option", "script", "style", "pre"}


def _is_isolated(text: NavigableString) -> bool:
    if not _TURNS.search(_ISOLATES.sub("", str(text))):
        return True
    return any(one.name in _APART or one.get("dir") == "auto" for one in text.parents)


def _pages(here: NetworkFixture, subjects: Subjects) -> Iterator[tuple[str, Page]]:
    for name, paths in (("", STRANGERS), ("hal", MEMBERS)):
        browser = visitor(here, name)
        for path in paths.values():
            yield path, browser.open(path.format(**subjects._asdict()))


def test_hostile_text_on_pages_is_escaped_and_isolated(here: NetworkFixture, subjects: Subjects) -> None:
    wrong: dict[str, list[str]] = {}
    seen: set[str] = set()
    for path, page in _pages(here, subjects):
        assert page.status < 500, path
        seen |= set(_PLACES.findall(page.answer.text))
        if found := wrong_in(page.answer.text):
            wrong[path] = found
    assert not wrong, "\n".join(f"{path}: {one}" for path, found in wrong.items() for one in found)
    places = {f"{kind}.{name}" for kind, names in TEXT.items() for name in names} | {
        "private note",
        "strike",
        "scheduled",
    }
    assert places - seen <= _NOT_ON_PAGES


_PLACES = re.compile(r"\[((?:\w+\.\w+)|private note|strike|scheduled)\]")
_NOT_ON_PAGES = {
    "IpBlock.comment",  # only in the API of admins
    "Login.passkeys",  # a browser makes them
    "App.name",  # on the page of its authorization
    "Revision.options",  # the history shows the options as they are now
    "Revision.spoiler",  # as above
}


def test_stored_text_fields_are_classified_as_free_text_or_restricted() -> None:
    unknown = {
        f"{kind.__name__}.{field.name}"
        for kind in KINDS
        for field in _fields(kind)
        if _has_text(field.type) and field.name not in {*TEXT.get(kind.__name__, ()), *NOT_TEXT.get(kind.__name__, ())}
    }
    assert not unknown


def _has_text(of: inspect.Type) -> bool:
    match of:
        case inspect.StrType():
            return True
        case inspect.StructType(fields=fields) | inspect.NamedTupleType(fields=fields):
            return any(_has_text(field.type) for field in fields)
        case inspect.UnionType(types=types) | inspect.TupleType(item_types=types):
            return any(map(_has_text, types))
        case inspect.VarTupleType(item_type=item):
            return _has_text(item)
        case inspect.DictType(key_type=key, value_type=value):
            return _has_text(key) or _has_text(value)
    return False


def _html_in(value: Any) -> Iterator[str]:
    """Yield the strings of an API response that clients show as HTML."""
    if isinstance(value, list):
        for one in value:
            yield from _html_in(one)
    if isinstance(value, dict):
        for key, one in value.items():
            if isinstance(one, str) and (key in {"content", "value", "html"} or (key == "note" and "acct" in value)):
                yield one
            # The source of a profile is plain text.
            yield from _html_in(one if key != "source" else None)


def test_hostile_text_in_api_html_fields_is_escaped(here: NetworkFixture, subjects: Subjects) -> None:
    hal = here.run(members.find(here.writes, "hal"))
    assert hal is not None
    app = here.run(oauth.register(here.writes, hostile("", "App.name"), redirect_uris=("urn:x",), scopes=SCOPES)).app
    token = here.run(oauth.issue_token(here.writes, app.id, hal.id, (*SCOPES, "admin:read"))).text
    ids = [subjects.author_id, hal.id, subjects.id, subjects.own, subjects.report, subjects.list, subjects.filter]
    asked, wrong, html = 0, [], 0
    for route in (row for row in table(settings.load({})) if row.method == "GET" and not row.page):
        if "streaming" in route.path or "statistics" in route.path:
            continue
        for id_ in ids if "{id}" in route.path else ids[:1]:
            answer = here.ask("GET", route.path.replace("{id}", str(id_)), token, params={"q": "sea", "acct": "ann"})
            if "json" not in answer.headers.get("content-type", ""):
                continue
            asked += answer.status_code == 200
            assert answer.headers["X-Content-Type-Options"] == "nosniff", route.path
            for one in _html_in(answer.json()):
                html += 1
                wrong += [f"{route.path}: {found}" for found in wrong_in(one) if "not isolated" not in found]
    assert not wrong
    assert asked > 60
    assert html > 40


@pytest.mark.parametrize("path", ["/@ann.atom", "/@ann.rss", "/tags/sea.atom", "/tags/sea.rss"])
def test_hostile_text_in_feeds_is_escaped(here: NetworkFixture, subjects: Subjects, path: str) -> None:
    answer = visitor(here).open(path).answer
    assert answer.status_code == 200
    root = ET.fromstring(answer.text)  # noqa: S314 (made by ourselves)
    assert not [one for one in root.iter() if "hostile" in one.tag]
    contents = [
        one.text or "" for one in root.iter() if one.tag.rpartition("}")[2] in {"content", "description", "encoded"}
    ]
    assert any("hostile" in one for one in contents)
    assert not [found for one in contents for found in wrong_in(one) if "not isolated" not in found]


def test_hostile_app_name_on_authorization_page_is_escaped(here: NetworkFixture, subjects: Subjects) -> None:
    app = here.run(
        oauth.register(here.writes, hostile("Tide", "App.name"), redirect_uris=("https://app.example/",), scopes=SCOPES)
    ).app
    query = f"response_type=code&client_id={app.id}&redirect_uri=https://app.example/&scope=read"
    for name in ("", "hal"):
        page = visitor(here, name).open(f"/oauth/authorize?{query}")
        assert (page.status, "[App.name]" in page.answer.text, wrong_in(page.answer.text)) == (200, True, [])
