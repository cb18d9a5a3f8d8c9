"""Web push: messages for apps and browsers that are closed, through the push service of whoever made them.

A subscription says where messages go and the keys by which only its app can read them (RFC 8030, 8291, 8292).
"""
