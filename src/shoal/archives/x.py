"""X's archive: scripts such as `data/tweets.js`, which give a name to a list, and `data/tweets_media/<tweet>-<file>`.

Links are shortened to `https://t.co/...`, and the archive says of each where it leads. A post that shares another begins with
`RT @`. Descriptions of photos are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import msgspec

from shoal.archives.documents import behind_name, items
from shoal.archives.entries import Entries, Root
from shoal.archives.follow_lists import follow_list
from shoal.archives.moments import x_moment
from shoal.archives.plain_text import unescape
from shoal.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
)

SCRIPTS = ("data/tweets.js", "data/tweet.js")
"""The first script with posts, in archives of today and of before 2022."""
_PARTS = re.compile(r"tweets?(-part[0-9]{1,6})?\.js")
_MEDIA = ("tweets_media/", "tweet_media/")
_SHORT = re.compile(r"https?://t\.co/[A-Za-z0-9]+")


class _Link(msgspec.Struct, frozen=True):
    url: str = ""
    expanded_url: str | None = None


class _XMedium(msgspec.Struct, frozen=True):
    url: str = ""
    media_url_https: str = ""
    media_url: str = ""
    type: str = "photo"


class _Links(msgspec.Struct, frozen=True):
    urls: list[_Link] = []
    media: list[_XMedium] = []


class _Extended(msgspec.Struct, frozen=True):
    media: list[_XMedium] = []


class _Tweet(msgspec.Struct, frozen=True):
    id_str: str
    created_at: str
    full_text: str
    entities: _Links = _Links()
    extended_entities: _Extended | None = None
    in_reply_to_status_id_str: str | None = None
    in_reply_to_user_id_str: str | None = None
    lang: str | None = None
    possibly_sensitive: bool | None = None


class _Item(msgspec.Struct, frozen=True):
    tweet: _Tweet


class _XOwner(msgspec.Struct, frozen=True, rename="camel"):
    account_id: str = ""
    username: str = ""


class _AccountItem(msgspec.Struct, frozen=True):
    account: _XOwner


class XArchive:
    """An archive whose first script is at this root."""

    kind = ArchiveKind.X

    def __init__(self, entries: Entries, root: Root) -> None:
        self._entries = entries
        self._data = f"{root.prefix}data/"
        self._owner = self._account_of()

    @property
    def account(self) -> str:
        """The name of the account."""
        return self._owner.username

    def records(self) -> Iterator[ArchiveRecord]:
        """Yield the posts, and the follow list."""
        for name in self._entries.below(self._data, ".js"):
            if _PARTS.fullmatch(name.removeprefix(self._data)):
                with self._entries.opened(name) as file:
                    for item in items(behind_name(file), "", _Item):
                        if item is None:
                            yield SkippedRecord("posts", "", Omission.MALFORMED)
                        else:
                            yield from self._tweet(item.tweet)
        if (following := f"{self._data}following.js") in self._entries:
            yield follow_list(self._entries, following)

    def _account_of(self) -> _XOwner:
        name = f"{self._data}account.js"
        if name not in self._entries:
            return _XOwner()
        with self._entries.opened(name) as file:
            found = next(items(behind_name(file), "", _AccountItem), None)
        return found.account if found else _XOwner()

    def _tweet(self, tweet: _Tweet) -> Iterator[ArchiveRecord]:
        if tweet.full_text.startswith("RT @"):
            yield SkippedRecord("posts", tweet.id_str, Omission.BOOST)
            return
        media = tweet.extended_entities.media if tweet.extended_entities else tweet.entities.media
        photos: list[ArchivedPhoto] = []
        for medium in media:
            file = self._file(tweet.id_str, medium)
            if medium.type != "photo":
                yield SkippedRecord("photos", tweet.id_str, Omission.VIDEO)
            elif not file:
                yield SkippedRecord("photos", tweet.id_str, Omission.MISSING)
            else:
                photos.append(ArchivedPhoto(file))
        answered = tweet.in_reply_to_status_id_str or ""
        yield ArchivedPost(
            id=tweet.id_str,
            written=x_moment(tweet.created_at),
            text=_expanded(tweet, media),
            sensitive=bool(tweet.possibly_sensitive) and bool(photos),
            language=tweet.lang if tweet.lang and tweet.lang != "und" and not tweet.lang.startswith("q") else "",
            photos=tuple(photos),
            parent=answered,
            own_parent=bool(self._owner.account_id) and tweet.in_reply_to_user_id_str == self._owner.account_id,
        )

    def _file(self, tweet_id: str, medium: _XMedium) -> str:
        base = PurePosixPath(urlsplit(medium.media_url_https or medium.media_url).path).name
        names = (f"{self._data}{folder}{tweet_id}-{base}" for folder in _MEDIA)
        return next((name for name in names if name in self._entries), "")


def _expanded(tweet: _Tweet, media: list[_XMedium]) -> str:
    """Return the text with whole links, and without those that stand for its own photos."""
    known = {link.url: link.expanded_url or link.url for link in tweet.entities.urls}
    # X writes &, < and > as in HTML, in the text alone.
    text = unescape(tweet.full_text)
    own = {medium.url for medium in (*media, *tweet.entities.media)}
    text = _SHORT.sub(lambda found: "" if found[0] in own else known.get(found[0], found[0]), text)
    return "\n".join(line.rstrip(" ") for line in text.split("\n")).strip()
