"""Named feeds in words: what a declaration shows, in which order, and why a post is in a feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shoal.core.feeds.declarations import (
    SPAN,
    ByAuthor,
    ByExpression,
    ByRecipe,
    FeedDeclaration,
    Filters,
    Followees,
    FromEverybody,
    Nearby,
    Newest,
    OfFeed,
    OfKind,
    OnList,
    Popular,
    Source,
    WithTag,
    label_of,
)
from shoal.core.feeds.expressions import REACTION, Node, Summand, Value
from shoal.core.ranking.terms import TITLES, ReasonFacts, reason_of
from shoal.core.text import isolated
from shoal.i18n import Translated
from shoal.mastodon_api.instance import LANGUAGES as POST_LANGUAGES
from shoal.queries.foryou.scoring import content_facts
from shoal.queries.hydration import Entry
from shoal.queries.named_feeds.snapshots import Explanation
from shoal.web.ranking import Bar, WhyView, reason_words
from shoal.web.request_context import PageContext

_FULL_BAR = 4.0
_COMMAS = {"ar": "، "}
_MOST_TERMS = 5
"""Terms of a formula that its short description names."""
_LANGUAGES = {language.code: language.name for language in POST_LANGUAGES}


class FeedWords(NamedTuple):
    """What a feed shows, as lines of text."""

    sources: tuple[str, ...]
    filters: tuple[str, ...]
    order: tuple[str, ...]
    formula: str = ""
    """The expression of the order; empty for another order."""


def words_of(words: Translated, declared: FeedDeclaration, titles: Mapping[str, str]) -> FeedWords:
    """Return a declaration in words. `titles` has the titles of lists and contained feeds, by their references."""
    return FeedWords(
        tuple(source_words(words, source, titles) for source in declared.sources),
        tuple(_filter_lines(words, declared.filters)),
        tuple(_order_lines(words, declared)),
        declared.order.expression if isinstance(declared.order, ByExpression) else "",
    )


def source_words(words: Translated, source: Source, titles: Mapping[str, str]) -> str:
    _ = words.text
    match source:
        case Followees():
            return _("Posts by people you follow")
        case OnList(list=list_id):
            title = titles.get(list_id, "")
            return _("Posts by people on the list “%(title)s”") % {"title": isolated(title)} if title else _("A list")
        case WithTag(tag=tag):
            return _("Posts tagged %(tag)s") % {"tag": left_to_right(words, f"#{tag}")}
        case ByAuthor(author=name):
            return _("Posts by %(name)s") % {"name": left_to_right(words, f"@{name}")}
        case Nearby():
            place = left_to_right(words, f"{words.decimal(source.latitude)}, {words.decimal(source.longitude)}")
            return _("Posts within %(n)s km of %(place)s") % {"n": words.decimal(source.radius_km), "place": place}
        case Popular():
            return _("Popular posts")
        case FromEverybody():
            return _("All public posts")
        case OfKind(kind=kind, where=where):
            values = "".join(f" · {line}" for line in _value_lines(words, where))
            return _("Posts of the kind %(kind)s") % {"kind": left_to_right(words, kind)} + values
        case OfFeed(feed=reference):
            title = titles.get(reference, "")
            return _("The feed “%(title)s”") % {"title": isolated(title)} if title else _("An unavailable feed")


def left_to_right(words: Translated, text: str) -> str:
    """Return a name with a sign, a number or a path, so that its signs keep their places in right-to-left text."""
    shown = isolated(text)
    return f"\u2066{shown}\u2069" if words.is_right_to_left and not shown.startswith("\u2068") else shown


def _value_lines(words: Translated, fields: Mapping[str, object]) -> list[str]:
    return [left_to_right(words, f"{path}: {_value(value)}") for path, value in fields.items()]


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_value, value))
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _filter_lines(words: Translated, filters: Filters) -> list[str]:
    _ = words.text
    media = {
        "with": _("With photos, videos or audio"),
        "without": _("Without photos, videos and audio"),
        "image": _("With photos"),
        "video": _("With videos"),
        "audio": _("With audio"),
    }
    sensitive = {"without": _("Without sensitive posts"), "only": _("Only sensitive posts")}
    languages = [isolated(_LANGUAGES.get(code, code)) for code in filters.languages]
    tags = [
        (_("With any of these tags: %(tags)s"), filters.tags_any),
        (_("With all of these tags: %(tags)s"), filters.tags_all),
        (_("Without these tags: %(tags)s"), filters.tags_none),
    ]
    lines = [
        media.get(filters.media, ""),
        sensitive.get(filters.sensitive, ""),
        _("In these languages: %(names)s") % {"names": ", ".join(languages)} if languages else "",
        _hours(words, filters),
        _("With replies to other people") if filters.replies else "",
        _("Of these kinds: %(kinds)s") % {"kinds": left_to_right(words, ", ".join(filters.kinds))}
        if filters.kinds
        else "",
        *_value_lines(words, filters.fields),
        *[
            text % {"tags": ", ".join(left_to_right(words, f"#{tag}") for tag in names)}
            for text, names in tags
            if names
        ],
    ]
    return [line for line in lines if line]


def _hours(words: Translated, filters: Filters) -> str:
    least, most = filters.minimum_age_hours, filters.maximum_age_hours
    numbers = {"least": words.decimal(least), "most": words.decimal(most or 0.0)}
    if least and most is not None:
        return words.text("%(least)s to %(most)s hours old") % numbers
    if most is not None:
        return words.text("At most %(most)s hours old") % numbers
    return words.text("At least %(least)s hours old") % numbers if least else ""


def _order_lines(words: Translated, declared: FeedDeclaration) -> list[str]:
    _ = words.text
    best = {
        "author": _("Only the best post by each person"),
        "tag": _("Only the best post with each first tag"),
        "day": _("Only the best post of each day"),
    }
    if isinstance(declared.order, Newest):
        lines = [_("Newest first")]
    elif isinstance(declared.order, ByExpression):
        expression = declared.expression()
        summands = expression.summands if expression is not None else ()
        titles = dict.fromkeys(title for summand in summands for title in _term_titles(words, summand.node))
        shown = [*list(titles)[:_MOST_TERMS], *(["…"] if len(titles) > _MOST_TERMS else [])]
        terms = _COMMAS.get(words.code, ", ").join(shown)
        lines = [_("Ranked by: %(terms)s") % {"terms": terms} if terms else _("Ranked by a formula")]
    else:
        lines = [_("Ranked by a recipe, as For you")]
    if declared.diversity is not None:
        at_most = _("At most %(n)s of %(most)s posts in a row are by the same person")
        lines.append(at_most % {"n": declared.diversity.author_most, "most": SPAN})
    return [*lines, best[declared.aggregate]] if declared.aggregate else lines


def source_labels(
    words: Translated,
    declared: FeedDeclaration,
    contained: Mapping[str, FeedDeclaration],
    titles: Mapping[str, str],
) -> dict[str, str]:
    """Return the sources of a feed and of the feeds that it contains in words, by their labels in explanations."""
    found: dict[str, str] = {}
    for source in declared.sources:
        outer = source_words(words, source, titles)
        if not isinstance(source, OfFeed):
            found[label_of(source)] = outer
            continue
        inner = contained[source.feed].sources if source.feed in contained else ()
        for part in inner:
            found[f"feed {source.feed}: {label_of(part)}"] = f"{outer}: {source_words(words, part, titles)}"
    return found


def _unknown_label(words: Translated, label: str) -> str:
    """Return the words for a source that a kept ranking has and the feed lacks, such as an unavailable feed."""
    return words.text("An unavailable feed") if label.startswith("feed ") else label


def why_in_feed(
    ctx: PageContext,
    entry: Entry,
    why: Explanation,
    labels: Mapping[str, str],
    declared: FeedDeclaration,
    values: Mapping[str, Value],
) -> WhyView:
    """Return the explanation of a post's place in a named feed for display. `values` are those of the parameters."""
    words = ctx.words
    expression = declared.expression()
    summands = {summand.text: summand for summand in expression.summands} if expression is not None else {}
    bars: list[Bar] = []
    for term in sorted(why.contributions, key=lambda term: -abs(term.value)):
        if not round(term.value, 2):
            continue
        if isinstance(declared.order, ByRecipe):
            title, facts = words.text(TITLES[term.name]), _recipe_reason(ctx, entry, declared.order, *term)
        else:
            title, facts = _summand_words(ctx, entry, summands.get(term.name), values)
        amount = words.decimal(term.value, "+.2f")
        length = round(min(1.0, abs(term.value) / _FULL_BAR) * 100, 1)
        bars.append(Bar(term.name, title, facts, amount, length, term.value < 0))
    shown = [labels.get(label) or _unknown_label(words, label) for label in why.sources]
    first = " · ".join(dict.fromkeys(shown))
    score = "" if why.score is None else words.decimal(round(why.score, 2) + 0.0, ".2f")
    return WhyView(score, first, tuple(bars), _moved(words, why), in_feed=True)


