"""Calls of C functions that go through rows of operands side by side, with their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baco.compiler.host_core import LINE_BYTES
from baco.compiler.ops.host_work import HostWork, counted
from baco.compiler.ops.nests import RowLoops, element_loops
from baco.compiler.ops.operator import Array, HostCall
from baco.compiler.ops.views import View


def loop_call(
    function: str,
    source: str,
    loops: RowLoops,
    sizes: Sequence[int],
    operands: Sequence[View | None],
    numbers: Sequence[int] = (),
    *,
    walked: Sequence[int | None] = (),
    variant: str = "",
    lines: float = 0.0,
    amounts: Mapping[str, float] | None = None,
    extra: Mapping[str, Array] | None = None,
    code: str = "",
    cycles: Mapping[str, float] | None = None,
) -> HostCall:
    """A call whose parameters are those of loops and numbers, and whose time is one of rows and elements.

    Args:
        function, source, operands, extra, code: as in `HostCall`.
        sizes: bytes of the elements of what the loops go through.
        numbers: parameters behind those of the loops.
        walked: numbers of these operands, all without; None for one that is not there.
        variant: what the speed depends on besides the function.
        lines: cache lines that come from memory besides.
        amounts: how often other parts run.
        cycles: as in `HostWork`.
    """
    amounts = counted(rows=loops.rows, elements=loops.elements, **(amounts or {}))
    work = HostWork(f"{function} {variant}".rstrip(), amounts, loops.walks(sizes, walked), lines, cycles)
    return HostCall(function, source, (*loops.words(), *numbers), tuple(operands), work, extra or {}, code)


def elementwise(
    function: str,
    operands: Sequence[View],
    numbers: Sequence[int] = (),
    *,
    table: int | None = None,
    table_bytes: int = 0,
    size: int = 1,
    variant: str = "",
    lanes: int = 1,
    extra: Mapping[str, Array] | None = None,
    source: str = "elementwise.c",
) -> HostCall:
    """A call of a function that goes through its operands element by element and has a fast way for dense ones.

    Args:
        table: number of the operand that is a table.
        table_bytes: of a table of which results touch single lines.
        size: bytes of the elements.
        lanes: elements of a row of dense operands that go together; the `rest` goes one by one.
        others: as in `loop_call`.
    """
    walked = [n for n in range(len(operands)) if n != table]
    loops = element_loops(*(operands[n] for n in walked))
    return loop_call(
        function,
        source,
        loops,
        [size] * len(walked),
        operands,
        numbers,
        walked=walked,
        variant=("dense" if loops.dense else "strided") + variant,
        amounts={"rest": loops.rows * (loops.extent % lanes)} if lanes > 1 else None,
        lines=min(loops.elements, table_bytes / LINE_BYTES),
        extra=extra,
    )
