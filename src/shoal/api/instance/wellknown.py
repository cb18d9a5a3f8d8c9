"""Where other programs look first: what answers at `/.well-known/` about accounts."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities.about import WebFinger, WebFingerLink
from shoal.api.http.calls import Body
from shoal.commands import members
from shoal.core.errors import Gone, NotFound

_PROFILE = "http://webfinger.net/rel/profile-page"
_XRD = """<?xml version="1.0" encoding="UTF-8"?>
<XRD xmlns="http://docs.oasis-open.org/ns/xri/xrd-1.0">
  <Link rel="lrdd" template="{root}/.well-known/webfinger?resource={{uri}}"/>
</XRD>
"""


class Resource(msgspec.Struct, frozen=True):
    """The account to look up: `acct:name@domain`, or the URL of a profile."""

    resource: Annotated[str, Meta(max_length=1_000)]


async def host_meta(context: Context, _params: None) -> Response:
    """Where WebFinger is, as XRD."""
    front = context.deps
    return Response(_XRD.format(root=front.at.root), media_type="application/xrd+xml")


async def webfinger(context: Context, params: Resource) -> Response:
    """Where an account is."""
    front = context.deps
    member = await members.find(front.writes, _name(front, params.resource))
    if member is None or member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone
    url = front.at.account(member.name)
    found = WebFinger(
        subject=f"acct:{member.name}@{front.at.domain}",
        aliases=[url],
        links=[WebFingerLink(_PROFILE, "text/html", url)],
    )
    return Response(msgspec.json.encode(found), media_type="application/jrd+json")


def _name(front: Front, resource: str) -> str:
    """The user name that is meant. Raises `NotFound` for what is not ours."""
    ours = {front.at.domain.lower(), front.at.netloc.lower()}
    if resource.startswith(front.at.root + "/"):
        name = resource.removeprefix(front.at.root + "/")
        here = name.startswith("@")
    else:
        name, _, domain = resource.removeprefix("acct:").removeprefix("@").partition("@")
        here = domain.lower() in ours
    name = name.removeprefix("@")
    if not here or "@" in name:
        raise NotFound("Record not found")
    return name


ROUTES = (
    rows.public("GET", "/.well-known/host-meta", host_meta, answer=Body("application/xrd+xml")),
    rows.public(
        "GET",
        "/.well-known/webfinger",
        webfinger,
        params=Resource,
        answer=Body("application/jrd+json", WebFinger),
        refuses=(404, 410),
    ),
)
