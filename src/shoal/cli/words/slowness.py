"""Slow requests in the terminal: a picture of one, and a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from shoal.observability.request_log import LoggedJob, LoggedRequest, StoreTotal, TimedSpan, one_line

_WIDTH = 44
_LABEL = 34
_SHORT = 0.01
"""Statements of less than this part of the whole are told together."""
_MOST_ROWS = 12
"""Statements that are drawn one by one in a stage: the longest."""


def tell_request(request: LoggedRequest, jobs: Sequence[LoggedJob]) -> None:
    """Print the stages of a request as bars from its beginning to its end, with the statements of each below it."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text.assemble((one_line(request.summary), "bold"), f"  {request.ms:,.1f} ms  {request.time}"))
    told = [f"id {request.id}", f"{request.bytes:,} bytes"]
    told += [f"member {request.member}"] if request.member else []
    told += [f"trace {request.trace}"] if request.trace else []
    told += ["the answer was not sent to its end"] if request.aborted else []
    console.print(Text(one_line(", ".join(told)), "dim"))
    console.print()
    for line in picture(request):
        console.print(line)
    console.print()
    for sentence in findings(request):
        console.print(Text(one_line(sentence)))
    if jobs:
        console.print()
        console.print(Text("Jobs that followed", "bold"))
        for job in jobs:
            console.print(
                Text(one_line(f"  {job.time}  {job.event} {job.job}: {job.outcome}, {job.ms:,.1f} ms{_of(job)}"))
            )


def tell_list(requests: Sequence[LoggedRequest]) -> None:
    """Print requests, one a line."""
    console = Console(highlight=False, soft_wrap=True)
    if not requests:
        console.print("no request was slow")
        return
    console.print(Text(f"{'ms':>10}  {'when':<24}  {'longest in':<12}  {'id':<20}  request", "bold"))
    for one in requests:
        longest = max(one.stages, key=one.stages.__getitem__, default="")
        line = f"{one.ms:>10,.1f}  {one.time:<24}  {longest:<12}  {one.id:<20}  {one.summary}"
        console.print(Text(one_line(line)))


def picture(request: LoggedRequest) -> Iterable[Text]:
    """Return the bars, one line each. Without spans, the stages follow each other in the order in which they began."""
    spans = request.spans or _from_stages(request)
    whole = max(request.ms, 0.001)
    stages = [span for span in spans if not span.store]
    statements = [span for span in spans if span.store]
    for stage in stages:
        if stage.ms < _SHORT * whole and not _within(stage, statements):
            continue
        yield _row(stage.what, stage, whole, "cyan")
        within = _within(stage, statements)
        long = sorted((one for one in within if one.ms >= _SHORT * whole), key=lambda one: -one.ms)[:_MOST_ROWS]
        for one in sorted(long, key=lambda one: one.at):
            yield _row(f"  {one.store} {one.what}", one, whole, "yellow")
        if short := [one for one in within if one not in long]:
            together = sum(one.ms for one in short)
            yield Text(f"{f'  {len(short)} short ones':<{_LABEL}} {'':<{_WIDTH}} {together:>9,.1f} ms", "dim")


def findings(request: LoggedRequest) -> list[str]:
    """Return in sentences what took long: by store, and the stage that waited the longest for what."""
    sentences = [
        f"{store}: {total.number:,} statement{'' if total.number == 1 else 's'}, {total.ms:,.1f} ms together"
        for store, total in sorted(request.statements.items(), key=_dearest)
    ]
    if not request.statements:
        sentences.append("No store was asked.")
    spans = request.spans or _from_stages(request)
    stages = [span for span in spans if not span.store]
    if not stages:
        return sentences
    longest = max(stages, key=lambda one: one.ms)
    waits = covered(longest, [span for span in spans if span.store])
    if request.spans:
        sentences.append(
            f"Longest: {longest.what}, {longest.ms:,.1f} ms, of which {waits:,.1f} waited for stores and "
            f"{longest.ms - waits:,.1f} did not."
        )
        if within := _within(longest, [span for span in spans if span.store]):
            slow = max(within, key=lambda one: one.ms)
            sentences.append(f"Its longest wait: {slow.store} {slow.what}, {slow.ms:,.1f} ms.")
    else:
        sentences.append(f"Longest: {longest.what}, {longest.ms:,.1f} ms.")
    return sentences


def covered(stage: TimedSpan, statements: Iterable[TimedSpan]) -> float:
    """Return the milliseconds of a stage in which at least one statement was under way."""
    total, reached, end = 0.0, stage.at, stage.at + stage.ms
    for one in sorted(statements, key=lambda one: one.at):
        began, ended = max(one.at, reached), min(one.at + one.ms, end)
        if ended > began:
            total += ended - began
            reached = ended
    return total


def _within(stage: TimedSpan, statements: Iterable[TimedSpan]) -> list[TimedSpan]:
    return [one for one in statements if stage.at <= one.at < stage.at + stage.ms]


def _row(label: str, span: TimedSpan, whole: float, style: str) -> Text:
    before = min(_WIDTH - 1, round(span.at / whole * _WIDTH))
    length = min(_WIDTH - before, max(1, round(span.ms / whole * _WIDTH)))
    bar = " " * before + "█" * length
    return Text.assemble(f"{one_line(label)[:_LABEL]:<{_LABEL}} ", (f"{bar:<{_WIDTH}}", style), f" {span.ms:>9,.1f} ms")


def _from_stages(request: LoggedRequest) -> list[TimedSpan]:
    at, spans = 0.0, []
    for stage, ms in request.stages.items():
        spans.append(TimedSpan("", stage, at, ms))
        at += ms
    return spans


def _dearest(item: tuple[str, StoreTotal]) -> float:
    return -item[1].ms


def _of(job: LoggedJob) -> str:
    return "".join(f", {store} {total.number}" for store, total in job.statements.items())
