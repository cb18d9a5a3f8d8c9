"""Receipts: what an act of a moderator did, where, and how it is taken back."""

from __future__ import annotations

from shoal.web.views.moderation import MemberStanding
from shoal.web.visit import Visit


def receipt(visit: Visit, done: str, standing: MemberStanding | None = None) -> str:
    """Return what was just done, in a sentence or two; empty for nothing."""
    _ = visit.words.text
    name = f"@{standing.face.name}" if standing else ""
    posts = standing.posts if standing else "0"
    said = {
        "uphold": _("Upheld. Its posts stay out of public lists, and who reported it is told."),
        "dismiss": _("Dismissed. Its posts are back in public lists, and who reported it is told."),
        "reopen": _("Open again."),
        "take": _("You see to it now; others see that."),
        "leave": _("Nobody sees to it now."),
        "sensitize": _("The pictures of all %(posts)s posts of %(name)s are covered, and those to come."),
        "unsensitize": _("Pictures of %(name)s are shown as they mark them themselves."),
        "silence": _(
            "%(name)s is limited: %(posts)s posts are out of public and tag lists, search and trends, except for followers."
        ),
        "unsilence": _("%(name)s is in public lists again, with %(posts)s posts."),
        "disable": _("%(name)s is locked out: all sessions and apps have ended. The %(posts)s posts stay."),
        "undisable": _("%(name)s can log in again."),
        "suspend": _(
            "%(name)s is suspended: the profile and %(posts)s posts are out of sight now, their files within a minute."
        ),
        "unsuspend": _("%(name)s is back, with %(posts)s posts and their files."),
        "approve": _("%(name)s is let in."),
        "hide": _("The post is out of everybody's sight but its author's."),
        "reveal": _("The post is shown again."),
    }.get(done, "")
    return said % {"name": name, "posts": posts} if said else ""
