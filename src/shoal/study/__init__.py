"""The placement study: ways to spread members over machines, measured on any list of names.

`names` reads the names in batches, `schemes` places them, `levels` judges how evenly, `moving` what changes cost, and `report`
draws it. Names never leave this package: all that it gives out are sums over buckets.
"""
