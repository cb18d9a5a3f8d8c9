"""Indexing: build index rows from graph objects, keep the index current, and fill it from the graph.

A caller that knows an object changed reports its id, and the object is read in its current state. Requests that arrive while rows
are being written are written together afterwards. After a write, the objects are read again; an object that changed during the
write, and whose row another process may have written, is written again. The last row of an object therefore always matches the
object.

An index is filled when it is empty, when its format changed, or on request. Filling iterates over all objects by id and saves its
progress. Changes during a fill arrive through their events.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from shoal.core.kinds import is_kind_name
from shoal.core.model import Media, Member, Node, Poll, Post, Visibility
from shoal.core.places import cells_of
from shoal.core.text import parse
from shoal.core.tokenizer import words_of
from shoal.graph.contract import MAX_TIME, Reader, Scanner
from shoal.graph.schema import AnyNode
from shoal.search.contract import FORM, PUBLIC, FillState, IndexChange, MemberRow, PostRow, SearchIndex, by, to, within

HAS_MEDIA = ":has:media"
HAS_POLL = ":has:poll"
HAS_LINK = ":has:link"
IS_REPLY = ":is:reply"
IS_SENSITIVE = ":is:sensitive"


def of_kind(kind: str) -> str:
    """Return the index term that marks posts of a kind; empty for a text that is no name of a kind."""
    return f":kind:{kind}" if is_kind_name(kind) else ""


def written_in(language: str) -> str:
    """Return the index term that marks posts in a language: `en-GB` counts as `en`. Empty for an invalid language."""
    main = language.partition("-")[0].partition("_")[0].lower()
    return f":in:{main}" if main.isascii() and main.isalpha() else ""


def related_ids(post: Post) -> tuple[int, ...]:
    return (post.poll_id, *post.media) if post.poll_id else post.media


def whole_row(post: Post, nodes: Mapping[int, Node]) -> PostRow:
    """Return the row of a post in the search index. `nodes` must contain the poll and media of the post."""
    poll = nodes.get(post.poll_id)
    media = [node for id_ in post.media if isinstance(node := nodes.get(id_), Media)]
    return post_row(post, poll if isinstance(poll, Poll) else None, media)


def post_row(post: Post, poll: Poll | None = None, media: Iterable[Media] = ()) -> PostRow:
    """Return the row of a post in the search index: the words of its text, title, warning, poll options and media descriptions."""
    options = [option.title for option in poll.options] if poll else []
    text = "\n".join((post.spoiler, post.shown_text, *options, *[each.description for each in media]))
    counts = post.visibility is Visibility.PUBLIC and not post.hidden
    return PostRow(
        id=post.id,
        author_id=post.author_id,
        written=post.created_at,
        marks=tuple(_marks(post)),
        words=tuple(words_of(text)),
        tags=post.tags if counts else (),
    )


def _marks(post: Post) -> Iterator[str]:
    if post.visibility is Visibility.PUBLIC:
        yield PUBLIC
    yield by(post.author_id)
    for who in dict.fromkeys(mention.id for mention in post.mentions):
        yield to(who)
    for mark, there in (
        (HAS_MEDIA, post.media),
        (HAS_POLL, post.poll_id),
        (HAS_LINK, any(span.kind == "link" for span in parse(post.shown_text))),
        (IS_REPLY, post.parent_id),
        (IS_SENSITIVE, post.sensitive),
    ):
        if there:
            yield mark
    if language := written_in(post.language):
        yield language
    if post.kind:
        yield of_kind(post.kind)
    if post.place is not None:
        yield from map(within, cells_of(post.place))


def is_listed(member: Member) -> bool:
    return member.discoverable and not member.suspended and not member.silenced


def name_words(member: Member) -> list[str]:
    return words_of(f"{member.name} {member.display_name}")


def note_words(member: Member) -> list[str]:
    """Return the words of a member's bio; none for members who do not want to be found."""
    return words_of(member.note) if is_listed(member) else []


def member_row(member: Member) -> MemberRow:
    return MemberRow(
        id=member.id,
        name=member.name,
        joined=member.created_at,
        words=tuple(name_words(member)),
        note=tuple(note_words(member)),
        listed=is_listed(member),
        shy=not member.indexable or member.suspended,
        suspended=member.suspended,
    )


