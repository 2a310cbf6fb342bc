"""The explicit style: moves, preloads and products one by one, as a mapping says."""