def _recipe_reason(ctx: PageContext, entry: Entry, order: ByRecipe, name: str, contribution: float) -> str:
    """Return the reason for a recipe's term, as far as the post tells it; places of the viewer are not known here."""
    weight = getattr(order.recipe.weights, name)
    if not weight or name in ("nearby", "country"):
        return ""
    content = content_facts(entry.post, entry.media)
    facts = ReasonFacts(
        order.recipe,
        entry.reactions,
        author=entry.author.member.shown_name,
        follows_author=entry.relation.following,
        described=content.described,
        words=content.words,
    )
    return reason_words(ctx, reason_of(name, contribution / weight, facts))


def _summand_words(
    ctx: PageContext, entry: Entry, summand: Summand | None, values: Mapping[str, Value]
) -> tuple[str, str]:
    """Return a title that names the terms of a summand, and the values of its terms and parameters for the post."""
    words = ctx.words
    if summand is None:
        return words.text("Formula"), ""
    names = list(dict.fromkeys(node.value for node in _leaves(summand.node) if node.kind == "parameter"))
    titles = list(dict.fromkeys(_term_titles(words, summand.node))) or [parameter_title(name) for name in names]
    facts = [_fact(ctx, entry, node.value) for node in _leaves(summand.node) if node.kind == "term"]
    facts += [f"{parameter_title(name)}: {value_words(words, values[name])}" for name in names if name in values]
    title = " · ".join(titles) or words.text("Fixed amount")
    return title[:1].upper() + title[1:], " · ".join(dict.fromkeys(fact for fact in facts if fact))


