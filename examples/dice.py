"""A bot that rolls dice: mention it with `2d6`, and it replies. Over HTTP with Mastodon.py, as for any Mastodon server.

    BOT_PASSWORD=... python examples/dice.py http://127.0.0.1:8500 dice

It may be stopped at any moment. Mentions that arrive while it is stopped are pending notifications, which it dismisses after its
reply. The idempotency key prevents duplicate replies.
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
    """A listener that replies to mentions."""

    def __init__(self, client: Mastodon) -> None:
        super().__init__()
        self._client = client

    def on_notification(self, notification: Any) -> None:
        """Reply to one mention."""
        if notification.type == "mention":
            self._answer(notification)

    def handle_heartbeat(self) -> None:
        """Reply to pending mentions. The first heartbeat confirms the subscription, so no later mention is missed."""
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
    """Roll the first dice in a status, 1 to 99 of them with up to 999 sides; return instructions if it contains none."""
    found = ROLL.search(re.sub(r"<[^>]+>", " ", content))
    if found is None:
        return "Say how many dice and how many sides: 2d6"
    throws = [random.randint(1, int(found[2])) for _ in range(int(found[1]))]  # noqa: S311  # nobody bets on it
    return f"{found[0]}: {' + '.join(map(str, throws))} = {sum(throws)}"


def main() -> None:
    """Log in and listen until stopped."""
    server, name = sys.argv[1:]
    client_id, client_secret = Mastodon.create_app("Dice", api_base_url=server)
    client = Mastodon(client_id, client_secret, api_base_url=server)
    client.log_in(name, os.environ["BOT_PASSWORD"])
    client.stream_user(Dice(client))


if __name__ == "__main__":
    main()
