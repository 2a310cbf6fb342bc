"""Tile trees of usual form: a product in tiles, and two chained products whose result in between stays on chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction, matmul
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.tree import Loop, Residency, Tile


def tiled_product(
    sizes: Sequence[int], tile: Sequence[int], machine: Machine
) -> tuple[Tile, list[Contraction]]:
    """A product D[m, n] += A[m, k] B[k, n] whose sums stay on chip until they are complete.

    Args:
        sizes, tile: of m, n, k; k is the outermost loop over tiles.
        machine: with one memory on chip and two axes of its array, k along the first and n along the second.
    """
    (m, n, k), (tile_m, tile_n, tile_k) = sizes, tile
    part = _passes("", {"m": tile_m, "n": tile_n, "k": tile_k}, "kn", "AB", machine)
    loops = (Loop("k", _up(k, tile_k)), Loop("m", _up(m, tile_m)), Loop("n", _up(n, tile_n)))
    memory = len(machine.levels) - 1
    on_chip = Tile(memory - 1, (Residency("D"),), loops, (part,))
    return Tile(memory, tuple(map(Residency, "ABD")), (), (on_chip,)), [
        matmul(m, n, k, data_type=machine.data_types[0])
    ]


def chained_products(
    sizes: Mapping[str, int], tile: Mapping[str, int], machine: Machine
) -> tuple[Tile, list[Contraction]]:
    """C[m, l] += A[m, k] B[k, l] and E[m, n] += C[m, l] D[l, n], C on chip: for every tile of m all of the first product,
    k outside l, then all of the second one, l outside n.

    Args:
        sizes: of m, k, l, n.
        tile: of m; of k and l in the first product; of l2 (l) and n in the second one.
        machine: as `tiled_product`.
    """
    i, k, j, n = (variable(name) for name in "mkln")
    data = machine.data_types[0]
    first = Contraction(
        {"m": sizes["m"], "l": sizes["l"], "k": sizes["k"]},
        Access("C", (i, j), "int32"),
        (Access("A", (i, k), data), Access("B", (k, j), data)),
        name="first",
    )
    second = Contraction(
        {"m": sizes["m"], "n": sizes["n"], "l": sizes["l"]},
        Access("E", (i, n), "int32"),
        (Access("C", (i, j), "int32"), Access("D", (j, n), data)),
        name="second",
    )
    memory = len(machine.levels) - 1
    one = _passes("first", {"m": tile["m"], "l": tile["l"], "k": tile["k"]}, "kl", "AB", machine)
    two = _passes("second", {"m": tile["m"], "n": tile["n"], "l": tile["l2"]}, "ln", "D", machine)
    halves = (
        Tile(
            memory - 1,
            (),
            (Loop("k", _up(sizes["k"], tile["k"])), Loop("l", _up(sizes["l"], tile["l"]))),
            (one,),
        ),
        Tile(
            memory - 1,
            (),
            (Loop("l", _up(sizes["l"], tile["l2"])), Loop("n", _up(sizes["n"], tile["n"]))),
            (two,),
        ),
    )
    meeting = Tile(memory - 1, (Residency("C"), Residency("E")), (), halves, "Shar")
    rows = (Loop("m", _up(sizes["m"], tile["m"])),)
    return Tile(memory, tuple(map(Residency, "ABDE")), rows, (meeting,)), [first, second]


def _passes(operator: str, tile: Mapping[str, int], spread: str, brought: str, machine: Machine) -> Tile:
    """The tile whose iterations are passes, and the leaf inside: `spread` dimensions along the array's axes."""
    if len(machine.axes) != 2:
        raise InputError(f"machine '{machine.name}' needs two axes of its array, not {len(machine.axes)}")
    lanes = {name: min(tile[name], axis.size) for name, axis in zip(spread, machine.axes, strict=True)}
    leaf = tuple(Loop(name, _up(size, lanes.get(name, 1))) for name, size in tile.items())
    side = tuple(Loop(name, lanes[name], spatial=True) for name in spread)
    kept = tuple(Residency(tensor, machine.copies) for tensor in brought)
    return Tile(len(machine.levels) - 2, kept, side, (Tile(0, (), leaf, operator=operator),))


def _up(size: int, by: int) -> int:
    return -(-size // by)
