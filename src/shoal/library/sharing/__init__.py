"""One store for several processes: one of them has the network, and the others call its methods over a socket.

The process that holds the store's lock is the owner. It answers at the socket beside the store (`owner.py`); the others send it
the calls of their application (`caller.py`). When the owner ends, one of the others takes the lock and opens the network, and
calls that were under way are repeated where that is safe (`session.py`). The application has objects of the library whose
methods find the owner by themselves, in its process or in another (`facade.py`).
"""
