"""`shoal why-slow`: the stages of a slow request, from a running server and from logs."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli import main
from shoal.cli.diagnostics import covered, findings, picture
from shoal.observability.request_log import LoggedRequest, TimedSpan
from tests.server_process import served
from tests.tracing.logs import SLOW_MS, TRACE, TRACEPARENT, locked, logged, signed_up


def why_slow(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--store", f"sqlite:///{store}", "why-slow", *arguments])


def milliseconds(line: str) -> float:
    """Return the first duration in a line."""
    found = re.search(r"([\d,]+\.\d) ms", line)
    assert found, line
    return float(found[1].replace(",", ""))


def test_why_slow_command_shows_slow_statement_from_running_server_and_from_log(tmp_path: Path) -> None:
    store, log = tmp_path / "shoal.db", tmp_path / "log"
    with served(store, log=log, SHOAL_LOG_FORMAT="json", SHOAL_SLOW_MS=SLOW_MS) as server:
        headers = {"Authorization": f"Bearer {signed_up(server.url, 'ann')}", "X-Request-Id": "late", **TRACEPARENT}
        with locked(store):
            post = httpx.post(
                f"{server.url}/api/v1/statuses", data={"status": "late #tag"}, headers=headers, timeout=60
            )
            assert post.status_code == 200
        # The log line is written after the request is stored in memory.
        logged(log, lambda line: line.get("id") == "late")
        # The jobs run after the response.
        deadline = time.monotonic() + 60
        while "PostCreated 0:" not in (shown := why_slow(store, "late")).output:
            assert shown.exit_code == 0, shown.output
            assert time.monotonic() < deadline, shown.output
            time.sleep(0.02)
        assert shown.output.startswith("POST /api/v1/statuses 200")
        assert TRACE in shown.output
        stage, commit = (
            next(line for line in shown.output.splitlines() if line.strip().startswith(name))
            for name in ("handle", "sqlite commit")
        )
        # A busy machine may have delayed the request before and after its commit.
        whole, waited = milliseconds(shown.output.splitlines()[0].partition("  ")[2]), milliseconds(commit)
        assert abs(commit.count("█") - waited / whole * 44) <= 1.5
        assert waited > 100
        assert stage.count("█") >= commit.count("█")
        assert "Its longest wait: sqlite commit," in shown.output
        assert "Jobs that followed" in shown.output

        listed = why_slow(store).output.splitlines()
        assert listed[0].split() == ["ms", "when", "longest", "in", "id", "request"]
        assert any(
            " handle " in line and " late " in line and line.endswith("POST /api/v1/statuses 200") for line in listed
        )
        as_json = json.loads(why_slow(store, "late", "--json").output)
        assert as_json["requests"][0]["route"] == "/api/v1/statuses"
        assert {job["trace"] for job in as_json["jobs"]} == {TRACE}

        unknown = why_slow(store, "never")
        assert (unknown.exit_code, unknown.output.count("\n")) == (1, 1)
        assert f"no slow request 'never' on this server: it took less than {SLOW_MS} ms" in unknown.output
    from_log = why_slow(store, "late", "--log", str(log))
    assert "sqlite commit" in from_log.output
    assert "late" in why_slow(store, "--log", str(log)).output
    assert "no request 'never' in these logs" in why_slow(store, "never", "--log", str(log)).output
    assert "no server is running on this store: name its log with --log" in why_slow(store, "late").output


def test_why_slow_command_on_postgresql_store_requires_log_option() -> None:
    done = CliRunner().invoke(main, ["--store", "postgresql://nowhere/none", "why-slow"])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "name its log with --log" in done.output


def test_why_slow_command_with_request_log_off_suggests_the_setting(tmp_path: Path) -> None:
    with served(tmp_path / "shoal.db", SHOAL_REQUEST_LOG="off"):
        assert "set request_log to slow or all" in why_slow(tmp_path / "shoal.db", "x").output
        assert why_slow(tmp_path / "shoal.db").output == "no request was slow\n"


def test_why_slow_command_escapes_control_characters_from_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    good = {
        "kind": "request",
        "time": "t",
        "ms": 10.0,
        "id": "a",
        "method": "GET",
        "route": "/\x1b[2J\nx",
        "status": 200,
        "spans": [["", "handle\x1b[1m", 0.0, 10.0], ["sqlite\r", "x\u202e", 1.0, 8.0]],
    }
    log.write_text(
        "text\n{\n" + json.dumps({"kind": "request"}) + "\n" + json.dumps(good) + "\n" + '{"kind":"request",'
    )
    for arguments in ((), ("a",)):
        shown = why_slow(tmp_path / "none.db", *arguments, "--log", str(log))
        assert shown.exit_code == 0, shown.output
        assert not set("\x1b\r\u202e").intersection(shown.output)
        assert "/\\x1b[2J\\nx" in shown.output


def request(ms: float, spans: list[TimedSpan]) -> LoggedRequest:
    stages = {span.what: span.ms for span in spans if not span.store}
    return LoggedRequest(time="t", ms=ms, id="r", method="GET", route="/x", status=200, stages=stages, spans=spans)


spans = st.lists(
    st.builds(TimedSpan, st.sampled_from(["sqlite", "redis"]), st.just("x"), st.floats(0, 90), st.floats(0, 200)),
    max_size=40,
)


@given(spans)
def test_why_slow_command_wait_of_stage_never_exceeds_its_duration(statements: list[TimedSpan]) -> None:
    stage = TimedSpan("", "handle", 10.0, 80.0)
    assert 0.0 <= covered(stage, statements) <= 80.0 + 1e-9
    drawn = [line.plain for line in picture(request(90.0, [TimedSpan("", "wait", 0.0, 10.0), stage, *statements]))]
    assert len({len(line) for line in drawn if "█" in line}) == 1


@pytest.mark.parametrize(
    ("statements", "waited"),
    [
        ([], 0.0),
        ([TimedSpan("sqlite", "a", 10, 20)], 20.0),
        # Overlapping waits are merged.
        ([TimedSpan("sqlite", "a", 10, 20), TimedSpan("redis", "b", 20, 20)], 30.0),
        ([TimedSpan("sqlite", "a", 10, 40), TimedSpan("redis", "b", 20, 10)], 40.0),
        ([TimedSpan("sqlite", "a", 0, 20)], 10.0),
        ([TimedSpan("sqlite", "a", 80, 50)], 10.0),
    ],
)
def test_why_slow_command_counts_overlapping_waits_once(statements: list[TimedSpan], waited: float) -> None:
    assert covered(TimedSpan("", "handle", 10.0, 80.0), statements) == pytest.approx(waited)


def test_why_slow_command_for_request_without_spans_draws_its_stages() -> None:
    shown = LoggedRequest(
        time="t", ms=10.0, id="r", method="GET", route="/x", status=200, stages={"wait": 2.0, "handle": 8.0}
    )
    first, second = (line.plain for line in picture(shown))
    assert first.index("█") < first.rindex("█") < second.index("█")
    assert findings(shown) == ["No store was asked.", "Longest: handle, 8.0 ms."]
