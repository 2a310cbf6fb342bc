"""Operations that are equal are asked once; one that differs in anything is asked, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from baco.common.errors import InputError
from baco.compiler.ir.checks import check_ir

Wrong = Callable[[SSAValue, SSAValue], dict[str, Any]]


def module(wrong: Wrong | None) -> ModuleOp:
    """Three equal sums, then perhaps a wrong one, then another right one."""
    number, wide = (arith.ConstantOp(IntegerAttr(1, width)) for width in (i32, i64))
    sums: list[Operation] = [arith.AddiOp(number, number) for _ in range(4)]
    if wrong is not None:
        usual = {
            "operands": [number.result] * 2,
            "result_types": [i32],
            "properties": dict(sums[0].properties),
        }
        sums.insert(3, arith.AddiOp.create(**{**usual, **wrong(number.result, wide.result)}))
    return ModuleOp([number, wide, *sums])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda number, wide: {"operands": [number, wide]},
        lambda number, wide: {"operands": [number]},
        lambda number, wide: {"operands": [number] * 3},
        lambda number, wide: {"result_types": [i64]},
        lambda number, wide: {"result_types": []},
        lambda number, wide: {"properties": {"other": UnitAttr()}},
    ],
    ids=[
        "type of an operand",
        "operand less",
        "operand more",
        "type of the result",
        "result less",
        "property",
    ],
)
def test_a_wrong_operation_among_right_ones_is_found(wrong: Wrong) -> None:
    check_ir(module(None))
    with pytest.raises(InputError, match=r"^arith.addi: "):
        check_ir(module(wrong))
