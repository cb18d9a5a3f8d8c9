"""Tags and names, offered while they are typed."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import InvalidInput, Unavailable
from shoal.queries import search
from shoal.queries.search import ResultRange
from shoal.web import rows
from shoal.web.rendering import part
from shoal.web.views.people import Face, face_of
from shoal.web.visit import Visit

_OFFERED = 6


class WordQuery(msgspec.Struct, frozen=True):
    """A word as far as it is typed, with its `#` or `@`."""

    q: Annotated[str, Meta(max_length=200)] = ""


class Completion(msgspec.Struct, frozen=True):
    """A word that is offered."""

    word: str
    uses: str = ""
    face: Face | None = None


async def offer(visit: Visit, query: WordQuery) -> Response:
    """Words that begin so: tags with their uses, members with their faces. None while the index is away."""
    visit.member  # noqa: B018 (for members alone)
    try:
        offers = await (_people(visit, query.q[1:]) if query.q.startswith("@") else _tags(visit, query.q))
    except (Unavailable, InvalidInput):
        offers = []
    return part(visit, "suggestions", offers=offers)


async def _people(visit: Visit, text: str) -> list[Completion]:
    found = await search.members(visit.front.reads, visit.viewer_id, text, ResultRange(_OFFERED, 0)) if text else []
    return [Completion(f"@{one.member.name}", face=face_of(visit, one.member)) for one in found]


async def _tags(visit: Visit, text: str) -> list[Completion]:
    reads = visit.front.reads
    names = await search.tags(reads, visit.viewer_id, text, ResultRange(_OFFERED, 0))
    counted = await reads.tags.counted(names) if names else {}
    words = visit.words

    def uses(name: str) -> str:
        n = counted[name].uses if name in counted else 0
        return words.plural("%(n)s post", "%(n)s posts", n) % {"n": words.number(n)} if n else ""

    return [Completion(f"#{counted[name].form if name in counted else name}", uses(name)) for name in names]


ROUTES = (rows.page("/compose/words", offer, WordQuery),)
