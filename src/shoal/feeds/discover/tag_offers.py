"""Tags that a newcomer may pick as interests, each with a picture; those first that most members used today and yesterday."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.filters import FilterContext
from shoal.core.model import MediaKind, MediaState, Post
from shoal.core.visibility import STRANGER, is_sensitive, may_list_publicly
from shoal.feeds.filtering import sieve_of
from shoal.feeds.hydrate import Entry, Row, Sight, sight
from shoal.feeds.reads import Reads
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import tastes_of
from shoal.graph.schema import TAG_OF, tag_id
from shoal.tagcloud.cloud import Word, check_words

_LOOKED_AT = 12
"""Newest posts under each tag among which a picture is looked for."""


class TagOffer(NamedTuple):
    """A tag that is offered, or was picked."""

    name: str
    uses: int
    picked: bool
    example: Entry | None
    """A recent post under it with a picture that everybody may see, another for each tag; None where there is none."""


async def offers(reads: Reads, viewer: int, limit: int = 40) -> list[TagOffer]:
    """Return the tags that the member has picked and, behind them, those that are offered: `limit` in all, unless more were picked.

    Five reads of the graph. Raises `InvalidInput` for a limit outside 1 to 200.
    """
    check_words(limit)
    with one_request():
        picked = (await tastes_of(reads.graph, viewer)).wishes.picked
        uses = await _uses(reads, picked)
        words = [*(await reads.tags.cloud("week")).words, *(await reads.tags.cloud("all")).words]
        words.sort(key=lambda word: (-word.reasons.members, -word.uses))
        offered = _first(words, limit, uses)
        names = [*uses, *offered]
        examples = await _examples(reads, viewer, names)
        return [TagOffer(name, (uses | offered)[name], name in uses, examples.get(name)) for name in names]


async def _uses(reads: Reads, picked: Sequence[str]) -> dict[str, int]:
    if not picked:
        return {}
    counted, shown = await reads.tags.counted(picked), await reads.tags.shown_as(picked)
    return {name: counted[name].uses if name in counted else 0 for name in picked if name in shown}


def _first(words: Sequence[Word], limit: int, picked: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        if len(picked) + len(found) >= limit:
            break
        if word.name not in picked:
            found.setdefault(word.name, word.uses)
    return found


async def _examples(reads: Reads, viewer: int, names: Sequence[str]) -> dict[str, Entry]:
    tags = {tag_id(name): name for name in names}
    lists = await reads.graph.assoc_ranges(list(tags), TAG_OF, Cursor(limit=_LOOKED_AT)) if tags else {}
    seen = sight(reads.graph, viewer, lasting=reads.lasting)
    ids = dict.fromkeys(row.id2 for rows in lists.values() for row in rows)
    rows = {row[0]: row for row in await seen.look(list(ids), has_media) if is_presentable(seen, row[1])}
    chosen: dict[str, Row] = {}
    for tag, name in tags.items():
        free = (rows.pop(entry.id2) for entry in lists.get(tag, ()) if entry.id2 in rows)
        if (row := next(free, None)) is not None:
            chosen[name] = row
    if not chosen:
        return {}
    sieve = await sieve_of(reads.graph, viewer, FilterContext.PUBLIC)
    admitted = await sieve.admitted(await seen.entries(list(chosen.values())))
    entries = {entry.id: entry for entry in admitted if not entry.filtered}
    return {name: entries[row[0]] for name, row in chosen.items() if row[0] in entries}


def has_media(row: Row) -> bool:
    """Return whether a post has pictures, videos or sounds."""
    return bool(row[1].media)


def is_presentable(seen: Sight, post: Post) -> bool:
    """Return whether a post may stand for a tag or its author: it has a picture, is for everybody, and its author may be found."""
    author = seen.members[post.author_id]
    pictures = [one for one in seen.media(post) if one.kind is MediaKind.IMAGE and one.state is MediaState.READY]
    open_ = may_list_publicly(None, post, author, STRANGER) and not is_sensitive(post, author)
    return bool(pictures) and open_ and author.discoverable and author.rankable
