"""Figures of the network by day, for those who look after it: counted from what is stored, beside the requests."""
