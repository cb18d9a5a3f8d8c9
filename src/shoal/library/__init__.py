"""Shoal as a library: open a network, act as its members.

    async with Shoal.open("sqlite:///shoal.db") as shoal:
        ann = await shoal.register("ann")
        bob = await shoal.register("bob")
        await bob.follow(ann)
        post = await ann.create("Low tide at #dawn")
        await bob.like(post)
        print([entry.post.text for entry in await bob.list_public_feed(0, 9)])

A method that takes a member takes a handle, a `Member`, a `Profile`, an id or a user name; one that takes a post takes an
`Entry`, a `Post`, a `Share` or an id. Values go in and come out as plain data. A page has `next`, which is the `before` of the
page that follows, None at the end. Docstrings name the errors of `shoal.errors` that a method raises. Besides, each may
raise `Unavailable` while a store does not answer, and `OutcomeUnknown` where it cannot be known whether a change was made;
their messages are safe to show.
"""

from shoal.library.acting import AnyMember, AnyPost
from shoal.library.handle import Handle, Visitor
from shoal.library.network import Shoal

__all__ = ["AnyMember", "AnyPost", "Handle", "Shoal", "Visitor"]
