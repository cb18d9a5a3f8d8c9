"""A shop with its own users and log-in, which shows their reviews by a Shoal server. README.md describes it."""
