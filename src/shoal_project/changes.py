"""What a page of events changes: for each object and edge, the newest version only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of

INCLUDES: Final = ("followers", "direct", "connections")
"""Private data that `--include` can add: posts of two visibilities, and the follows of members who hide them."""

MOST_FIELDS: Final = 100
_MOST_PATH = 200

Event = Mapping[str, Any]


class Edge(NamedTuple):
    version: int
    deleted: bool
    fresh: bool
    """Whether the creation is known. Otherwise the edge keeps the time of an older version."""
    ends: tuple[int, int] | None
    at: datetime | None
    detail: str | None = None
    """The emoji and names of a member's reactions to a post, with spaces between them."""


class Object(NamedTuple):
    version: int
    data: Mapping[str, Any] | None
    """None if it was deleted, or may no longer be seen."""
    withdrawn: bool = False

    @property
    def outlives(self) -> tuple[int, bool]:
        """The greater one is kept: of two equal versions, a deletion."""
        return self.version, self.data is None


@dataclass
class Changes:
    """Changes by id. An edge has a kind, and the ids of its ends or of the share, and 0."""

    includes: Collection[str]
    is_state: bool
    """Whether the events are of the current state, with the times of the objects."""
    members: dict[int, Object] = field(default_factory=dict)
    posts: dict[int, Object] = field(default_factory=dict)
    edges: dict[tuple[str, int, int], Edge] = field(default_factory=dict)
    files: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    created: set[int] = field(default_factory=set)
    """Members with an event of their creation: nothing about them is missing."""
    returned: set[int] = field(default_factory=set)
    """Members who were withdrawn and came back in these events."""

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            noun, change = event["type"].split(".")
            data, version = event["data"], int(event["version"])
            if noun == "member":
                self._member(int(data["id"]), change, Object(version, *_shown(change, data)))
            elif noun == "post":
                shown, withdrawn = _shown(change, data)
                if shown is not None and not self._may_have(shown):
                    shown, withdrawn = None, True
                self._post(int(data["id"]), Object(version, shown, withdrawn))
            elif noun in ("follow", "like", "reaction", "share"):
                self._edge(event, noun, change, version)
            elif noun == "media" and change != "deleted":
                self.files[int(data["id"])] = data

    def _may_have(self, data: Mapping[str, Any]) -> bool:
        return data["visibility"] in ("public", "unlisted") or data["visibility"] in self.includes

    def _member(self, id_: int, change: str, new: Object) -> None:
        old = self.members.get(id_)
        if old is not None and old.outlives > new.outlives:
            return
        if change == "created":
            self.created.add(id_)
        if old is not None and old.data is None and new.data is not None:
            self.returned.add(id_)
        self.members[id_] = new

    def _post(self, id_: int, new: Object) -> None:
        old = self.posts.get(id_)
        if old is None or new.outlives >= old.outlives:
            self.posts[id_] = new
            for file in (new.data or {}).get("media", ()):
                self.files.pop(int(file["id"]), None)

    def _edge(self, event: Event, noun: str, change: str, version: int) -> None:
        data = event["data"]
        deleted = change == "deleted" or (noun == "share" and not self._may_have(data))
        if noun == "share":
            key, names = (noun, int(data["id"]), 0), ("author_id", "post_id")
        else:
            names = ("follower_id", "followee_id") if noun == "follow" else ("member_id", "post_id")
            key = (noun, int(data[names[0]]), int(data[names[1]]))
        old = self.edges.get(key)
        if old is not None and (old.version, old.deleted) > (version, deleted):
            return
        ends = None if deleted else (int(data[names[0]]), int(data[names[1]]))
        began = key[1] if noun == "share" else version
        at = _moment(event["time"]) if self.is_state else _time_of(began)
        detail = " ".join(data["emoji"]) if noun == "reaction" and not deleted else None
        # The current state has only the time of the last change of reactions, so events have that time too.
        is_fresh = change == "created" or noun == "reaction"
        edge = Edge(version, deleted, is_fresh, ends, None if deleted else at, detail)
        if old is not None and not old.deleted and not edge.fresh and not deleted:
            edge = edge._replace(fresh=old.fresh, at=old.at)
        self.edges[key] = edge

    def edge_rows(self) -> Iterator[tuple[Any, ...]]:
        for key, edge in self.edges.items():
            ends, day = edge.ends or (None, None), _day(edge.at)
            yield (*key, edge.version, edge.deleted, edge.fresh, *ends, edge.at, day, edge.detail)


