"""The pictures of 61 pages and states look like the kept ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from scripts import shots


def test_stored_screenshots_exist_for_exactly_all_pages_and_appearances() -> None:
    compared = {*filter(shots.is_compared, shots.names())}
    assert shots.kept().keys() == compared
    assert len({*shots.pages("stranger"), *shots.pages("member"), *shots.pages("newcomer")}) == 61


def test_screenshot_comparison_detects_changed_colors_and_layout_but_not_changed_words(tmp_path: Path) -> None:
    def drawn(name: str, paper: str, ink: str, top: int) -> str:
        picture = Image.new("RGB", (1_280, 900), paper)
        picture.paste(ink, (240, top, 900, top + 500))
        for row in range(20):
            picture.paste(ink, (940, 40 + 40 * row, 941 + 7 * len(name), 44 + 40 * row))
        picture.save(tmp_path / f"{name}.png")
        return shots.grid_of(tmp_path / f"{name}.png")

    one = drawn("one", "white", "navy", 60)
    assert shots.difference(one, drawn("other", "white", "navy", 60)) < 0.05
    assert shots.difference(one, drawn("one", "black", "navy", 60)) > 0.5
    assert shots.difference(one, drawn("one", "white", "navy", 400)) > 0.3


@pytest.mark.deep
def test_page_screenshots_match_stored_screenshots(chromium: Browser, tmp_path: Path) -> None:
    wanted = {*filter(shots.is_compared, shots.names())}
    with shots.served(tmp_path / "demo") as at:
        files = list(shots.taken(chromium, at, tmp_path / "shots", wanted.__contains__))
    assert shots.changed(files) == {}, "look at `make shots`, then keep the pictures: python -m scripts.shots --keep"