def _leaves(node: Node) -> Iterator[Node]:
    """Iterate over the constants, terms and parameters in a part of an expression."""
    if not node.args:
        yield node
    for arg in node.args:
        yield from _leaves(arg)


def _term_titles(words: Translated, node: Node) -> list[str]:
    titles = titles_of_terms(words)
    terms = [leaf.value for leaf in _leaves(node) if leaf.kind == "term"]
    return [titles.get(term) or term.removeprefix(REACTION).replace("_", " ") for term in terms]


def titles_of_terms(words: Translated) -> dict[str, str]:
    """Return what each term of an expression is about, by the names of the terms."""
    _ = words.text
    return {
        "age_hours": _("age"),
        "likes": _("likes"),
        "shares": _("shares"),
        "comments": _("comments"),
        "recent": _("recent reactions"),
        "media_count": _("media"),
        "described": _("picture descriptions"),
        "words": _("length of the text"),
        "tag_count": _("number of tags"),
        "author_followers": _("followers of the author"),
        "author_posts": _("posts by the author"),
        "author_interest": _("people you care about"),
        "tag_interest": _("tags you care about"),
        "seen": _("posts you have seen"),
        "follows_author": _("people you follow"),
        "own": _("your own posts"),
        "reply": _("replies"),
        "sensitive": _("sensitive posts"),
        "author": _("author"),
        "language": _("language"),
        "tags": _("tags"),
    }


def _fact(ctx: PageContext, entry: Entry, term: str) -> str:
    """Return what a term is for a post; "" for a term whose value the page has not read."""
    words, post = ctx.words, entry.post
    match term:
        case "age_hours":
            hours = max(0, ctx.reads.tags.clock() - post.created_at) // 3_600_000
            return words.counted("%(n)s hour old", "%(n)s hours old", hours)
        case "likes":
            return words.counted("%(n)s like", "%(n)s likes", entry.likes)
        case "shares":
            return words.counted("%(n)s share", "%(n)s shares", entry.shares)
        case "comments":
            return words.counted("%(n)s comment", "%(n)s comments", entry.comments)
        case "media_count":
            return words.counted("%(n)s file", "%(n)s files", len(post.media))
        case "tag_count":
            return words.counted("%(n)s tag", "%(n)s tags", len(post.tags))
        case "words":
            return words.counted("%(n)s word", "%(n)s words", content_facts(post, entry.media).words)
        case "follows_author":
            return words.text("you follow the author") if entry.relation.following else ""
        case "author":
            return left_to_right(words, f"@{entry.author.member.name}")
        case "language":
            return isolated(_LANGUAGES.get(post.language, post.language)) if post.language else ""
        case "tags":
            return " ".join(left_to_right(words, f"#{tag}") for tag in post.tags)
    return ""


def parameter_title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def value_words(words: Translated, value: Value) -> str:
    if isinstance(value, bool):
        return words.text("Yes") if value else words.text("No")
    if isinstance(value, str):
        return isolated(value) if value else words.text("empty")
    return left_to_right(words, words.decimal(value))


def _moved(words: Translated, why: Explanation) -> str:
    lines = []
    if why.lost > 0:
        lines.append(
            words.counted(
                "To keep the feed varied, the post moved down by %(n)s place.",
                "To keep the feed varied, the post moved down by %(n)s places.",
                why.lost,
            )
        )
    elif why.lost < 0:
        lines.append(
            words.counted(
                "To keep the feed varied, the post moved up by %(n)s place.",
                "To keep the feed varied, the post moved up by %(n)s places.",
                -why.lost,
            )
        )
    if why.group is not None and why.group.size > 1:
        lines.append(words.counted("The best of %(n)s post.", "The best of %(n)s posts.", why.group.size))
    return " ".join(lines)
