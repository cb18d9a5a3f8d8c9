"""`shoal placement`: placement of a name, the conformance file for other languages, and studies of name lists."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from shoal.cli import main
from shoal.core.placement import media_path, place
from shoal_study.counting import SCHEMES
from shoal_study.names import generated_batches

ROOT = Path(__file__).resolve().parents[2]


def shoal(*arguments: str, typed: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["placement", *arguments], input=typed, env={"COLUMNS": "80"})


def told(*arguments: str, typed: bytes | None = None) -> str:
    """Return the output of a command that must succeed."""
    done = shoal(*arguments, typed=typed)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of made-up names."""
    path = tmp_path_factory.mktemp("names") / "names.txt.gz"
    made = [name for batch in generated_batches(20_000, 3, lambda _done, _total: None) for name in batch.encoded()]
    path.write_bytes(gzip.compress(b"\n".join(made)))
    return path


def test_placement_command_shows_shard_and_media_path_of_user_name_without_store() -> None:
    a, b, c = place("frank")
    shown = [
        *("name", "frank", "a/b/c", f"{a}/{b}/{c}"),
        *("shard", str(a * 128 + c), "media", media_path("frank")),
    ]
    assert told("Frank").split() == shown
    assert told("show", "Frank").split() == shown
    # A member may have the name of a subcommand.
    assert told("show", "study").split()[1] == "study"


def test_placement_conformance_output_matches_committed_file() -> None:
    kept = (ROOT / "docs" / "placement-conformance.csv").read_text("utf-8")
    assert told("conformance") == kept, "shoal placement conformance > docs/placement-conformance.csv"


def test_name_placement_study_output_fits_in_eighty_columns(names: Path) -> None:
    shown = told("study", str(names))
    assert shown.startswith("20,000 names: names.txt.gz\n")
    for words in (
        "M3 64 x 64 x 128",
        "   c: mod 128",
        "N1  38,353.80   228.88",
        "chi2 p",
        "Rendezvous",
        "2 ranges of 10,000 members",
        "7 One-to-one",
        "Errors of the paper",
    ):
        assert words in shown
    assert "…" not in shown
    assert max(map(cell_len, shown.splitlines())) <= 80


def test_placement_study_json_option_prints_all_figures_as_one_json_object(names: Path) -> None:
    shown = json.loads(told("study", str(names), "--json"))
    assert shown["names"] == 20_000
    assert [scheme["key"] for scheme in shown["schemes"]] == ["letters", "ascii-sum", "md5"]
    assert len(shown["schemes"][2]["levels"][2]["counts"]) == 128
    keys = {"mapping", *(each["key"] for part in ("schemes", "servers") for each in shown[part])}
    assert keys == set(SCHEMES)


def test_placement_study_reads_names_from_several_sources(names: Path, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("id,nick,posts\n1,ann,4\n2,bob,0\n")
    shown = json.loads(
        told("study", str(people), "-", "--column", "nick", "--weight", "posts", "--json", typed=b"nick,posts\ncyd,3")
    )
    assert (shown["names"], shown["source"]) == (3, "people.csv, standard input")


def test_placement_study_only_option_selects_schemes(names: Path) -> None:
    shown = json.loads(
        told("study", str(names), "--only", "letters", "--only", "jump", "--servers", "5", "--grown", "9", "--json")
    )
    assert [scheme["key"] for scheme in shown["schemes"]] == ["letters"]
    assert [(each["key"], each["servers"]["buckets"]) for each in shown["servers"]] == [("jump", 5)]
    assert [change["after"] for change in shown["servers"][0]["changes"]] == [6, 4, 9]


def test_placement_study_with_generated_names_is_reproducible_by_seed() -> None:
    first, again, other = (
        json.loads(told("study", "--generated", "3000", "--seed", seed, "--only", "md5", "--json")) for seed in "112"
    )
    assert first["names"] == 3_000
    assert first["schemes"][0]["levels"] == again["schemes"][0]["levels"] != other["schemes"][0]["levels"]


def test_placement_study_report_is_written_as_html(names: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = shoal("study", str(names), "--report", str(page))
    assert done.exit_code == 0
    assert done.stderr == f"wrote {page}\n"
    assert "Evenness" in done.stdout
    assert page.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("study", "nowhere.txt"), 1, "nowhere.txt does not exist"),
        (("study", "--report", "report.pdf", "x"), 1, "file name must end in .html"),
        (("study", "x", "--generated", "5"), 2, "NAMES and --generated are mutually exclusive"),
        (("study", "--generated", "0"), 2, "--generated"),
        (("study", "--only", "sand"), 2, "sand"),
        (
            ("study", "--servers", "30", "--grown", "30", "--generated", "5"),
            1,
            "must be more than --servers (30)",
        ),
        (("study", "--zipf", "9"), 2, "--zipf"),
        (("study", "--range", "0"), 2, "--range"),
        (("study", "--generated", "1100000", "--only", "mapping", "--range", "1"), 1, "at most 1,048,576 ranges"),
        (("study", "sqlite:///nowhere.db"), 1, "no store at"),
        (("study", "sqlite:///nowhere.db", "--weight", "likes"), 2, "use --weight posts or omit --weight"),
        (("show",), 2, "NAME"),
        (("no such name",), 1, "a user name must have 1 to 30"),
    ],
)
def test_placement_command_invalid_arguments_are_reported_in_one_line(
    arguments: tuple[str, ...], status: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = shoal(*arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (status, 1), done.output
    assert words in done.stderr


def test_placement_study_of_file_without_names_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    done = shoal("study", str(empty))
    assert (done.exit_code, done.stderr) == (1, "shoal: no names found\n")


def without_xxhash(*arguments: str) -> str:
    """Return the exit code and the output of `shoal placement` where xxhash is not installed."""
    program = (
        "import sys; sys.modules['xxhash'] = None\n"
        "from click.testing import CliRunner\n"
        "from shoal.cli import main\n"
        "done = CliRunner().invoke(main, ['placement', *sys.argv[1:]])\n"
        "print(done.exit_code, done.output)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_placement_study_without_xxhash_states_missing_package_in_affected_rows(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    shown = without_xxhash("study", "--generated", "500", "--report", str(page))
    assert shown.startswith("0 ")
    assert re.search(r"^   c: mod 128 +128 ", shown, re.MULTILINE)
    titles = ("XXH3 modulo", "Jump hash", "Rendezvous", "Ring", "Bounded loads")
    assert [line.split()[-2:] for line in shown.splitlines() if line.startswith(titles)] == [["needs", "xxhash"]] * 5
    assert page.read_text("utf-8").count("needs the package xxhash") == 5


def test_placement_study_of_schemes_that_all_need_xxhash_is_refused_without_it() -> None:
    assert without_xxhash("study", "--generated", "5", "--only", "ring", "--only", "jump") == (
        "1 shoal: Ring, Jump hash needs the package xxhash: "
        "run `pip install -e '.[study]'` in the directory with Shoal's source\n\n"
    )


def test_placement_study_without_xxhash_and_server_table_names_skipped_schemes() -> None:
    shown = without_xxhash("study", "--generated", "5", "--only", "letters", "--only", "jump")
    assert "Jump hash: needs the package xxhash\n" in shown
