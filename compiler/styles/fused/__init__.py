"""Groups of layers that run as one unit, strip by strip: what lies between them stays in the scratchpad."""
