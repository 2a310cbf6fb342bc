"""Which schedule a layer gets: the compiler's own choice, and Gemmini's default."""
