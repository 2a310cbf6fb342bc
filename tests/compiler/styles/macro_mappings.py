"""Random mappings in macro form."""

from __future__ import annotations

import random

from baco.compiler.mapping.nest import Mapping
from baco.workloads.problem import DIMS, Problem


def draw_macro_mapping(r: random.Random, problem: Problem, dim: int) -> Mapping:
    """Any tiles and any order of the loops over them that sums inside the others."""
    pixels = {name: r.randint(1, getattr(problem, name)) for name in "PQN"}
    window = {name: r.randint(1, getattr(problem, name)) for name in "RS"}
    c, k = (_channels(r, bound, dim) for bound in (problem.C, problem.K))
    inside = {**window, "C": c[1], "K": k[1]}
    covered = {**pixels, **window, "C": c[0] * c[1], "K": k[0] * k[1]}
    trips = {name: -(-getattr(problem, name) // covered[name]) for name in DIMS}
    temporal = tuple(tuple(level.get(name, 1) for name in DIMS) for level in (pixels, inside, {}, trips))
    order = "".join(r.sample("RSC", 3) + r.sample("PQNK", 4))
    return Mapping("WS", c[0], k[0], temporal, ("RSCPQNK", "RSCPQNK", "RSCPQNK", order), (2, 2, 2))


def _channels(r: random.Random, bound: int, dim: int) -> tuple[int, int]:
    """Lanes of the array and blocks of a tile: whole lanes, or equal parts as the explorer makes them."""
    blocks = r.randint(1, -(-bound // dim))
    if r.random() < 0.6:
        return min(dim, bound), blocks
    trips = -(-bound // (blocks * dim))
    return -(-bound // (blocks * trips)), blocks
