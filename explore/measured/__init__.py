"""Search that uses measurements: what is worth simulating under a budget of cycles, and what that teaches."""
