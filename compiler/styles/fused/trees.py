"""Chains of products and of convolutions as tile trees, and back: which trees there is code for.

A group's schedule is a tree of `baco.compiler.mapping.tree` on the levels of `machine_of`: the group's operators meet in the
scratchpad (`Shar`), and each takes blocks of the array's side through the accumulator. What rides on an operator (biases, a softmax
on its way out, an addition) is no tile.

Chains of products, by head (`G`), strips of rows (`P`) and tiles of what lies between (`C` of the second), right operands of a whole
group, or of a tile:

    L3[I0,W1,W2,I2] G12 - L2[W1:2,W2:2] P8 - L2[I0:2,] C2 - L2[I1:2,] Shar( ... @first | ... @second )
    L3[I0,W1,W2,I2] G12 - L2[] P8 - L2[I0:2,] C2 - L2[W1:2,W2:2,I1:2] Shar( ... @first | ... @second )

With a softmax whose rows come in tiles, whole rows of what lies between are in the scratchpad, as scores of two strips and softmaxed of one:

    L3[I0,W1,W2,I2] G12 - L2[] P8 - L2[I0:2,I1:3] Shar( L2[] K4 - L2[W1:2,] ... @first | L2[] C4 - L2[W2:2,] ... @second )

Chains of convolutions, by image (`N`) and strip of rows (`Q`); weights that stay lie outside of these, and those that come again for
every strip inside the loop over their blocks:

    L3[I0,W1,W2,I2] N1 - L2[W1,] Q7 - L2[I0,I1] Shar( ... @first | L2[] K4 - L2[W2:2,] K16X - ... @second )
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.contraction import Access, Contraction, convolution
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.text import format_tree
from baco.compiler.mapping.tree import Loop, Residency, Tile
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, place_chain
from baco.compiler.styles.fused.predict_strips import predict_strips
from baco.compiler.styles.fused.strip_placement import is_depthwise
from baco.compiler.styles.fused.strips import ConvolutionChain, StripSchedule
from baco.workloads.problem import Problem

Chain: TypeAlias = ProductChain | ConvolutionChain

_NAMES = ("first", "second", "third", "fourth")
#: Copies of the strips of a left operand and of what lies between two products.
_STRIPS = 2
#: Of a block of weights that come again for every strip.
_STREAMED = 2


def chain_operators(chain: Chain) -> tuple[Contraction, ...]:
    """The chain's operators: `first` makes I1 of I0 and W1, `second` I2 of I1 and W2... An image has what the next operator reads
    of it, padding included."""
    if isinstance(chain, ProductChain):
        layers: Sequence[Layer] = (chain.first, chain.second)
    else:
        layers = chain.layers
    sizes = [(layer.problem.Q, layer.problem.P) for layer in layers]
    for n in reversed(range(len(layers) - 1)):
        p, (rows, columns) = layers[n + 1].problem, sizes[n + 1]
        sizes[n] = (rows - 1) * p.stride_h + p.S, (columns - 1) * p.stride_w + p.R
    return tuple(
        _contraction(layer, size, (f"W{n + 1}", f"I{n}", f"I{n + 1}"), _NAMES[n])
        for n, (layer, size) in enumerate(zip(layers, sizes, strict=True))
    )


def _contraction(layer: Layer, size: tuple[int, int], names: tuple[str, str, str], name: str) -> Contraction:
    """A layer that makes an image of a size, its sums kept as what they become."""
    p, (q, width) = layer.problem, size
    if not is_depthwise(layer):
        made = Problem(
            R=p.R, S=p.S, P=width, Q=q, C=p.C, K=p.K, N=p.N, stride_w=p.stride_w, stride_h=p.stride_h, groups=p.groups
        )  # fmt: skip
        return convolution(made, names=names, accumulator_type="int8", operator=name)
    v = {one: variable(one) for one in "NQPGRS"}
    pixel = v["Q"] * p.stride_h + v["S"], v["P"] * p.stride_w + v["R"]
    weights, image, result = names
    return Contraction(
        {"N": p.N, "Q": q, "P": width, "G": p.groups, "R": p.R, "S": p.S},
        Access(result, (v["N"], v["Q"], v["P"], v["G"])),
        (Access(image, (v["N"], *pixel, v["G"])), Access(weights, (v["S"], v["R"], v["G"]))),
        name=name,
    )


def tree_of_schedule(chain: Chain, schedule: ChainSchedule | StripSchedule, accelerator: Accelerator) -> Tile:
    """The tree that a schedule of the chain is; of strips, without what the first ones are (`StripSchedule.begin`)."""
    operators = chain_operators(chain)
    images = [f"I{n}" for n in range(len(operators) + 1)]
    weights = [f"W{n + 1}" for n in range(len(operators))]
    outside = [images[0], *weights, images[-1]]
    if isinstance(chain, ProductChain):
        assert isinstance(schedule, ChainSchedule)
        return _product_tree(chain, schedule, operators, outside, accelerator.dim)
    assert isinstance(schedule, StripSchedule)
    height, rows = chain.layers[-1].problem.Q, [schedule.rows]
    for layer in reversed(chain.layers[1:]):
        rows.insert(0, (rows[0] - 1) * layer.problem.stride_h + layer.problem.S)
    parts = tuple(
        _operator_tile(
            one, {"Q": rows[n]}, accelerator.dim, chain.least_copies, streamed=n in schedule.streamed
        )
        for n, one in enumerate(operators)
    )
    kept = tuple(Residency(one) for n, one in enumerate(weights) if n not in schedule.streamed)
    inside = _meeting(tuple(map(Residency, images[:-1])), parts)
    strips = Tile(2, kept, _loops(N=chain.layers[0].problem.N, Q=-(-height // schedule.rows)), (inside,))
    return Tile(3, tuple(map(Residency, outside)), (), (strips,))


def _product_tree(
    chain: ProductChain,
    schedule: ChainSchedule,
    operators: Sequence[Contraction],
    outside: Sequence[str],
    dim: int,
) -> Tile:
    right, sums, results = schedule.copies
    sizes = {"first": {"K": schedule.columns}, "second": {"C": schedule.columns}}
    first, second = (
        _operator_tile(one, sizes[one.name] | {"P": schedule.rows}, dim, copies, together=True)
        for one, copies in zip(operators, (sums, results), strict=True)
    )
    rights = (Residency("W1", right), Residency("W2", right))
    if schedule.staged(chain):
        count = chain.between // schedule.columns
        parts = tuple(
            Tile(2, (), _loops(**{dim_of_tiles: count}), (replace(part, keeps=(kept,)),))
            for dim_of_tiles, part, kept in zip("KC", (first, second), rights, strict=True)
        )
        inside = _meeting((Residency("I0", _STRIPS), Residency("I1", _STRIPS + 1)), parts)
        strips = Tile(2, (), _loops(P=-(-chain.rows // schedule.rows)), (inside,))
        return Tile(3, tuple(map(Residency, outside)), _loops(G=chain.groups), (strips,))
    whole = schedule.weights == "group"
    inside = _meeting((*(() if whole else rights), Residency("I1", _STRIPS)), (first, second))
    tiles = Tile(2, (Residency("I0", _STRIPS),), _loops(C=chain.between // schedule.columns), (inside,))
    strips = Tile(2, rights if whole else (), _loops(P=-(-chain.rows // schedule.rows)), (tiles,))
    return Tile(3, tuple(map(Residency, outside)), _loops(G=chain.groups), (strips,))


def _operator_tile(
    operator: Contraction,
    sizes: Mapping[str, int],
    dim: int,
    copies: int,
    *,
    together: bool = False,
    streamed: bool = False,
) -> Tile:
    """An operator's part of a strip, `sizes` instead of its own extents: of each block of results all blocks of weights, of each all
    rows. The accumulator holds `copies` of the results of a strip (`together`), or of a block of them. Weights may be `streamed`:
    those of one block are there, and those of the next."""
    extents = {**operator.extents, **sizes}
    across = "K" if "K" in extents else "G"
    lanes, deep = min(dim, extents[across]), min(dim, extents.get("C", 1))
    weights, results = operator.inputs[1].operand, operator.output.operand
    blocks = _loops(**{across: -(-extents[across] // lanes)})
    sums = _loops(S=extents["S"], R=extents["R"], C=-(-extents.get("C", 1) // deep))
    side, apart = (
        (Loop(one, size, spatial=True),) if size > 1 else () for one, size in ((across, lanes), ("C", deep))
    )
    core = Tile(0, (Residency(weights),), _loops(Q=extents["Q"], P=extents["P"]), operator=operator.name)
    summed = Tile(1, (Residency(results, copies),), (*(blocks if together else ()), *sums, *apart), (core,))
    if streamed:
        return Tile(2, (), blocks, (Tile(2, (Residency(weights, _STREAMED),), side, (summed,)),))
    return Tile(2, (), (*(() if together else blocks), *side), (summed,))


def _meeting(keeps: tuple[Residency, ...], parts: tuple[Tile, ...]) -> Tile:
    return Tile(2, keeps, (), parts, "Shar" if len(parts) > 1 else "Seq")


def _loops(**factors: int) -> tuple[Loop, ...]:
    """Those that run more than once."""
    return tuple(Loop(dim, factor) for dim, factor in factors.items() if factor > 1)


def schedule_of_tree(chain: Chain, tree: Tile, accelerator: Accelerator) -> ChainSchedule | StripSchedule:
    """The schedule whose tree this is; of convolutions, with the first strips that take fewest predicted cycles.

    Raises InputError for a tree without code, naming the nearest that has, and InfeasibleError for one that does not fit the
    accelerator.
    """
    names = [one.name for one in chain_operators(chain)]
    if [leaf.operator for leaf in tree.leaves] != names:
        raise InputError(f"the leaves of the tree are not the chain's operators: {', '.join(names)}")
    if isinstance(chain, ProductChain):
        found: ChainSchedule | StripSchedule = _products(chain, tree, accelerator.dim)
    else:
        found = _strips(chain, tree)
    known = tree_of_schedule(chain, found, accelerator)
    if format_tree(known) != format_tree(tree):
        raise InputError(
            "there is no code for this tree", hint=f"the nearest that there is code for: {format_tree(known)}"
        )
    if isinstance(chain, ProductChain):
        assert isinstance(found, ChainSchedule)
        place_chain(chain, found, accelerator)
        return found
    assert isinstance(found, StripSchedule)
    return _begun(chain, found, accelerator)


def _begun(chain: ConvolutionChain, strips: StripSchedule, accelerator: Accelerator) -> StripSchedule:
    """The strips, with the best of first ones."""
    rated: list[tuple[float, StripSchedule]] = []
    reason = ""
    for begun in strips.begun():
        try:
            rated.append((predict_strips(chain, begun, accelerator).cycles, begun))
        except InfeasibleError as error:
            reason = error.message
    if not rated:
        raise InfeasibleError(reason)
    return min(rated, key=lambda one: one[0])[1]


def _factor(tile: Tile, dim: str) -> int:
    """By how much all loops of a dimension in a tile and inside it multiply."""
    return math.prod(loop.factor for one in tile.tiles for loop in one.loops if loop.dim == dim)


def _copies(tile: Tile, tensor: str) -> int:
    """Copies of a tensor's block in a tile and inside it."""
    found = [one.copies for inner in tile.tiles for one in inner.keeps if one.tensor == tensor]
    return max(found, default=1)


