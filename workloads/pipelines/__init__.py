"""Image and data pipelines: Python functions over numpy-like tensors, traced, as networks whose whole numbers are proven to fit."""
