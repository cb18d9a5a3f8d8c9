"""Starting the engines that a network may use - databases, caches, brokers - from the programs that are installed here.

For tests, and for `shoal cluster up`. One module an engine; each offers `start(folder, ...)` and gives back an `Engine`.
"""
