"""Two chained products, C[m, l] += A[m, k] B[k, l] and E[m, n] += C[m, l] D[l, n], in tiles of one buffer that C never leaves: trees and
the code of chains move what Chimera (HPCA 2023) publishes, and what the best of all tiles move.

Only the loops over m and l, which both products have, lie outside; loops that run once end no reuse.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.movement import movement
from baco.compiler.mapping.tree import Loop, Residency, Tile
from baco.compiler.styles.fused.chain import ProductChain
from baco.compiler.styles.fused.predict import choose_chain, predict_chain
from baco.workloads.problem import Problem

ORDERS = ("mlkn", "lmkn")
#: Published chains of products: batch, M, N, K, L.
CHAINS = {
    "G1": (8, 512, 64, 64, 512), "G2": (12, 512, 64, 64, 512), "G3": (16, 512, 64, 64, 512), "G4": (12, 256, 64, 64, 256),
    "G5": (16, 256, 64, 64, 256), "G6": (16, 256, 80, 80, 256), "G7": (12, 208, 64, 64, 208), "G8": (16, 208, 64, 64, 208),
    "G9": (16, 208, 80, 80, 208), "G10": (1, 512, 64, 64, 256), "G11": (1, 768, 64, 64, 384), "G12": (1, 1024, 64, 64, 512),
}  # fmt: skip


def tree(sizes: dict[str, int], tile: dict[str, int], order: str) -> tuple[Tile, list[Contraction]]:
    """Loops over m and l around both products, those over k and n in the product that has them."""
    m, k, n, p = (variable(name) for name in "mkln")

    def product(name: str, dims: str, out: Access, *inputs: Access) -> Contraction:
        return Contraction({dim: sizes[dim] for dim in dims}, out, inputs, name=name)

    first = product("first", "mlk", Access("C", (m, n)), Access("A", (m, k)), Access("B", (k, n)))
    second = product("second", "mnl", Access("E", (m, p)), Access("C", (m, n)), Access("D", (n, p)))

    def part(operator: str, own: str, keeps: str, inner: str) -> Tile:
        block = tuple(Loop(name, tile[name]) for name in inner)
        held = Tile(0, tuple(map(Residency, keeps)), block, operator=operator)
        return Tile(0, (), (Loop(own, -(-sizes[own] // tile[own])),), (held,))

    outer = tuple(Loop(name, -(-sizes[name] // tile[name])) for name in order[:2])
    inside = (part("first", "k", "AB", "mlk"), part("second", "n", "DE", "mnl"))
    on_chip = Tile(0, (Residency("C"),), (), inside, relation="Shar")
    return Tile(1, tuple(map(Residency, "ABDE")), outer, (on_chip,)), [first, second]


def published(sizes: dict[str, int], tile: dict[str, int], order: str) -> dict[str, int]:
    """Words by tensor: the published table (of E what is written)."""
    trips = {name: -(-sizes[name] // tile[name]) for name in "mkln"}

    def words(shared: str, own: str) -> int:
        """A tensor of one shared and one own dimension: with every tile of the other shared one, or once."""
        moved = trips[own] > 1 or (order[1] == shared and trips[shared] > 1)
        return sizes[shared] * sizes[own] * (trips["ml".replace(shared, "")] if moved else 1)

    return {"A": words("m", "k"), "B": words("l", "k"), "C": 0, "D": words("l", "n"), "E": words("m", "n")}


def held(tile: dict[str, int]) -> int:
    """Words of the larger of both products' blocks, C in either."""
    m, k, n, p = (tile[name] for name in "mkln")
    return max(m * k + k * n + m * n, m * n + n * p + m * p)


def least(sizes: dict[str, int], words: int) -> int:
    """Fewest words through a buffer of so many. Tiles of k and n matter only by whether they are whole, those of m by the number of
    trips, and the larger those of l are, the less moves."""
    found = []
    tiles = {-(-sizes["m"] // trips) for trips in range(1, sizes["m"] + 1)}
    for order, k, p, m in itertools.product(ORDERS, {1, sizes["k"]}, {1, sizes["n"]}, tiles):
        n = min(sizes["l"], (words - m * k) // (k + m), (words - m * p) // (p + m))
        if n >= 1:
            found.append(sum(published(sizes, {"m": m, "k": k, "l": n, "n": p}, order).values()))
    return min(found)


def test_trees_move_what_the_published_table_says() -> None:
    sizes, tile = {"m": 8, "k": 6, "l": 12, "n": 10}, {"m": 4, "k": 3, "l": 4, "n": 5}
    for order in ORDERS:
        table = {"A": 8 * 6 * 3, "B": 6 * 12 * 2, "C": 0, "D": 10 * 12 * 2, "E": 8 * 10 * 3}
        assert published(sizes, tile, order) == table
    random = np.random.default_rng(0)
    for _ in range(120):
        tile = {name: int(random.integers(1, 5)) for name in "mkln"}
        sizes = {name: size * int(random.integers(1, 5)) for name, size in tile.items()}
        for order in ORDERS:
            words = dict.fromkeys("ABCDE", 0)
            for one in movement(*tree(sizes, tile, order)):
                if one.outer == 1:
                    words[one.tensor] += int(one.up) if one.tensor == "E" else int(one.words)
            assert words == published(sizes, tile, order), (order, sizes, tile)


def test_published_figures_of_a_large_square_chain() -> None:
    sizes, words = dict.fromkeys("mkln", 2048), 256 * 1024
    tile = int(math.sqrt(1 + words)) - 1  # the published closed form, up to 1.4 times from the best
    assert 4 * 2048 * 2048 * -(-2048 // tile) == 83_886_080
    assert least(sizes, words) == 75_497_472


def test_least_movement_is_that_of_all_tiles() -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        sizes = {name: int(random.integers(1, 11)) for name in "mkln"}
        words = int(random.integers(3, 120))
        tiles = (
            dict(zip("mkln", one, strict=True))
            for one in itertools.product(*(range(1, n + 1) for n in sizes.values()))
        )
        fitting = (tile for tile in tiles if held(tile) <= words)
        moved = (sum(published(sizes, tile, order).values()) for tile in fitting for order in ORDERS)
        assert least(sizes, words) == min(moved)


@pytest.mark.parametrize("name", CHAINS)
def test_code_moves_what_the_best_tiles_move(name: str) -> None:
    """And at most 44% of what the products one by one move, each tensor once: C is the largest tensor of all. What is left must
    move in any case."""
    batch, m, n, k, between = CHAINS[name]
    machine = load_accelerator("gemmini-default")
    first = Layer(Problem(P=m, C=k, K=between, groups=batch), scale=0.5, weights_transposed=True)
    chain = ProductChain(first, Layer(Problem(P=m, C=between, K=n, groups=batch), scale=0.5))
    cost = predict_chain(chain, choose_chain(chain, machine), machine)
    moved = cost.read_bytes + cost.written_bytes
    assert moved == batch * least({"m": m, "k": k, "l": between, "n": n}, machine.scratchpad_kib * 1024)
    alone = batch * (m * k + k * between + 2 * m * between + between * n + m * n)
    if m * between > max(m * k, k * between, between * n, m * n):
        assert moved <= 0.44 * alone
