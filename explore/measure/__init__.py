"""Measurements: layers compiled, simulated on their accelerator's RTL, compared and costed; and sets of them."""
