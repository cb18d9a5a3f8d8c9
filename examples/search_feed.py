"""Keep a search index of public posts in OpenSearch or Elasticsearch, by the events of a server.

    SHOAL_KEY=... python examples/search_feed.py https://social.example http://localhost:9200 cursor.txt

The key needs the scope server:events. The engine compares the versions of events, so repeats and late events change nothing. Posts
of members who are not `indexable` are in the index too: keep the members in the same way, and filter by them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

FIELDS = ("author_id", "text", "content_warning", "tags", "language", "created_at")


def lines(event: Any) -> list[Any]:
    """Return an event as lines of a bulk request."""
    target = {"_index": "posts", "_id": event["data"]["id"], "version": int(event["version"])}
    target["version_type"] = "external_gte"
    if event["type"] == "post.deleted":
        return [{"delete": target}]
    return [{"index": target}, {name: event["data"][name] for name in FIELDS}]


def index(engine: httpx.Client, events: Any) -> None:
    """Send events to the engine. Raises `RuntimeError` if it refuses one for another reason than its version."""
    if not events:
        return
    body = "".join(f"{json.dumps(line)}\n" for event in events for line in lines(event))
    answer = engine.post("/_bulk", content=body, headers={"Content-Type": "application/x-ndjson"})
    for item in answer.raise_for_status().json()["items"]:
        (result,) = item.values()
        if result["status"] not in (200, 201, 404, 409):
            raise RuntimeError(f"the engine refused post {result['_id']}: {result}")


def main() -> None:
    """Follow a server until stopped."""
    server, address, file = sys.argv[1:]
    cursor = Path(file)
    headers = {"Authorization": f"Bearer {os.environ['SHOAL_KEY']}"}
    with (
        httpx.Client(base_url=server, headers=headers, timeout=60.0) as client,
        httpx.Client(base_url=address) as engine,
    ):
        while True:
            after = cursor.read_text() if cursor.exists() else "start"
            query: dict[str, Any] = {"after": after, "types": "post", "wait": 30}
            answer = client.get("/api/shoal/v1/events", params=query)
            if answer.status_code == httpx.codes.GONE:
                sys.exit(f"{answer.json()['error']}. Delete {cursor} to index the stored posts again.")
            page = answer.raise_for_status().json()
            index(engine, page["events"])
            cursor.write_text(page["cursor"])


if __name__ == "__main__":
    main()
