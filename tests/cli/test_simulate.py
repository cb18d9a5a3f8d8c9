"""`shoal simulate`: options, output and plots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from shoal.cli import main
from shoal_planner.calibration import save, shipped


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def simulated(*words: str) -> Result:
    return CliRunner().invoke(main, ["simulate", "--seconds", "8", *words], env={"COLUMNS": "120"})


def numbers(*words: str) -> dict[str, Any]:
    shown = simulated(*words, "--json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_simulate_command_describes_faults_and_post_delivery() -> None:
    words = ("--members", "10M", "--fault", "slow:at=2,lasting=3,by=40", "--fault", "timelines:at=6,part=25%")
    shown = simulated(*words).stdout
    assert shown.startswith("10 million members for 8 s: 1 PostgreSQL, 2 Redis, 5 web processes, 2 workers.\n")
    assert "From 2 s to 5 s commits take 40 times as long.\nAt 6 s 25% of the timelines are lost.\nOf " in shown
    assert " were delivered to all home timelines by the end" in " ".join(shown.split())
    assert "`shoal plan --calibrate` measures this" in shown
    for title in ("Posts per second", "Response times", "Totals", "Utilization"):
        assert f"\n{title}" in shown
    rows = [
        row.split()
        for row in shown.partition("Posts per second")[2].partition("Response times")[0].splitlines()
        if " to " in row
    ]
    assert [row[3] for row in rows if row[0] in {"2", "6"}] == ["slow", "timelines"]
    assert simulated(*words).stdout == shown


def test_simulate_command_json_shows_effects_of_faults() -> None:
    found = numbers("--members", "10M", "--fault", "away:at=2,lasting=4,part=0.5", "--seed", "7")
    assert found["course"] == {
        "seconds": 8.0,
        "faults": [{"kind": "away", "at": 2.0, "lasting": 4.0, "part": 0.5}],
        "seed": 7,
    }
    outcome = found["outcome"]
    assert outcome["refused"] > 0
    assert all(bool(phase["faults"]) == (phase["refused"] > 0) for phase in outcome["phases"])
    assert outcome["came"] == pytest.approx(outcome["refused"] + outcome["delivered"] + outcome["left"])
    assert found["assumptions"]["members"] == 10_000_000


def test_simulate_command_uses_given_rates_and_sizes() -> None:
    found = numbers("--members", "5M", "--posts", "200", "--reads", "10", "--workers", "3", "--databases", "2")
    assert found["outcome"]["came"] == pytest.approx(8 * 200, rel=0.1)
    assert found["outcome"]["shape"].startswith("2 PostgreSQL")
    assert found["outcome"]["shape"].endswith("3 workers")
    assert numbers("--members", "20k", "--shape", "several")["outcome"]["shape"].endswith("2 workers")
    assert numbers("--members", "20k")["outcome"]["shape"] == "one process on SQLite"
    assert numbers("--web", "9", "--redis", "4")["outcome"]["shape"].startswith("1 PostgreSQL, 4 Redis, 9 web")


def test_simulate_command_uses_existing_calibration_file() -> None:
    save(shipped(), Path("shoal-calibration.json"))
    assert "--calibrate" not in simulated("--members", "20k").stdout


def test_simulate_command_with_zero_load_is_reported_and_plotted() -> None:
    words = ("--members", "1000", "--posts", "0", "--reads", "0", "--assume", "changes=0", "--assume", "returning=0")
    for shape in ("one", "several"):
        done = simulated(*words, "--shape", shape, "--plot", "nothing.svg")
        assert done.exit_code == 0, done.output
        assert "Of 0 posts, 0 were delivered to all home timelines by the end, and none was pending." in done.stdout
        assert "Queue" in Path("nothing.svg").read_text()


def test_simulate_command_plots_lag_and_queue_over_time() -> None:
    words = ("--members", "2M", "--fault", "rush:at=2,lasting=2,by=60", "--fault", "timelines:at=6")
    done = simulated(*words, "--plot", "run.svg")
    assert done.stderr == "wrote run.svg\n"
    svg = Path("run.svg").read_text()
    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314  # our own
    for word in ("Lag", "Queue", "Posts", "post, p99", "uncommitted", "refused", "rush", "rush ends", "timelines"):
        assert f">{word}<" in svg, word
    assert ">timelines ends<" not in svg
    assert simulated(*words, "--plot", "run.png").exit_code == 0
    with Image.open("run.png") as image:
        assert image.format == "PNG"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ("--fault", "flood"),
            2,
            "'flood' must begin with a kind of fault: slow, away, workers, timelines, celebrity, rush",
        ),
        (("--fault", "slow:size=3"), 2, "'size=3': the parameters of `slow` are at, lasting, by, part"),
        (("--fault", "timelines:lasting=3"), 2, "the parameters of `timelines` are at, part"),
        (("--fault", "slow:at=soon"), 2, "'at=soon' needs a number such as 60, 0.5 or 30%"),
        (("--fault", "slow:by"), 2, "'by' needs a number"),
        (("--fault", "slow:part=200%"), 2, "Expected `float` <= 1.0"),
        (("--fault", "slow:at=8"), 1, "the fault `slow` begins at 8 s, but only 8 s are simulated"),
        (("--fault", "workers", "--members", "20k"), 1, "one process has no workers to lose"),
        (("--shape", "one", "--workers", "3"), 1, "require --shape several"),
        (("--seconds", "0"), 1, "Expected `float` > 0.0"),
        (("--seconds", "1M"), 1, "Expected `float` <= 86400.0"),
        (("--seed", "99999999999999999999"), 1, "Expected `int`"),
        (("--members", "1G", "--shape", "one", "--seconds", "1000"), 1, "the simulated load is too large"),
        (("--members", "3"), 1, "Expected `int` >= 10"),
        (("--databases", "8193"), 2, "1<=x<=8192"),
        (("--plot", "run.gif"), 1, "must end in .svg or .png"),
        (("--calibration", "none.json"), 1, "none.json"),
    ],
)
def test_simulate_command_invalid_arguments_are_reported_in_one_line(
    words: tuple[str, ...], status: int, said: str
) -> None:
    done = simulated(*words)
    assert done.exit_code == status
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
