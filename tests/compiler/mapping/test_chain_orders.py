"""Orders and tiles of two chained products: against brute force, tile trees, and the published figures."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.chain_orders import (
    chain_movement,
    chain_tree,
    closed_form_tile,
    held_words,
    least_movement,
    legal_orders,
)
from baco.compiler.mapping.movement import movement
from baco.compiler.styles.fused.chain import ProductChain
from baco.compiler.styles.fused.predict import choose_chain, predict_chain
from baco.workloads.problem import Problem

#: Published chains of products: batch, M, N, K, L.
CHAINS = {
    "G1": (8, 512, 64, 64, 512), "G2": (12, 512, 64, 64, 512), "G3": (16, 512, 64, 64, 512), "G4": (12, 256, 64, 64, 256),
    "G5": (16, 256, 64, 64, 256), "G6": (16, 256, 80, 80, 256), "G7": (12, 208, 64, 64, 208), "G8": (16, 208, 64, 64, 208),
    "G9": (16, 208, 80, 80, 208), "G10": (1, 512, 64, 64, 256), "G11": (1, 768, 64, 64, 384), "G12": (1, 1024, 64, 64, 512),
}  # fmt: skip


def walked(sizes: dict[str, int], tile: dict[str, int], order: str) -> dict[str, int] | None:
    """Words brought and written by walking through an order step by step with one block of each tensor held; None where a block
    of C is needed again after another one was made in its place."""
    trips = {name: sizes[name] // tile[name] for name in sizes}
    tensors = {"A": "mk", "B": "kl", "C": "ml", "D": "ln", "E": "mn"}
    held: dict[str, tuple[int, ...]] = {}
    seen: set[tuple[str, tuple[int, ...]]] = set()
    moved = dict.fromkeys(tensors, 0)
    own = {"A": "n", "B": "n", "C": "", "D": "k", "E": "k"}
    for numbers in itertools.product(*(range(trips[name]) for name in order)):
        at = dict(zip(order, numbers, strict=True))
        for tensor, dims in tensors.items():
            # loops of one product's own do not move the other: its blocks move in the first turn of them
            if any(at[name] for name in own[tensor]):
                continue
            block = tuple(at[name] for name in dims)
            if held.get(tensor) != block:
                if tensor == "C" and ("C", block) in seen:
                    return None
                seen.add((tensor, block))
                held[tensor] = block
                moved[tensor] += int(np.prod([tile[name] for name in dims]))
    # both products finish with a block of C before the next: all of k, then all of n
    inner = [name for name in order if name in "kn" and trips[name] > 1]
    outer = [name for name in order if name in "ml" and trips[name] > 1]
    if any(order.index(one) < order.index(two) for one in inner for two in outer):
        return None
    return moved | {"C": 0}


def test_four_of_twenty_four_orders_are_legal_and_move_the_same() -> None:
    sizes, tile = {"m": 8, "k": 6, "l": 12, "n": 10}, {"m": 4, "k": 3, "l": 4, "n": 5}
    found = {"".join(order): walked(sizes, tile, "".join(order)) for order in itertools.permutations("mkln")}
    legal = [order for order, moved in found.items() if moved is not None]
    assert len(found) == 24
    assert sorted(legal) == sorted(legal_orders())
    assert len(legal) == 4


def test_the_table_of_movement_is_that_of_trees() -> None:
    random = np.random.default_rng(0)
    for _ in range(120):
        tile = {name: int(random.integers(1, 5)) for name in "mkln"}
        sizes = {name: size * int(random.integers(1, 5)) for name, size in tile.items()}
        for order in legal_orders():
            tree, operators = chain_tree(sizes, tile, order)
            words = dict.fromkeys("ABCDE", 0)
            for one in movement(tree, operators):
                if one.outer == 1:
                    words[one.tensor] += int(one.up) if one.tensor == "E" else int(one.words)
            assert words == chain_movement(sizes, tile, order), (order, sizes, tile)


def test_the_published_table() -> None:
    sizes, tile = {"m": 8, "k": 6, "l": 12, "n": 10}, {"m": 4, "k": 3, "l": 4, "n": 5}
    across, down = 3, 2
    for order in legal_orders():
        assert chain_movement(sizes, tile, order) == {
            "A": 8 * 6 * across, "B": 6 * 12 * down, "C": 0, "D": 10 * 12 * down, "E": 8 * 10 * across,
        }  # fmt: skip


def test_published_figures_of_a_large_square_chain() -> None:
    sizes, words = dict.fromkeys("mkln", 2048), 256 * 1024
    tile = int(closed_form_tile(words))
    times = -(-2048 // tile)
    assert 4 * 2048 * 2048 * times == 83_886_080
    moved, found = least_movement(sizes, words)
    assert moved == 75_497_472
    assert held_words(found) <= words


def test_least_movement_is_that_of_all_tiles() -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        sizes = {name: int(random.integers(1, 11)) for name in "mkln"}
        words = int(random.integers(3, 120))
        best = None
        for numbers in itertools.product(*(range(1, sizes[name] + 1) for name in "mkln")):
            tile = dict(zip("mkln", numbers, strict=True))
            if held_words(tile) <= words:
                moved = min(sum(chain_movement(sizes, tile, order).values()) for order in ("mlkn", "lmkn"))
                best = moved if best is None else min(best, moved)
        found, tile = least_movement(sizes, words)
        assert found == best
        assert held_words(tile) <= words
    with pytest.raises(InfeasibleError, match="a buffer of 2 words holds no tiles"):
        least_movement(dict.fromkeys("mkln", 4), 2)


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
    least, _ = least_movement({"m": m, "k": k, "l": between, "n": n}, machine.scratchpad_kib * 1024)
    assert moved == batch * least
    alone = batch * (m * k + k * between + 2 * m * between + between * n + m * n)
    largest = m * between > max(m * k, k * between, between * n, m * n)
    if largest:
        assert moved <= 0.44 * alone
