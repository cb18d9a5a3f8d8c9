"""Making index rows of objects in the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from shoal.core.model import Media, Member, Node, Poll, Post, Visibility
from shoal.core.places import cells_of
from shoal.core.text import parse
from shoal.core.tokenizer import words_of
from shoal.discovery.contract import PUBLIC, MemberRow, PostRow, by, to, within

HAS_MEDIA = ":has:media"
HAS_POLL = ":has:poll"
HAS_LINK = ":has:link"
IS_REPLY = ":is:reply"
IS_SENSITIVE = ":is:sensitive"


def written_in(language: str) -> str:
    """Return the mark of a language: `en-GB` counts as `en`. Empty for anything that is not a language."""
    main = language.partition("-")[0].partition("_")[0].lower()
    return f":in:{main}" if main.isascii() and main.isalpha() else ""


def beside(post: Post) -> tuple[int, ...]:
    """Return the ids of objects whose words belong to a post: its poll and its media."""
    return (post.poll_id, *post.media) if post.poll_id else post.media


def whole_row(post: Post, nodes: Mapping[int, Node]) -> PostRow:
    """Return the row of a post, with the poll and the media (see `beside`) taken from `nodes`."""
    poll = nodes.get(post.poll_id)
    media = [node for id_ in post.media if isinstance(node := nodes.get(id_), Media)]
    return post_row(post, poll if isinstance(poll, Poll) else None, media)


def post_row(post: Post, poll: Poll | None = None, media: Iterable[Media] = ()) -> PostRow:
    """Return the row of a post: its words, and those of its warning, poll options and media descriptions."""
    options = [option.title for option in poll.options] if poll else []
    text = "\n".join((post.spoiler, post.text, *options, *[each.description for each in media]))
    counts = post.visibility is Visibility.PUBLIC and not post.hidden
    return PostRow(
        id=post.id,
        author_id=post.author_id,
        written=post.created_at,
        marks=tuple(_marks(post)),
        words=tuple(words_of(text)),
        tags=post.tags if counts else (),
    )


def _marks(post: Post) -> Iterator[str]:
    if post.visibility is Visibility.PUBLIC:
        yield PUBLIC
    yield by(post.author_id)
    for who in dict.fromkeys(mention.id for mention in post.mentions):
        yield to(who)
    for mark, there in (
        (HAS_MEDIA, post.media),
        (HAS_POLL, post.poll_id),
        (HAS_LINK, any(span.kind == "link" for span in parse(post.text))),
        (IS_REPLY, post.parent_id),
        (IS_SENSITIVE, post.sensitive),
    ):
        if there:
            yield mark
    if language := written_in(post.language):
        yield language
    if post.place is not None:
        yield from map(within, cells_of(post.place))


def is_listed(member: Member) -> bool:
    """Return whether a member may be shown to those who did not look for them: they want it, and moderators allow it."""
    return member.discoverable and not member.suspended and not member.silenced


def name_words(member: Member) -> list[str]:
    """Return the words of both names of a member."""
    return words_of(f"{member.name} {member.display_name}")


def note_words(member: Member) -> list[str]:
    """Return the words of a member's note; none of those who do not want to be found."""
    return words_of(member.note) if is_listed(member) else []


def member_row(member: Member) -> MemberRow:
    """Return the row of a member."""
    return MemberRow(
        id=member.id,
        name=member.name,
        joined=member.created_at,
        words=tuple(name_words(member)),
        note=tuple(note_words(member)),
        listed=is_listed(member),
        shy=not member.indexable or member.suspended,
        suspended=member.suspended,
    )
