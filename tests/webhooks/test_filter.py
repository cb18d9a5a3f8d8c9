"""Filters of webhooks: their syntax, their values, and the events that they select."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.errors import InvalidInput, NotAllowed
from shoal.core.model import Visibility
from shoal.queries.event_data import LikeData, PostData, RemovedData
from shoal.queries.event_filter import checked_filter, selector
from shoal.queries.events import FULL, PUBLIC, TYPES, Event


def event(data: Any) -> Event:
    return Event(
        specversion="1.0",
        id="1",
        source="",
        type="",
        subject="",
        time="",
        datacontenttype="",
        dataschema="",
        version="1",
        data=data,
    )


def post(**changes: Any) -> Event:
    usual: dict[str, Any] = {
        **dict.fromkeys(("author_id", "id"), "1"),
        **dict.fromkeys(("text", "content_warning", "language", "created_at", "kind"), ""),
        **dict.fromkeys(("edited_at", "in_reply_to_id", "in_reply_to_author_id", "thread_id", "poll", "place", "data")),
        **dict.fromkeys(("sensitive", "held"), False),
        **{name: [] for name in ("tags", "mentions", "media")},
        "visibility": Visibility.PUBLIC,
    }
    return event(PostData(**{**usual, **changes}))


@pytest.mark.parametrize(
    ("text", "changes", "selected"),
    [
        ("", {}, True),
        ("author_id=7", {"author_id": "7"}, True),
        ("author_id=7", {"author_id": "77"}, False),
        ("author_id=7,author_id=8", {"author_id": "8"}, True),
        ("author_id=7,language=de", {"author_id": "7", "language": "de"}, True),
        ("author_id=7,language=de", {"author_id": "7", "language": "en"}, False),
        ("tags=Dawn", {"tags": ["sea", "dawn"]}, True),
        ("tags=#DUSK, tags=dawn", {"tags": ["dusk"]}, True),
        ("tags=dawn", {"tags": ["dawning"]}, False),
        ("tags=", {"tags": []}, True),
        ("tags=", {"tags": ["sea"]}, False),
        ("visibility=public", {}, True),
        ("visibility=unlisted", {}, False),
        ("sensitive=true", {"sensitive": True}, True),
        ("sensitive=true", {}, False),
        ("sensitive=false", {}, True),
        ("in_reply_to_id=", {}, True),
        ("in_reply_to_id=", {"in_reply_to_id": "3"}, False),
        ("text=a=b", {"text": "a=b"}, True),
    ],
)
def test_filter_selects_events_by_all_fields_and_any_value_of_each(
    text: str, changes: dict[str, Any], selected: bool
) -> None:
    assert selector(checked_filter(text, "post", PUBLIC))(post(**changes)) is selected


def test_filter_selects_all_deletions() -> None:
    selects = selector(checked_filter("author_id=7", "post", PUBLIC))
    assert selects(event(RemovedData(id="1", withdrawn=False)))


def test_filter_of_likes_selects_those_of_a_member() -> None:
    selects = selector(checked_filter("member_id=7", "like", PUBLIC))
    assert selects(event(LikeData(member_id="7", post_id="1")))
    assert not selects(event(LikeData(member_id="8", post_id="1")))


def test_filter_is_stored_without_repetitions_and_with_canonical_tags() -> None:
    assert checked_filter(" tags=#Dawn , tags=dawn,,author_id = 7", "post", PUBLIC) == "tags=dawn,author_id=7"


@pytest.mark.parametrize(
    ("text", "types", "cause"),
    [
        ("author", "post", r"expected conditions such as author_id=123, separated by commas \(got 'author'\)"),
        ("tag=dawn", "post", r"post.created has no field 'tag'; it has id, author_id, text, .*tags, held"),
        ("author_id=7", "post,like", "like.created has no field 'author_id'; it has member_id, post_id"),
        ("author_id=7", "", "has no field 'author_id'"),
        ("author_id=ann", "post", r"author_id is a number \(got 'ann'\)"),
        ("visibility=all", "post", r"visibility is one of public, unlisted, .* \(got 'all'\)"),
        ("sensitive=", "post", r"sensitive is one of true, false \(got ''\)"),
        ("mentions=7", "post", "has no field 'mentions'"),
        ("data=7", "post", "has no field 'data'"),
        ("width=7", "media", "has no field 'width'"),
        (f"tags={'x' * 600}", "post", "is not a tag"),
        ("id=7", "post.deleted", "deletions have no fields to compare"),
        (",".join(f"author_id={n}" for n in range(21)), "post", r"at most 20 conditions \(got 21\)"),
        ("x" * 1_001, "post", r"at most 1000 characters \(got 1001\)"),
    ],
)
def test_filter_that_cannot_match_is_refused_with_the_allowed_values(text: str, types: str, cause: str) -> None:
    with pytest.raises(InvalidInput, match=cause) as error:
        checked_filter(text, types, FULL)
    assert error.value.field == "filter"


def test_filter_on_private_fields_needs_access_to_accounts() -> None:
    with pytest.raises(InvalidInput, match="suspended is private data"):
        checked_filter("suspended=true", "member", PUBLIC)
    assert checked_filter("suspended=true", "member", FULL) == "suspended=true"


def test_filter_of_types_beyond_the_access_is_refused() -> None:
    with pytest.raises(NotAllowed):
        checked_filter("", "report", PUBLIC)


def test_filter_has_fields_for_all_types_but_deletions() -> None:
    for name, type_ in TYPES.items():
        if type_.data is not RemovedData:
            with pytest.raises(InvalidInput, match=r"it has \w+, "):
                checked_filter("nothing=1", name, FULL)
