"""The posts of the demo network, with their comments, and the messages of the demo login (the hero): `stories.toml`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shoal.core.places import Place


class Story(msgspec.Struct, frozen=True):
    """A post by a member of `people.CAST`."""

    author: str
    text: str
    photos: tuple[str, ...] = ()
    place: Place | None = None
    language: str = "en"
    """The language of the text and of the comments."""
    followers: bool = False
    """Whether only followers can read it."""
    comments: tuple[str, ...] = ()


class Correspondence(msgspec.Struct, frozen=True):
    """Direct messages between the hero and a member of `people.CAST`."""

    member: str
    hours: float
    lines: tuple[str, ...]


class _Stories(msgspec.Struct, frozen=True):
    followed_tags: tuple[str, ...]
    list_title: str
    listed: tuple[str, ...]
    with_photos: tuple[Story, ...]
    without_photos: tuple[Story, ...]
    messages: tuple[Correspondence, ...]


_READ = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Stories)
WITH_PHOTOS, WITHOUT_PHOTOS, CORRESPONDENCE = _READ.with_photos, _READ.without_photos, _READ.messages
LIST = (_READ.list_title, _READ.listed)
"""Title of the hero's list, and its members."""
FOLLOWED_TAGS = _READ.followed_tags
