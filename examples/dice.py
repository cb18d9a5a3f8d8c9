"""A bot that rolls dice: mention it with `2d6`, and it answers. Over HTTP with Mastodon.py, as for any Mastodon server.

    BOT_PASSWORD=... python examples/dice.py http://127.0.0.1:8500 dice

It may be stopped at any moment. Mentions that came meanwhile are notifications that wait; one that was answered is dismissed,
and the idempotency key makes an answer that is sent twice one status.
"""

from __future__ import annotations

import os
import random
import re
import sys
from typing import Any

from mastodon import Mastodon, StreamListener

ROLL = re.compile(r"\b([1-9]\d?)d([1-9]\d{0,2})\b")


class Dice(StreamListener):
    """Answers mentions as they come."""

    def __init__(self, client: Mastodon) -> None:
        super().__init__()
        self._client = client

    def on_notification(self, notification: Any) -> None:
        """Answer one mention."""
        if notification.type == "mention":
            self._answer(notification)

    def handle_heartbeat(self) -> None:
        """Answer mentions that wait. The first beat says that the server listens, so from then on none is missed."""
        for notification in reversed(self._client.notifications(types=["mention"])):
            self._answer(notification)

    def _answer(self, notification: Any) -> None:
        status = notification.status
        self._client.status_post(
            f"@{status.account.acct} {rolled(status.content)}",
            in_reply_to_id=status.id,
            visibility=status.visibility,
            idempotency_key=f"dice-{status.id}",
        )
        self._client.notifications_dismiss(notification.id)


def rolled(content: str) -> str:
    """Roll the first dice that a status names, 1 to 99 of them with up to 999 sides; say how to ask where it names none."""
    found = ROLL.search(re.sub(r"<[^>]+>", " ", content))
    if found is None:
        return "Say how many dice and how many sides: 2d6"
    throws = [random.randint(1, int(found[2])) for _ in range(int(found[1]))]  # noqa: S311  # nobody bets on it
    return f"{found[0]}: {' + '.join(map(str, throws))} = {sum(throws)}"


def main() -> None:
    """Log in and listen for good."""
    server, name = sys.argv[1:]
    client_id, client_secret = Mastodon.create_app("Dice", api_base_url=server)
    client = Mastodon(client_id, client_secret, api_base_url=server)
    client.log_in(name, os.environ["BOT_PASSWORD"])
    client.stream_user(Dice(client))


if __name__ == "__main__":
    main()
