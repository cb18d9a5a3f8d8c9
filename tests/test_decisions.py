"""The index of decisions refuses records without the required form."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import decisions

RECORD = (
    "# 3. Ids are Snowflakes\n\nDate: 2026-11-22. Status: accepted.\n\n## Context\n\n## Decision\n\n## Consequences\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(decisions, "FOLDER", tmp_path)
    return tmp_path


def test_decision_index_groups_records_by_topic_and_states_status_of_those_not_accepted(folder: Path) -> None:
    (folder / "0003-ids.md").write_text(RECORD)
    (folder / "0021-pull.md").write_text(
        RECORD.replace("3. Ids are Snowflakes", "21. Pull").replace("accepted", "superseded by 22")
    )
    assert decisions.index().endswith(
        "\n## Placement, graph and processes\n\n- [3. Ids are Snowflakes](0003-ids.md)\n"
        "\n## Timelines, feeds, tags and search\n\n- [21. Pull](0021-pull.md) (superseded by 22)\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("0004-ids.md", RECORD, "begin with '# 4. Title'"),
        ("0003-ids.md", RECORD.replace("Date: 2026-11-22. ", ""), "begin with '# 3. Title'"),
        ("0003-ids.md", RECORD.replace("## Decision", "## Why"), "the section Decision is missing"),
    ],
)
def test_decision_record_without_required_form_is_refused_with_reason(
    folder: Path, name: str, text: str, message: str
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        decisions.records()
