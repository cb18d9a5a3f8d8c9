"""Request log, traces and metrics. Imports nothing above it."""
