"""Benchmarks: throughput of the cost model, efficiency of the searchers."""
