"""Throttling of repeated log messages."""

from __future__ import annotations

import logging

import pytest

from shoal.throttled_log import ThrottledLog
from tests.stores import Clock


def test_throttled_log_message_repeated_within_a_minute_is_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    clock.now = 5.0
    log = ThrottledLog(logging.getLogger("shoal.outage"), clock=clock)
    for second in range(61):
        clock.now = 5.0 + second
        log.warning("store %d cannot be reached", second)
    clock.now = 200.0
    log.warning("store %d cannot be reached", 7)
    assert caplog.messages == [
        "store 0 cannot be reached",
        "store 60 cannot be reached (59 more like it since the last line)",
        "store 7 cannot be reached",
    ]
    assert caplog.records[0].filename == "test_throttled_log.py"


def test_throttled_log_messages_with_different_names_texts_or_levels_are_all_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ThrottledLog(logging.getLogger("shoal.outage"))
    for _ in range(3):
        log.warning("store %d waits", 1, name=1)
        log.warning("store %d waits", 2, name=2)
        try:
            int("refused")
        except ValueError:
            log.exception("it failed")
    assert caplog.messages == ["store 1 waits", "store 2 waits", "it failed"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "ERROR"]
    assert "refused" in (caplog.records[2].exc_text or caplog.text)
