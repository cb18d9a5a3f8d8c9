"""Web push: messages to closed apps and browsers, through the push services of their vendors.

A subscription has the endpoint, and the keys with which only its app can read messages (RFC 8030, 8291, 8292).
"""
