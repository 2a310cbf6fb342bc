"""Measured sets: layers with mappings, drawn and systematic, measured on the RTL and kept as tables."""
