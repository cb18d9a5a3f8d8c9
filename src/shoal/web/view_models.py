"""View models shared by many pages: posts with photos, polls and buttons, and members as a face, a name or a profile card.

A view model is a frozen struct that holds everything a template reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from markupsafe import Markup, escape

from shoal.core.blurhash import BASE83
from shoal.core.errors import NotFound
from shoal.core.media_files import still_of, with_sizes
from shoal.core.model import HELD, OPEN, Media, MediaState, Member
from shoal.core.text import isolated, plain_excerpt, unaddressed
from shoal.core.visibility import STRANGER, Relation, is_sensitive, may_share
from shoal.graph.access import full_relations
from shoal.graph.cache.dependencies import good_until
from shoal.i18n import Translated, When, language_tag
from shoal.media.library import AVATAR
from shoal.queries.hydration import Entry, PollView, Profile, hydrate
from shoal.queries.pipeline import filtered
from shoal.queries.suggestions import Suggestion, SuggestionReason
from shoal.web.form_errors import complaint, sentence
from shoal.web.photo_rows import MANY, post_sizes, ratio_class, ratio_of, row_breaks
from shoal.web.place_names import place_words
from shoal.web.request_context import PageContext


class Face(msgspec.Struct, frozen=True):
    """A member on one line: name, link and avatar."""

    id: int
    name: str
    shown: str
    """The display name; if it is empty, the user name."""
    path: str
    avatar: str
    """URL of the smallest size of the avatar."""


class Relationship(msgspec.Struct, frozen=True):
    """The relationship between the viewer and a member, with the texts that buttons need."""

    self: bool = False
    following: bool = False
    requested: bool = False
    followed_by: bool = False
    muting: bool = False
    blocking: bool = False
    locked: bool = False


class PersonView(msgspec.Struct, frozen=True):
    face: Face
    note: Markup
    followers: str
    posts: str
    relationship: Relationship
    reason: str | Markup = ""


def face_of(ctx: PageContext, member: Member) -> Face:
    avatar = ctx.app.at.avatar(still_of(member.avatar))
    return Face(member.id, member.name, member.shown_name, ctx.url(f"/@{member.name}"), _smallest(avatar))


@lru_cache(5_000)
def _smallest(avatar: str) -> str:
    return next(iter(with_sizes(avatar, AVATAR[0]).values()))


def relationship_of(ctx: PageContext, member: Member, relation: Relation) -> Relationship:
    return Relationship(
        self=member.id == ctx.viewer_id,
        following=relation.following,
        requested=relation.requested,
        followed_by=relation.followed_by,
        muting=relation.muting,
        blocking=relation.blocking,
        locked=member.locked,
    )


async def people_of(ctx: PageContext, profiles: Sequence[Profile]) -> list[PersonView]:
    """Return members with the viewer's relationship to each. Costs two reads if a member is logged in."""
    relations: dict[int, Relation] = {}
    if ctx.viewer_id is not None and profiles:
        relations = await full_relations(ctx.graph, ctx.viewer_id, [profile.member.id for profile in profiles])
    return [person_of(ctx, profile, relations.get(profile.member.id, STRANGER)) for profile in profiles]


def suggested(ctx: PageContext, found: Suggestion) -> PersonView:
    reason = suggestion_reason(ctx.words, found.reasons[0]) if found.reasons else ""
    return person_of(ctx, found.profile, STRANGER, reason)


def suggestion_reason(words: Translated, reason: SuggestionReason) -> str:
    _, n, named = words.text, round(reason.number), reason.named
    match reason.source:
        case "friends" if named:
            names = ", ".join(isolated(f"@{name}") for name in named)
            if n <= len(named):
                return _("Followed by %(names)s, whom you know") % {"names": names}
            return words.counted(
                "Followed by %(names)s and %(n)s other you know",
                "Followed by %(names)s and %(n)s others you know",
                n - len(named),
                names=names,
            )
        case "friends":
            return words.counted("Followed by %(n)s person you know", "Followed by %(n)s people you know", n)
        case "followers":
            return words.counted("Followed by %(n)s member", "Followed by %(n)s members", n)
        case "follows_you":
            return _("Follows you")
        case "liked" if n:
            return words.counted("You liked %(n)s of their posts", "You liked %(n)s of their posts", n)
        case "liked":
            return _("You shared, saved or answered their posts")
        case "tags":
            return _("Posts with %(tags)s") % {"tags": ", ".join(isolated(f"#{tag}") for tag in named)}
    if n >= 1:
        return _("Posts from about %(km)s km away") % {"km": words.number(n)}
    return _("Near %(town)s") % {"town": isolated(named[0])} if named else _("Near you")


