"""Whether a post stands in a ranked feed: at which place, or what keeps it out."""

from __future__ import annotations

import msgspec

from shoal.queries.foryou.feed import Verdict
from shoal.web.visit import Visit

_OUT_WORDS = {
    "off": "You have turned ranking off, so your feed is ordered by time.",
    "muted": "You mute its author.",
    "filtered": "One of your filters hides it.",
    "no_source": "Nothing leads to it now: nobody you follow, no tag you like, and no place near you.",
    "too_low": "Other posts have a higher score.",
    "own": "It is your own.",
    "direct": "It is for those whom it names alone.",
    "reply": "It answers somebody else's post, and says little without it.",
    "opted_out": "Its author keeps their posts out of ranked feeds.",
    "apart": "You read its author in a list of their own.",
    "language": "You follow its author in other languages only.",
    "reported": "Several members reported it, and moderators have not looked at it yet.",
    "not_public": "You do not follow its author, and it is not for public lists.",
    "not_discoverable": "You do not follow its author, who does not want to be found.",
    "sensitive": "You do not follow its author, and it is marked as sensitive.",
}
_STAGES = {
    "sources": "A post is ranked when somebody or something of yours brings it.",
    "filter": "It was brought, and a rule took it out before anything was ranked.",
    "score": "It was ranked, and did not come far enough.",
}
_WAYS = {
    "off": ("/settings/ranking", "Change it"),
    "filtered": ("/settings/filters", "Your filters"),
    "too_low": ("/settings/ranking", "How much each reason counts"),
    "apart": ("/lists", "Your lists"),
}


class FeedStanding(msgspec.Struct, frozen=True):
    """Whether a post stands in a ranked feed, and where, or what keeps it out."""

    title: str
    words: str
    hint: str = ""
    path: str = ""
    """Where something can be done about it."""
    way: str = ""
    """Words of the link to it."""


def placed_at(visit: Visit, place: int, total: int = 0) -> FeedStanding:
    """Return the standing of a post that is shown, by its place from 1 on. `total`: of how many; 0 where that is not known."""
    words = visit.words
    title = words.text("It stands at place %(place)s") % {"place": words.number(place)}
    told = words.text("Ranked for you at this moment.")
    if total:
        told = words.plural(
            "Ranked for you at this moment, with %(n)s post.", "Ranked for you at this moment, with %(n)s posts.", total
        ) % {"n": words.number(total)}
    return FeedStanding(title, told, words.text("What is ranked higher has a higher score."))


def out_of(visit: Visit, verdict: Verdict) -> FeedStanding:
    """Return the standing of a post that is not shown, with the rule that keeps it out."""
    _ = visit.words.text
    if verdict.place is not None:
        # It was ranked a moment later than the reading in which it was not.
        return placed_at(visit, verdict.place)
    title = _("It is not in For you now")
    words = _(_OUT_WORDS.get(verdict.rule, "")) or f"{verdict.words[:1].upper()}{verdict.words[1:]}."
    path, way = _WAYS.get(verdict.rule, ("", ""))
    return FeedStanding(title, words, _(_STAGES.get(verdict.stage, "")), path, _(way))
