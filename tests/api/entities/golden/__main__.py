"""Regenerates the golden responses."""

from __future__ import annotations

import pytest

from shoal import gazetteer
from tests.api.entities.golden import FOLDER, answers, small_network, written

with pytest.MonkeyPatch.context() as patch, small_network() as shoal:
    # As in the tests, whether or not the names of towns are installed.
    patch.setattr(gazetteer, "installed", lambda: None)
    for name, value in answers(shoal).items():
        (FOLDER / f"{name}.json").write_text(written(value))
