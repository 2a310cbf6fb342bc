"""The main searcher without gradient descent, to see what descent is worth."""

from __future__ import annotations

from baco.exploration.search.gradient import GradientSearch


class LocalSearch(GradientSearch):
    """Constructed mappings, local search, exact combination and exact finish only."""

    descent_share = None
