"""The check of commit messages accepts the rule of CONTRIBUTING and names each violation."""

from __future__ import annotations

import pytest

from scripts.commit_message import problems


@pytest.mark.parametrize(
    "message",
    [
        "Retry refused publishes over a new connection",
        "Pass the deadline to each page\n\nWithout it, a slow store held the worker.\n",
        "Focus the first field of a refused form",
        "Feed the ranked page from one reading",
        "Merge branch 'main'",
        "Add a target\n\nhttps://example.org/" + "a" * 90,
        "Fix a leak\n\n# Please enter the commit message for your changes. Lines starting with '#' will be ignored.\n",
    ],
)
def test_commit_message_with_valid_format_is_accepted(message: str) -> None:
    assert list(problems(message)) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("", "subject: is empty"),
        ("retry refused publishes", "subject: begin with a capitalized verb (got 'retry')"),
        (
            "Retries refused publishes",
            "subject: begin with an imperative verb, such as Add, Fix or Retry (got 'Retries')",
        ),
        (
            "Retried refused publishes",
            "subject: begin with an imperative verb, such as Add, Fix or Retry (got 'Retried')",
        ),
        ("Retrying publishes", "subject: begin with an imperative verb, such as Add, Fix or Retry (got 'Retrying')"),
        ("The server retries", "subject: begin with an imperative verb, such as Add, Fix or Retry (got 'The')"),
        ("Retry " + "a" * 67, "subject: at most 72 characters (got 73)"),
        ("Retry refused publishes.", "subject: no period at the end"),
        ("Retry\nbecause", "body: separate it from the subject by a blank line"),
        ("Retry\n\n" + "word " * 15, "body: wrap line 3 at 72 characters (got 74)"),
    ],
)
def test_commit_message_with_invalid_format_is_refused_with_reason(message: str, problem: str) -> None:
    assert list(problems(message)) == [problem]
