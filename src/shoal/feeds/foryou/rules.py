"""Rules that keep a post out of For you, each with a name. Scores have no say in them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from shoal.core.model import HELD, Member, Post, Review, Visibility
from shoal.core.visibility import Relation, is_sensitive, may_list_publicly

OPEN_TO_FOLLOWERS = (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS)


class Rule(StrEnum):
    """Why a post that the viewer may see is not ranked for them. `RULE_WORDS` says it in words."""

    OWN = "own"
    DIRECT = "direct"
    REPLY = "reply"
    OPTED_OUT = "opted_out"
    APART = "apart"
    LANGUAGE = "language"
    REPORTED = "reported"
    NOT_PUBLIC = "not_public"
    NOT_DISCOVERABLE = "not_discoverable"
    SENSITIVE = "sensitive"


RULE_WORDS: Mapping[Rule, str] = {
    Rule.OWN: "it is your own",
    Rule.DIRECT: "it is a direct post",
    Rule.REPLY: "it answers somebody else's post, and says little without it",
    Rule.OPTED_OUT: "its author keeps their posts out of ranked feeds",
    Rule.APART: "you read its author in a list of their own",
    Rule.LANGUAGE: "you follow its author in other languages only",
    Rule.REPORTED: "it was reported, and moderators have not cleared it",
    Rule.NOT_PUBLIC: "you do not follow its author, and it is not for public lists",
    Rule.NOT_DISCOVERABLE: "you do not follow its author, who does not want to be found",
    Rule.SENSITIVE: "you do not follow its author, and it is marked as sensitive",
}


def kept_out_by(viewer: int, post: Post, author: Member, relation: Relation, apart: frozenset[int]) -> Rule | None:
    """Return the rule that keeps a post out of the viewer's ranked feed, which they may otherwise be shown; None for none.

    `apart`: followees whom the viewer reads in an exclusive list.
    """
    if author.id == viewer:
        return Rule.OWN
    if post.visibility not in OPEN_TO_FOLLOWERS:
        return Rule.DIRECT
    if post.parent_id and post.parent_author_id != author.id:
        return Rule.REPLY
    if not author.rankable:
        return Rule.OPTED_OUT
    if post.review is Review.UPHELD or (post.review in HELD and not relation.following):
        return Rule.REPORTED
    if relation.following:
        if author.id in apart:
            return Rule.APART
        wrong = relation.languages and post.language and post.language not in relation.languages
        return Rule.LANGUAGE if wrong else None
    if not may_list_publicly(viewer, post, author, relation):
        return Rule.NOT_PUBLIC
    if not author.discoverable:
        return Rule.NOT_DISCOVERABLE
    return Rule.SENSITIVE if is_sensitive(post, author) else None
