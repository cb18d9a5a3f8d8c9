"""Flame graphs are drawn from stored samples, without overflow and without file system paths."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.flames import FOLDER, PAGE, cause_file, chart, files, with_tables
from benchmarks.samples import CAUSES, WRITE_STAGES, Flames, folded, part, read, stages, trimmed, write
from shoal.charts import Box, TextLine

KEPT = sorted(FOLDER.glob("*.folded"))
TOLD = """\
thread (7): MainThread;<module> (/b/src/shoal/cli/__main__.py);Runner.run (asyncio/runners.py:9);page (shoal/queries/home.py:12) 30
thread (7): MainThread;Runner.run (asyncio/runners.py:9);page (shoal/queries/home.py:14);get (shoal/graph/cache/lru.py) 9
thread (7): MainThread;Runner.run (asyncio/runners.py:9) 5
thread (8): shoal-writer;Thread.run (threading.py:3);Writer._run (/a/src/shoal/graph/sqlite/writer.py:8) 70
thread (8): shoal-writer;Thread.run (threading.py:3);Writer._run (shoal/graph/sqlite/writer.py:8);Condition.wait (threading.py:9) 99
thread (9): pool;_worker (concurrent/futures/thread.py:8) 99
"""


def test_flame_graph_stacks_start_at_event_loop_of_main_thread() -> None:
    assert folded(TOLD) == {
        ("shoal.queries.home:page",): 30,
        ("shoal.queries.home:page", "shoal.graph.cache.lru:get"): 9,
        ("the event loop",): 5,
    }


def test_flame_graph_stacks_with_all_threads_option_include_other_threads() -> None:
    beside = ("beside the event loop", "shoal.graph.sqlite.writer:Writer._run")
    assert folded(TOLD, all_threads=True) == folded(TOLD) + Counter({beside: 70})
    told = stages(Flames("", 114.0, folded(TOLD, all_threads=True), "post"), WRITE_STAGES)
    assert {name[:6]: round(us) for name, us in told.items() if us} == {
        "HTTP a": 5,
        "SQLite": 70,
        "caches": 9,
        "pages:": 30,
    }


def test_flame_graph_stages_sum_to_page_time() -> None:
    told = stages(Flames("", 44.0, folded(TOLD)))
    assert [round(told[name]) for name in told if told[name]] == [5, 30, 9]
    assert sum(told.values()) == pytest.approx(44.0)


def test_flame_graphs_of_causes_have_unique_names_and_contain_all_samples() -> None:
    mixed = read(FOLDER / "mixed.folded")
    parts = [part(mixed, CAUSES, name) for name in stages(mixed, CAUSES)]
    assert sum(each.samples for each in parts) == mixed.samples
    assert sum(each.unit_us for each in parts) == pytest.approx(mixed.unit_us)
    assert len({cause_file(stage.name) for stage in CAUSES}) == len(CAUSES)


def test_flame_graph_sample_of_consumer_counts_for_consumer_whatever_it_calls() -> None:
    stacks = {
        ("shoal.outbox.runner:Runner._run", "shoal.consumers.home:push_post", "shoal.graph.cache.lru:get"): 2,
        ("shoal.outbox.runner:Runner._run", "shoal.graph.sqlite.store:claim"): 3,
        ("shoal.mastodon_api.timelines:home", "shoal.graph.cache.lru:get"): 5,
    }
    found = {name.partition(":")[0]: us for name, us in stages(Flames("", 10.0, stacks), CAUSES).items() if us}
    assert found == {
        "fan-out to home timelines": 2,
        "outbox, other consumers and streams": 3,
        "reads from caches, for pages and commands, and their changes by commits": 5,
    }


def test_flame_graph_rare_frames_are_merged_into_callers() -> None:
    stacks = {("a",): 1, ("a", "b"): 9_000, ("a", "b", "c"): 3, ("d", "e"): 2}
    assert trimmed(stacks) == {("a",): 1, ("a", "b"): 9_003, ("all else",): 2}


def test_flame_graph_frame_of_module_named_like_library_keeps_full_name() -> None:
    told = "thread (7): MainThread;Runner.run (asyncio/runners.py:9);ask (/a/src/shoal/graph/redis/client.py:1) 2"
    assert folded(told) == {("shoal.graph.redis.client:ask",): 2}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_flame_graph_samples_round_trip_through_file(path: Path, tmp_path: Path) -> None:
    write(tmp_path / "again", read(path))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_flame_graph_text_fits_boxes_and_boxes_fit_page(path: Path) -> None:
    drawn = chart(read(path))
    boxes = [shape for shape in drawn.shapes[1:] if isinstance(shape, Box)]
    assert all(box.x >= 0 and box.x + box.width <= drawn.width and box.y + box.height <= drawn.height for box in boxes)
    words = [shape for shape in drawn.shapes[3:] if isinstance(shape, TextLine)]
    assert len(words) > 30
    for line in words:
        assert any(
            box.x < line.x
            and line.x + 6.2 * len(line.text) <= box.x + box.width
            and box.y < line.y < box.y + box.height
            for box in boxes
        ), line.text


def test_flame_graphs_and_tables_match_stored_samples() -> None:
    made = dict(files())
    graphs = {"cluster-post", "home-after", "home-before", "mixed", "post"}
    assert {path.stem for path in made if not path.stem.startswith("mixed-")} == graphs
    assert set(made) == set(FOLDER.glob("*.svg"))
    for path, content in made.items():
        assert path.read_bytes() == content, "python -m benchmarks.flames draw"
        assert not re.search(rb"/(work|home|root|tmp|usr)/|<script", content)
    page = PAGE.read_text("utf-8")
    assert with_tables(page) == page, "python -m benchmarks.flames draw"
