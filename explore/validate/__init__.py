"""Validation: the best candidates of a study compiled, run on the Verilog of their own accelerators, and compared."""
