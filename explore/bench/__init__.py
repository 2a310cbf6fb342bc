"""Benchmarks of the explorer: what `baco bench` runs."""
