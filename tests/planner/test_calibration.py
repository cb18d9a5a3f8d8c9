"""Calibrations: small measurements on this machine, stored as files and validated on load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput, TooLarge
from shoal_planner.calibration import OneProcess, load, save, shipped
from shoal_planner.measuring import one_process
from shoal_planner.measuring.meters import line_through, machine
from shoal_planner.measuring.network import SMALLEST, gather

OVER_HTTP = {"memory", "request"}
"""Costs that require a separate server process."""


def test_calibration_of_one_process_measures_every_cost(tmp_path: Path) -> None:
    steps: list[str] = []
    costs = asyncio.run(one_process.measure(tmp_path, SMALLEST, steps.append))
    assert costs.keys() | OVER_HTTP == set(OneProcess.__struct_encode_fields__)
    given = msgspec.convert({**costs, "memory": 0.0, "request": 0.0}, OneProcess)
    dear = {name: getattr(given, name) for name in ("post", "store", "page", "change", "log", "log_group", "disk_post")}
    assert all(value > 0 for value in dear.values()), dear
    # Intercepts of lines through a few measurements, which are 0 if other programs delay the small groups least.
    assert min(given.group, given.sync) >= 0
    assert given.group + given.post < 0.1
    assert given.delivery < given.delivery_far * 20 < 1e-3
    assert len(steps) == len(set(steps)) >= 4


def test_calibration_file_round_trip_is_lossless(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    save(shipped(), path)
    assert load(path) == shipped()
    assert shipped().machine.shown() in shipped().shown()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("{}", InvalidInput, "`shoal plan --calibrate`"),
        ("no json", InvalidInput, "is not a calibration"),
        ('{"version": 0}', InvalidInput, "version"),
        (" " * 70_000, TooLarge, "at most 65,536 bytes"),
    ],
)
def test_calibration_file_with_invalid_content_is_refused(
    tmp_path: Path, text: str, error: type[Exception], said: str
) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with pytest.raises(error, match=said):
        load(path)


def test_calibration_file_in_format_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    save(shipped(), path)
    path.write_text(path.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(InvalidInput, match="version"):
        load(path)


@given(st.floats(0, 1e-2), st.floats(1e-9, 1e-3), st.integers(3, 8))
def test_calibration_cost_fit_recovers_fixed_and_variable_cost(fixed: float, each: float, sizes: int) -> None:
    across = [2.0**power for power in range(sizes)] * 3
    found = line_through(across, [fixed + each * size for size in across])
    # If two numbers differ by orders of magnitude, rounding hides the smaller one.
    assert found[0] == pytest.approx(fixed, rel=1e-3, abs=each * 1e-2)
    assert found[1] == pytest.approx(each, rel=1e-2, abs=fixed * 1e-4)


def test_calibration_cost_fit_ignores_outlier_and_is_never_negative() -> None:
    across = [1.0, 2.0, 4.0, 8.0] * 5
    costs = [0.001 + 0.002 * size for size in across]
    costs[3] += 1.0
    assert line_through(across, costs) == pytest.approx((0.001, 0.002))
    assert line_through([1.0, 2.0, 4.0], [1.0, 2.2, 4.6])[0] == 0
    assert line_through([1.0, 2.0, 4.0], [4.0, 3.0, 1.0])[1] == 0
    assert line_through([1.0, 2.0], [0.0, 0.0]) == (0, 0)


def test_calibration_members_have_specified_follower_counts() -> None:
    crowd = gather(40, 100)
    pairs = list(crowd.follows())
    assert len(pairs) == len(set(pairs))
    followers = {id_: sum(1 for _, other in pairs if other == id_) for id_ in crowd.everybody}
    assert {followers[star] for star in crowd.stars} == {140}
    assert sum(followers[one] for one in crowd.circle) == 40 * crowd.each + sum(crowd.fans)
    assert len(set(crowd.everybody)) == len(crowd.everybody)


def test_calibration_machine_description_has_cores_memory_and_disk(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert found.cores >= 1
    assert found.memory > 1 << 28
    assert found.disk > 1 << 28
