"""Archives in the exact formats of other networks, with a few posts or tens of thousands.

Mastodon: `app/services/backup_service.rb` and the serializers of ActivityPub. Pixelfed: `ExportSettings.php` and its
`StatusTransformer`. Instagram: "Download your information". X: "Your archive". Bluesky: `com.atproto.sync.getRepo`.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from libipld import encode_dag_cbor
from PIL import Image

HOST = "https://mastodon.example"
ANN = f"{HOST}/users/ann"
PUBLIC = "https://www.w3.org/ns/activitystreams#Public"
FOLLOWERS = f"{ANN}/followers"
START = datetime(2022, 11, 5, 8, 30, 15, tzinfo=UTC)
DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"


@cache
def picture(color: str = "teal", size: tuple[int, int] = (64, 48), form: str = "JPEG") -> bytes:
    """Return a picture."""
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, form)
    return file.getvalue()


def zipped(path: Path, files: Mapping[str, Any]) -> Path:
    """Write a ZIP of files by name. A file is bytes, a string, or an iterable of strings that is written piece by piece."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            if isinstance(content, bytes | str):
                archive.writestr(name, content)
            else:
                with archive.open(name, "w", force_zip64=True) as entry:
                    for piece in content:
                        entry.write(piece.encode())
    return path


def tarred(path: Path, files: Mapping[str, bytes | str]) -> Path:
    """Write a tar.gz of these files."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


# Mastodon


def note(
    number: int,
    content: str,
    *,
    to: list[str] | None = None,
    cc: list[str] | None = None,
    published: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Return an outbox activity that creates a note."""
    id_ = f"{ANN}/statuses/{109_000_000_000_000_000 + number}"
    published = published or f"{START + timedelta(minutes=number):%Y-%m-%dT%H:%M:%SZ}"
    follower_set = {"to": [PUBLIC] if to is None else to, "cc": [FOLLOWERS] if cc is None else cc}
    return {
        "id": f"{id_}/activity",
        "type": "Create",
        "actor": ANN,
        "published": published,
        **follower_set,
        "object": {
            "id": id_,
            "type": "Note",
            "summary": None,
            "inReplyTo": None,
            "published": published,
            "url": f"{HOST}/@ann/{109_000_000_000_000_000 + number}",
            "attributedTo": ANN,
            **follower_set,
            "sensitive": False,
            "atomUri": id_,
            "inReplyToAtomUri": None,
            "conversation": f"tag:mastodon.example,2022-11-05:objectId={number}:objectType=Conversation",
            "content": content,
            "contentMap": {"en": content},
            "attachment": [],
            "tag": [],
            "replies": {"id": f"{id_}/replies", "type": "Collection", "first": {"type": "CollectionPage", "items": []}},
            **more,
        },
    }


def announce(number: int, of: str) -> dict[str, Any]:
    """Return an outbox activity that boosts a post."""
    return {
        "id": f"{ANN}/statuses/{109_000_000_000_000_000 + number}/activity",
        "type": "Announce",
        "actor": ANN,
        "published": f"{START + timedelta(minutes=number):%Y-%m-%dT%H:%M:%SZ}",
        "to": [PUBLIC],
        "cc": [FOLLOWERS],
        "object": of,
    }


def document(file: str, name: str | None = None, kind: str = "image/jpeg", **more: Any) -> dict[str, Any]:
    """Return an attachment of a note."""
    blurhash = "UBL_:rOpGG-oBUNG,qRj2so|=eE1w^n4S5NH"
    shape = {"width": 64, "height": 48, "focalPoint": [0.0, 0.0]}
    return {"type": "Document", "mediaType": kind, "url": file, "name": name, "blurhash": blurhash, **shape, **more}


def outbox(activities: Iterable[dict[str, Any]], total: int) -> Iterator[str]:
    """Yield the outbox document in pieces."""
    yield json.dumps({"@context": PUBLIC, "id": "outbox.json", "type": "OrderedCollection", "totalItems": total})[:-1]
    yield ', "orderedItems": ['
    for number, activity in enumerate(activities):
        yield (", " if number else "") + json.dumps(activity)
    yield "]}"


