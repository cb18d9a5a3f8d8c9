"""A made-up network that looks real, for `shoal demo`: a plan of plain values, and pictures drawn from them.

Everything is made here from a seed: no foreign data, names or pictures. Nothing in this package touches a store: whoever
calls `plan.plan` feeds what it says to the services, and asks `portraits` and `photographs` for the pictures.
"""
