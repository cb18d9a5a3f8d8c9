"""Diagnostics: `shoal doctor`, `shoal why-slow` and `shoal bench`."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

from shoal.admin.control import ask
from shoal.admin.operations import ShowSlow, SlowShown, in_logs
from shoal.app.paths import control_path
from shoal.cli.group import GivenSettings, pass_settings
from shoal.core.errors import NotFound, Unavailable
from shoal.monitoring.doctor import examine
from shoal.monitoring.preflight import Diagnosis
from shoal.multiprocess.link import NotListening
from shoal.observability.request_log import LoggedJob, LoggedRequest, StoreTotal, TimedSpan, one_line
from shoal.settings import Settings

_STATUS = {"ok": 0, "warn": 1, "bad": 2}
_COLORS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check settings, engines, disks, limits, proxy, TLS, mail and the running server, and suggest fixes.

    Nothing is changed, and each check takes a few seconds at most. Run it as the operating-system user of the server.
    Exit status 0: no problems; 1: warnings; 2: errors.
    """
    given: GivenSettings = ctx.obj
    # Do not log an engine that cannot be reached, because it is a finding of a check.
    logging.basicConfig(level=logging.CRITICAL)
    found = asyncio.run(examine(given.environ, given.overrides))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        _tell(found)
    ctx.exit(max(_STATUS[diagnosis.grade] for diagnosis in found))


def _tell(found: list[Diagnosis]) -> None:
    width = max(len(diagnosis.check) for diagnosis in found)
    for diagnosis in found:
        grade = click.style(f"{diagnosis.grade:4}", fg=_COLORS[diagnosis.grade])
        advice = f": {diagnosis.advice}" if diagnosis.advice else ""
        click.echo(f"{grade}  {diagnosis.check:{width}}  {diagnosis.message}{advice}")


_WIDTH = 44
_LABEL = 34
_SHORT = 0.01
"""Stages and statements that are shorter than this fraction of the request are not drawn individually."""
_MOST_ROWS = 12
"""Maximum number of statements that are drawn individually for a stage. The longest statements are drawn."""


