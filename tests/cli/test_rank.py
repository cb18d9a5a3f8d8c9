"""`shoal rank replay`: the effect of a different recipe as text, JSON and plot."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from PIL import Image

from shoal import Shoal
from shoal.admin.feeds import ReplayReport
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.ranking.recipes import PRESETS, TERM_NAMES, recipe_link
from tests.cli.test_cli import shoal

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ann follows Ben and Cyd. Ben has an old post with likes, Cyd a new one without. Dan chose a recipe."""
    path = tmp_path_factory.mktemp("rank") / "shoal.db"

    async def story() -> None:
        async with Shoal.open(f"sqlite:///{path}") as network:
            ann, ben, cyd, dan = [await network.register(name) for name in ("ann", "ben", "cyd", "dan")]
            await ann.follow(ben)
            await ann.follow(cyd)
            now = network.network.reads.tags.clock()
            old = await posts.create(network.network.writes, ben.id, Draft(text="old"), created_at=now - 5 * DAY_MS)
            for who in (cyd, dan):
                await who.like(old.id)
            await ann.create("the sea")
            await cyd.create("new #tide")
            await dan.set_recipe("fresh")
            await network.settle()

    asyncio.run(story())
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe that weights only reactions."""
    path = tmp_path / "new.toml"
    zeros = "\n".join(f"{name} = {10.0 if name == 'reactions' else 0}" for name in TERM_NAMES)
    path.write_text(f"exploration = 0.0\n[weights]\n{zeros}\n")
    return path


def report(store: Path, *arguments: str) -> ReplayReport:
    shown = shoal(store, "rank", "replay", *arguments, "--json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    return msgspec.json.decode(shown.stdout, type=ReplayReport)


def test_rank_replay_with_server_recipe_changes_no_feeds(store: Path) -> None:
    shown = shoal(store, "rank", "replay", "--preset", "balanced")
    assert shown.exit_code == 0
    words = " ".join(shown.output.split())
    assert "What the recipe balanced would change" in words
    assert "3 ranked of 4 members active in 7 days" in words
    assert "1 of 4 sampled members omitted: own recipe" in words
    assert "100% of the posts in tops of 20 stay; 3 of 3 members see the same posts in the same order" in words
    assert "Who gains most exposure: no author" in words


def test_rank_replay_accepts_shared_recipe_link(store: Path) -> None:
    link = recipe_link("https://there.example", PRESETS["fresh"])
    by_name, by_link = [
        json.loads(shoal(store, "rank", "replay", *given, "--json").stdout)
        for given in (("--preset", "fresh"), ("--link", link))
    ]
    assert by_link["after"] == by_name["after"]
    assert by_link["after"] != by_link["before"]
    assert "the shared recipe" in shoal(store, "rank", "replay", "--link", "?friends=4").output
    refused = shoal(store, "rank", "replay", "--link", "?frends=4")
    assert (refused.exit_code, "frends" in refused.stderr) == (1, True)


def test_rank_replay_output_shows_every_figure(store: Path, recipe: Path) -> None:
    shown = shoal(store, "rank", "replay", "--weights", str(recipe), "--top", "1")
    words = " ".join(shown.output.split())
    for told in (
        "What the recipe new.toml would change",
        "median age of a post, hours",
        "authors in a top",
        "tags in a top",
        "inequality of exposure (Gini)",
        "rank-biased overlap",
        "0 to 9",
        "1,000+",
        "Who gains most exposure",
        "@cyd",
        "Who loses most exposure",
        "@ben",
    ):
        assert told in words, told


def test_rank_replay_json_contains_options_and_figures(store: Path, recipe: Path) -> None:
    found = report(store, "--weights", str(recipe), "--top", "1", "--days", "9", "--members", "3", "--seed", "5")
    assert (found.options.days, found.options.members, found.options.top, found.options.seed) == (9, 3, 1, 5)
    assert (found.active, found.sampled, found.all_found) == (4, 3, True)
    assert (found.after.weights.reactions, found.after.exploration) == (10.0, 0.0)
    everybody = report(store, "--weights", str(recipe), "--top", "1")
    assert (everybody.own_recipe, everybody.figures.members) == (1, 3)
    assert everybody.figures.age_hours.after > 100 > everybody.figures.age_hours.before
    assert [one.name for one in everybody.figures.gains] == ["ben"]
    # Posts of five days ago are outside the three days.
    assert report(store, "--weights", str(recipe), "--top", "1", "--days", "3").figures.age_hours.after < 1


def test_rank_replay_accepts_recipe_table_of_settings_file(store: Path, tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text("[recipe]\nhalf_life_hours = 6.0\n[recipe.weights]\nfriends = 7.0\n")
    after = report(store, "--weights", str(tmp_path / "shoal.toml")).after
    assert (after.half_life_hours, after.weights.friends, after.weights.tags) == (6.0, 7.0, 3.0)


def test_rank_replay_plot_is_written_as_svg_and_png(store: Path, recipe: Path, tmp_path: Path) -> None:
    for name in ("change.svg", "change.png"):
        done = shoal(store, "rank", "replay", "--weights", str(recipe), "--top", "1", "--plot", str(tmp_path / name))
        assert (done.exit_code, done.stderr) == (0, f"wrote {tmp_path / name}\n")
    drawn = ET.fromstring((tmp_path / "change.svg").read_text())  # noqa: S314  # we have just written it
    texts = ["".join(element.itertext()) for element in drawn.iter() if element.tag.endswith("text")]
    for told in ("What the recipe new.toml would change", "@cyd", "@ben", "100 to 999", "median age"):
        assert told in texts
    with Image.open(tmp_path / "change.png") as picture:
        assert picture.size == (2 * int(drawn.attrib["width"]), 2 * int(drawn.attrib["height"]))
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 8


def test_rank_replay_plot_without_ranked_members_is_written(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"

    async def story() -> None:
        async with Shoal.open(f"sqlite:///{path}") as network:
            await network.register("ann")

    asyncio.run(story())
    shown = shoal(path, "rank", "replay", "--preset", "fresh", "--plot", str(tmp_path / "empty.svg"))
    assert shown.exit_code == 0
    assert "no member has posts to rank" in shown.output
    assert "no member gains or loses" in (tmp_path / "empty.svg").read_text()


def test_rank_replay_output_and_plot_escape_recipe_file_name(store: Path, recipe: Path, tmp_path: Path) -> None:
    odd = tmp_path / "[red]a&b<c>.toml"
    odd.write_text(recipe.read_text())
    shown = shoal(store, "rank", "replay", "--weights", str(odd), "--plot", str(tmp_path / "odd.svg"))
    assert "What the recipe [red]a&b<c>.toml would change" in " ".join(shown.output.split())
    drawn = ET.fromstring((tmp_path / "odd.svg").read_text())  # noqa: S314  # we have just written it
    assert "What the recipe [red]a&b<c>.toml would change" in "".join(drawn.itertext())


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("[weights]\nfrends = 1\n", "allowed are reactions, tags, author"),
        ("half_life = 1\n", "allowed are weights, half_life_hours"),
        ("[weights]\nfriends = 11\n", "Expected `float` <= 10.0 - at `$.weights.friends`"),
        ("[weights]\nfriends = nan\n", "weights.friends"),
        ("exploration = 0.6\n", "Expected `float` <= 0.5 - at `$.exploration`"),
        ("author_most = 1.5\n", "author_most"),
        ("recipe = 3\n", "Expected `object`"),
        ("[recipe]\n[other]\n", "unknown field `"),
        ("weights = [\n", "is not valid TOML"),
        ("#" * 70_000, "at most 65,536 bytes"),
    ],
)
def test_rank_replay_invalid_recipe_file_is_refused_in_one_line(
    store: Path, tmp_path: Path, document: str, words: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(document)
    refused = shoal(store, "rank", "replay", "--weights", str(path))
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert words in refused.stderr
    assert str(path) in refused.stderr


def test_rank_replay_invalid_arguments_are_reported_in_one_line(store: Path, recipe: Path, tmp_path: Path) -> None:
    for arguments, code, words in (
        ((), 2, "one of --weights FILE, --preset NAME and --link URL"),
        (
            ("--preset", "fresh", "--weights", str(recipe)),
            2,
            "give exactly one of --weights FILE, --preset NAME and --link URL",
        ),
        (("--preset", "best"), 2, "friends_first"),
        (("--preset", "fresh", "--days", "31"), 2, "1<=x<=30"),
        (("--preset", "fresh", "--members", "1001"), 2, "1<=x<=1000"),
        (("--preset", "fresh", "--top", "0"), 2, "1<=x<=100"),
        (("--preset", "fresh", "--seed", "-1"), 2, "0<=x"),
        (("--preset", "fresh", "--plot", str(tmp_path / "a.gif")), 1, "must end in .svg or .png"),
        (("--weights", str(tmp_path / "none.toml")), 1, "none.toml"),
    ):
        refused = shoal(store, "rank", "replay", *arguments)
        assert refused.exit_code == code, refused.output
        assert words in refused.output
        assert refused.output.count("\n") == 1


def test_rank_replay_recipe_file_in_utf16_is_refused_as_invalid_toml(store: Path, tmp_path: Path) -> None:
    (tmp_path / "wide.toml").write_bytes("author_most = 1\n".encode("utf-16"))
    assert "is not valid TOML" in shoal(store, "rank", "replay", "--weights", str(tmp_path / "wide.toml")).stderr


def test_rank_replay_json_with_plot_prints_one_object(store: Path, tmp_path: Path) -> None:
    shown = shoal(store, "rank", "replay", "--preset", "fresh", "--json", "--plot", str(tmp_path / "a.svg"))
    assert json.loads(shown.stdout)["figures"]["members"] == 3
