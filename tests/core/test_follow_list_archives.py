"""Follow lists in the archive formats of other networks, and hostile files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import MAX_ARCHIVE_BYTES, MOST_HANDLES, read_archive, read_handles

MASTODON = """Account address,Show boosts,Notify on new posts,Languages
ann@mastodon.social,true,false,
ben@pixelfed.social,true,false,"en, de"
"""
PIXELFED = ["https://pixelfed.social/ben", "https://mastodon.social/@ann"]
INSTAGRAM = {
    "relationships_following": [
        {
            "title": "",
            "media_list_data": [],
            "string_list_data": [
                {"href": "https://www.instagram.com/ann.b", "value": "ann.b", "timestamp": 1700000000}
            ],
        },
        {"title": "ben", "string_list_data": [{"href": "https://www.instagram.com/_u/ben", "timestamp": 1700000001}]},
        {"string_list_data": [{"href": "https://www.instagram.com/cyd", "timestamp": 1700000002}]},
        {"title": "", "string_list_data": []},
    ]
}
X = [
    {"following": {"accountId": "12", "userLink": "https://twitter.com/intent/user?user_id=12"}},
    {"following": {"accountId": "13", "userLink": "https://x.com/Ann"}},
    {"following": {"accountId": "14"}},
]
RECORDS = {
    "records": [
        {
            "uri": "at://did:plc:me/app.bsky.graph.follow/3k",
            "cid": "bafy",
            "value": {"$type": "app.bsky.graph.follow", "subject": "did:plc:abc", "createdAt": "2026-01-01T00:00:00Z"},
        }
    ]
}
FOLLOWS = {
    "subject": {"did": "did:plc:me", "handle": "me.bsky.social"},
    "follows": [
        {"did": "did:plc:abc", "handle": "ann.bsky.social", "displayName": "Ann", "labels": []},
        {"did": "did:plc:gone", "handle": "handle.invalid"},
    ],
}


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()


FILES: dict[str, tuple[bytes, list[str], int]] = {
    "mastodon": (MASTODON.encode(), ["ann@mastodon.social", "ben@pixelfed.social"], 0),
    "mastodon without a header": (b"ann@mastodon.social\r\nnobody at all\r\n", ["ann@mastodon.social"], 1),
    "a column of handles": (
        b"\xef\xbb\xbfname,handle\nAnn,ann\nBen,ben.bsky.social\n",
        ["ann", "ben.bsky.social@bsky.app"],
        0,
    ),
    "pixelfed": (as_json(PIXELFED), ["ben@pixelfed.social", "ann@mastodon.social"], 0),
    "instagram": (as_json(INSTAGRAM), ["ann.b@instagram.com", "ben@instagram.com", "cyd@instagram.com"], 1),
    "x": (b"window.YTD.following.part0 = " + as_json(X), ["ann@x.com"], 2),
    "bluesky records": (as_json(RECORDS), ["did:plc:abc@bsky.app"], 0),
    "bluesky follows": (as_json(FOLLOWS), ["ann.bsky.social@bsky.app", "did:plc:gone@bsky.app"], 0),
    "bluesky list": (as_json(FOLLOWS["follows"]), ["ann.bsky.social@bsky.app", "did:plc:gone@bsky.app"], 0),
    "an account twice": (as_json(["ann@x.com", "https://twitter.com/ann", "?"]), ["ann@x.com"], 1),
}


@pytest.mark.parametrize("name", FILES)
def test_follow_list_archive_of_other_network_is_parsed(name: str) -> None:
    data, handles, unreadable = FILES[name]
    found = read_archive(data)
    assert [str(handle) for handle in found.handles] == handles
    assert found.unreadable == unreadable


DEEP = 1_000_000
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "a zip": b"PK\x03\x04\x14\x00\xff\xfe",
    "words": b"Dear all,\nthis is a letter\n",
    "a program": b"window.YTD.following.part0 = alert(1)",
    "something after the list": b'window.YTD.following.part0 = ["ann@x.com"]; alert(1);',
    "deep lists": b"[" * DEEP,
    "deep lists under a name": b'{"relationships_following":' + b"[" * DEEP,
    "deep objects in a part that is skipped": b'{"x":' + b'{"x":' * 200_000,
    "deep objects in an entry": b'[{"x":' + b"[" * DEEP,
    "numbers": b"[1,2,3]",
    "another document": b'{"name":"ann"}',
    "empty entries": b"[{},{}]",
    "a wrong type": b'{"follows":[{"handle":1}]}',
    "a list in place of an entry": b'{"follows":[["ann@x.com"]]}',
    "half a document": b'{"follows":[{"handle":"ann',
    "another encoding": "Account address\nann@mastodon.social".encode("utf-16"),
    "a NUL": b"ann@mastodon.social\x00\n\x00",
    "an endless cell": b'"' + b"a" * 1_000_000,
    "commas": b"," * 1_000_000,
    "rows of nothing": b"a\n" * 9_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_follow_list_archive_invalid_or_hostile_file_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^file: ") as refused:
        read_archive(HOSTILE[name])
    assert refused.value.field == "file"
    assert len(str(refused.value)) < 300


def test_follow_list_archive_size_and_account_limits_are_enforced() -> None:
    handles = [f"ann{n}@mastodon.social" for n in range(MOST_HANDLES)]
    assert len(read_archive("\n".join(handles).encode()).handles) == MOST_HANDLES
    assert len(read_handles(handles).handles) == MOST_HANDLES
    for refused in ("\n".join([*handles, "one@more.org"]).encode(), as_json([*handles, "ann1@mastodon.social"])):
        with pytest.raises(TooLarge, match=f"{MOST_HANDLES} accounts"):
            read_archive(refused)
    with pytest.raises(TooLarge, match=r"handles: at most"):
        read_handles([*handles, "one@more.org"])
    with pytest.raises(TooLarge, match="bytes"):
        read_archive(b" " * (MAX_ARCHIVE_BYTES + 1))
    with pytest.raises(TooLarge):
        read_archive(b"[" + b'"",' * 700_000 + b'""]')
