"""An archive of another network on its way in: how far it is, what is taken in of it, what is left out and why."""

from __future__ import annotations

from typing import NamedTuple

from babel.numbers import format_decimal

from shoal.archives.records import Omission
from shoal.archives.report import Amounts, ArchiveReport, Omitted
from shoal.core.errors import InvalidInput
from shoal.ops.archives.shelf import WORK, ArchiveState
from shoal.web.views.errors.refusals import told
from shoal.web.visit import Visit
from shoal.words.languages import Translated

_MEGABYTE = 1_000_000


class ImportingView(NamedTuple):
    """An archive that is being worked on."""

    words: str
    share: int
    """Percent that are done; 0 where it is not known."""


class OmittedView(NamedTuple):
    """Things that are left out for one reason."""

    words: str
    examples: str


class SampleView(NamedTuple):
    """One of the first posts."""

    day: str
    text: str
    photos: str


class ArchiveReportView(NamedTuple):
    """The report of an archive."""

    network: str
    period: str
    amounts: tuple[str, ...]
    there: str
    """How much was here already; empty for nothing."""
    samples: tuple[SampleView, ...]
    omitted: tuple[OmittedView, ...]
    notes: tuple[str, ...]
    empty: bool
    """Whether there is nothing to take in."""


class ArchiveView(NamedTuple):
    """The page: at most one of the last four is there."""

    largest: str
    """How large an archive may be."""
    file: str
    token: str = ""
    importing: ImportingView | None = None
    looked: ArchiveReportView | None = None
    done: ArchiveReportView | None = None
    error: str = ""


def archive_view(visit: Visit, state: ArchiveState | None, most_bytes: int) -> ArchiveView:
    """Return the page of an import."""
    words = visit.words
    view = ArchiveView(_size(words, most_bytes), state.file if state else "", state.token if state else "")
    if state is None:
        return view
    if state.phase == "failed":
        return view._replace(error=told(words, InvalidInput(state.error, field="file")))
    if (importing := importing_view(visit, state)) is not None:
        return view._replace(importing=importing)
    report = _report(words, state.report) if state.report else None
    return view._replace(done=report) if state.phase == "done" else view._replace(looked=report)


def importing_view(visit: Visit, state: ArchiveState) -> ImportingView | None:
    """Return how far an archive is that is being worked on; None for another one."""
    if state.phase not in WORK:
        return None
    words = visit.words
    _ = words.text
    if state.step == "posts" and state.total:
        said = _("%(done)s of %(total)s posts") % {"done": words.number(state.done), "total": words.number(state.total)}
        return ImportingView(said, 100 * state.done // state.total)
    if state.step == "reading" and state.done:
        read = words.plural("%(n)s post was found so far.", "%(n)s posts were found so far.", state.done)
        return ImportingView(read % {"n": words.number(state.done)}, 0)
    return ImportingView(_("It begins in a moment."), 0)


def _report(words: Translated, report: ArchiveReport) -> ArchiveReportView:
    _ = words.text
    period = ""
    if report.first:
        days = {"first": words.day(report.first), "last": words.day(report.last)}
        period = _("Posts from %(first)s to %(last)s") % days
    there = report.there.posts + report.there.comments
    here = words.plural("%(n)s post was here already.", "%(n)s posts were here already.", there) if there else ""
    amounts = report.taken if report.finished else report.found
    return ArchiveReportView(
        network=_network(words, report),
        period=period,
        amounts=_amounts(words, amounts),
        there=here % {"n": words.number(there)} if here else "",
        samples=tuple(
            SampleView(
                words.day(one.written),
                one.text,
                words.plural("%(n)s photo", "%(n)s photos", one.photos) % {"n": words.number(one.photos)}
                if one.photos
                else "",
            )
            for one in report.samples
        ),
        omitted=tuple(_omitted(words, one) for one in report.omitted),
        notes=_notes(words, report),
        empty=amounts == Amounts(),
    )


def _network(words: Translated, report: ArchiveReport) -> str:
    if not report.account:
        return words.text("An archive of %(network)s") % {"network": report.kind.network}
    told_of = {"network": report.kind.network, "account": report.account}
    return words.text("An archive of %(network)s, of %(account)s") % told_of


def _amounts(words: Translated, amounts: Amounts) -> tuple[str, ...]:
    told_of = (
        (amounts.posts, words.plural("%(n)s post", "%(n)s posts", amounts.posts)),
        (amounts.comments, words.plural("%(n)s comment in threads", "%(n)s comments in threads", amounts.comments)),
        (amounts.photos, words.plural("%(n)s photo", "%(n)s photos", amounts.photos)),
        (amounts.follows, words.plural("%(n)s member to follow", "%(n)s members to follow", amounts.follows)),
    )
    return tuple(text % {"n": words.number(n)} for n, text in told_of if n)


def _omitted(words: Translated, one: Omitted) -> OmittedView:
    _ = words.text
    kinds = {
        "posts": words.plural("%(n)s post", "%(n)s posts", one.count),
        "photos": words.plural("%(n)s file", "%(n)s files", one.count),
        "parts": words.plural("%(n)s part of a post", "%(n)s parts of posts", one.count),
        "follows": words.plural("%(n)s account", "%(n)s accounts", one.count),
    }
    much = kinds[one.kind] % {"n": words.number(one.count)}
    return OmittedView(f"{much}: {_reason(words, one.reason)}", ", ".join(one.examples))


def _reason(words: Translated, reason: Omission) -> str:
    _ = words.text
    reasons = {
        Omission.BOOST: _("shared, and written by somebody else"),
        Omission.REPLY: _("answers to other people"),
        Omission.THREAD: _("answers to posts that are left out"),
        Omission.DIRECT: _("direct messages"),
        Omission.STORY: _("stories"),
        Omission.ARCHIVED: _("archived there, so hidden"),
        Omission.VIDEO: _("videos and sounds, which cannot be taken in yet"),
        Omission.MISSING: _("not in the archive"),
        Omission.UNREADABLE: _("no pictures that can be shown here, or too large"),
        Omission.NO_ROOM: _("more than you may store here"),
        Omission.EMPTY: _("neither a text nor a photo is left of it"),
        Omission.FUTURE: _("dated in the future"),
        Omission.TWICE: _("in the archive twice"),
        Omission.MALFORMED: _("cannot be read"),
        Omission.TOO_MANY: _("more than are taken in"),
        Omission.DELETED: _("taken in before, and deleted by you since"),
        Omission.ELSEWHERE: _("not here, as far as we know"),
        Omission.UNSURE: _("somebody here has the name, and may be somebody else: see Find friends"),
        Omission.UNMATCHED: _("the post it belongs to is not in the archive"),
        Omission.NOBODY: _("the archive does not say who it is"),
        Omission.REFUSED: _("refused by this server"),
    }
    return reasons[reason]


def _notes(words: Translated, report: ArchiveReport) -> tuple[str, ...]:
    told_of = (
        (
            report.polls,
            words.plural("%(n)s poll becomes text.", "%(n)s polls become text.", report.polls),
        ),
        (
            report.cut,
            words.plural("%(n)s text is cut: it is too long.", "%(n)s texts are cut: they are too long.", report.cut),
        ),
        (
            report.continued,
            words.plural(
                "%(n)s post has its further photos in comments.",
                "%(n)s posts have their further photos in comments.",
                report.continued,
            ),
        ),
    )
    return tuple(text % {"n": words.number(n)} for n, text in told_of if n)


def _size(words: Translated, size: int) -> str:
    return format_decimal(round(size / _MEGABYTE), locale=words.code)
