"""`shoal feeds`: files that are not a declaration."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.group import main
from shoal.core.feeds.declarations import MAX_BYTES


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("é".encode() * MAX_BYTES, f"the declaration has more than {MAX_BYTES} bytes"),
        (b"\xff", "the declaration is not valid UTF-8"),
    ],
    ids=["long", "binary"],
)
def test_file_that_is_no_declaration_is_refused_with_the_reason(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "feed.json").write_bytes(data)
    found = CliRunner().invoke(main, ["--store", "memory://", "feeds", "add", "best", str(tmp_path / "feed.json")])
    assert (found.exit_code != 0, message in found.output) == (True, True), found.output