AT_ONCE = 2_000
"""Maximum number of objects whose rows are written together."""
_FEW = 20
_PAUSE_SECONDS = 0.2
"""Seconds from a write of more than `_FEW` rows to the next one, since each write is a sync and rewrites many of the same pages."""
_BURST = 50
_WRITES_A_SECOND = 20
"""Small writes are immediate up to a burst, then limited to this rate, so that pending rows are written together."""


class _IndexRequest(NamedTuple):
    graph: Reader
    done: asyncio.Future[None]
    ids: set[int]
    since: float
    """Time of the first request, on the clock of the event loop."""


class Filler:
    """Collects a process's requests to update index rows, and writes the rows. `written` is the number of objects processed."""

    def __init__(self, index: SearchIndex) -> None:
        self.index = index
        self.written = 0
        self._requests: deque[_IndexRequest] = deque()
        self._in_hand: _IndexRequest | None = None
        self._enough = asyncio.Event()
        # Tokens left in the token bucket for small immediate writes, and the time at which they were calculated.
        self._spare, self._at = float(_BURST), 0.0
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def look(self, graph: Reader, ids: Iterable[int]) -> asyncio.Future[None]:
        """Bring the rows of these objects up to date. The future completes when they are durable, or with the error.

        `graph` must return current data.
        """
        if not self._requests or len(self._requests[-1].ids) >= AT_ONCE:
            loop = asyncio.get_running_loop()
            self._requests.append(_IndexRequest(graph, loop.create_future(), set(), loop.time()))
        request = self._requests[-1]
        request.ids.update(ids)
        if len(request.ids) >= AT_ONCE:
            self._enough.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._work())
        return request.done

    async def close(self) -> None:
        """Write the rows of all pending requests, without the usual pauses between writes, and wait until they are written."""
        self._closing = True
        self._enough.set()
        while self._task is not None:
            await asyncio.wait((self._task,))

    async def _work(self) -> None:
        try:
            while self._requests:
                request = self._requests.popleft()
                if not (self._requests and len(self._requests[0].ids) >= AT_ONCE):
                    self._enough.clear()
                begun = asyncio.get_running_loop().time()
                self._in_hand = request
                await self._answer(request)
                self._in_hand = None
                if (pause := self._pause_after(len(request.ids), begun)) and not self._closing:
                    await self._pause(begun + pause)
        finally:
            self._task = self._in_hand = None

    def hurry(self) -> None:
        """Write the pending requests without the usual pause between writes, because a caller waits and no requests follow."""
        if self._requests:
            self._enough.set()

    def behind(self) -> float:
        """Return how many seconds ago the oldest unfinished request to update index rows was made; 0 if there is none."""
        oldest = self._in_hand or (self._requests[0] if self._requests else None)
        return asyncio.get_running_loop().time() - oldest.since if oldest else 0.0

    def _pause_after(self, size: int, begun: float) -> float:
        """Return the seconds from `begun`, the start of a write of `size` objects, to the start of the next write."""
        if not self.index.keeps:
            # Nothing was written.
            return 0.0
        self._spare = min(_BURST, self._spare + (begun - self._at) * _WRITES_A_SECOND) - 1
        self._at = begun
        if size > _FEW:
            return _PAUSE_SECONDS
        return 1 / _WRITES_A_SECOND if self._spare < 1 else 0.0

    async def _pause(self, ended: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(ended):
                await self._enough.wait()

    async def _answer(self, request: _IndexRequest) -> None:
        try:
            ids = sorted(request.ids) if self.index.keeps else []
            for start in range(0, len(ids), AT_ONCE):
                await self._write(request.graph, ids[start : start + AT_ONCE])
        except BaseException as error:  # noqa: BLE001  # callers that wait must get any error
            if not request.done.done():
                request.done.set_exception(
                    error if isinstance(error, Exception) else ConnectionError("the write was canceled")
                )
                # Mark the exception as retrieved, because there may be no waiter left.
                request.done.exception()
        else:
            if not request.done.done():
                request.done.set_result(None)

    async def _write(self, graph: Reader, ids: Collection[int]) -> None:
        nodes = await _nodes(graph, ids)
        while ids:
            # Tokenizing many posts takes long enough to block requests, so the writing thread does it.
            await self.index.write(partial(_change, nodes, ids) if len(ids) > _FEW else _change(nodes, ids))
            self.written += len(ids)
            now = await _nodes(graph, ids)
            ids = [id_ for id_ in ids if _versions(now, id_) != _versions(nodes, id_)]
            nodes = now


async def rows_of(graph: Reader, nodes: Mapping[int, AnyNode]) -> dict[int, PostRow | MemberRow]:
    """Return the index rows of these objects; one read, if posts among them have polls or media."""
    known = {**nodes, **await _related_nodes(graph, nodes)}
    return {id_: row for id_ in nodes if (row := _row(known, id_)) is not None}


async def _nodes(graph: Reader, ids: Collection[int]) -> dict[int, AnyNode]:
    nodes = await graph.obj_get(list(ids))
    return {**nodes, **await _related_nodes(graph, nodes)}


async def _related_nodes(graph: Reader, nodes: Mapping[int, AnyNode]) -> dict[int, AnyNode]:
    ids = dict.fromkeys(id_ for node in nodes.values() if isinstance(node, Post) for id_ in related_ids(node))
    return await graph.obj_get(list(ids)) if ids else {}


def _change(nodes: Mapping[int, AnyNode], ids: Collection[int]) -> IndexChange:
    rows = {id_: row for id_ in ids if (row := _row(nodes, id_)) is not None}
    return IndexChange(
        posts=[row for row in rows.values() if isinstance(row, PostRow)],
        members=[row for row in rows.values() if isinstance(row, MemberRow)],
        gone=[id_ for id_ in ids if id_ not in rows],
    )


def _row(nodes: Mapping[int, AnyNode], id_: int) -> PostRow | MemberRow | None:
    node = nodes.get(id_)
    if isinstance(node, Post):
        return whole_row(node, nodes)
    return member_row(node) if isinstance(node, Member) else None


def _versions(nodes: Mapping[int, AnyNode], id_: int) -> tuple[int, ...]:
    node = nodes.get(id_)
    if node is None:
        return ()
    parts = related_ids(node) if isinstance(node, Post) else ()
    return (node.version, *[part.version for id_ in parts if (part := nodes.get(id_)) is not None])


_PAGE = 1_000

Tell = Callable[[str, int, int], None]
"""Progress callback: phase, amount done, and total (0: unknown)."""

_log = logging.getLogger(__name__)


def _untold(_phase: str, _done: int, _total: int) -> None:
    """Do nothing: the progress is not shown."""


async def fill(store: Scanner, graph: Reader, filler: Filler, tell: Tell = _untold) -> int:
    """Fill the index from its current progress, and return the number of members and posts; does nothing if it is complete.

    Objects are enumerated from the store, and read from the graph, which must return current data.
    """
    index = filler.index
    state = await index.state()
    if state.complete:
        return 0
    if state.form != FORM:
        await index.clear()
        state = FillState(FORM)
    done, after = 0, state.filled_to
    ids: list[int] = []
    while page := await store.obj_scan(after, _PAGE):
        after = page[-1].id
        ids += [node.id for node in page if isinstance(node, Member | Post)]
        # Collect a full batch, because the filler delays smaller ones.
        if len(ids) >= AT_ONCE or len(page) < _PAGE:
            # Running jobs may wait for the same future, so it must not be canceled if this task is.
            await asyncio.shield(filler.look(graph, ids))
            await index.keep_state(FillState(FORM, after))
            done += len(ids)
            ids = []
            tell("members and posts", done, 0)
    if ids:
        await asyncio.shield(filler.look(graph, ids))
        done += len(ids)
    await index.keep_state(FillState(FORM, MAX_TIME))
    return done


async def refill(store: Scanner, graph: Reader, filler: Filler, tell: Tell = _untold) -> int:
    """Index every object again, delete outdated rows, and return the number of objects. Searches continue to work."""
    index: SearchIndex = filler.index
    if (await index.state()).form == FORM:
        await index.keep_state(FillState(FORM))
    done = await fill(store, graph, filler, tell)
    after = -1
    while ids := await index.ids(after, _PAGE):
        after = ids[-1]
        there = await graph.obj_get(ids)
        if gone := [id_ for id_ in ids if id_ not in there]:
            await asyncio.shield(filler.look(graph, gone))
    return done


async def fill_quietly(store: Scanner, graph: Reader, filler: Filler) -> None:
    """Run `fill` in the background of a server. A failure is logged, and the next start continues from the saved progress."""
    try:
        if done := await fill(store, graph, filler):
            _log.info("filled the search index: %d members and posts", done)
    except Exception:  # noqa: BLE001  # searches find less until then; nothing else depends on it
        _log.exception("filling the search index failed")
