"""Apps, tokens and logins: who may act for a member, how they prove it, and when that ends."""