def _shown(change: str, data: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    return (None, data.get("withdrawn", False)) if change == "deleted" else (data, False)


def member_row(data: Mapping[str, Any], version: int) -> tuple[Any, ...]:
    at = _moment(data["created_at"])
    names = (
        "name",
        "display_name",
        "note",
        "bot",
        "locked",
        "discoverable",
        "indexable",
        "limited",
        "hides_connections",
    )
    return (int(data["id"]), *(data[name] for name in names), at, _day(at), version)


def post_row(data: Mapping[str, Any], version: int) -> tuple[Any, ...]:
    at = _moment(data["created_at"])
    place = data["place"] or {}
    names = ("text", "content_warning", "sensitive", "visibility", "language")
    return (
        *(int(data["id"]), int(data["author_id"])),
        *(data[name] for name in names),
        _moment(data["edited_at"]) if data["edited_at"] else None,
        _id(data["in_reply_to_id"]),
        *(place.get("latitude"), place.get("longitude")),
        *(data["held"], data["kind"]),
        None if data["data"] is None else msgspec.json.encode(data["data"]).decode(),
        *(at, _day(at), version),
    )


def comment_rows(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    if data["in_reply_to_id"]:
        at = _moment(data["created_at"])
        ids = ("id", "author_id", "in_reply_to_id", "in_reply_to_author_id", "thread_id")
        yield (*(_id(data[name]) for name in ids), at, _day(at))


def tag_rows(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    day = _day(_moment(data["created_at"]))
    for tag in dict.fromkeys(data["tags"]):
        yield int(data["id"]), tag, int(data["author_id"]), day


def field_rows(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the values in a post's data, depth first, with their paths."""
    day = _day(_moment(data["created_at"]))
    counts: Counter[str] = Counter()
    waiting: list[tuple[str, Any]] = [("", data["data"])]
    while waiting and counts.total() < MOST_FIELDS:
        path, value = waiting.pop()
        if isinstance(value, dict):
            inner = [(f"{path}.{key}" if path else key, part) for key, part in value.items()]
            waiting += reversed([(name, part) for name, part in inner if len(name) <= _MOST_PATH and "\0" not in name])
        elif isinstance(value, list):
            waiting += [(path, part) for part in reversed(value)]
        elif value is not None:
            text = value if isinstance(value, str) else None
            flag = value if isinstance(value, bool) else None
            try:
                number = float(value) if text is None and flag is None else None
            except OverflowError:
                continue
            yield int(data["id"]), path, counts[path], text, number, flag, day
            counts[path] += 1


FILE_COLUMNS: Final = ("kind", "state", "content_type", "url", "width", "height", "duration", "description")


def media_rows(data: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    day = _day(_moment(data["created_at"]))
    for position, file in enumerate(data["media"]):
        yield (int(data["id"]), position, int(file["id"]), *(file[name] for name in FILE_COLUMNS), day)


def _id(text: str | None) -> int | None:
    return int(text) if text else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _time_of(id_: int) -> datetime:
    milliseconds = milliseconds_of(id_)
    return datetime.fromtimestamp(milliseconds // 1_000, UTC).replace(microsecond=milliseconds % 1_000 * 1_000)


def _day(at: datetime | None) -> date | None:
    return at.date() if at else None
