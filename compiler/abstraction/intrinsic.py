"""Intrinsics as data: what one accelerator instruction computes, and what moves its operands.

The compute abstraction is a contraction over the *instruction iterations*, whose extents are what the hardware does
at once; the memory abstraction is a list of statements, one for each instruction that moves an operand between two
memory scopes. Adding an intrinsic means writing such a description; matching, padding and addresses follow from it
(`baco.compiler.abstraction.matching`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, variable

Scope = Literal["dram", "scratchpad", "accumulator", "registers"]


@dataclass(frozen=True)
class MemoryStatement:
    """One instruction that moves an operand: `destination[to] = source[from]` for every index in `extents`.

    Attributes:
        instruction: name of the command.
        operand: of the compute abstraction.
        source, destination: memory scopes.
        extents: index names and how many of each one instruction moves at most.
        source_index, destination_index: element addresses; they may use the symbols of `symbols`.
        symbols: numbers that the instruction or a configuration supplies (bases, strides).
    """

    instruction: str
    operand: str
    source: Scope
    destination: Scope
    extents: Mapping[str, int]
    source_index: tuple[Expression, ...]
    destination_index: tuple[Expression, ...]
    symbols: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {*self.extents, *self.symbols}
        for index in (*self.source_index, *self.destination_index):
            for name in index.variables:
                if name not in known:
                    raise InputError(f"{self.instruction}: '{name}' is neither an index nor a symbol")

    def __str__(self) -> str:
        target = ", ".join(map(str, self.destination_index))
        origin = ", ".join(map(str, self.source_index))
        ranges = ", ".join(f"{name} < {extent}" for name, extent in self.extents.items())
        return f"{self.instruction}: {self.destination}[{target}] = {self.source}[{origin}] ({self.operand}; {ranges})"


@dataclass(frozen=True)
class Intrinsic:
    """One compute instruction with the instructions that feed it.

    Attributes:
        name: for messages.
        compute: the compute abstraction; its extents are those of the instruction iterations.
        memory: the memory abstraction.
    """

    name: str
    compute: Contraction
    memory: tuple[MemoryStatement, ...]

    def __post_init__(self) -> None:
        operands = {access.operand for access in self.compute.accesses}
        for statement in self.memory:
            if statement.operand not in operands:
                raise InputError(
                    f"{self.name}: {statement.instruction} moves unknown operand '{statement.operand}'"
                )
        for access in self.compute.accesses:
            for index in access.indices:
                if str(index) not in self.compute.extents:
                    raise InputError(
                        f"{self.name}: an operand of an intrinsic is indexed by single iterations"
                    )


def gemmini(dim: int, *, max_block_columns: int = 0) -> Intrinsic:
    """The matrix instructions of a Gemmini array of `dim` x `dim`: PRELOAD + COMPUTE, fed by MVIN, emptied by MVOUT.

    D[m, n] += A[m, k] * B[k, n] with m, n, k < dim; A and B in the scratchpad, D in the accumulator, B in the
    registers of the array while it computes (weight-stationary). Source: instruction set, sections 5 and 6.

    Args:
        dim: rows and columns of the array.
        max_block_columns: int8 columns that one MVIN moves at most; 0 for what every build does, 64 or `dim`.
    """
    columns = max_block_columns or max(64 // dim, 1) * dim
    m, n, k = variable("m"), variable("n"), variable("k")
    r, c = variable("r"), variable("c")
    base = variable("base")
    symbols = ("base", "row", "column")
    rows_in_memory = (variable("row") + r, variable("column") + c)
    local = (base + r + (c // dim) * dim, c % dim)

    def load(operand: str) -> MemoryStatement:
        return MemoryStatement(
            "mvin", operand, "dram", "scratchpad", {"r": dim, "c": columns}, rows_in_memory, local, symbols
        )

    return Intrinsic(
        f"gemmini {dim}x{dim}",
        Contraction(
            {"m": dim, "n": dim, "k": dim},
            Access("D", (m, n)),
            (Access("A", (m, k)), Access("B", (k, n))),
        ),
        (
            load("A"),
            load("B"),
            MemoryStatement(
                "preload",
                "B",
                "scratchpad",
                "registers",
                {"k": dim, "n": dim},
                (base + k, n),
                (k, n),
                ("base",),
            ),
            MemoryStatement(
                "compute",
                "A",
                "scratchpad",
                "registers",
                {"m": dim, "k": dim},
                (base + m, k),
                (m, k),
                ("base",),
            ),
            MemoryStatement(
                "compute",
                "D",
                "registers",
                "accumulator",
                {"m": dim, "n": dim},
                (m, n),
                (base + m, n),
                ("base",),
            ),
            MemoryStatement(
                "mvout", "D", "accumulator", "dram", {"r": dim, "c": columns}, local, rows_in_memory, symbols
            ),
        ),
    )
