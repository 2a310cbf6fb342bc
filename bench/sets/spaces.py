"""Design spaces that results were found in."""

from __future__ import annotations

from pathlib import Path

from baco.accel.technology import PUBLISHED
from baco.exploration.space import DesignSpace, in_technology, load_space


def published_space(name: str | Path = "gemmini") -> DesignSpace:
    """A named space, or one from a file, in the technology of published results, whatever its own: what is compared with these, and
    with what was found there before, is in that one. Raises as `load_space` does."""
    return in_technology(load_space(name), PUBLISHED)
