"""Searches for tile trees of several operators on any machine."""
