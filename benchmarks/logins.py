"""Sign-up, login, the code of a second factor, and a forgotten password, compared with the bare password hash.

The requests are sequential, in a network on SQLite with a real SMTP server in another process. `until its mail is accepted`
begins with the request for a new password and ends when the mail server has accepted the mail. Its processor time is that of this
process, including the mail, the token and the connection.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyotp
import uvloop

from benchmarks.measure import Report, parser, spread
from benchmarks.stores import url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.commands import authentication, credentials, members, second_factor, sessions
from shoal.commands.context import Writes
from shoal.consumers import mail as mails
from shoal.consumers.mail import Whom
from shoal.core.credentials import STEP_SECONDS, new_key
from shoal.core.email import MailKind
from shoal.core.events import MailDue
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.settings import Settings
from shoal_devcluster.program import free_port

_PASSWORD = "the tide comes in"
_SECONDS = 30.0


@contextmanager
def mail_server() -> Iterator[str]:
    """Yield the URL of an SMTP server that discards mail."""
    port = free_port()
    command = [sys.executable, "-m", "aiosmtpd", "-n", "-l", f"127.0.0.1:{port}", "-c", "aiosmtpd.handlers.Sink"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port)
            yield f"smtp://127.0.0.1:{port}"
        finally:
            server.terminate()


def _wait_for(port: int) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


async def timed(acts: int, act: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    took, cpu = [], time.process_time()
    for n in range(acts):
        began = time.perf_counter()
        await act(n)
        took.append(time.perf_counter() - began)
    return spread(took).median * 1e3, (time.process_time() - cpu) / acts * 1e3


async def proof(writes: Writes, n: int) -> str:
    """Return the token that the link of a mail would carry."""
    member = await _member(writes, n)
    login = await members.login_of(writes, member)
    assert login is not None
    event = MailDue(kind=MailKind.RESET, asked=writes.new_id(shard_of(member.id)), member_id=member.id)
    return await mails.prove(writes.graph, writes.new_id, event, Whom(member, login, login.email))


async def run(path: Path, mail: str, acts: int, report: Report) -> None:
    process.prepare()
    memory = "memory://"
    settings = Settings(store=url_of(path), media=memory, search=memory, tags=memory, mail=mail)
    async with open_network(settings) as network:
        writes = network.writes
        raw, _ = await timed(acts, lambda _: authentication.hashed(_PASSWORD))
        report.add("a bare hash, median", raw, "ms")

        async def sign_up(n: int) -> None:
            await members.register(
                writes, f"member{n}", password=_PASSWORD, email=f"member{n}@example.org", confirms=True
            )

        async def log_in(n: int) -> None:
            await sessions.begin(writes, await members.log_in(writes, f"member{n}", _PASSWORD))

        await _told(report, "sign-up", raw, acts, sign_up)
        await network.settle(300)
        await _told(report, "log-in", raw, acts, log_in)
        keys = {n: await _guard(writes, n) for n in range(acts)}

        async def show_code(n: int) -> None:
            member = await _member(writes, n)
            assert await authentication.code_counts(writes, member, pyotp.TOTP(keys[n]).now(), None)
            await sessions.begin(writes, member, proved=True)

        await _told(report, "second-factor code after it", raw, acts, show_code)
        await network.settle(300)
        await _forgotten(network, acts, report)
        links = {n: await proof(writes, n) for n in range(acts)}
        await _told(
            report, "reset", raw, acts, lambda n: credentials.reset_password(writes, links[n], f"{_PASSWORD} again")
        )
        await network.settle(300)
        assert network.effects.mail_sender is not None
        # Mails per member: address confirmation, second factor, forgotten password twice, changed password.
        report.check("mails taken", network.effects.mail_sender.sent, 5 * acts)


async def _member(writes: Writes, n: int) -> Member:
    found = await members.find(writes, f"member{n}")
    assert found is not None
    return found


async def _guard(writes: Writes, n: int) -> str:
    """Enable a second factor for a member, with the previous code of the authenticator app, and return the key."""
    key = new_key()
    code = pyotp.TOTP(key).at(int(time.time()) - STEP_SECONDS)
    await second_factor.turn_on(writes, (await _member(writes, n)).id, _PASSWORD, key, code)
    return key


async def _told(report: Report, what: str, raw: float, acts: int, act: Callable[[int], Awaitable[object]]) -> None:
    median, _ = await timed(acts, act)
    report.add(f"{what}, median", median, "ms", raw=raw)


async def _forgotten(network: Network, acts: int, report: Report) -> None:
    async def ask(n: int) -> None:
        await credentials.forgot(network.writes, f"member{n}@example.org")

    async def until_taken(n: int) -> None:
        await ask(n)
        await network.runner.drain()

    taken, cpu = await timed(acts, until_taken)
    report.add("a forgotten password, until its mail is accepted, median", taken, "ms")
    report.add("a forgotten password, processor time", cpu, "ms")
    began = time.perf_counter()
    await asyncio.gather(*map(ask, range(acts)))
    await network.settle(300)
    report.add("forgotten passwords at once, until all mails are accepted", acts / (time.perf_counter() - began), "1/s")


def main() -> None:
    options = parser(__doc__, quick={"acts": 40}, smallest={"acts": 3})
    options.add_argument("--acts", type=int, default=200, help="repetitions of each operation")
    chosen: argparse.Namespace = options.parse_args()
    report = Report("logins", chosen.size)
    with tempfile.TemporaryDirectory() as folder, mail_server() as mail:
        uvloop.run(run(Path(folder) / "logins.db", mail, chosen.acts, report))
    report.show()


if __name__ == "__main__":
    main()
