"""Shoal as a library: open a network, act as its members.

    async with Shoal.open("sqlite:///shoal.db") as shoal:
        ann = await shoal.register("ann")
        bob = await shoal.register("bob")
        await bob.follow(ann)
        post = await ann.create("Low tide at #dawn")
        await bob.like(post)
        print([entry.post.text for entry in await bob.list_public_feed(0, 9)])

Methods accept a member as a handle, a `Member`, a `Profile`, an id or a user name, and a post as an `Entry`, a `Post`, a `Share`
or an id. Arguments and results are plain data. A page has a `next`, which is the `before` argument of the next page, or None at the
end. Docstrings name the errors of `shoal.errors` that a method raises. In addition, any method may raise `Unavailable` if a store
does not respond, and `OutcomeUnknown` if it is unknown whether a change was made. Their messages are safe to show.
"""

from shoal.library.acting import AnyMember, AnyPost
from shoal.library.handle import Handle, Visitor
from shoal.library.network import Shoal

__all__ = ["AnyMember", "AnyPost", "Handle", "Shoal", "Visitor"]