def person_of(ctx: PageContext, profile: Profile, relation: Relation, reason: str | Markup = "") -> PersonView:
    member, words = profile.member, ctx.words
    return PersonView(
        face_of(ctx, member),
        Markup(ctx.app.at.html(member.note, member.mentions)),  # noqa: S704 (escaped when it was made)
        words.compact(profile.followers),
        words.compact(profile.posts),
        relationship_of(ctx, member, relation),
        reason,
    )


_NO_TINT = "#808080"


@lru_cache(50_000)
def tint_of(blurhash: str) -> str:
    """Return the average color of a blurhash as `#rrggbb`. Characters 2 to 5 of the blurhash contain it in base 83.

    Format: https://github.com/woltapp/blurhash/blob/master/Algorithm.md
    """
    value = 0
    for digit in blurhash[2:6]:
        value = value * 83 + BASE83.get(digit, 0)
    return f"#{value & 0xFFFFFF:06x}" if len(blurhash) >= 6 else _NO_TINT


_GRID = 5


class Photo(msgspec.Struct, frozen=True):
    id: int
    kind: str
    preview: str
    """URL of the preview; empty if there is none."""
    large: str
    """URL of the video, or of the large copy of a picture that the photo page shows."""
    original: str
    """URL of the picture in full resolution; empty unless it is stored and the author allows downloads."""
    width: int
    height: int
    alt: str
    ratio: str
    focus: str
    tint: str
    blurhash: str
    ready: bool = True
    failed: bool = False
    failure: str = ""
    length: str = ""
    first: bool = False
    """Whether the browser should load this photo at once, because it is the first on the page."""
    breaks: str = ""
    """CSS classes of the widths at which a row ends after this photo. They are set if photos are arranged in rows."""
    edge: int = 640
    """Pixels of the longer edge of the preview."""
    sizes: str = ""
    """The widths at which a post shows it, for browsers to choose a file."""

    @property
    def srcset(self) -> str:
        """The HTML attribute `srcset`: the URL of each size of the photo, with its width in pixels."""
        return self._srcset(ratio_of(self.ratio))

    @property
    def square(self) -> str:
        """The HTML attribute `srcset` if the photo is cropped to a square: the URL of each size, with the width of the square."""
        return self._srcset(1.0)

    def _srcset(self, ratio: float) -> str:
        large = self.large if self.kind == "image" else ""
        return _srcset(self.preview, large, self.width, self.height, self.edge, ratio)


@lru_cache(5_000)
def _srcset(preview: str, large: str, width: int, height: int, edge: int, ratio: float) -> str:
    """Return the HTML attribute `srcset` of a photo that is cropped to this aspect ratio: each URL with the width of the crop."""
    longer = max(width, height)
    files = with_sizes(large, longer) if large else {}
    if preview:
        files |= with_sizes(preview, edge)
    return srcset_of(files, min(width, height * ratio) / longer)


def srcset_of(files: Mapping[int, str], filled: float = 1.0) -> str:
    """Return the HTML attribute `srcset` for URLs by the longer edge of the file. The stated width is `filled` times this edge."""
    return ", ".join(f"{files[edge]} {max(1, round(edge * filled))}w" for edge in sorted(files))


class Option(msgspec.Struct, frozen=True):
    place: int
    title: str
    percent: int
    votes: str
    chosen: bool


class ShownPoll(msgspec.Struct, frozen=True):
    id: int
    options: tuple[Option, ...]
    multiple: bool
    open: bool
    words: Markup


class Button(msgspec.Struct, frozen=True):
    on: bool
    count: str
    words: str


class AnsweredPost(NamedTuple):
    author: str
    excerpt: str = ""


class ReactionButton(msgspec.Struct, frozen=True):
    """The button of a declared reaction."""

    name: str
    title: str
    on: bool = False
    count: str = ""
    usable: bool = True
    """Whether the viewer can add the reaction, or remove their own."""


