"""Statuses and accounts as JSON: the hot path of every timeline.

A status is joined from encoded fragments: its content, which changes only with an edit; its author, which changes only
with the profile or its counts; and its state for the viewer. The first two are cached together with their source
values, and reused while these are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from shoal.core.ids import now_ms
from shoal.core.model import App, Media, Member, Post, Share
from shoal.core.visibility import is_sensitive
from shoal.graph.cache.dependencies import good_until
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Reader
from shoal.graph.schema import POST_MARKS
from shoal.http.responses import raw
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities import statuses as entities
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.queries.hydration import EmojiCount, Entry, Profile, SharedBy
from shoal.queries.pipeline import filtered

_encode = msgspec.json.Encoder().encode

Reasons = entities.Ranking | entities.FeedExplanation
"""Why a post is at its position in a feed."""

_COUNTS = b',"replies_count":%d,"reblogs_count":%d,"favourites_count":%d'
WHOLE = -1
"""No limit on the data of a post."""
_STATE = (b"favourited", b"reblogged", *[mark.state.encode() for mark in POST_MARKS], b"muted")
_MUTED = 2 + len(POST_MARKS)
"""The bits of `flags` in `_tail`: one for each action in `_STATE`, then two more."""
_PINNED, _OWN = 1 << len(_STATE), 2 << len(_STATE)
_BOOLS = (b"false", b"true")


def _tail(flags: int, poll: bytes, filtered: bytes) -> bytes:
    """Return the last JSON fields of a status, which depend on the viewer, with placeholders for its counts (`_COUNTS`).

    `poll` and `filtered` are JSON, or placeholders for JSON. The bits of `flags` are the viewer's actions (`_STATE`),
    whether the post is pinned, and whether the viewer is its author.
    """
    state = b"".join(b',"%b":%b' % (name, _BOOLS[flags >> bit & 1]) for bit, name in enumerate(_STATE))
    pinned = b',"pinned":' + _BOOLS[bool(flags & _PINNED)] if flags & _OWN else b""
    return b',"poll":' + poll + _COUNTS + state + b',"filtered":' + filtered + pinned + b"}"


_TAILS = tuple(_tail(flags, b"%b", b"%b") for flags in range(2 * _OWN))
"""Tails by flags, with placeholders for the poll, the three counts and the filter matches."""
_PLAIN_TAILS = tuple(_tail(flags, b"null", b"[]") for flags in range(2 * _OWN))
"""Tails by flags for a status without poll and filter matches, which most statuses are. They have placeholders for the counts."""
_AUTHOR = b',"reblog":null,"account":'
_NO_EXTRAS = b'"quotes_count":0'
"""The end of the content of a status without `shoal`."""
_SHOWN = b',"reblog":'
_ANONYMOUS = b',"poll":%b' + _COUNTS + b"}"


def _weight(made: bytes) -> int:
    return 1 + len(made) // 1024


def _fits(viewer: int | None, post: Post, data: int) -> bool:
    """Return whether the status of a post includes its custom data: always for the author, else up to `data` bytes."""
    return post.author_id == viewer or data == WHOLE or 0 < len(post.json.encode()) <= data


def _as_shown(viewer: int | None, entry: Entry) -> Post:
    """Return the post as the viewer sees it.

    If moderators marked the author as sensitive, the post is sensitive for everyone but the author.
    """
    post, author = entry.post, entry.author.member
    if author.sensitized and viewer != author.id and is_sensitive(post, author):
        return replace(post, sensitive=True)
    return post


def _add_emoji(pieces: list[bytes], entry: Entry) -> None:
    """Insert the emoji reactions of a post before the closing brace of its JSON, which is the end of the last piece."""
    if entry.emoji:
        found = _encode(_counts(entry.emoji))
        pieces[-1] = b'%b,"reactions":%b,"pleroma":{"emoji_reactions":%b}}' % (pieces[-1][:-1], found, found)


def _with_reactions(content: bytes, entry: Entry) -> bytes:
    """Add the declared reactions of a post to `shoal`, which is the last key of its content if it is present."""
    found, start = _encode(_counts(entry.named)), content.removesuffix(_AUTHOR)
    if start.endswith(_NO_EXTRAS):
        return b'%b,"shoal":{"reactions":%b}%b' % (start, found, _AUTHOR)
    return b'%b,"reactions":%b}%b' % (start[:-1], found, _AUTHOR)


def _counts(counts: Iterable[EmojiCount]) -> list[entities.EmojiReaction]:
    return [entities.EmojiReaction(counted.emoji, counted.count, counted.me) for counted in counts]


class Presenter:
    """Encodes entries and profiles as JSON. There is a cache of about `size` KB for each kind of JSON fragment."""

    def __init__(self, graph: Reader, at: Addresses, size: int = 50_000, *, clock: Callable[[], int] = now_ms) -> None:
        self._graph = graph
        self._at = at
        self._clock = clock
        self._posts: Recent[int, tuple[Post, tuple[Media, ...], bytes]] = Recent(size)
        self._shares: Recent[int, tuple[Share, bytes]] = Recent(size)
        self._accounts: Recent[int, tuple[Member, tuple[int, int, int], bytes]] = Recent(size)
        self._apps: Recent[int, App] = Recent(1_000)
        self.memories: Mapping[str, Recent[Any, Any]] = {
            "post-json": self._posts,
            "share-json": self._shares,
            "account-json": self._accounts,
        }
        """The caches by name, which metrics report."""

    async def page(
        self, viewer: int | None, entries: Sequence[Entry], data: int = 0, *, filters_applied: bool = False
    ) -> bytes:
        """Return a JSON array of statuses.

        A status of another member includes its custom data if the data has at most `data` bytes.

        `filters_applied` means that the entries already contain the matches of the viewer's filters.
        """
        await self._learn_apps(entries)
        return self.present_page(viewer, entries if filters_applied else await self._filtered(viewer, entries), data)

    async def status(self, viewer: int | None, entry: Entry, data: int = WHOLE) -> bytes:
        await self._learn_apps((entry,))
        (entry,) = await self._filtered(viewer, (entry,))
        return self._status(viewer, entry, data)

    async def ranked_page(
        self, viewer: int | None, entries: Sequence[tuple[Entry, Reasons | None]], data: int = 0
    ) -> bytes:
        await self._learn_apps([entry for entry, _ in entries])
        return b"[%b]" % b",".join(self._status(viewer, entry, data, ranking) for entry, ranking in entries)

    async def each(self, viewer: int | None, entries: Sequence[Entry], data: int = 0) -> dict[int, bytes]:
        await self._learn_apps(entries)
        return {entry.id: self._status(viewer, entry, data) for entry in await self._filtered(viewer, entries)}

    def present_page(self, viewer: int | None, entries: Iterable[Entry], data: int = 0) -> bytes:
        """Return a JSON array of statuses. The apps of the statuses must be in the cache, unless the statuses do not show apps."""
        pieces: list[bytes] = []
        for entry in entries:
            pieces.append(b"," if pieces else b"[")
            self._write(pieces, viewer, entry, data)
        pieces.append(b"]" if pieces else b"[]")
        return b"".join(pieces)

    def account(self, profile: Profile) -> bytes:
        member = profile.member
        numbers = (profile.followers, profile.following, profile.posts)
        known = self._accounts.get(member.id)
        if known is not None and known[1] == numbers and (known[0] is member or known[0] == member):
            return known[2]
        made = _encode(serializers.account(profile, self._at))
        self._accounts.put(member.id, (member, numbers, made), _weight(made))
        return made

    def accounts(self, profiles: Iterable[Profile]) -> bytes:
        return b"[%b]" % b",".join(map(self.account, profiles))

    async def _filtered(self, viewer: int | None, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries, each with the filters of the viewer that match it, whatever their context."""
        return await filtered(self._graph, viewer, entries) if viewer is not None else entries

    async def _learn_apps(self, entries: Iterable[Entry]) -> None:
        known = self._apps.get
        missing = {id_ for entry in entries if (id_ := entry.post.app_id) and known(id_) is None}
        if missing:
            for app in (await self._graph.obj_get(list(missing))).values():
                if isinstance(app, App):
                    self._apps.put(app.id, app)

    def _status(self, viewer: int | None, entry: Entry, data: int, ranking: Reasons | None = None) -> bytes:
        pieces: list[bytes] = []
        self._write(pieces, viewer, entry, data, ranking)
        return b"".join(pieces)

    def _write(
        self,
        pieces: list[bytes],
        viewer: int | None,
        entry: Entry,
        data: int,
        ranking: Reasons | None = None,
    ) -> None:
        """Append the JSON of a status to `pieces`, which are joined once for the whole page."""
        post, share, sharer = _as_shown(viewer, entry), entry.share, entry.sharer
        content = self._content(entry, post, whole=bool(post.json) and _fits(viewer, post, data), ranking=ranking)
        if entry.named:
            content = _with_reactions(content, entry)
        if share is None or sharer is None:
            pieces += (content, self.account(entry.author), self._tail(viewer, entry, post.author_id))
            _add_emoji(pieces, entry)
            return
        pieces += (self._share(share, sharer, entry.shared_by), content, self.account(entry.author))
        pieces.append(self._tail(viewer, entry, post.author_id))
        _add_emoji(pieces, entry)
        pieces += (b',"account":', self.account(sharer))
        pieces.append(self._tail(viewer, entry, share.author_id, of_share=True))

    def _tail(self, viewer: int | None, entry: Entry, author: int, *, of_share: bool = False) -> bytes:
        """Encode the fields of a post or share that can change without an edit. A share has no poll and cannot be pinned."""
        counts = (entry.comments, entry.shares, entry.likes)
        view = None if of_share else entry.poll
        poll = b"null"
        if view is not None:
            now = self._clock()
            good_until(view.poll.expires_at, now)
            poll = _encode(serializers.poll(view, viewer, now))
        if viewer is None:
            return _ANONYMOUS % (poll, *counts)
        flags = entry.liked | entry.shared << 1 | entry.marks << 2 | entry.thread_muted << _MUTED
        flags |= (entry.pinned and not of_share) << _MUTED + 1 | (author == viewer) << _MUTED + 2
        if view is None and not entry.matches:
            return _PLAIN_TAILS[flags] % counts
        matches = [serializers.filter_result(match) for match in entry.matches]
        return _TAILS[flags] % (poll, *counts, _encode(matches))

    def _content(self, entry: Entry, post: Post, *, whole: bool, ranking: Reasons | None) -> bytes:
        """Encode the first fields of a status, up to its author.

        A status with custom data (`whole`) is cached under the negative id of its post.
        """
        media = entry.media
        shared_by = entry.shared_by if entry.share is None else None
        if shared_by is not None or ranking is not None:
            return _encode(self._telling(self._made(entry, post, whole=whole), shared_by, ranking))[:-1] + _AUTHOR
        name = -post.id if whole else post.id
        known = self._posts.get(name)
        # Compare identities first: the graph caches decoded objects, so they are usually identical.
        if known is not None and (known[0] is post or known[0] == post) and known[1] == media:
            return known[2]
        made = _encode(self._made(entry, post, whole=whole))[:-1] + _AUTHOR
        self._posts.put(name, (post, media, made), _weight(made))
        return made

    def _made(self, entry: Entry, post: Post, *, whole: bool) -> entities.StatusContent:
        app = self._apps.get(post.app_id) if post.app_id else None
        return serializers.content(post, entry.author.member.name, entry.media, app, self._at, data=whole)

    def _telling(
        self, content: entities.StatusContent, shared: SharedBy | None, ranking: Reasons | None = None
    ) -> entities.StatusContent:
        """Add the other sharers of a post and the reasons for its rank, which are not cached because they depend on the feed."""
        extras = entities.Extras() if isinstance(content.shoal, UnsetType) else content.shoal
        if shared is not None:
            accounts = [raw(self.account(profile)) for profile in shared.first]
            extras.shared_by = entities.SharedBy(accounts, shared.number)
        if isinstance(ranking, entities.Ranking):
            extras.ranking = ranking
        elif ranking is not None:
            extras.explanation = ranking
        content.shoal = extras
        return content

    def _share(self, share: Share, sharer: Profile, shared: SharedBy | None) -> bytes:
        if shared is not None:
            content = serializers.share_content(share, sharer.member.name, self._at)
            return _encode(self._telling(content, shared))[:-1] + _SHOWN
        known = self._shares.get(share.id)
        if known is not None and (known[0] is share or known[0] == share):
            return known[1]
        made = _encode(serializers.share_content(share, sharer.member.name, self._at))[:-1] + _SHOWN
        self._shares.put(share.id, (share, made), _weight(made))
        return made
