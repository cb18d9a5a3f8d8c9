"""Options of a follow or a mute, kept as the data of the association. Empty data means the defaults."""

from __future__ import annotations

from functools import lru_cache

import msgspec

MAX_LANGUAGES = 100


class FollowTerms(msgspec.Struct, frozen=True, array_like=True):
    """Options of a follow: which of the followee's posts come home. A request (`REQUESTS`) holds them as well."""

    shares: bool = True
    languages: tuple[str, ...] = ()
    """Only posts in these; none for all."""
    notify: bool = False
    """In a request only: of a follow, `WATCHES` says it."""
    since: int = 0
    """When it began (a snowflake), where it was changed since, which lifts the time of the association; else 0."""

    def began(self, time: int) -> int:
        """When it began, for an association of this time."""
        return self.since or time


class MuteTerms(msgspec.Struct, frozen=True, array_like=True):
    """How far and for how long somebody is muted."""

    notifications: bool = True
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""

    def over(self, now: int) -> bool:
        """Whether the mute has ended by now (Unix milliseconds)."""
        return 0 < self.expires_at <= now


FOLLOW = FollowTerms()
MUTE = MuteTerms()

_encode = msgspec.msgpack.Encoder().encode
_follow_terms = msgspec.msgpack.Decoder(FollowTerms)
_mute_terms = msgspec.msgpack.Decoder(MuteTerms)


def encode(terms: FollowTerms | MuteTerms) -> bytes:
    """As the data of an association."""
    return b"" if terms in (FOLLOW, MUTE) else _encode(terms)


@lru_cache(maxsize=4_096)
def follow_terms(data: bytes) -> FollowTerms:
    """Decode the data of a follow, or of a request to follow."""
    return _follow_terms.decode(data) if data else FOLLOW


@lru_cache(maxsize=4_096)
def mute_terms(data: bytes) -> MuteTerms:
    """Decode the data of a mute."""
    return _mute_terms.decode(data) if data else MUTE