class PostView(msgspec.Struct, frozen=True):
    """A post, or a share of one, as pages show it."""

    id: int
    entry_id: int
    """Id of the entry in its list. For a share, it is the id of the share, not of the post."""
    path: str
    author: Face
    when: When
    text: Markup
    excerpt: str
    language: str
    photos: tuple[Photo, ...]
    like: Button
    share: Button
    save: Button
    comment: Button
    tags: tuple[str, ...] = ()
    sharable: bool = True
    visibility: str = "public"
    spoiler: str = ""
    covered: bool = False
    limited: bool = False
    """Whether the post, or its share, is for fewer people than everyone."""
    shared_by: str = ""
    sharer: Face | None = None
    answers: AnsweredPost | None = None
    """The post by another author that this post replies to."""
    edited: When | None = None
    poll: ShownPoll | None = None
    folded: tuple[str, ...] = ()
    """Titles of the viewer's filters because of which the post is collapsed."""
    place: str = ""
    place_name: str = ""
    mine: bool = False
    pinned: bool = False
    on_top: bool = False
    why: object = None
    """The reasons for the position of the post in a ranked feed: see `web.ranking`."""
    depth: int = -1
    """Depth of a comment on the page of a post; -1 on other pages."""
    answer: str = ""
    """URL of the form with which a script lets the viewer reply below a comment; empty on other pages."""
    emoji: tuple[tuple[str, str, bool], ...] = ()
    reactions: tuple[ReactionButton, ...] = ()
    """The declared reactions that were used, and those that apply to the post if there are few."""
    more_reactions: tuple[ReactionButton, ...] = ()
    """The other declared reactions that apply to the post."""


async def entry_with_id(ctx: PageContext, id_: int) -> Entry:
    """Return the post or share with this id. Raises `NotFound` if the viewer may not see it."""
    found = await hydrate(ctx.reads.graph, ctx.viewer_id, (id_,), unasked=False)
    if not found:
        raise NotFound("There is no such post")
    return found[0]


async def posts_of(ctx: PageContext, entries: Sequence[Entry]) -> list[PostView]:
    """Return the view models of entries of a feed. Costs two reads if some entries are comments."""
    parents = await answered(ctx, entries)
    return with_first_photo([post_of(ctx, entry, parents) for entry in entries])


_FIRST_SCREEN = 4
"""Posts that a phone shows without scrolling, if they have no photos."""


def with_first_photo(posts: list[PostView]) -> list[PostView]:
    """Mark one photo, the first in the posts of the first screen, so that the browser loads it before others."""
    for n, post in enumerate(posts[:_FIRST_SCREEN]):
        if post.photos and not (post.covered or post.spoiler or post.folded):
            photo = msgspec.structs.replace(post.photos[0], first=True)
            return [*posts[:n], msgspec.structs.replace(post, photos=(photo, *post.photos[1:])), *posts[n + 1 :]]
    return posts


async def answered(ctx: PageContext, entries: Sequence[Entry]) -> dict[int, AnsweredPost]:
    """Return the posts by other authors to which these entries reply, by id. Costs one hydration if there are any.

    The excerpt of such a post is empty if a list would not show the post to the viewer. This is so if its author is
    muted or silenced, the viewer has reported it, a filter matches it, or moderators hold it.
    """
    parents = {
        entry.post.parent_id: entry.post.parent_author_id
        for entry in entries
        if entry.post.parent_id and entry.post.parent_author_id != entry.post.author_id
    }
    if not parents:
        return {}
    nodes, seen = await asyncio.gather(
        ctx.graph.obj_get(list(set(parents.values()))), hydrate(ctx.reads.graph, ctx.viewer_id, list(parents))
    )
    excerpts = {
        entry.post.id: plain_excerpt(entry.post.spoiler or entry.post.shown_text, 120)
        for entry in await filtered(ctx.reads.graph, ctx.viewer_id, seen)
        if not (entry.matches or entry.reported or entry.post.review in HELD or entry.author.member.silenced)
    }
    return {
        id_: AnsweredPost(author.name, excerpts.get(id_, ""))
        for id_, author_id in parents.items()
        if isinstance(author := nodes.get(author_id), Member)
    }


