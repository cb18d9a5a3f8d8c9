"""Commands for a member's filters, with their keywords and posts.

Keywords and posts are part of the filter object, so a change is one object set, and concurrent changes are serialized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from shoal.commands.context import Claim, Writes, add_node, delete_owned, serialized
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import FiltersChanged
from shoal.core.filters import MAX_FILTERS, Filter, FilterAction, FilterContext, FilterKeyword, FilterPost
from shoal.core.ids import shard_of
from shoal.core.text import check_text
from shoal.graph.access import access_post, filters_of, own_object
from shoal.graph.contract import Batch, IdTaken, Reader
from shoal.graph.schema import OWNS_FILTER

MAX_KEYWORDS = 100
MAX_KEYWORDS_IN_ALL = 1_000
"""Keywords in all filters of a member: each is searched in every entry of every page."""
MAX_POSTS = 100
MAX_CHARACTERS = 200
"""Characters of a title or keyword."""

Change = Callable[[Filter], Filter]


class KeywordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword to add or, if `id` is given, to change; None keeps the current value."""

    id: int = 0
    keyword: str | None = None
    whole_word: bool | None = None
    gone: bool = False
    """Whether to delete the keyword instead."""


class FilterChange(msgspec.Struct, frozen=True, kw_only=True):
    """Values of a filter to set; None keeps the current value."""

    title: str | None = None
    contexts: Sequence[FilterContext] | None = None
    action: FilterAction | None = None
    irreversible: bool | None = None
    lasts: int | None = None
    """Seconds until the filter expires; negative for never."""
    words: Sequence[KeywordChange] = ()


async def create(writes: Writes, member_id: int, change: FilterChange) -> Filter:
    if change.title is None:
        raise InvalidInput("Title can't be blank", field="title")
    if change.contexts is None:
        raise InvalidInput(
            "Context must be at least one of home, notifications, public, thread and account", field="context"
        )
    shard = shard_of(member_id)
    empty = Filter(id=0, owner_id=member_id, title="")
    apply = _checked_change(writes, change)

    async def attempt(claim: Claim) -> Filter:
        owned = await filters_of(writes.graph, member_id)
        if len(owned) >= MAX_FILTERS:
            raise InvalidInput(f"a member has at most {MAX_FILTERS} filters", field="title")
        made = apply(empty)
        _check_ids(owned, made)
        _check_capacity(owned, made)

        def build(id_: int) -> tuple[Filter, Batch]:
            filter_ = replace(made, id=id_)
            batch = Batch(shard)
            claim(batch)
            batch.obj_add(filter_)
            batch.assoc_add(member_id, OWNS_FILTER, id_, id_)
            batch.emit(FiltersChanged(member_id=member_id))
            return filter_, batch

        return await add_node(writes, shard, build)

    return await serialized(writes, member_id, attempt)


async def update(writes: Writes, member_id: int, filter_id: int, change: FilterChange) -> Filter:
    """Change the given values of a filter. Raises `NotFound` for another member's filter."""
    return await _change(writes, member_id, filter_id, _checked_change(writes, change))


async def delete(writes: Writes, member_id: int, filter_id: int) -> None:
    await delete_owned(writes, Filter, OWNS_FILTER, member_id, filter_id, FiltersChanged(member_id=member_id))


async def add_post(writes: Writes, member_id: int, filter_id: int, post_id: int) -> FilterPost:
    """Make the filter match this post regardless of its text. Repeated calls have no further effect.

    Raises `NotFound` for another member's filter or a post that the member may not see, and `InvalidInput` for too many posts.
    """
    post = await access_post(writes.graph, member_id, post_id)

    def change(filter_: Filter) -> Filter:
        if any(filtered.post_id == post.id for filtered in filter_.posts):
            return filter_
        if len(filter_.posts) >= MAX_POSTS:
            raise InvalidInput(f"a filter has at most {MAX_POSTS} posts", field="status_id")
        return replace(filter_, posts=(*filter_.posts, FilterPost(writes.new_id(shard_of(member_id)), post.id)))

    changed = await _change(writes, member_id, filter_id, change)
    return next(filtered for filtered in changed.posts if filtered.post_id == post.id)


async def remove_post(writes: Writes, member_id: int, id_: int) -> None:
    """Remove a post from its filter, given its id within the filter. Raises `NotFound` if there is none."""
    filter_, _ = await filter_of_post(writes.graph, member_id, id_)

    def change(now: Filter) -> Filter:
        return replace(now, posts=tuple(filtered for filtered in now.posts if filtered.id != id_))

    await _change(writes, member_id, filter_.id, change)


async def filter_of_keyword(graph: Reader, member_id: int, id_: int) -> tuple[Filter, FilterKeyword]:
    """Return a keyword of this member by its id, and its filter. Raises `NotFound` if there is none."""
    for filter_ in await filters_of(graph, member_id):
        for word in filter_.keywords:
            if word.id == id_:
                return filter_, word
    raise NotFound("Record not found")


