"""Consequences that take something away: deletions, blocks, retracted notifications, shares that nobody may see."""
