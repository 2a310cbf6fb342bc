"""Layers: what they compute, their reference results, and where their tensors lie when code runs."""