async def filter_of_post(graph: Reader, member_id: int, id_: int) -> tuple[Filter, FilterPost]:
    """Return a filtered post of this member by its id within the filter, and the filter. Raises `NotFound` if there is none."""
    for filter_ in await filters_of(graph, member_id):
        for filtered in filter_.posts:
            if filtered.id == id_:
                return filter_, filtered
    raise NotFound("Record not found")


async def _change(writes: Writes, member_id: int, filter_id: int, change: Change) -> Filter:
    """Apply a change to the current state of a filter. Nothing is stored if it makes no difference."""

    async def attempt(claim: Claim) -> Filter:
        before = await own_object(writes.graph, Filter, member_id, filter_id)
        after = change(before)
        if after == before:
            return before
        batch = Batch(shard_of(member_id))
        if not _ids(after) <= _ids(before):
            others = [other for other in await filters_of(writes.graph, member_id) if other.id != filter_id]
            _check_ids(others, after)
            _check_capacity(others, after)
            claim(batch)
        after = replace(after, version=before.version + 1)
        batch.obj_set(after)
        batch.emit(FiltersChanged(member_id=member_id))
        await writes.graph.commit(batch)
        return after

    return await serialized(writes, member_id, attempt)


def _checked_change(writes: Writes, change: FilterChange) -> Change:
    """Return a function that applies the change to a filter. Checks that do not depend on the filter run immediately."""
    title = None if change.title is None else _required_text(change.title, "title", "Title can't be blank")
    contexts = None if change.contexts is None else tuple(dict.fromkeys(change.contexts))
    if contexts == ():
        raise InvalidInput(
            "Context must be at least one of home, notifications, public, thread and account", field="context"
        )
    words = [_checked(word) for word in change.words]
    expires_at = None
    if change.lasts is not None:
        expires_at = 0 if change.lasts < 0 else writes.new_id.now() + change.lasts * 1_000

    def apply(filter_: Filter) -> Filter:
        action = filter_.action if change.action is None else change.action
        irreversible = filter_.irreversible if change.irreversible is None else change.irreversible
        return replace(
            filter_,
            title=filter_.title if title is None else title,
            contexts=filter_.contexts if contexts is None else contexts,
            action=action,
            # Only a filter that hides posts can drop them irreversibly; a filter with a warning shows them.
            irreversible=irreversible and action is FilterAction.HIDE,
            expires_at=filter_.expires_at if expires_at is None else expires_at,
            keywords=_with(writes, filter_, words),
        )

    return apply


def _checked(word: KeywordChange) -> KeywordChange:
    if word.gone or (word.keyword is None and word.id):
        return word
    return replace(word, keyword=_required_text(word.keyword or "", "keyword", "Keyword can't be blank"))


def _required_text(text: str, field: str, blank: str) -> str:
    text = check_text(text, field=field, maximum=MAX_CHARACTERS).strip()
    if not text:
        raise InvalidInput(blank, field=field)
    return text


def _with(writes: Writes, filter_: Filter, words: Iterable[KeywordChange]) -> tuple[FilterKeyword, ...]:
    """Return the keywords of a filter after these changes. Raises `NotFound` for a change of an unknown keyword."""
    keywords = {word.id: word for word in filter_.keywords}
    for word in words:
        if word.id and word.id not in keywords:
            raise NotFound("Record not found")
        if word.gone:
            keywords.pop(word.id, None)
            continue
        before = keywords.get(word.id) or FilterKeyword(writes.new_id(shard_of(filter_.owner_id)), "")
        keywords[before.id] = FilterKeyword(
            before.id,
            before.keyword if word.keyword is None else word.keyword,
            before.whole_word if word.whole_word is None else word.whole_word,
        )
    if len(keywords) > MAX_KEYWORDS:
        raise InvalidInput(f"a filter has at most {MAX_KEYWORDS} keywords", field="keywords_attributes")
    return tuple(keywords.values())


def _ids(filter_: Filter) -> set[int]:
    return {word.id for word in filter_.keywords} | {filtered.id for filtered in filter_.posts}


def _check_ids(others: Iterable[Filter], filter_: Filter) -> None:
    """Raise `IdTaken` if a keyword or post in another of the member's filters has an id that this filter uses too.

    Two processes may generate equal ids, and clients refer to keywords and posts by their ids alone, without the filter.
    """
    for other in others:
        for id_ in _ids(filter_) & _ids(other):
            raise IdTaken(id_)


def _check_capacity(others: Iterable[Filter], filter_: Filter) -> None:
    if sum(len(other.keywords) for other in others) + len(filter_.keywords) > MAX_KEYWORDS_IN_ALL:
        raise InvalidInput(
            f"the filters of a member have at most {MAX_KEYWORDS_IN_ALL} keywords together", field="keywords_attributes"
        )
