"""The API, described for programs and for people."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.api.http.calls import Body, Part
from shoal.api.reference.description import Description
from shoal.api.rows import public


def part(others: Sequence[Part]) -> Part:
    """The rows, which describe those of the others and themselves."""
    described = Description()
    own = Part(
        "description",
        (__doc__ or "").strip(),
        (
            public("GET", "/openapi.json", described.document, answer=dict),
            public("GET", "/docs", described.page, answer=Body("text/html")),
        ),
    )
    described.parts = (*others, own)
    return own
