"""Pictures, videos and sounds: detected by content, decoded in confined processes, stripped of metadata, resized and stored.

A picture goes sniff > decoder (a child process: worker > render) > library > store. Only the child imports Pillow, so a
hostile file can at worst crash a child process, which has no secrets, limited memory and a time limit of seconds. A
clip goes sniff > library > store unchanged, and later, in a background task, clips > programs (ffmpeg, confined) >
library > store.
"""
