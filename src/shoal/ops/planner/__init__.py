"""The capacity planner: how much a network of a given size needs, from costs that were measured."""
