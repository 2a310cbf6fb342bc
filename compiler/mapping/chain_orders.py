"""Two chained products, C[m, l] += A[m, k] B[k, l] and E[m, n] += C[m, l] D[l, n], in tiles of one buffer: which loop orders keep C on
chip, what they move, and the tiles that move least.

Source: Chimera (HPCA 2023), with what its printed algorithm leaves out: an order is legal only where the loops over m and l, which
both products have, lie outside those over k and n, which one of them has; loops that run once end no reuse. A legal order is
a tile tree (`chain_tree`), whose movement is that of `baco.compiler.mapping.movement`; `chain_movement` is its closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from baco.common.errors import InfeasibleError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.tree import Loop, Residency, Tile

__all__ = [
    "chain_movement",
    "chain_tree",
    "closed_form_tile",
    "held_words",
    "least_movement",
    "legal_orders",
]

_SHARED, _OWN = frozenset("ml"), frozenset("kn")


def legal_orders() -> list[str]:
    """Of all orders of the four loops, outermost first, those in which C never leaves the buffer."""
    found = ("".join(order) for order in itertools.permutations("mkln"))
    return [order for order in found if set(order[:2]) == _SHARED and set(order[2:]) == _OWN]


def chain_tree(
    sizes: Mapping[str, int], tile: Mapping[str, int], order: str, memory: int = 1
) -> tuple[Tile, list[Contraction]]:
    """A legal order as a tree: loops over m and l around both products, those over k and n in the product that has them.

    Args:
        sizes, tile: of m, k, l, n, elements.
        memory: level of main memory; the buffer is the one inside.
    """
    m, k, n, p = (variable(name) for name in "mkln")
    first = Contraction(
        {name: sizes[name] for name in "mlk"},
        Access("C", (m, n)),
        (Access("A", (m, k)), Access("B", (k, n))),
        name="first",
    )
    second = Contraction(
        {name: sizes[name] for name in "mnl"},
        Access("E", (m, p)),
        (Access("C", (m, n)), Access("D", (n, p))),
        name="second",
    )

    def part(operator: str, own: str, keeps: str, inner: str) -> Tile:
        loops = (Loop(own, -(-sizes[own] // tile[own])),)
        block = tuple(Loop(name, tile[name]) for name in inner)
        held = Tile(memory - 1, tuple(map(Residency, keeps)), block, operator=operator)
        return Tile(memory - 1, (), loops, (held,))

    outer = tuple(Loop(name, -(-sizes[name] // tile[name])) for name in order if name in _SHARED)
    inside = (part("first", "k", "AB", "mlk"), part("second", "n", "DE", "mnl"))
    on_chip = Tile(memory - 1, (Residency("C"),), (), inside, relation="Shar")
    return Tile(memory, tuple(map(Residency, "ABDE")), outer, (on_chip,)), [first, second]


def held_words(tile: Mapping[str, int]) -> int:
    """Words that the buffer holds: the larger of both products' blocks, C in either."""
    m, k, n, p = (tile[name] for name in "mkln")
    return max(m * k + k * n + m * n, m * n + n * p + m * p)


def closed_form_tile(words: int, least: int = 1) -> float:
    """The published tile of m and l where those of k and n are `least`: -a + sqrt(a**2 + words); up to 1.4 times from the best."""
    return -least + math.sqrt(least**2 + words)


def chain_movement(sizes: Mapping[str, int], tile: Mapping[str, int], order: str) -> dict[str, int]:
    """Words that a legal order moves, by tensor: the published table (of E what is written; partial sums that leave come back as
    often, less once), in which loops that run once end no reuse."""
    m, k, n, p = (sizes[name] for name in "mkln")
    trips = {name: -(-sizes[name] // tile[name]) for name in "mkln"}
    # a block stays while loops go on that do not move it, unless a loop further in has moved it
    inner = order[1]

    def times(shared: str, own: str) -> int:
        """How often a tensor of one shared and one own dimension moves: with every tile of the other shared one, or once."""
        other = "ml".replace(shared, "")
        moved = trips[own] > 1 or (inner == shared and trips[shared] > 1)
        return trips[other] if moved else 1

    return {
        "A": m * k * times("m", "k"),
        "B": k * n * times("l", "k"),
        "C": 0,
        "D": n * p * times("l", "n"),
        "E": m * p * times("m", "n"),
    }


def least_movement(sizes: Mapping[str, int], words: int) -> tuple[int, dict[str, int]]:
    """Fewest words that a legal order moves through a buffer of so many words, and the tiles; exact.

    Tiles of k and n matter only by whether they are whole, those of m by the number of trips, and the larger those of l are, the
    less moves. Raises InfeasibleError for a buffer that holds no tiles.
    """
    best: tuple[int, dict[str, int]] | None = None
    for order, k, p, trips in itertools.product(
        legal_orders(), {1, sizes["k"]}, {1, sizes["n"]}, _trips(sizes["m"])
    ):
        tile = {"m": -(-sizes["m"] // trips), "k": k, "n": p}
        m = tile["m"]
        # m*k + k*l + m*l and m*l + l*n + m*n words at most
        tile["l"] = min(sizes["l"], (words - m * k) // (k + m), (words - m * p) // (p + m))
        if tile["l"] < 1:
            continue
        moved = sum(chain_movement(sizes, tile, order).values())
        if best is None or moved < best[0]:
            best = moved, tile
    if best is None:
        raise InfeasibleError(f"a buffer of {words} words holds no tiles of two chained products")
    return best


def _trips(extent: int) -> list[int]:
    """Numbers of tiles that an extent can be cut into."""
    return sorted({-(-extent // tile) for tile in range(1, extent + 1)})
