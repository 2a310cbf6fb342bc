"""Whole networks in simulation: every step measured, every boundary between operators checked."""
