"""Reads: home, threads, notifications, public timelines, and their paging, hydration and filters."""
