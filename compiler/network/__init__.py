"""Whole networks: quantisation to int8, the integer reference, and programs of all layers."""
