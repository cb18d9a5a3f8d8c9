"""A discrete simulation of a network: commits, outbox, workers, timelines and pages, with faults, from measured costs."""