def mastodon_files(
    activities: list[dict[str, Any]], files: Mapping[str, bytes] | None = None
) -> dict[str, bytes | str]:
    """Return the files of a Mastodon archive."""
    actor = {
        "@context": ["https://www.w3.org/ns/activitystreams", "https://w3id.org/security/v1"],
        "id": ANN,
        "type": "Person",
        "following": f"{ANN}/following",
        "followers": FOLLOWERS,
        "inbox": f"{ANN}/inbox",
        "outbox": "outbox.json",
        "likes": "likes.json",
        "bookmarks": "bookmarks.json",
        "preferredUsername": "ann",
        "name": "Ann",
        "summary": "<p>By the sea</p>",
        "url": f"{HOST}/@ann",
        "icon": {"type": "Image", "mediaType": "image/png", "url": "avatar.png"},
    }
    return {
        "outbox.json": "".join(outbox(activities, len(activities))),
        **(files or {}),
        "likes.json": json.dumps({"id": "likes.json", "type": "OrderedCollection", "orderedItems": []}),
        "bookmarks.json": json.dumps({"id": "bookmarks.json", "type": "OrderedCollection", "orderedItems": []}),
        "avatar.png": picture("red", form="PNG"),
        "actor.json": json.dumps(actor),
    }


# Pixelfed


def status(number: int, caption: str, **more: Any) -> dict[str, Any]:
    """Return a post as Pixelfed's API serializes it."""
    url = f"https://pixelfed.example/p/ann/{number}"
    return {
        "_v": 1,
        "id": str(number),
        "shortcode": "CE",
        "uri": url,
        "url": url,
        "in_reply_to_id": "",
        "in_reply_to_account_id": "",
        "reblog": None,
        "content": caption.replace("\n", "<br />\n"),
        "content_text": caption,
        "created_at": f"{START + timedelta(minutes=number):%Y-%m-%dT%H:%M:%S.000Z}",
        "emojis": [],
        "reblogs_count": 0,
        "favourites_count": 3,
        "reblogged": False,
        "favourited": False,
        "muted": None,
        "sensitive": False,
        "spoiler_text": "",
        "visibility": "public",
        "application": {"name": "web", "website": None},
        "language": None,
        "mentions": [],
        "pf_type": "photo",
        "reply_count": 0,
        "comments_disabled": False,
        "thread": False,
        "replies": [],
        "parent": [],
        "place": None,
        "local": True,
        "taggedPeople": [],
        "label": {"covid": False},
        "liked_by": {"username": None, "others": False},
        "media_attachments": [],
        "account": {"id": "7", "username": "ann", "acct": "ann", "url": "https://pixelfed.example/ann"},
        "tags": [],
        "poll": None,
        "bookmarked": False,
        **more,
    }


def attachment(url: str, description: str | None, mime: str = "image/jpeg") -> dict[str, Any]:
    """Return a photo of a Pixelfed post."""
    return {
        "id": "1",
        "type": "Image",
        "url": url,
        "remote_url": None,
        "preview_url": url,
        "text_url": None,
        "meta": None,
        "description": description,
        "license": None,
        "is_nsfw": 0,
        "orientation": None,
        "filter_name": None,
        "filter_class": None,
        "mime": mime,
    }


def statuses(posts: list[dict[str, Any]]) -> str:
    """Return the document of a Pixelfed export, joined from pages of 1,000 posts."""
    pages = [json.dumps(posts[start : start + 1000], indent=4, ensure_ascii=False).strip("[]") for start in (0, 1000)]
    return "[" + "\n,".join(filter(None, pages)) + "]"


# Instagram


def mojibake(text: str) -> str:
    """Return a text as Instagram encodes it: each byte of the UTF-8 as one character."""
    return text.encode().decode("latin-1")


def instagram_file(uri: str, seconds: int, title: str = "") -> dict[str, Any]:
    """Return a media file of an Instagram post."""
    return {
        "uri": uri,
        "creation_timestamp": seconds,
        "media_metadata": {"camera_metadata": {"has_camera_metadata": False}},
        "title": mojibake(title),
        "cross_post_source": {"source_app": "FB"},
        "backup_uri": f"https://lookaside.fbsbx.example/{uri}",
    }


# X


def tweet(number: int, text: str, **more: Any) -> dict[str, Any]:
    """Return an X post."""
    entities = {"hashtags": [], "symbols": [], "user_mentions": [], "urls": [], **more.pop("entities", {})}
    return {
        "tweet": {
            "edit_info": {"initial": {"editTweetIds": [str(number)], "editsRemaining": "5", "isEditEligible": True}},
            "retweeted": False,
            "source": '<a href="https://mobile.twitter.com" rel="nofollow">Twitter Web App</a>',
            "entities": entities,
            "display_text_range": ["0", str(len(text))],
            "favorite_count": "0",
            "id_str": str(1_500_000_000_000_000_000 + number),
            "truncated": False,
            "retweet_count": "0",
            "id": str(1_500_000_000_000_000_000 + number),
            "created_at": f"{START + timedelta(minutes=number):%a %b %d %H:%M:%S +0000 %Y}",
            "favorited": False,
            "full_text": text,
            "lang": "en",
            **more,
        }
    }


