"""Regenerates the golden responses."""

from __future__ import annotations

from tests.api.entities.golden import FOLDER, answers, small_world, written

with small_world() as shoal:
    for name, value in answers(shoal).items():
        (FOLDER / f"{name}.json").write_text(written(value))
