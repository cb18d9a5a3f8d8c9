"""The figures that engines give of themselves: versions, sizes, connections and queues, for operators and for metrics.

Each is asked over a connection of its own, which is closed again, so that requests of members never wait for it.
"""
