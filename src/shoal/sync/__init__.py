"""The library without `await`, for Django, Flask, scripts and notebooks: the same methods, which return when they are done.

    from shoal.sync import Shoal

    with Shoal.open("sqlite:///shoal.db") as shoal:
        ann = shoal.register("ann")
        ann.create("Low tide at #dawn")
        print([entry.post.text for entry in ann.home().entries])

One event loop runs in a thread of its own for each open network, and any thread may call. Streams are iterators. Modules with
methods are made from those of `shoal.library` by `python -m scripts.sync_library`.
"""

from shoal.library.acting import AnyMember, AnyPost
from shoal.sync.handle import Handle, Visitor
from shoal.sync.network import Shoal

__all__ = ["AnyMember", "AnyPost", "Handle", "Shoal", "Visitor"]