def post_of(
    ctx: PageContext,
    entry: Entry,
    parents: Mapping[int, AnsweredPost] = MappingProxyType({}),
    *,
    depth: int = -1,
    why: object = None,
    known: Collection[str] = (),
) -> PostView:
    """Return the view model of an entry of a feed.

    `parents` are the posts that entries reply to, by id. `known` are the participants of the answered post whom the
    page already shows. Mentions of these members and of the answered author are removed from the start of the text.
    """
    post, author, words = entry.post, entry.author.member, ctx.words
    answers = parents.get(post.parent_id)
    text = unaddressed(post.shown_text, {*known, answers.author} if answers else known)
    # A comment that contains nothing else keeps its mentions.
    text = text if text or entry.media else post.shown_text
    shown, more = _reactions(ctx, entry)
    return PostView(
        id=post.id,
        entry_id=entry.id,
        path=ctx.url(f"/@{author.name}/{post.id}"),
        author=face_of(ctx, author),
        when=ctx.when(post.created_at),
        text=Markup(ctx.app.at.html(text, post.mentions)),  # noqa: S704 (escaped when it was made)
        excerpt=plain_excerpt(text, 80),
        language=language_tag(post.language),
        photos=_photos(ctx, entry.media, downloads=post.downloads),
        **_buttons(words, entry),
        tags=post.tags,
        sharable=ctx.viewer is None or may_share(ctx.viewer.id, post),
        visibility=post.visibility.value,
        spoiler=post.spoiler,
        covered=is_sensitive(post, author) and bool(entry.media),
        limited=post.visibility not in OPEN or (entry.share is not None and entry.share.visibility not in OPEN),
        shared_by=_shared_by(words, entry),
        sharer=face_of(ctx, entry.sharer.member) if entry.sharer else None,
        answers=answers,
        edited=ctx.when(post.edited_at) if post.edited_at else None,
        poll=_poll(ctx, entry.poll) if entry.poll else None,
        folded=tuple(match.filter.title for match in entry.filtered),
        place=f"{post.place.latitude:.3f},{post.place.longitude:.3f}" if post.place else "",
        place_name=place_words(words, post.place) if post.place else "",
        mine=author.id == ctx.viewer_id,
        pinned=entry.pinned,
        on_top=entry.on_top,
        why=why,
        depth=depth,
        answer=ctx.url(f"/posts/{post.id}/answer", depth=depth) if depth >= 0 else "",
        emoji=tuple((counted.emoji, words.compact(counted.count), counted.me) for counted in entry.emoji),
        reactions=shown,
        more_reactions=more,
    )


_FEW_REACTIONS = 6
"""Maximum number of declared reactions that a post shows before they are used."""


def _reactions(ctx: PageContext, entry: Entry) -> tuple[tuple[ReactionButton, ...], tuple[ReactionButton, ...]]:
    """Return the buttons of declared reactions that a post shows, and those in its menu."""
    if not ctx.reactions.reactions:
        return (), ()
    counts = {counted.emoji: counted for counted in entry.named}
    applicable = {each.name for each in ctx.reactions.reactions if each.applies_to(entry.post.kind)}
    used, unused = [], []
    for each in ctx.reactions.reactions:
        counted = counts.get(each.name)
        if counted is not None:
            usable = each.name in applicable or counted.me
            shown = ReactionButton(each.name, each.title, counted.me, ctx.words.compact(counted.count), usable)
            used.append(shown)
        elif each.name in applicable:
            unused.append(ReactionButton(each.name, each.title))
    if len(used) + len(unused) <= _FEW_REACTIONS:
        order = {each.name: at for at, each in enumerate(ctx.reactions.reactions)}
        return tuple(sorted([*used, *unused], key=lambda each: order[each.name])), ()
    return tuple(used), tuple(unused)


def _photos(ctx: PageContext, media: Sequence[Media], *, downloads: bool) -> tuple[Photo, ...]:
    """Return the photos of a post. More than four photos are arranged in rows; the style sheet arranges up to four."""
    photos = [photo_of(ctx, file, downloads=downloads) for file in media]
    ratios = tuple(ratio_of(photo.ratio) for photo in photos)
    breaks = row_breaks(ratios) if len(photos) >= MANY else [""] * len(photos)
    arranged = zip(photos, breaks, post_sizes(ratios), strict=True)
    return tuple(msgspec.structs.replace(photo, breaks=ends, sizes=sizes) for photo, ends, sizes in arranged)


