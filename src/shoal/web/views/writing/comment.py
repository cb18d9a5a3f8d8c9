"""The short form for a comment."""

from __future__ import annotations

import msgspec

from shoal.core.model import Visibility
from shoal.web.views.writing.sheet import visibility_words
from shoal.web.views.writing.writing import Writing
from shoal.web.visit import Visit


class CommentForm(msgspec.Struct, frozen=True):
    """A comment that is being written."""

    answers: int
    """The post that it answers."""
    text: str
    visibility: str
    audience: str
    """Its readers, in a word."""
    request: str
    depth: int
    """How far what it answers is to the side; -1 for the post of the page."""
    most: int
    more: str
    """Where it is written with pictures and all the rest."""
    wrong: str = ""


def comment_form(visit: Visit, said: Writing, depth: int, *, wrong: str = "") -> CommentForm:
    """Return the form of a comment, as it was typed or as it begins."""
    return CommentForm(
        answers=said.reply_to,
        text=said.text,
        visibility=said.visibility,
        audience=visibility_words(visit.words)[Visibility(said.visibility)][0],
        request=said.request if wrong else visit.new_request(),
        depth=depth,
        most=visit.front.writes.limits.text,
        more=visit.url("/compose", reply_to=said.reply_to),
        wrong=wrong,
    )
