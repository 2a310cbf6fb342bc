"""Tensor expressions: operators that have no name here, as `baco.compile` and `baco.run` take them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.api.argument_types import check_seed, checked
from baco.common.errors import InputError
from baco.compiler.network.tensor_program import TensorProgram

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.api.network_unit import NetworkUnit


@checked()
def expression(
    text: str,
    *,
    constants: Mapping[str, np.ndarray[Any, Any] | None] | Sequence[str] | str = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    scale: float | None = None,
    relu: bool = False,
    name: str = "expression",
    seed: int = 0,
    **sizes: int,
) -> TensorProgram:
    """Any sum of products of two int8 tensors, or of one, summed in int32 and requantised to int8.

    `baco.expression("O[n,q,p,k] += I[n,q+s,p+r,c] * W[s,r,c,k]", n=1, q=14, p=14, k=32, c=16, s=3, r=3, constants="W")`
    is a convolution. Indices are sums of iterations, of multiples of them, and of whole numbers; an element outside a
    tensor is 0.

    Args:
        sizes: how often each iteration runs, outermost first.
        constants: tensors that are known while compiling: trained weights, say; names, or arrays by name. Random without an array.
        shapes: of tensors of which the indices do not reach everything, or from which they reach out.
        scale: of the requantisation; by default one that leaves most results of random operands within int8.
        relu: negative sums become 0.
        name: of the operator.
        seed: of random constants.

    Raises InputError for what is malformed.
    """
    from baco.compiler.mapping.contraction_text import parse_contraction, tensor_shapes

    check_seed(seed)
    for size in sizes.values():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"an iteration runs a whole number of times, at least once, not {size!r}")
    contraction = parse_contraction(text, {dimension: int(size) for dimension, size in sizes.items()}, name)
    given: dict[str, np.ndarray[Any, Any] | None]
    names = [constants] if isinstance(constants, str) else constants
    given = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
    for operand, array in given.items():
        if array is not None and not isinstance(array, np.ndarray):
            raise InputError(f"constant {operand} must be a numpy array, not of type {type(array).__name__}")
    known = {operand: tuple(array.shape) for operand, array in given.items() if array is not None}
    stored = tensor_shapes(contraction, {**known, **(shapes or {})})
    for operand in given:
        contraction.access(operand)
    random = np.random.default_rng(seed)
    arrays = {
        operand: random.integers(-128, 128, stored[operand], dtype=np.int8) if array is None else array
        for operand, array in given.items()
    }
    if scale is None:
        depth = math.prod(contraction.extents[dimension] for dimension in contraction.reduction)
        factors = len(contraction.inputs)
        scale = float(2.0 ** round(math.log2(48 / (74.0**factors * math.sqrt(depth)))))
    return TensorProgram(contraction, arrays, stored, scale, relu)


def expression_unit(
    program: TensorProgram, accelerator: Accelerator, matching: str | None, seed: int
) -> tuple[NetworkUnit, str]:
    """The network that an expression is carried out as, with random inputs, and the text of its matching."""
    from baco.api.network_unit import NetworkRequest, NetworkUnit
    from baco.compiler.network.contraction_choice import choose_matching
    from baco.compiler.network.reference import reference

    chosen = choose_matching(program, accelerator, matching=matching)
    random = np.random.default_rng(seed)
    data = {
        view.value: random.integers(-128, 128, view.shape, dtype=np.int8)
        for view in chosen.network.inputs.values()
    }
    expected = reference(chosen.network, data)
    # by the expression's definition, not by the operators that it became
    expected[program.contraction.output.operand] = program.result(data)
    request = NetworkRequest(program.name, accelerator, seed=seed, fusion=False)
    return NetworkUnit(request, chosen.network, None, data, expected), str(chosen.matching)
