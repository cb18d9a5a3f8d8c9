"""Read-through cache of the graph and of whole responses. `cached_graph.py` describes the layers, with an example."""
