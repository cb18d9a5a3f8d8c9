"""A post or a profile as other programs show a link to it: Open Graph, JSON-LD, oEmbed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from markupsafe import Markup

from shoal.core.media_files import still_of
from shoal.core.model import OPEN, MediaKind, Member, Post, Visibility
from shoal.core.text import plain_excerpt
from shoal.core.visibility import is_sensitive
from shoal.queries.hydration import Entry, Profile
from shoal.web.views.posts import Photo, photo_of
from shoal.web.visit import Visit

_WORDS = 300
"""Characters of a description."""
_CONTEXT = "https://schema.org"


class Card(msgspec.Struct, frozen=True):
    """Everything that a program is told of a page that it links to."""

    url: str
    title: str
    words: str
    kind: str
    """The `og:type`."""
    pictures: tuple[Photo, ...]
    large: bool
    """Whether the pictures are what it is about, and not an avatar."""
    data: Markup
    """JSON-LD."""
    index: bool
    """Whether search engines may keep the page."""
    made: str = ""
    """When it was published, for a post."""
    author: str = ""
    oembed: str = ""
    atom: str = ""


def post_card(visit: Visit, entry: Entry) -> Card | None:
    """Return the card of a post; None for one that is not for everybody."""
    post, author = entry.post, entry.author.member
    if post.visibility not in OPEN:
        return None
    at, shown = visit.front.at, author.shown_name
    url = at.status(author.name, post.id)
    hides = bool(post.spoiler) or is_sensitive(post, author)
    pictures = () if hides else tuple(photo_of(visit, one) for one in entry.media if one.kind is not MediaKind.AUDIO)
    words = post.spoiler or plain_excerpt(post.text, _WORDS)
    made = visit.when(post.created_at).iso
    data = {
        "@context": _CONTEXT,
        "@type": "SocialMediaPosting",
        "@id": url,
        "url": url,
        "datePublished": made,
        "author": _person(visit, author),
        "text": words,
        "image": [one.large or one.preview for one in pictures],
        "interactionStatistic": [_number("LikeAction", entry.likes), _number("CommentAction", entry.comments)],
    }
    return Card(
        url=url,
        title=f"{shown} (@{author.name})",
        words=words,
        kind="article",
        pictures=pictures,
        large=bool(pictures),
        data=_json(data),
        index=author.indexable and post.visibility is Visibility.PUBLIC,
        made=made,
        author=at.account(author.name),
        oembed=f"{at.root}/api/oembed?url={url}",
        atom=f"{at.account(author.name)}.atom",
    )


def profile_card(visit: Visit, profile: Profile) -> Card:
    """Return the card of a profile."""
    member, at = profile.member, visit.front.at
    url = at.account(member.name)
    words = plain_excerpt(member.note, _WORDS)
    picture = Photo(0, "image", at.avatar(still_of(member.avatar)), "", "", 400, 400, "", "r100", "f22", "", "")
    data = {
        "@context": _CONTEXT,
        "@type": "ProfilePage",
        "url": url,
        "mainEntity": {
            **_person(visit, member),
            "description": words,
            "image": picture.preview,
            "interactionStatistic": [_number("FollowAction", profile.followers)],
            "agentInteractionStatistic": _number("WriteAction", profile.posts),
        },
    }
    return Card(
        url=url,
        title=f"{member.shown_name} (@{member.name})",
        words=words,
        kind="profile",
        pictures=(picture,),
        large=False,
        data=_json(data),
        index=member.indexable,
        author=url,
        atom=f"{url}.atom",
    )


def may_embed(post: Post) -> bool:
    """Return whether a post may be shown on pages elsewhere: what everybody may see."""
    return post.visibility in OPEN


def _person(visit: Visit, member: Member) -> dict[str, Any]:
    url = visit.front.at.account(member.name)
    return {
        "@type": "Person",
        "name": member.display_name or member.name,
        "alternateName": f"@{member.name}",
        "url": url,
    }


def _number(action: str, n: int) -> dict[str, Any]:
    return {
        "@type": "InteractionCounter",
        "interactionType": f"{_CONTEXT}/{action}",
        "userInteractionCount": n,
    }


def _json(data: dict[str, Any]) -> Markup:
    """Return data as JSON that cannot end the element that it stands in."""
    text = json.dumps(data, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704 (no tag)
