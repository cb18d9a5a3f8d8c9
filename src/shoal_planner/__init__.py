"""Capacity planner and simulator of a network."""
