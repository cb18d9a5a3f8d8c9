"""A graph made of graphs: which store keeps what, also while data moves."""
