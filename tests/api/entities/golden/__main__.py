"""Regenerates the golden responses."""

from __future__ import annotations

from tests.api.entities.golden import FOLDER, answers, small_network, written

with small_network() as shoal:
    for name, value in answers(shoal).items():
        (FOLDER / f"{name}.json").write_text(written(value))
