"""Published fused dataflows as structures whose sizes are searched alike: what a search over structures is compared with.

Source: TileFlow, table of dataflows: of attention `layerwise`, `uni-pipe`, `flat-hgran`, `flat-rgran` (FLAT) and `chimera`; of chains
of convolutions `layerwise`, `fused-layer` and `isos`. Chimera cuts rows of a softmax between its products where a machine can do that;
the others keep whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from baco.common.errors import InputError, did_you_mean
from baco.compiler.mapping.contraction import Access, Contraction, convolution
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.structure import Gene, TreeStructure
from baco.workloads.problem import Problem

#: Operators that are one group at the innermost buffer, whether as a pipeline, and dimensions that no loop around them cuts.
_ATTENTION: dict[str, tuple[tuple[tuple[int, ...], ...], bool, str]] = {
    "layerwise": (((0,), (1,), (2,)), False, ""),
    "uni-pipe": (((0, 1), (2,)), True, "hml"),
    "flat-hgran": (((0, 1), (2,)), False, "ml"),
    "flat-rgran": (((0, 1), (2,)), False, "l"),
    "chimera": (((0, 1, 2),), False, ""),
}
_CONVOLUTIONS: dict[str, tuple[tuple[tuple[int, ...], ...], bool, str]] = {
    "layerwise": (((0,), (1,)), False, ""),
    "fused-layer": (((0, 1),), False, "KC"),
    "isos": (((0, 1),), False, "KCP"),
}


def attention(
    heads: int, rows: int, depth: int, keys: int | None = None, values: int | None = None
) -> list[Contraction]:
    """Scores, softmax and values: S[h, m, l] += Q[h, m, k] K[h, l, k], P = softmax(S), O[h, m, n] += P[h, m, l] V[h, l, n].

    Args:
        rows, depth: m and k; `keys` and `values` are l and n, as many as those by default.
    """
    h, m, k, n, p = (variable(name) for name in "hmkln")
    keys, values = keys or rows, values or depth
    scores = Contraction(
        {"h": heads, "m": rows, "l": keys, "k": depth},
        Access("S", (h, m, n), "int16"),
        (Access("Q", (h, m, k), "int16"), Access("K", (h, n, k), "int16")),
        name="scores",
    )
    softmax = Contraction(
        {"h": heads, "m": rows, "l": keys},
        Access("P", (h, m, n), "int16"),
        (Access("S", (h, m, n), "int16"),),
        body="softmax",
        name="softmax",
    )
    product = Contraction(
        {"h": heads, "m": rows, "n": values, "l": keys},
        Access("O", (h, m, p), "int16"),
        (Access("P", (h, m, n), "int16"), Access("V", (h, n, p), "int16")),
        name="values",
    )
    return [scores, softmax, product]


def convolutions(first: Problem, second: Problem) -> list[Contraction]:
    """Two convolutions of which the second reads what the first makes."""
    one = convolution(first, names=("W0", "X", "Y"), operator="first")
    two = convolution(second, names=("W1", "Y", "Z"), operator="second")
    return [_words(one), _words(two)]


def _words(one: Contraction) -> Contraction:
    """The same with words of 16 bits, as the machines of the source have."""
    inputs = tuple(replace(access, data_type="int16") for access in one.inputs)
    return replace(one, output=replace(one.output, data_type="int16"), inputs=inputs)


def dataflow_names(operators: Sequence[Contraction]) -> list[str]:
    """Of the dataflows that there are for a chain."""
    return list(_ATTENTION if len(operators) == 3 else _CONVOLUTIONS)


def dataflow(name: str, operators: Sequence[Contraction], machine: Machine) -> TreeStructure:
    """The structure of a published dataflow. Raises InputError for an unknown one."""
    table = _ATTENTION if len(operators) == 3 else _CONVOLUTIONS
    if name not in table:
        raise InputError(f"there is no dataflow '{name}'", hint=did_you_mean(name, table))
    groups, piped, fixed = table[name]
    top = len(machine.levels) - 1
    found = []
    for group in groups:
        for n in group:
            joined = n > group[0]
            found.append(
                Gene(
                    1 if joined else top,
                    "Pipe" if joined and piped and machine.arrays > 1 else "Shar",
                    list(operators[n].extents)[-1],
                    name == "chimera" and operators[n].body == "softmax" and machine.running_softmax,
                )
            )
    return TreeStructure(tuple(operators), machine, tuple(found), frozenset(fixed)).canonical
