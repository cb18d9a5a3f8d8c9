"""Mastodon.py stories run against a served Shoal, with more than 120 different calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.mastodon_py import accounts, blocklists, moderation_and_streaming, statuses, timelines_and_search
from tests.clients.mastodon_py.recorded_members import Cast
from tests.clients.server import Served

Story = Callable[[Cast], None]

STORIES: tuple[Story, ...] = (
    *accounts.STORIES,
    *statuses.STORIES,
    *timelines_and_search.STORIES,
    *moderation_and_streaming.STORIES,
    *blocklists.STORIES,
)


class StoryRunner:
    """Runs each story once and records its calls."""

    def __init__(self, shoal: Served) -> None:
        self._shoal = shoal
        self.calls: dict[Story, set[str]] = {}

    def play(self, story: Story) -> None:
        """Run the story and record the calls that succeeded."""
        cast = Cast(self._shoal, set())
        try:
            story(cast)
        finally:
            cast.close()
        self.calls[story] = cast.calls


@pytest.fixture(scope="module")
def story_runner(shoal: Served) -> StoryRunner:
    """Return one runner for all stories, which collects the calls that they make."""
    return StoryRunner(shoal)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_mastodon_py_client_scenario_runs_without_errors(story_runner: StoryRunner, story: Story) -> None:
    story_runner.play(story)


def test_mastodon_py_client_scenarios_make_at_least_120_different_calls(story_runner: StoryRunner) -> None:
    for story in STORIES:
        if story not in story_runner.calls:
            story_runner.play(story)
    assert len(set().union(*story_runner.calls.values())) >= 120
