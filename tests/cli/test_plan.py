"""`shoal plan`: options, output and written files."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from shoal.cli import main
from shoal_planner.calibration import save, shipped


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def planned(*words: str) -> Result:
    return CliRunner().invoke(main, ["plan", *words])


def numbers(*words: str) -> dict[str, object]:
    shown = planned(*words, "--json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    found: dict[str, object] = json.loads(shown.stdout)
    return found


def test_plan_command_shows_components_and_source_of_costs() -> None:
    shown = planned("--members", "10M").stdout
    assert "10 million members: PostgreSQL, Redis, web processes and workers" in shown
    assert "`shoal plan --calibrate` measures this" in shown
    for title in ("Components", "Load", "Response times", "Utilization", "Most important assumptions"):
        assert title in shown
    assert planned("--members", "20k").stdout.startswith("20,000 members: one process on SQLite")


def test_plan_command_with_existing_calibration_file_does_not_suggest_calibrating() -> None:
    save(shipped(), Path("shoal-calibration.json"))
    assert "--calibrate" not in planned().stdout
    save(shipped(), Path("other.json"))
    assert "--calibrate" not in planned("--calibration", "other.json").stdout


def test_plan_command_rates_per_second_apply_to_peak_hour() -> None:
    found = numbers("--members", "5M", "--posts", "100", "--reads", "2000", "--assume", "daily=0.1")
    load = found["load"]
    assert isinstance(load, dict)
    assert load["posts"] == pytest.approx(100)
    assert load["pages"] == pytest.approx(2_000)


def test_plan_command_reads_assumptions_and_prices_from_files_and_options_override_them() -> None:
    Path("a.toml").write_text("members = 400000\nfollows = 10\n")
    Path("p.toml").write_text("core = 0\nmemory_gib = 0\ndisk_gib = 0\nobject_gib = 0\ntraffic_gib = 0\n")
    found = numbers("--assumptions", "a.toml", "--prices", "p.toml", "--follows", "20")
    assumed = found["assumptions"]
    assert isinstance(assumed, dict)
    assert (assumed["members"], assumed["follows"], found["money"]) == (400_000, 20, 0)


def test_plan_command_writes_plots_and_report() -> None:
    done = planned("--members", "1M", "--plot", "plan.svg", "--report", "plan.html")
    assert done.stderr == "wrote plan.svg\nwrote plan.html\n"
    assert ET.parse("plan.svg").getroot().tag.endswith("svg")  # noqa: S314  # our own
    page = Path("plan.html").read_text()
    assert page.count("<img ") == 5
    assert "Most important assumptions" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert planned("--members", "1M", "--plot", "plan.png").exit_code == 0
    with Image.open("plan.png") as image:
        assert image.format == "PNG"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--members", "many"), 2, "'many' is not a number such as 250000, 10M"),
        (("--members", "3"), 1, "Expected `int` >= 10"),
        (("--assume", "moons=2"), 2, "expected NAME=VALUE with one of members, daily"),
        (("--assume", "daily"), 2, "expected NAME=VALUE"),
        (("--assume", "daily=7"), 1, "Expected `float` <= 1.0"),
        (("--assume", "daily=0", "--posts", "5"), 2, "set daily above 0"),
        (("--plot", "plan.gif"), 1, "must end in .svg or .png"),
        (("--calibration", "none.json"), 1, "none.json"),
        (("--prices", "bad.toml"), 1, "bad.toml is not valid TOML"),
        (("--assumptions", "odd.toml"), 1, "unknown field `moons`"),
    ],
)
def test_plan_command_invalid_arguments_are_reported_in_one_line(
    words: tuple[str, ...], status: int, said: str
) -> None:
    Path("bad.toml").write_text("= 3")
    Path("odd.toml").write_text("moons = 3")
    done = planned(*words)
    assert done.exit_code == status
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
