"""`shoal webhooks`, with and without a running server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shoal import Shoal
from shoal.cli import main
from tests.push.service import PushService, push_service
from tests.server_process import served
from tests.webhooks.scene import LOCAL, body

NETWORKS = f'["{LOCAL}"]'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[PushService]:
    with push_service(tmp_path) as running:
        yield running


async def prepare(store: Path) -> None:
    async with Shoal.open(f"sqlite:///{store}", event_log="on"):
        pass


@pytest.mark.parametrize("running", [False, True], ids=["alone", "served"])
def test_cli_webhooks_commands_work_with_and_without_server(
    tmp_path: Path, service: PushService, running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "shoal.db"
    asyncio.run(prepare(store))
    environment = {"SHOAL_WEBHOOK_NETWORKS": NETWORKS, "SSL_CERT_FILE": str(service.trusted)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def shoal(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["--store", f"sqlite:///{store}", "webhooks", *arguments])

    with served(store, files=0, log=None, **environment) if running else nullcontext():
        made = shoal("add", f"{service.url}/hook", "--types", "post.created", "--filter", "tags=Dawn", "--private")
        assert made.exit_code == 0, made.output
        assert re.fullmatch(r"whsec_[\w+/]{43}=\n", made.stdout)
        (id_,) = re.findall(r"secret of the webhook (\d+), shown only once", made.stderr)
        head, line = shoal("list").stdout.splitlines()
        assert head.split("\t") == ["id", "state", "parked", "behind", "format", "receives", "url", "types", "filter"]
        url = f"{service.url}/hook"
        end = ["standard", "private", url, "post.created", "tags=dawn"]
        assert line.split("\t") == [id_, "active", "0", "0 (0 s)", *end]
        assert shoal("update", id_, "--url", f"{url}2", "--types", "", "--filter", "").exit_code == 0
        assert shoal("list").stdout.splitlines()[1].split("\t")[-3:] == [f"{url}2", "all", "none"]
        assert shoal("update", id_, "--url", url, "--types", "post", "--filter", "author_id=7").exit_code == 0
        assert shoal("list").stdout.splitlines()[1].split("\t")[-3:] == [url, "post", "author_id=7"]
        failed = shoal("update", id_, "--types", "like")
        cause = "like.created has no field 'author_id'; it has member_id, post_id"
        assert (failed.exit_code, failed.stderr) == (1, f"shoal: filter: {cause}\n")
        assert "nothing to change: use --url, --types or --filter" in shoal("update", id_).stderr
        assert shoal("pause", id_).exit_code == 0
        assert "paused (manual)" in shoal("list").stdout
        assert re.search(r" UTC\t201\t\d+ ms\twebhook.test\ttest-", shoal("test", id_).stdout)
        assert [body(request)["type"] for request in service.at("/hook")] == ["webhook.test"]
        assert shoal("deliveries", id_).stdout.count("webhook.test") == 1
        service.answers["/hook"] = 500
        failed = shoal("test", id_)
        assert (failed.exit_code, failed.stderr) == (1, "shoal: the test failed\n")
        assert shoal("resume", id_).exit_code == 0
        assert shoal("replay", id_).stdout == "parked events: 0\n"
        rotated = shoal("rotate", id_, "--grace-hours", "1")
        assert re.fullmatch(r"whsec_[\w+/]{43}=\n", rotated.stdout)
        assert rotated.stdout != made.stdout
        assert shoal("delete", id_).exit_code == 0
        assert shoal("list").stdout.splitlines() == [head]
        for command in ("pause", "resume", "delete", "test", "replay", "rotate", "deliveries", "update --types=post"):
            assert shoal(*command.split(), id_).stderr == "shoal: Record not found\n", command
        assert "url: " in shoal("add", "http://shop.example").stderr
        long = shoal("add", f"{service.url}/hook", "--types", "post," * 201)
        assert (long.exit_code, long.stderr) == (1, "shoal: types: at most 1000 characters (got 1005)\n")


def test_cli_webhooks_add_without_event_log_fails_with_hint(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    done = CliRunner().invoke(
        main, ["--store", f"sqlite:///{store}", "member", "add", "ann", "--password-stdin"], input="a long password\n"
    )
    assert done.exit_code == 0
    done = CliRunner().invoke(main, ["--store", f"sqlite:///{store}", "webhooks", "add", "https://shop.example"])
    assert (done.exit_code, done.stderr) == (
        1,
        "shoal: the network, or one of its stores, keeps no event log: set event_log = on\n",
    )