def _meeting_of(tree: Tile, tensor: str) -> Tile:
    """The tile of the scratchpad that keeps a tensor where operators meet; where there is none, the whole tree."""
    kept = (
        tile for tile in tree.tiles if tile.level == 2 and any(one.tensor == tensor for one in tile.keeps)
    )
    return next(kept, tree)


def _products(chain: ProductChain, tree: Tile, dim: int) -> ChainSchedule:
    meeting = _meeting_of(tree, "I1")
    first, second = meeting.children if len(meeting.children) == 2 else (meeting, meeting)
    tile = _meeting_of(first, "W1")
    staged = chain.softmax and tile is not first
    of_a_tile = staged or any(one.tensor in ("W1", "W2") for one in meeting.keeps)
    rows, columns = _factor(first, "P"), _factor(tile, "K")
    if rows > dim or not chain.softmax:
        rows = dim * -(-rows // dim)
    divides = columns % dim == 0 and chain.between % columns == 0 and (staged or not chain.softmax)
    return ChainSchedule(
        rows,
        columns if divides else chain.between,
        "tile" if of_a_tile else "group",
        (_two(_copies(tree, "W1")), _two(_copies(first, "I1")), _two(_copies(second, "I2"))),
    )


def _two(copies: int) -> int:
    """The nearest number of copies that code has."""
    return min(2, copies)


def _strips(chain: ConvolutionChain, tree: Tile) -> StripSchedule:
    parts = _meeting_of(tree, "I0").children
    streamed = tuple(n for n, part in enumerate(parts) if _meeting_of(part, f"W{n + 1}") is not part)
    return StripSchedule(min(chain.layers[-1].problem.Q, _factor(tree.leaves[-1], "Q")), 1, streamed)
