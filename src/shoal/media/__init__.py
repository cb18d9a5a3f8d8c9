"""Pictures, videos and sounds: sniffed by content, decoded in processes of their own under limits, stripped, sized and placed.

A picture goes sniff > decoder (a child process: worker > render) > library > store. The child alone imports Pillow, so a hostile
file can at worst end a child that has no secrets, no more memory than the limit and a few seconds to live. A clip goes sniff >
library > store as it came, and later, in a workshop, clips > programs (ffmpeg, confined) > library > store.
"""
