"""Fits of constants that product code carries: latencies of explicit code, of macros and of the host's functions."""
