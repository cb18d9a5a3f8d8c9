"""The tag cloud: counted by increments, merged by collectors, once each, in versions."""
