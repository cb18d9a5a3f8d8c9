"""The library without `await`, for Django, Flask, scripts and notebooks: blocking methods with unchanged signatures.

    from shoal.sync import Shoal

    with Shoal.open("sqlite:///shoal.db") as shoal:
        ann = shoal.register("ann")
        ann.create("Low tide at #dawn")
        print([entry.post.text for entry in ann.home().entries])

Each open network runs its event loop in a background thread, and any thread may call. Streams are iterators. The build generates
`shoal.sync._generated` from `shoal.library`; in a checkout, `python -m scripts.sync_library` does.
"""

from shoal.library.acting import AnyMember, AnyPost
from shoal.sync._generated import Handle, Shoal, Visitor

__all__ = ["AnyMember", "AnyPost", "Handle", "Shoal", "Visitor"]
