"""Lists of members whose posts their owner reads in a timeline of their own."""

from __future__ import annotations

from enum import StrEnum

from shoal.core.model import Node


class RepliesPolicy(StrEnum):
    """Which comments appear in the timeline of a list."""

    FOLLOWED = "followed"
    """Comments on posts of anybody whom the owner follows."""
    LIST = "list"
    """Comments on posts of members of the list."""
    NONE = "none"


class MemberList(Node, frozen=True, tag="member_list"):
    """A list of members whose posts its owner reads in a timeline of their own."""

    owner_id: int
    title: str
    replies: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False
    """Whether posts of its members are left out of the owner's home timeline."""
