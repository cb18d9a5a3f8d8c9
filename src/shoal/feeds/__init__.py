"""Feeds as a viewer sees them: a skeleton of ids, hydration in bulk, one filter, a page."""
