"""Pictures of the member who is logged in, as forms bring them."""

from __future__ import annotations

from typing import Literal

from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.http.convert import Upload
from shoal.web.views.errors.refusals import told
from shoal.web.visit import Visit


async def keep_picture(visit: Visit, which: Literal["avatar", "header"], sent: Upload | None) -> dict[str, str]:
    """Store a picture that came with a form, if one did, and return what is wrong with it by the name of its field."""
    if sent is None:
        return {}
    change = ProfileChange(avatar=sent.data) if which == "avatar" else ProfileChange(header=sent.data)
    sent.close()
    try:
        await members.update_profile(visit.front.writes, visit.member.id, change)
    except InvalidInput as error:
        return {which: told(visit.words, error)}
    return {}