def tell_request(request: LoggedRequest, jobs: Sequence[LoggedJob]) -> None:
    """Print the summary of a request, a bar chart of its stages and statements over time, and the jobs that followed."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text.assemble((one_line(request.summary), "bold"), f"  {request.ms:,.1f} ms  {request.time}"))
    facts = [f"id {request.id}", f"{request.bytes:,} bytes"]
    facts += [f"member {request.member}"] if request.member else []
    facts += [f"trace {request.trace}"] if request.trace else []
    facts += ["the answer was not sent to its end"] if request.aborted else []
    console.print(Text(one_line(", ".join(facts)), "dim"))
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
    console = Console(highlight=False, soft_wrap=True)
    if not requests:
        console.print("no request was slow")
        return
    console.print(Text(f"{'ms':>10}  {'when':<24}  {'longest in':<12}  {'id':<20}  request", "bold"))
    for request in requests:
        longest = max(request.stages, key=request.stages.__getitem__, default="")
        line = f"{request.ms:>10,.1f}  {request.time:<24}  {longest:<12}  {request.id:<20}  {request.summary}"
        console.print(Text(one_line(line)))


def picture(request: LoggedRequest) -> Iterable[Text]:
    """Yield the lines of a bar chart of a request: its stages and statements over time.

    Without spans, only the stages are drawn, in the order in which they began.
    """
    spans = request.spans or _from_stages(request)
    whole = max(request.ms, 0.001)
    stages = [span for span in spans if not span.store]
    statements = [span for span in spans if span.store]
    for stage in stages:
        if stage.ms < _SHORT * whole and not _within(stage, statements):
            continue
        yield _row(stage.what, stage, whole, "cyan")
        within = _within(stage, statements)
        long = sorted((entry for entry in within if entry.ms >= _SHORT * whole), key=lambda entry: -entry.ms)[
            :_MOST_ROWS
        ]
        for entry in sorted(long, key=lambda entry: entry.at):
            yield _row(f"  {entry.store} {entry.what}", entry, whole, "yellow")
        if short := [entry for entry in within if entry not in long]:
            together = sum(entry.ms for entry in short)
            yield Text(f"{f'  {len(short)} short ones':<{_LABEL}} {'':<{_WIDTH}} {together:>9,.1f} ms", "dim")


def findings(request: LoggedRequest) -> list[str]:
    """Describe why a request was slow: the time spent in each store, and the stage with the longest waits."""
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
    longest = max(stages, key=lambda entry: entry.ms)
    waits = covered(longest, [span for span in spans if span.store])
    if request.spans:
        sentences.append(
            f"Longest: {longest.what}, {longest.ms:,.1f} ms, of which {waits:,.1f} waited for stores and "
            f"{longest.ms - waits:,.1f} did not."
        )
        if within := _within(longest, [span for span in spans if span.store]):
            slow = max(within, key=lambda entry: entry.ms)
            sentences.append(f"Its longest wait: {slow.store} {slow.what}, {slow.ms:,.1f} ms.")
    else:
        sentences.append(f"Longest: {longest.what}, {longest.ms:,.1f} ms.")
    return sentences


def covered(stage: TimedSpan, statements: Iterable[TimedSpan]) -> float:
    """Return the milliseconds of a stage in which at least one statement was running."""
    total, reached, end = 0.0, stage.at, stage.at + stage.ms
    for statement in sorted(statements, key=lambda statement: statement.at):
        began, ended = max(statement.at, reached), min(statement.at + statement.ms, end)
        if ended > began:
            total += ended - began
            reached = ended
    return total


def _within(stage: TimedSpan, statements: Iterable[TimedSpan]) -> list[TimedSpan]:
    return [statement for statement in statements if stage.at <= statement.at < stage.at + stage.ms]


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


_LOGS = "name its log with --log, written with log_format = json"


@click.command("why-slow")
@click.argument("request_id", metavar="[REQUEST-ID]", default="")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON log to read instead of asking the server. May be repeated, for logs of workers.",
)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Maximum number of requests.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_settings
def why_slow(settings: Settings, /, request_id: str, logs: tuple[Path, ...], limit: int, *, as_json: bool) -> None:
    """Show the stages of a slow request, its statements, and the jobs that followed; without an id, list recent slow requests.

    The id is in the response (X-Request-Id), on error pages, and in the log. The server remembers its 1,000 newest slow
    requests.
    """
    shown = (
        in_logs(logs, request_id, limit) if logs else asyncio.run(_fetch_slow(settings, ShowSlow(request_id, limit)))
    )
    if request_id and not shown.requests:
        raise NotFound(_unknown(shown, request_id))
    if as_json:
        click.echo(msgspec.json.encode(shown))
    elif request_id:
        tell_request(shown.requests[0], shown.jobs)
    else:
        tell_list(shown.requests)


async def _fetch_slow(settings: Settings, operation: ShowSlow) -> SlowShown:
    path = control_path(settings)
    if path is None:
        raise Unavailable(f"servers on this store have no control socket: {_LOGS}")
    try:
        return await ask(path, operation)
    except NotListening:
        raise Unavailable(f"no server is running on this store: {_LOGS}") from None


def _unknown(shown: SlowShown, request_id: str) -> str:
    if not shown.recorded:
        return f"no request {request_id!r} in these logs"
    if shown.recorded == "off":
        return "the server records no requests: set request_log to slow or all"
    return (
        f"no slow request {request_id!r} on this server: it took less than {shown.slow_ms:g} ms (slow_ms) or is too "
        f"old; {_LOGS}"
    )


ROOT = Path(__file__).resolve().parents[3]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Run the benchmark NAME, or all benchmarks. --quick runs a short round.

    The benchmarks are part of the repository: docs/performance.md describes each one.
    """
    if not (ROOT / "benchmarks" / "__main__.py").exists():
        raise click.ClickException(
            "the installed package has no benchmarks: run this command in a clone of Shoal's repository"
        )
    known = _known()
    chosen = [word for word in arguments if word.replace("-", "_") in known]
    if not chosen and (unknown := [word for word in arguments if not word.startswith("-")]):
        raise click.ClickException(f"no benchmark {unknown[0]!r}; choose one of {', '.join(known)}")
    module = f"benchmarks.{chosen[0].replace('-', '_')}" if chosen else "benchmarks"
    # Options of the benchmark may precede or follow its name.
    rest = [word for word in arguments if word not in chosen[:1]]
    done = subprocess.run([sys.executable, "-m", module, *rest], cwd=ROOT, check=False)  # noqa: S603  # our own
    raise SystemExit(done.returncode)


def _known() -> list[str]:
    """Return the names of the benchmarks. They are modules that call `parser`; the other modules are helpers."""
    modules = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))
    return [path.stem for path in modules if re.search(r"= parser\(\s*__doc__", path.read_text("utf-8"))]
