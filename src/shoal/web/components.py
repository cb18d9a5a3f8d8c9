"""The component gallery at `/dev/components`: every partial in all its states, from sample posts and members.

It is available only with the setting `development`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.responses import Response

from shoal.core.filters import Filter
from shoal.core.ids import compose
from shoal.core.model import Media, MediaKind, MediaState, Member, Mention, Poll, PollOption, Post, Share, Visibility
from shoal.core.places import Place
from shoal.core.visibility import STRANGER, Relation
from shoal.queries.hydration import EmojiCount, Entry, Filtered, PollView, Profile, SharedBy
from shoal.web import routing
from shoal.web.rendering import icon_names, page
from shoal.web.request_context import PageContext
from shoal.web.view_models import person_of, post_of

_HOUR_MS = 3_600_000
_BLURS = (
    "LKO2?U%2Tw=w]~RBVZRi};RPxuwH",
    "LGF5]+Yk^6#M@-5c,1J5@[or[Q6.",
    "L6PZfSi_.AyE_3t7t7R**0o#DgR4",
    "LEHV6nWB2yk8pyo0adR*.7kCMdnj",
)


def samples(now_ms: int) -> Iterator[tuple[str, Entry]]:
    ann = _member(1, "ann", "Ann Arden")
    ben = _member(2, "benedikt_with_a_long_name", "Benedikt von der Langen Straße am Wasserfall")
    photos = [_photo(n, *size) for n, size in enumerate(((1500, 1000), (1000, 1500), (1600, 900), (1200, 1200)))]

    def entry(n: int, author: Member = ann, text: str = "", media: tuple[Media, ...] = (), **more: Any) -> Entry:
        made = {name: more.pop(name) for name in tuple(more) if name in Post.__struct_fields__}
        id_ = compose(now_ms - n * _HOUR_MS, 1, n)
        post = Post(id=id_, author_id=author.id, text=text, media=tuple(file.id for file in media), **made)
        return Entry(id_, post, Profile(author, 1_204, 88, 311), STRANGER, media, **more)

    yield "words", entry(1, text="The tide is out, and the boats lie on the sand and wait. #harbour", tags=("harbour",))
    yield "a photo", entry(2, text="Seven in the morning.", media=(photos[0],), likes=12, comments=3, liked=True)
    yield "a tall photo", entry(3, media=(photos[1],), likes=1_234_567, shares=45_000, comments=999, marks=1)
    yield "four photos", entry(4, text="Four of them.", media=tuple(photos), shares=2, shared=True)
    many = tuple(msgspec.structs.replace(photos[n % 4], id=60 + n) for n in range(10))
    yield "ten photos", entry(4, text="Ten of them.", media=many)
    yield "a long name", entry(5, author=ben, text="A" * 300)
    yield "sensitive", entry(6, text="Behind a cover.", media=(photos[2],), sensitive=True)
    yield "a warning", entry(7, text="It was the gardener.", media=(photos[3],), spoiler="The end of the film")
    yield "edited, unlisted", entry(8, text="Mended.", edited_at=now_ms, visibility=Visibility.UNLISTED)
    yield "for followers", entry(9, text="Only for you.", visibility=Visibility.FOLLOWERS)
    yield (
        "for those it names",
        entry(10, text="Hello @ben", mentions=(Mention(2, "ben"),), visibility=Visibility.DIRECT),
    )
    yield (
        "filtered",
        entry(11, text="Football, football.", filtered=(Filtered(Filter(id=1, owner_id=1, title="Football")),)),
    )
    share = Share(id=compose(now_ms, 1, 77), author_id=2, post_id=1, post_author_id=1)
    yield (
        "shared",
        entry(
            12,
            text="Worth showing.",
            share=share,
            sharer=Profile(ben),
            shared_by=SharedBy((Profile(ann), Profile(ben)), 5),
        ),
    )
    yield (
        "with emoji and a place",
        entry(
            13,
            text="Up here.",
            place=Place(47.42, 10.98),
            emoji=(EmojiCount("🏔️", 4, True), EmojiCount("👏", 2, False)),
        ),
    )
    for n, (name, over, choices) in enumerate(
        (("a poll", False, None), ("a poll one has voted in", False, (1,)), ("a poll that is over", True, None))
    ):
        end = now_ms + (-1 if over else 1) * _HOUR_MS
        options = tuple(
            PollOption(n, title) for n, title in enumerate(("Sunrise", "Noon", "Dusk, when the light goes blue"))
        )
        poll = Poll(id=5, owner_id=2, post_id=1, options=options, expires_at=end)
        yield name, entry(14 + n, text="When?", poll=PollView(poll, (3, 12, 30), 45, choices))
    waiting = Media(id=90, owner_id=1, kind=MediaKind.VIDEO, state=MediaState.PROCESSING, blurhash=_BLURS[0])
    failed = Media(id=91, owner_id=1, kind=MediaKind.VIDEO, state=MediaState.FAILED, blurhash=_BLURS[1])
    yield "a video on its way", entry(20, text="Soon.", media=(waiting,))
    yield "a video that failed", entry(21, text="Not this one.", media=(failed,))


def _member(n: int, name: str, shown: str) -> Member:
    return Member(id=n, name=name, display_name=shown, note="Walks before breakfast, mostly with a camera.")


def _photo(n: int, width: int, height: int) -> Media:
    return Media(
        id=50 + n,
        owner_id=1,
        key=f"components/{n}.jpg",
        preview_key=f"components/{n}-small.jpg",
        width=width,
        height=height,
        blurhash=_BLURS[n],
        description="A harbour at low tide, with three boats on the sand.",
    )


_RELATIONS = {
    "a stranger": STRANGER,
    "following": Relation(following=True),
    "asked": Relation(requested=True),
    "a follower": Relation(followed_by=True),
    "blocked": Relation(blocking=True),
}


async def show(ctx: PageContext, _params: None) -> Response:
    entries = list(samples(ctx.now_ms))
    author = entries[0][1].author.member
    people = [
        (name, person_of(ctx, Profile(author, 1_204, 88, 311), relation)) for name, relation in _RELATIONS.items()
    ]
    return await page(
        ctx,
        "components",
        title="Components",
        posts=[(name, post_of(ctx, entry)) for name, entry in entries],
        people=people,
        icons=sorted(icon_names()),
    )


ROUTES = (routing.page("/dev/components", show),)
