"""Print the OpenAPI document of a server with default settings."""

from __future__ import annotations

import json

from shoal.http.openapi import document_of
from shoal.mastodon_api.routes import parts
from shoal.settings import Settings


def document() -> str:
    """Return the document as JSON."""
    return json.dumps(document_of(parts(Settings())))


if __name__ == "__main__":
    print(document())
