"""Networks in: built-in definitions, ONNX, torch.export, layer tables."""
