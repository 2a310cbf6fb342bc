"""baco: hardware/software co-design exploration for Gemmini-compatible accelerators."""
