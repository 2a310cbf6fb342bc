"""Contractions: what an operator computes, as named dimensions and tensors indexed by affine maps of them.

The one home of "which elements of which tensors an operator touches": instructions are matched to contractions
(`baco.compiler.abstraction`), tile trees cut them (`baco.compiler.mapping.tree`), and their analyses move slices of their tensors.
A `Problem` is one kind of contraction (`convolution`); sums, maxima and softmaxes are others, whose bodies differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from baco.common.errors import InputError, did_you_mean
from baco.compiler.mapping.expression import Expression, Variable, as_sum, variable
from baco.workloads.problem import DIMS, Problem

#: Bits of an element, by the name of its type. A data type is added here.
DATA_TYPES = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32, "float16": 16, "bfloat16": 16, "float32": 32}

#: What happens at every iteration: a sum of products, a sum, a maximum, a function of single elements, or the
#: normalised exponentials of a row (which may run while the row is still being summed up, with its running maximum).
Body = Literal["products", "sum", "maximum", "pointwise", "softmax"]


@dataclass(frozen=True)
class Access:
    """One tensor as an operator touches it.

    Attributes:
        operand: name of the tensor.
        indices: for each of its dimensions the index expression; the last one lies along rows of a memory.
        data_type: of `DATA_TYPES`.
    """

    operand: str
    indices: tuple[Expression, ...]
    data_type: str = "int8"

    def __post_init__(self) -> None:
        if self.data_type not in DATA_TYPES:
            raise InputError(
                f"{self}: unknown data type '{self.data_type}'", hint=did_you_mean(self.data_type, DATA_TYPES)
            )

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return DATA_TYPES[self.data_type]

    @property
    def variables(self) -> tuple[str, ...]:
        """Iterations that choose the element."""
        return tuple(dict.fromkeys(name for index in self.indices for name in index.variables))

    @cached_property
    def coefficients(self) -> tuple[dict[str, int], ...]:
        """For each dimension of the tensor, the factor of every iteration in its index."""
        return tuple({str(term): factor for term, factor in as_sum(index).terms} for index in self.indices)

    def slice(self, extents: Mapping[str, Any]) -> list[Any]:
        """Extents of the block of the tensor that a block of `extents` iterations touches: in each dimension from its
        first element to its last one, elements between them included. Numbers, numpy arrays or torch tensors."""
        return [
            1 + sum(abs(factor) * (extents[name] - 1) for name, factor in index.items())
            for index in self.coefficients
        ]

    def move(self, steps: Mapping[str, Any]) -> list[Any]:
        """By how much the block moves in each dimension when iterations begin `steps` further; absent ones stay."""
        return [
            sum(factor * steps[name] for name, factor in index.items() if name in steps)
            for index in self.coefficients
        ]

    def __str__(self) -> str:
        return f"{self.operand}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class Contraction:
    """`output += f(inputs)` over all iterations; elements outside a stored tensor count as zero.

    Attributes:
        extents: number of each iteration, in the order of the loop nest.
        output, inputs: what is accessed.
        body: what every iteration does.
        name: of the operator, where several are together.

    Raises InputError for an iteration without extent and for index maps that are not affine.
    """

    extents: Mapping[str, int]
    output: Access
    inputs: tuple[Access, ...]
    body: Body = "products"
    name: str = ""

    def __post_init__(self) -> None:
        for access in self.accesses:
            for index in access.indices:
                if not all(isinstance(term, Variable) for term, _ in as_sum(index).terms):
                    raise InputError(f"index {index} of {access} is no sum of multiples of iterations")
        used = {name for access in self.accesses for name in access.variables}
        for name in used - set(self.extents):
            raise InputError(f"iteration '{name}' of {self} has no extent")
        for name, extent in self.extents.items():
            if extent < 1:
                raise InputError(f"iteration '{name}' of {self} runs {extent} times", hint="at least once")

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Output and inputs."""
        return (self.output, *self.inputs)

    def access(self, tensor: str) -> Access:
        """How a tensor is touched. Raises InputError for one that is not."""
        for access in self.accesses:
            if access.operand == tensor:
                return access
        raise InputError(
            f"{self} has no tensor '{tensor}'",
            hint=did_you_mean(tensor, [access.operand for access in self.accesses]),
        )

    @property
    def reduction(self) -> tuple[str, ...]:
        """Iterations that add to the same element of the output."""
        return tuple(name for name in self.extents if name not in self.output.variables)

    @property
    def macs(self) -> int:
        """Multiply-accumulates; for other bodies, how often they run."""
        return math.prod(self.extents.values())

    def __str__(self) -> str:
        mark = "*" if self.body == "products" else ","
        label = "" if self.body == "products" else f"{self.body} "
        return f"{self.output} += {label}{f' {mark} '.join(map(str, self.inputs))}"


def matmul(
    m: int, n: int, k: int, *, data_type: str = "int8", accumulator_type: str = "int32"
) -> Contraction:
    """D[m, n] += A[m, k] * B[k, n]."""
    i, j, r = variable("m"), variable("n"), variable("k")
    return Contraction(
        {"m": m, "n": n, "k": k},
        Access("D", (i, j), accumulator_type),
        (Access("A", (i, r), data_type), Access("B", (r, j), data_type)),
    )


def convolution(
    problem: Problem,
    *,
    names: tuple[str, str, str] = ("W", "I", "O"),
    data_type: str = "int8",
    accumulator_type: str = "int32",
    padding: tuple[int, int] = (0, 0),
    operator: str = "",
) -> Contraction:
    """A convolution (or product) problem: O[G, N, Q, P, K] += I[G, N, y, x, C] * W[G, S, R, C, K].

    The iteration of groups, `G`, is there only if there is more than one.

    Args:
        problem: bounds of one group, strides, dilations, groups.
        names: of weights, input and output.
        data_type, accumulator_type: of weights and input; of the output.
        padding: rows above and columns left of the image that the first window covers.
        operator: its name.
    """
    bounds = dict(zip(DIMS, problem.bounds, strict=True))
    nest = {name: bounds[name] for name in "NPQCKRS"}
    v = {name: variable(name) for name in (*nest, "G")}
    y = v["Q"] * problem.stride_h + v["S"] * problem.dilation_h - padding[0]
    x = v["P"] * problem.stride_w + v["R"] * problem.dilation_w - padding[1]
    group: tuple[Expression, ...] = ()
    if problem.groups > 1:
        nest = {"G": problem.groups, **nest}
        group = (v["G"],)
    weights, image, result = names
    return Contraction(
        nest,
        Access(result, (*group, v["N"], v["Q"], v["P"], v["K"]), accumulator_type),
        (
            Access(image, (*group, v["N"], y, x, v["C"]), data_type),
            Access(weights, (*group, v["S"], v["R"], v["C"], v["K"]), data_type),
        ),
        name=operator,
    )


def iteration_grid(extents: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Every iteration of a loop nest: per name an array of its numbers, of one broadcastable shape."""
    grids = np.meshgrid(*(np.arange(extent) for extent in extents.values()), indexing="ij", sparse=True)
    return dict(zip(extents, grids, strict=True))
