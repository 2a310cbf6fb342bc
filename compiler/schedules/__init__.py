"""Schedules: how the code styles carry a layer out, and their text."""
