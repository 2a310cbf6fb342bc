"""The dialects of our own: `baco` (block programs) and `instgem` (accelerator commands)."""
