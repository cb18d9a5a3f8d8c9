"""Which posts count in the tag cloud, and what a change of one means for it: the one rule, for whoever changes posts."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.core.events import TagsUsed
from shoal.core.ids import shard_of
from shoal.core.model import Post, Visibility
from shoal.core.text import normalized, parse, tags_of
from shoal.graph.contract import Batch
from shoal.graph.payloads.listings import relist


def counted_tags(post: Post | None) -> dict[str, str]:
    """The tags with which a post counts, canonical, as they were typed: none unless it is public and in sight."""
    if post is None or post.visibility is not Visibility.PUBLIC or post.hidden or not post.tags:
        return {}
    typed = dict(tags_of(post.text))
    if not typed.keys() >= set(post.tags):
        typed |= _lowercase_tags(post.text)
    return {tag: typed.get(tag, tag) for tag in post.tags}


def _lowercase_tags(text: str) -> dict[str, str]:
    """Return a text's tags by the form in which Shoal 0.2 and earlier stored them: NFKC in lower case, not case-folded."""
    typed: dict[str, str] = {}
    for span in parse(text):
        if span.kind == "tag":
            form = text[span.start + 1 : span.end]
            wave_dashes = form.replace("\uff5e", "\u301c")
            typed.setdefault(normalized("NFKC", normalized("NFKC", wave_dashes).lower()), form)
    return typed


def tags_used(before: Post | None, after: Post | None, at: int) -> TagsUsed | None:
    """The event of a change made at this moment (Unix ms), to go into its commit; None when nothing counts otherwise.

    A post that comes has no `before`, one that goes no `after`. A tag that is spelled otherwise goes and comes.
    """
    had, has = counted_tags(before).items(), counted_tags(after).items()
    changes = [(name, form, 1) for name, form in has - had] + [(name, form, -1) for name, form in had - has]
    post = after or before
    if not changes or post is None:
        return None
    return TagsUsed(
        post_id=post.id,
        version=after.version if after else post.version + 1,
        author_id=post.author_id,
        written=post.created_at,
        at=at,
        changes=tuple(changes),
    )


def hidden_batch(post: Post, hidden: int, at: int) -> tuple[Post, Batch]:
    """The post as it is when it is `hidden` for these reasons (0: in sight), and the batch that makes it so."""
    after = replace(post, hidden=hidden, version=post.version + 1)
    batch = Batch(shard_of(post.author_id))
    batch.obj_set(after)
    relist(batch, post, after, post.id)
    if (used := tags_used(post, after, at)) is not None:
        batch.emit(used)
    return after, batch
