"""The tag cloud: increments of tag counts, merged by collectors into versions, each exactly once."""
