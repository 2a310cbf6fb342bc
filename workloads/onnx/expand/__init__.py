"""ONNX operators written out in simpler ones, before a graph is imported."""
