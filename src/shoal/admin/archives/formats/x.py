"""X's archive: scripts such as `data/tweets.js`, which assign a list to a name, and `data/tweets_media/<tweet>-<file>`.

Links are shortened to `https://t.co/...`, and the archive has the target of each. Reposts begin with `RT @`.
Posts of more than 280 characters are truncated; `note-tweet.js` has the full texts, but not the ids of the posts. In archives
from before 2020, items are the posts themselves instead of maps with the key `tweet`, and the oldest have no folder `data`.
Descriptions of photos are not included.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from shoal.admin.archives.entries import Entries, Root
from shoal.admin.archives.formats.documents import behind_name, follow_list, iso_moment, items, x_moment
from shoal.admin.archives.formats.plain_text import file_name, unescape
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
    odd_parts,
)

SCRIPTS = ("data/tweets.js", "data/tweet.js", "tweets.js", "tweet.js")
"""The first script with posts: in current archives, in archives from before 2022, and (the last two) in archives from
before 2020.
"""
_PARTS = re.compile(r"(?:tweets?|community-tweet)(?:-part[0-9]{1,6})?\.js")
_NOTES = re.compile(r"note-tweet(?:-part[0-9]{1,6})?\.js")
_MEDIA = ("tweets_media/", "tweet_media/", "community_tweet_media/")
_BEGINNING = 100
"""Number of characters at the beginning of a post by which its full text is looked up."""
_MOST_NOTES = 64 << 20
"""Maximum characters of all texts in `note-tweet.js`."""
_MOST_ALIKE = 100
"""Maximum number of full texts that have a beginning in common."""
_MOST_CUT = 2_000
"""Maximum characters of a truncated post, including its links and HTML escapes."""
_CUT = re.compile(r"(?:…?\s*https?://t\.co/[A-Za-z0-9]+)?\s*\Z")
_SHORT = re.compile(r"https?://t\.co/[A-Za-z0-9]+")


class _Link(msgspec.Struct, frozen=True):
    url: str
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
    media: list[_XMedium]


class _Tweet(msgspec.Struct, frozen=True):
    id_str: str = ""
    id: str = ""
    created_at: str = ""
    full_text: str = ""
    text: str = ""
    entities: _Links = _Links()
    extended_entities: _Extended | None = None
    in_reply_to_status_id_str: str | None = None
    in_reply_to_user_id_str: str | None = None
    lang: str | None = None
    possibly_sensitive: bool | None = None


class _ShortLink(msgspec.Struct, frozen=True, rename="camel"):
    short_url: str
    expanded_url: str | None = None


class _NoteCore(msgspec.Struct, frozen=True):
    text: str
    urls: list[_ShortLink] = []


class _NoteTweet(msgspec.Struct, frozen=True, rename="camel"):
    core: _NoteCore
    note_tweet_id: str = ""
    created_at: str = ""


class _XOwner(msgspec.Struct, frozen=True, rename="camel"):
    account_id: str = ""
    username: str = ""


class XArchive:
    """An X archive. `root` is its first script with posts."""

    kind = ArchiveKind.X

    def __init__(self, entries: Entries, root: Root) -> None:
        self._entries = entries
        self._data = root.found[: root.found.rindex("/") + 1] if "/" in root.found else ""
        self._owner = self._account_of()
        # Full texts of truncated posts, by their first `_BEGINNING` characters.
        self._notes: dict[str, list[_NoteTweet]] = {}

    @property
    def account(self) -> str:
        return self._owner.username

    def records(self) -> Iterator[ArchiveRecord]:
        scripts = self._entries.below(self._data, ".js")
        yield from self._read_notes([name for name in scripts if _NOTES.fullmatch(name.removeprefix(self._data))])
        for name in scripts:
            if _PARTS.fullmatch(name.removeprefix(self._data)):
                with self._entries.opened(name) as file:
                    for tweet, dropped in items(behind_name(file), "", _Tweet, inner="tweet"):
                        if tweet is None:
                            yield SkippedRecord("posts", "", Omission.MALFORMED)
                        else:
                            yield from odd_parts(tweet.id_str or tweet.id, dropped)
                            yield from self._tweet(tweet)
        for notes in self._notes.values():
            for note in notes:
                yield SkippedRecord("parts", note.note_tweet_id, Omission.UNMATCHED)
        if (following := f"{self._data}following.js") in self._entries:
            yield follow_list(self._entries, following)

    def _account_of(self) -> _XOwner:
        name = f"{self._data}account.js"
        if name not in self._entries:
            return _XOwner()
        with self._entries.opened(name) as file:
            return next(
                (owner for owner, _ in items(behind_name(file), "", _XOwner, inner="account") if owner), _XOwner()
            )

    def _read_notes(self, names: list[str]) -> Iterator[ArchiveRecord]:
        left = _MOST_NOTES
        for name in names:
            with self._entries.opened(name) as file:
                for note, dropped in items(behind_name(file), "", _NoteTweet, inner="noteTweet"):
                    yield from odd_parts("note-tweet.js", dropped + (note is None))
                    if note is None:
                        continue
                    left -= len(note.core.text)
                    note = replace(note, core=replace(note.core, text=unescape(note.core.text)))  # noqa: PLW2901
                    alike = self._notes.setdefault(note.core.text[:_BEGINNING], [])
                    if left < 0 or len(alike) >= _MOST_ALIKE:
                        yield SkippedRecord("parts", note.note_tweet_id, Omission.TOO_MANY)
                    else:
                        alike.append(note)

    def _note_of(self, text: str, written: int) -> _NoteTweet | None:
        """Return the full text of a truncated post; None if there is none.

        The text is then removed, so that no other post gets it.
        """
        candidates = self._notes.get(text[:_BEGINNING], []) if _BEGINNING < len(text) <= _MOST_CUT else []
        beginning = _CUT.sub("", text[:_MOST_CUT]).removesuffix("…")
        found = [note for note in candidates if note.core.text.startswith(beginning)]
        if not found:
            return None
        note = min(found, key=lambda note: abs(iso_moment(note.created_at) - written))
        candidates.remove(note)
        return note

    def _tweet(self, tweet: _Tweet) -> Iterator[ArchiveRecord]:
        id_ = tweet.id_str or tweet.id
        # In texts, X escapes &, < and > as in HTML.
        text = unescape(tweet.full_text or tweet.text)
        if text.startswith("RT @"):
            yield SkippedRecord("posts", id_, Omission.BOOST)
            return
        links = {link.url: link.expanded_url or link.url for link in tweet.entities.urls}
        written = x_moment(tweet.created_at)
        if note := self._note_of(text, written):
            text = note.core.text
            links |= {link.short_url: link.expanded_url or link.short_url for link in note.core.urls}
        media = tweet.extended_entities.media if tweet.extended_entities else tweet.entities.media
        photos: list[ArchivedPhoto] = []
        for medium in media:
            file = self._file(id_, medium)
            if medium.type != "photo":
                yield SkippedRecord("photos", id_, Omission.VIDEO)
            elif not file:
                yield SkippedRecord("photos", id_, Omission.MISSING)
            else:
                photos.append(ArchivedPhoto(file))
        answered = tweet.in_reply_to_status_id_str or ""
        yield ArchivedPost(
            id=id_,
            written=written,
            text=_expanded(text, links, {medium.url for medium in (*media, *tweet.entities.media)}),
            sensitive=bool(tweet.possibly_sensitive) and bool(photos),
            language=tweet.lang if tweet.lang and tweet.lang != "und" and not tweet.lang.startswith("q") else "",
            photos=tuple(photos),
            parent=answered,
            own_parent=bool(self._owner.account_id) and tweet.in_reply_to_user_id_str == self._owner.account_id,
        )

    def _file(self, tweet_id: str, medium: _XMedium) -> str:
        base = file_name(medium.media_url_https or medium.media_url)
        names = (f"{self._data}{folder}{tweet_id}-{base}" for folder in _MEDIA)
        return next((name for name in names if name in self._entries), "")


def _expanded(text: str, links: Mapping[str, str], own: Container[str]) -> str:
    """Return a text with short links replaced by their targets. Links to photos of the post itself are removed."""
    text = _SHORT.sub(lambda found: "" if found[0] in own else links.get(found[0], found[0]), text)
    return "\n".join(line.rstrip(" ") for line in text.split("\n")).strip()
