"""Pictures: sniffed by content, decoded in a process of their own under limits, stripped, sized and placed.

An upload goes sniff > decoder (a child process: worker > render) > library > store. The child alone imports Pillow, so a hostile
file can at worst end a child that has no secrets, no more memory than the limit and a few seconds to live.
"""
