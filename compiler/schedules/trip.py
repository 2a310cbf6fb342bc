"""Loops over blocks and tiles, as every code style has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trip:
    """A loop over blocks or tiles: its dimension, and how often it runs (at most)."""

    name: str
    count: int
