"""Cost models: anything that turns design points into costs."""
