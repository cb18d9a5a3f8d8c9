"""Archives: import posts from the archive of another network, and export a member's own data.

An import uploads the archive, shows a report to review, and then creates the posts. An export is a zip file that is streamed
while it is built.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Literal, NamedTuple

import msgspec
from babel.numbers import format_decimal
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shoal.admin.archives.records import Amounts, ArchiveReport, Omission, Omitted
from shoal.admin.archives.storage import WORK, ArchiveState, ArchiveStorage
from shoal.admin.export import streamed
from shoal.commands.audit import note_alone
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.model import Member, Visibility
from shoal.http.params import Upload
from shoal.http.routes import Route
from shoal.i18n import Translated
from shoal.queries.hydration import profiles_by_id
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, error_text, wrong_of
from shoal.web.rendering import part
from shoal.web.request_context import Form, PageContext
from shoal.web.settings_layout import settings_page

_MEGABYTE = 1_000_000


class ImportingView(NamedTuple):
    words: str
    share: int
    """Percent done; 0 if unknown."""


class OmittedView(NamedTuple):
    words: str
    examples: str


class SampleView(NamedTuple):
    day: str
    text: str
    photos: str


class ArchiveReportView(NamedTuple):
    network: str
    period: str
    amounts: tuple[str, ...]
    there: str
    """Summary of the items imported before, as text; empty if there are none."""
    samples: tuple[SampleView, ...]
    omitted: tuple[OmittedView, ...]
    notes: tuple[str, ...]
    empty: bool
    """Whether the archive contains nothing to import."""


class ArchiveView(NamedTuple):
    """The view of the import page. At most one of `importing`, `looked`, `done` and `error` is set."""

    largest: str
    file: str = ""
    token: str = ""
    importing: ImportingView | None = None
    looked: ArchiveReportView | None = None
    done: ArchiveReportView | None = None
    error: str = ""


def _archive_view(ctx: PageContext, state: ArchiveState | None, most_bytes: int) -> ArchiveView:
    words = ctx.words
    largest = format_decimal(round(most_bytes / _MEGABYTE), locale=words.code)
    if state is None:
        return ArchiveView(largest)
    view = ArchiveView(largest, state.file, state.token)
    if state.phase == "failed":
        return view._replace(error=error_text(words, InvalidInput(state.error, field="file")))
    if (importing := _importing(words, state)) is not None:
        return view._replace(importing=importing)
    report = _report(words, state.report) if state.report else None
    return view._replace(done=report) if state.phase == "done" else view._replace(looked=report)


def _importing(words: Translated, state: ArchiveState) -> ImportingView | None:
    if state.phase not in WORK:
        return None
    _ = words.text
    if state.step == "posts" and state.total:
        progress = _("%(done)s of %(total)s posts") % {
            "done": words.number(state.done),
            "total": words.number(state.total),
        }
        return ImportingView(progress, 100 * state.done // state.total)
    if state.step == "reading" and state.done:
        return ImportingView(
            words.counted("%(n)s post was found so far.", "%(n)s posts were found so far.", state.done), 0
        )
    return ImportingView(_("The import will start soon."), 0)


def _report(words: Translated, report: ArchiveReport) -> ArchiveReportView:
    _ = words.text
    period = ""
    if report.first:
        days = {"first": words.day(report.first), "last": words.day(report.last)}
        period = _("Posts from %(first)s to %(last)s") % days
    there = report.there.posts + report.there.comments
    amounts = report.taken if report.finished else report.found
    network = _("An archive of %(network)s, of %(account)s") if report.account else _("An archive of %(network)s")
    return ArchiveReportView(
        network=network % {"network": report.kind.network, "account": report.account},
        period=period,
        amounts=_amounts(words, amounts),
        there=words.counted("%(n)s post was already imported.", "%(n)s posts were already imported.", there)
        if there
        else "",
        samples=tuple(
            SampleView(
                words.day(sample.written),
                sample.text,
                words.counted("%(n)s photo", "%(n)s photos", sample.photos) if sample.photos else "",
            )
            for sample in report.samples
        ),
        omitted=tuple(_omitted(words, omission) for omission in report.omitted),
        notes=_notes(words, report),
        empty=amounts == Amounts(),
    )


def _amounts(words: Translated, amounts: Amounts) -> tuple[str, ...]:
    counted = words.counted
    texts = (
        (amounts.posts, counted("%(n)s post", "%(n)s posts", amounts.posts)),
        (
            amounts.comments,
            counted(
                "%(n)s reply you wrote to your own posts", "%(n)s replies you wrote to your own posts", amounts.comments
            ),
        ),
        (amounts.photos, counted("%(n)s photo", "%(n)s photos", amounts.photos)),
        (amounts.follows, counted("%(n)s member to follow", "%(n)s members to follow", amounts.follows)),
    )
    return tuple(text for n, text in texts if n)


def _omitted(words: Translated, omission: Omitted) -> OmittedView:
    amounts = {
        "posts": words.counted("%(n)s post", "%(n)s posts", omission.count),
        "photos": words.counted("%(n)s file", "%(n)s files", omission.count),
        "parts": words.counted("%(n)s part of a post", "%(n)s parts of posts", omission.count),
        "follows": words.counted("%(n)s account", "%(n)s accounts", omission.count),
    }
    return OmittedView(f"{amounts[omission.kind]}: {_reasons(words)[omission.reason]}", ", ".join(omission.examples))


def _reasons(words: Translated) -> dict[Omission, str]:
    _ = words.text
    return {
        Omission.BOOST: _("shares of other people's posts"),
        Omission.REPLY: _("replies to other people"),
        Omission.THREAD: _("replies to skipped posts"),
        Omission.DIRECT: _("direct messages"),
        Omission.STORY: _("stories"),
        Omission.ARCHIVED: _("archived on the other network"),
        Omission.VIDEO: _("video and audio, which cannot be imported yet"),
        Omission.MISSING: _("not in the archive"),
        Omission.UNREADABLE: _("unsupported or too large pictures"),
        Omission.OVER_QUOTA: _("over your storage limit"),
        Omission.EMPTY: _("no text, and no photo that can be imported"),
        Omission.FUTURE: _("dated in the future"),
        Omission.TWICE: _("duplicates"),
        Omission.MALFORMED: _("cannot be read"),
        Omission.TOO_MANY: _("more than an import accepts"),
        Omission.DELETED: _("imported earlier and deleted by you"),
        Omission.ELSEWHERE: _("not found on this network"),
        Omission.UNSURE: _("possible match by name only: see Find friends"),
        Omission.UNMATCHED: _("long text whose post is not in the archive"),
        Omission.NO_ACCOUNT: _("without a readable address in the archive"),
        Omission.REFUSED: _("refused by this server"),
    }


def _notes(words: Translated, report: ArchiveReport) -> tuple[str, ...]:
    counted = words.counted
    texts = (
        (report.polls, counted("%(n)s poll is converted to text.", "%(n)s polls are converted to text.", report.polls)),
        (
            report.cut,
            counted(
                "%(n)s text is too long and is shortened.", "%(n)s texts are too long and are shortened.", report.cut
            ),
        ),
        (
            report.continued,
            counted(
                "Additional photos of %(n)s post become comments.",
                "Additional photos of %(n)s posts become comments.",
                report.continued,
            ),
        ),
    )
    return tuple(text for n, text in texts if n)


_NAME = 100


class ImportQuery(msgspec.Struct, frozen=True):
    """The query of the import page. With `only="state"`, the response contains only the progress."""

    only: Literal["", "state"] = ""


class ArchiveForm(Form, frozen=True, kw_only=True):
    file: Upload | None = None


class TakeInForm(Form, frozen=True, kw_only=True):
    """The form that starts an import: which archive, and the widest visibility that its posts may get."""

    token: Annotated[str, msgspec.Meta(max_length=16)] = ""
    widest: Literal["public", "unlisted", "followers"] = "public"


_WHOLE_PAGE = ImportQuery()


async def show_import(ctx: PageContext, query: ImportQuery = _WHOLE_PAGE, wrong: Wrong = RIGHT) -> Response:
    member, archives = ctx.member, _archives(ctx)
    state = await asyncio.to_thread(archives.state, member.id)
    if not query.only:
        view = _archive_view(ctx, state, archives.most_bytes)
        return await settings_page(ctx, "import", wrong=wrong, archive=view, importing=view.importing)
    importing = _importing(ctx.words, state) if state is not None else None
    if importing is not None:
        return part(ctx, "importing", importing=importing)
    # The import has entered another phase, so the whole page has to be reloaded.
    return Response(status_code=204, headers={"HX-Redirect": ctx.url("/settings/import")})


async def send(ctx: PageContext, asked: ArchiveForm) -> Response:
    member, file = ctx.checked(asked), asked.file
    if file is None:
        return await show_import(ctx, wrong={"file": ctx.words.text("Choose a file.")})
    name = file.filename.replace("\\", "/").rpartition("/")[2][:_NAME]
    try:
        await asyncio.to_thread(_archives(ctx).put, member.id, name, file.size, file.copy_to)
    except InvalidInput as error:
        return await show_import(ctx, wrong=wrong_of(ctx.words, error))
    finally:
        file.close()
    return ctx.go("/settings/import")


async def take(ctx: PageContext, asked: TakeInForm) -> Response:
    member, archives = ctx.checked(asked), _archives(ctx)
    state = await asyncio.to_thread(archives.state, member.id)
    if state is not None and (state.phase, state.token) == ("looked", asked.token):
        await note_alone(ctx.writes, AuditVerb.ARCHIVE_IMPORTED, member_target(member))
        await asyncio.to_thread(archives.begin, member.id, state.token, Visibility(asked.widest))
    return ctx.go("/settings/import")


async def discard(ctx: PageContext, asked: Form) -> Response:
    """Delete the uploaded archive, or the report of a finished import. A running import is stopped."""
    member = ctx.checked(asked)
    await asyncio.to_thread(_archives(ctx).discard, member.id)
    return ctx.go("/settings/import")


def _archives(ctx: PageContext) -> ArchiveStorage:
    archives = ctx.app.archives
    if archives is None or not archives.most_bytes:
        raise NotFound("This server does not import archives")
    return archives


_AT_ONCE = 4
"""Archives that one process streams concurrently."""
_RETRY_SECONDS = 60.0

_in_flight: set[int] = set()
"""Ids of the members to whom this process is streaming an archive. Each member may have one stream."""


async def show_export(ctx: PageContext, _params: None) -> Response:
    member, words = ctx.member, ctx.words
    found = await profiles_by_id(ctx.graph, member.id, (member.id,))
    posts = found[0].posts if found else 0
    megabytes = member.media_bytes / _MEGABYTE
    size = format_decimal(round(megabytes, 1 if megabytes < 100 else 0), locale=words.code)
    return await settings_page(ctx, "archive", posts=words.counted("%(n)s post", "%(n)s posts", posts), megabytes=size)


async def download(ctx: PageContext, asked: Form) -> Response:
    """Stream all data of the member as a zip file, built while it is sent."""
    member, _ = ctx.checked(asked), ctx.words.text
    if member.id in _in_flight or len(_in_flight) >= _AT_ONCE:
        raise Unavailable(_("An archive is already being uploaded. Try again in a minute."), retry_after=_RETRY_SECONDS)
    # Reserve the member's slot before the next `await`: otherwise a second request of the member could pass the check.
    _in_flight.add(member.id)
    try:
        await note_alone(ctx.writes, AuditVerb.EXPORT_REQUESTED, member_target(member))
    except BaseException:
        _in_flight.discard(member.id)
        raise
    name = f"{member.name}-{ctx.now_ms // 1000}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-store"}
    return _Archive(ctx, member, headers)


class _Archive(StreamingResponse):
    def __init__(self, ctx: PageContext, member: Member, headers: Mapping[str, str]) -> None:
        super().__init__(_pieces(ctx, member), headers=headers, media_type="application/zip")
        self._member_id = member.id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            _in_flight.discard(self._member_id)


async def _pieces(ctx: PageContext, member: Member) -> AsyncGenerator[bytes, None]:
    async with aclosing(streamed(ctx.app.store, ctx.reads, ctx.app.media, member)) as pieces:
        async for piece in pieces:
            yield piece


def routes(settings: Settings) -> tuple[Route, ...]:
    most = settings.max_archive_bytes + routing.FORM_BYTES
    return (
        routing.page("/settings/import", show_import, ImportQuery),
        routing.form("/settings/import", send, ArchiveForm, limit_class="archives", max_body=most, on_disk=True),
        routing.form("/settings/import/take", take, TakeInForm),
        routing.form("/settings/import/discard", discard, Form),
        routing.page("/settings/archive", show_export),
        routing.form("/settings/archive", download, Form, limit_class="archives"),
    )
