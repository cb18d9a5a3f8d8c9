"""Mastodon.py plays its stories against a served Shoal, with more than 120 different calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.mastodon_py import keeping_out, people, posting, reading, watching
from tests.clients.mastodon_py.cast import Cast
from tests.clients.serving import Served

Story = Callable[[Cast], None]

STORIES: tuple[Story, ...] = (
    *people.STORIES,
    *posting.STORIES,
    *reading.STORIES,
    *watching.STORIES,
    *keeping_out.STORIES,
)


class Stage:
    """Where stories are played, each once."""

    def __init__(self, shoal: Served) -> None:
        self._shoal = shoal
        self.calls: dict[Story, set[str]] = {}

    def play(self, story: Story) -> None:
        """Note the calls that were made without an error."""
        cast = Cast(self._shoal, set())
        try:
            story(cast)
        finally:
            cast.close()
        self.calls[story] = cast.calls


@pytest.fixture(scope="module")
def stage(shoal: Served) -> Stage:
    """One for all."""
    return Stage(shoal)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_mastodon_py_plays(stage: Stage, story: Story) -> None:
    stage.play(story)


def test_at_least_120_different_calls_are_made(stage: Stage) -> None:
    for story in STORIES:
        if story not in stage.calls:
            stage.play(story)
    assert len(set().union(*stage.calls.values())) >= 120
