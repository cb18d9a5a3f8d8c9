"""`shoal why-slow`: where the time of a slow request went."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from shoal.admin.control import NoServer, ask
from shoal.admin.operations import ShowSlow, SlowShown, in_logs
from shoal.cli.group import pass_settings
from shoal.cli.words.slowness import tell_list, tell_request
from shoal.core.errors import NotFound, Unavailable
from shoal.settings import Settings
from shoal.wiring import control_path

_LOGS = "name its log with --log, written with log_format = json"


@click.command("why-slow")
@click.argument("request_id", metavar="[REQUEST-ID]", default="")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A log in JSON to look in, instead of asking the server; several: of workers too.",
)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="How many are listed.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@pass_settings
def why_slow(settings: Settings, /, request_id: str, logs: tuple[Path, ...], limit: int, *, as_json: bool) -> None:
    """Show the stages of a slow request, what it asked of stores, and the jobs that followed; without an id, the slowest lately.

    The id is in the answer (X-Request-Id), on error pages, and in the log. The server tells its newest 1,000 slow requests.
    """
    shown = in_logs(logs, request_id, limit) if logs else asyncio.run(_told(settings, ShowSlow(request_id, limit)))
    if request_id and not shown.requests:
        raise NotFound(_unknown(shown, request_id))
    if as_json:
        click.echo(msgspec.json.encode(shown))
    elif request_id:
        tell_request(shown.requests[0], shown.jobs)
    else:
        tell_list(shown.requests)


async def _told(settings: Settings, operation: ShowSlow) -> SlowShown:
    path = control_path(settings)
    if path is None:
        raise Unavailable(f"servers on this store cannot be asked: {_LOGS}")
    try:
        return await ask(path, operation)
    except NoServer:
        raise Unavailable(f"no server runs that could be asked: {_LOGS}") from None


def _unknown(shown: SlowShown, request_id: str) -> str:
    if not shown.recorded:
        return f"no request {request_id!r} is in these logs"
    if shown.recorded == "off":
        return "the server records nothing: set request_log to slow or all"
    return (
        f"the server remembers no slow request {request_id!r}: it took less than {shown.slow_ms:g} ms (slow_ms), or is too "
        f"long ago; {_LOGS}"
    )