def x_medium(name: str, short: str, kind: str = "photo") -> dict[str, Any]:
    """Return a photo or video of an X post."""
    return {
        "expanded_url": "https://twitter.com/ann/status/1/photo/1",
        "indices": ["6", "29"],
        "url": short,
        "media_url": f"http://pbs.twimg.com/media/{name}",
        "id_str": "1",
        "id": "1",
        "media_url_https": f"https://pbs.twimg.com/media/{name}",
        "sizes": {"large": {"w": "64", "h": "48", "resize": "fit"}},
        "type": kind,
        "display_url": "pic.twitter.com/x",
    }


def script(name: str, value: object) -> str:
    """Return a script file of an X archive."""
    return f"window.YTD.{name} = " + json.dumps(value, indent=2)


ACCOUNT = [
    {
        "account": {
            "email": "ann@example.org",
            "createdVia": "web",
            "username": "ann_by_the_sea",
            "accountId": "4711",
            "createdAt": "2009-03-01T00:00:00.000Z",
            "accountDisplayName": "Ann",
        }
    }
]


# Bluesky


def cid_of(data: bytes, codec: int = 0x71) -> bytes:
    """Return the CID of a block: DAG-CBOR (0x71) or raw (0x55)."""
    return bytes((1, codec, 0x12, 0x20)) + hashlib.sha256(data).digest()


def varint(number: int) -> bytes:
    """Return a number as an unsigned varint, seven bits per byte."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def repository(records: Mapping[str, dict[str, Any]], did: str = DID) -> bytes:
    """Return the CAR file of a repository: a commit, the tree, and one block per record."""
    blocks: dict[bytes, bytes] = {}

    def put(value: object) -> bytes:
        data = encode_dag_cbor(value)
        blocks[cid := cid_of(data)] = data
        return cid

    leaves = [(key.encode(), put(value)) for key, value in sorted(records.items())]
    root = _tree(leaves, max((_depth(key) for key, _ in leaves), default=0), put)
    commit = put({"did": did, "version": 3, "data": root, "rev": "3jqfcqzm3fo2j", "prev": None, "sig": b"\0" * 64})
    header = encode_dag_cbor({"version": 1, "roots": [commit]})
    parts = [varint(len(header)) + header]
    parts += [varint(len(cid) + len(data)) + cid + data for cid, data in blocks.items()]
    return b"".join(parts)


def _depth(key: bytes) -> int:
    """Return the layer of a key: the number of leading pairs of zero bits in its hash."""
    number = int.from_bytes(hashlib.sha256(key).digest())
    return (256 - number.bit_length()) // 2


def _tree(leaves: list[tuple[bytes, bytes]], layer: int, put: Any) -> bytes | None:
    """Return the node of these leaves at a layer. Leaves of lower layers are in subtrees between its entries."""
    if layer < 0:
        return None
    here = [at for at, (key, _) in enumerate(leaves) if _depth(key) == layer]
    bounds = [-1, *here, len(leaves)]
    under = [leaves[start + 1 : end] for start, end in itertools.pairwise(bounds)]
    subtrees = [_tree(some, layer - 1, put) if some else None for some in under]
    entries, before = [], b""
    for at, subtree in zip(here, subtrees[1:], strict=True):
        key, value = leaves[at]
        shared = next(
            (n for n, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), min(len(key), len(before))
        )
        entries.append({"p": shared, "k": key[shared:], "v": value, "t": subtree})
        before = key
    found: bytes = put({"l": subtrees[0], "e": entries})
    return found


def bluesky_post(number: int, text: str, **more: Any) -> dict[str, Any]:
    """Return a post record."""
    return {
        "$type": "app.bsky.feed.post",
        "text": text,
        "langs": ["en"],
        "createdAt": f"{START + timedelta(minutes=number):%Y-%m-%dT%H:%M:%S.123Z}",
        **more,
    }


def post_key(number: int) -> str:
    """Return the key of a post."""
    return f"app.bsky.feed.post/3jzfcijpj{number:04}"


def image(data: bytes, alt: str) -> dict[str, Any]:
    """Return a picture of a post, referenced by its hash."""
    blob = {"$type": "blob", "ref": cid_of(data, 0x55), "mimeType": "image/jpeg", "size": len(data)}
    return {"alt": alt, "image": blob, "aspectRatio": {"width": 64, "height": 48}}