def photo_of(ctx: PageContext, media: Media, *, downloads: bool = False) -> Photo:
    at, shown = ctx.app.at, media.state is MediaState.READY
    width, height = media.width or media.preview_width or 3, media.height or media.preview_height or 2
    return Photo(
        id=media.id,
        kind=media.kind.value,
        preview=at.media(media.preview_key) if media.preview_key else "",
        large=at.media(media.key) if shown and media.key else "",
        original=at.media(media.largest_key) if shown and downloads and media.original_key else "",
        width=width,
        height=height,
        alt=media.description,
        ratio=ratio_class(width / height),
        focus=_focus_class(media.focus),
        tint=tint_of(media.blurhash),
        blurhash=media.blurhash,
        ready=shown,
        failed=media.state is MediaState.FAILED,
        failure=sentence(complaint(ctx.words, media.failure)) if media.failure else "",
        length=f"{int(media.duration) // 60}:{int(media.duration) % 60:02}" if media.duration else "",
        edge=max(media.preview_width, media.preview_height) or 640,
    )


def _focus_class(focus: tuple[float, float]) -> str:
    across, down = ((focus[0] + 1) / 2, (1 - focus[1]) / 2)
    x, y = (min(_GRID - 1, max(0, int(part * _GRID))) for part in (across, down))
    return f"f{x}{y}"


def _buttons(words: Translated, entry: Entry) -> dict[str, Button]:
    def button(on: bool, count: int, one: str, many: str) -> Button:
        return Button(on, words.compact(count) if count else "", words.counted(one, many, count))

    return {
        "like": button(entry.liked, entry.likes, "Like, %(n)s like", "Like, %(n)s likes"),
        "share": button(entry.shared, entry.shares, "Share, %(n)s share", "Share, %(n)s shares"),
        "comment": button(False, entry.comments, "Comment, %(n)s comment", "Comment, %(n)s comments"),
        "save": Button(entry.bookmarked, "", words.text("Save")),
    }


def _shared_by(words: Translated, entry: Entry) -> str:
    if entry.sharer is None:
        return ""
    first, total = (entry.shared_by.first, entry.shared_by.number) if entry.shared_by else ((), 0)
    names = ", ".join(profile.member.shown_name for profile in (entry.sharer, *first))
    if (others := total - len(first)) > 0:
        return words.counted(
            "Shared by %(names)s and %(n)s other", "Shared by %(names)s and %(n)s others", others, names=names
        )
    return words.text("Shared by %(names)s") % {"names": names}


def _poll(ctx: PageContext, view: PollView) -> ShownPoll:
    poll, words = view.poll, ctx.words
    over = poll.expires_at <= ctx.now_ms
    good_until(poll.expires_at, ctx.now_ms)
    total = sum(view.votes)
    shown = over or not poll.hide_totals
    options = tuple(
        Option(
            n,
            option.title,
            round(100 * votes / total) if total and shown else 0,
            words.number(votes) if shown else "",
            view.choices is not None and n in view.choices,
        )
        for n, (option, votes) in enumerate(zip(poll.options, view.votes or (0,) * len(poll.options), strict=True))
    )
    may_vote = not over and ctx.viewer is not None and view.choices is None and poll.owner_id != ctx.viewer.id
    voters = words.counted("%(n)s person voted", "%(n)s people voted", view.voters)
    end = words.text("ended %(when)s") if over else words.text("until %(when)s")
    shown_end = with_time(ctx, end, poll.expires_at)
    return ShownPoll(poll.id, options, poll.multiple, may_vote, escape(f"{voters} · ") + shown_end)


def with_time(ctx: PageContext, sentence: str, ms: int) -> Markup:
    """Return a sentence with a time for its `%(when)s`, which a script shows in the reader's time zone."""
    when = ctx.words.when(ms, ctx.now_ms)
    time = Markup('<time datetime="{}" data-behavior="moment">{}</time>').format(when.iso, when.full)
    return escape(sentence) % {"when": time}


def tag_path(ctx: PageContext, tag: str) -> str:
    return ctx.url(f"/tags/{quote(tag)}")
