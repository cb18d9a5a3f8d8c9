"""More about this server: its rules, its weeks in numbers, its languages."""

from __future__ import annotations

from html import escape
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities import moderation as moderation_entities
from shoal.api.entities import presenter
from shoal.api.entities.about import Activity, ExtendedDescription, Language
from shoal.api.entities.instance import CustomEmoji
from shoal.api.entities.moderation import Rule
from shoal.api.entities.statuses import Account
from shoal.commands import members
from shoal.core.errors import NotFound
from shoal.queries.hydration import profiles_by_id

_LANGUAGES = """
    ar العربية|bg Български|bn বাংলা|ca Català|cs Čeština|cy Cymraeg|da Dansk|de Deutsch|el Ελληνικά|en English|eo Esperanto
    es Español|et Eesti|eu Euskara|fa فارسی|fi Suomi|fr Français|fy Frysk|ga Gaeilge|gd Gàidhlig|gl Galego|he עברית|hi हिन्दी
    hr Hrvatski|hu Magyar|hy Հայերեն|id Bahasa Indonesia|is Íslenska|it Italiano|ja 日本語|ka ქართული|kk Қазақша|ko 한국어
    ku Kurdî|lt Lietuvių|lv Latviešu|mk Македонски|ml മലയാളം|mr मराठी|ms Bahasa Melayu|my ဗမာစာ|nb Norsk bokmål|nl Nederlands
    nn Norsk nynorsk|oc Occitan|pa ਪੰਜਾਬੀ|pl Polski|pt Português|ro Română|ru Русский|sk Slovenčina|sl Slovenščina|sq Shqip
    sr Српски|sv Svenska|sw Kiswahili|ta தமிழ்|te తెలుగు|th ไทย|tr Türkçe|uk Українська|ur اردو|vi Tiếng Việt|zh 中文
"""
LANGUAGES = [
    Language(*entry.strip().split(" ", 1)) for line in _LANGUAGES.strip().splitlines() for entry in line.split("|")
]
"""Languages that clients offer. A status may be in any other, too."""


class Domain(msgspec.Struct, frozen=True):
    """A server."""

    domain: Annotated[str, Meta(max_length=400)] = ""


async def rules(context: Context, _params: None) -> list[Rule]:
    """The rules of this server."""
    front = context.deps
    return moderation_entities.rules_of(front.settings)


async def activity(context: Context, _params: None) -> list[Activity]:
    """The last twelve weeks, this one first: statuses, members who wrote one, and members who came."""
    front = context.deps
    totals = await front.network_totals.totals()
    return [Activity(str(week.began), str(week.posts), str(week.authors), str(week.members)) for week in totals.weeks]


async def extended_description(context: Context, _params: None) -> ExtendedDescription:
    """Return the server's description of itself, as HTML."""
    front = context.deps
    return ExtendedDescription(None, f"<p>{escape(front.settings.description)}</p>")


async def languages(_context: Context, _params: None) -> list[Language]:
    """Languages for clients to offer."""
    return LANGUAGES


async def nothing(_context: Context, _params: None) -> object:
    """An empty list."""
    return b"[]"


async def no_translations(_context: Context, _params: None) -> object:
    """An empty object: nothing is translated."""
    return b"{}"


async def not_written(_context: Context, _params: None) -> object:
    """404: this server publishes no such text."""
    raise NotFound("Record not found")


async def no_domain(_context: Context, _params: Domain) -> object:
    """An empty object: there are no other servers to hear of, so none to block."""
    return b"{}"


async def contact(front: Front) -> Account | None:
    """The account of whom members may ask, where the setting names one."""
    name = front.settings.contact_account
    member = await members.find(front.writes, name) if name else None
    found = await profiles_by_id(front.graph, None, (member.id,)) if member else []
    return presenter.account(found[0], front.at) if found else None


_HERE = "/api/v1/instance"
_BLOCKS = "/api/v1/domain_blocks"

_none = rows.public.having(answer=list[Any], stub=True)
_none_for_members = rows.route.having(answer=list[Any], stub=True)
_not_written = rows.public.having(answer=ExtendedDescription, refuses=(404,), stub=True)
_no_block = rows.route.having(scope="write:blocks", answer=dict, stub=True).taking(Domain)

ROUTES = (
    rows.public("GET", f"{_HERE}/rules", rules, answer=list[Rule]),
    rows.public("GET", f"{_HERE}/activity", activity, answer=list[Activity]),
    rows.public("GET", f"{_HERE}/extended_description", extended_description, answer=ExtendedDescription),
    rows.public("GET", f"{_HERE}/languages", languages, answer=list[Language]),
    rows.public("GET", f"{_HERE}/translation_languages", no_translations, answer=dict, stub=True),
    _none("GET", f"{_HERE}/peers", nothing, what="An empty list: this server talks to no other."),
    _none("GET", f"{_HERE}/domain_blocks", nothing, what="An empty list: this server blocks no other."),
    _not_written("GET", f"{_HERE}/privacy_policy", not_written),
    _not_written("GET", f"{_HERE}/terms_of_service", not_written),
    _none(
        "GET",
        "/api/v1/custom_emojis",
        nothing,
        answer=list[CustomEmoji],
        what="An empty list: there are no custom emoji.",
    ),
    _none_for_members(
        "GET", "/api/v1/announcements", nothing, scope="read", what="An empty list: nothing is announced."
    ),
    _none_for_members(
        "GET", _BLOCKS, nothing, scope="read:blocks", what="An empty list: there are no other servers to block."
    ),
    _no_block("POST", _BLOCKS, no_domain),
    _no_block("DELETE", _BLOCKS, no_domain),
)
