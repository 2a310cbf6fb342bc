"""The block language: kernels written in Python, parsed and compiled, never executed by Python."""
