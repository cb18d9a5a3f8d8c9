"""Instagram's "Download your information" in JSON: `posts_1.json` and its successors, with `media/posts/...`.

Its texts are UTF-8 with each byte written as a Latin-1 character, such as `\\u00c3\\u00a9` for é. Some archives also have
correct characters, or texts that are cut within a character. The archive does not have the visibility of posts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from shoal.admin.archives.entries import Entries, Root
from shoal.admin.archives.formats.documents import count, follow_list, items
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
    odd_parts,
)

FOLDERS = ("your_instagram_activity/media/", "your_instagram_activity/content/", "content/", "media/")
"""Folders of documents in an archive. Instagram used different folders over the years; the newest is first."""
POSTS = tuple(f"{folder}posts_1.json" for folder in FOLDERS)
PAGES = tuple(f"{folder}posts_1.html" for folder in FOLDERS)
"""The first document with posts, if the archive was requested in HTML instead of JSON."""
_NUMBERED = re.compile(r"posts_[0-9]{1,6}\.json")
_UTF8 = re.compile(r"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CUT_UTF8 = re.compile(r"(?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})\Z")
"""`_UTF8` matches the UTF-8 bytes of a character. `_CUT_UTF8` matches incomplete UTF-8 bytes at the end of a text."""
_VIDEO = (".mp4", ".mov", ".m4v", ".webm", ".srt")
_OTHERS = (
    ("stories.json", "ig_stories", Omission.STORY),
    ("archived_posts.json", "ig_archived_post_media", Omission.ARCHIVED),
    ("reels.json", "ig_reels_media", Omission.VIDEO),
    ("igtv_videos.json", "ig_igtv_media", Omission.VIDEO),
)
"""Documents that are not imported: the file, its key, and the reason."""


class _File(msgspec.Struct, frozen=True):
    uri: str = ""
    creation_timestamp: int = 0
    title: str | None = None


class _InstagramPost(msgspec.Struct, frozen=True):
    media: list[_File] = []
    title: str | None = None
    creation_timestamp: int = 0


class InstagramArchive:
    """An Instagram archive. `root` is its first document with posts."""

    kind = ArchiveKind.INSTAGRAM
    account = ""

    def __init__(self, entries: Entries, root: Root) -> None:
        self._entries = entries
        self._prefix = root.prefix
        self._folder = root.found.removesuffix("posts_1.json")

    def records(self) -> Iterator[ArchiveRecord]:
        for name in self._entries.below(self._folder, ".json"):
            if _NUMBERED.fullmatch(name.removeprefix(self._folder)):
                with self._entries.opened(name) as file:
                    for post, dropped in items(file, "", _InstagramPost):
                        yield from self._post(post, dropped)
        for name, path, reason in _OTHERS:
            if f"{self._folder}{name}" in self._entries:
                with self._entries.opened(f"{self._folder}{name}") as file:
                    for _ in range(count(file, path)):
                        yield SkippedRecord("posts", name, reason)
        if found := self._entries.root("followers_and_following/following.json"):
            yield follow_list(self._entries, found.found)

    def _post(self, post: _InstagramPost | None, dropped: int) -> Iterator[ArchiveRecord]:
        if post is None or not (post.media or post.title):
            yield SkippedRecord("posts", "", Omission.MALFORMED)
            return
        # A post with several photos has its own text and date in newer archives. Otherwise, they are those of the first
        # photo. Captions of further photos become descriptions, or parts of the text if the archive lacks the photo.
        first = post.media[0] if post.media else _File()
        yield from odd_parts(first.uri, dropped)
        text = as_typed(post.title or first.title or "")
        seconds = post.creation_timestamp or first.creation_timestamp
        photos: list[ArchivedPhoto] = []
        for file in post.media:
            name = f"{self._prefix}{file.uri}"
            caption = as_typed(file.title or "")
            if caption == text:
                caption = ""
            if file.uri.lower().endswith(_VIDEO):
                yield SkippedRecord("photos", file.uri, Omission.VIDEO)
            elif name not in self._entries:
                yield SkippedRecord("photos", file.uri, Omission.MISSING)
            else:
                photos.append(ArchivedPhoto(name, caption))
                continue
            text = "\n\n".join(filter(None, (text, caption)))
        yield ArchivedPost(
            id=f"{seconds}:{first.uri.rpartition('/')[2]}",
            written=seconds * 1000,
            text=text,
            photos=tuple(photos),
        )


def as_typed(text: str) -> str:
    """Repair a text whose UTF-8 bytes were stored as Latin-1 characters, wholly or in part.

    Any other text is returned unchanged.
    """
    with suppress(UnicodeError):
        return text.encode("latin-1").decode("utf-8")
    typed, count = _UTF8.subn(_character, text)
    return _CUT_UTF8.sub("", typed) if count else text


def _character(found: re.Match[str]) -> str:
    try:
        return found[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return found[0]
