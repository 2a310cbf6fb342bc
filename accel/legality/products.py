"""Rules of matrix products and their configuration (ISA specification, sections 4.1 and 6)."""

from __future__ import annotations

from baco.accel.legality.language import Let, Refuse, Set, Step
from baco.accel.legality.original import (
    BEYOND,
    NO_WAY,
    OVERTAKEN,
    RESERVED,
    UNPAIRED,
    absent,
    forbidden,
    undefined,
)

CONFIG_EX: tuple[Step, ...] = (
    Refuse(
        "OUT_OF_TURN",
        "no PRELOAD waits for its COMPUTE",
        "pending",
        original=UNPAIRED,
    ),
    Let("whole", "not set_only_strides"),
    Refuse(
        "NOT_BUILT",
        "activation is none or ReLU where normalizations are not built",
        "whole and activation > 1 and not normalizations",
        original=RESERVED,
    ),
    Let("new_dataflow", "dataflow if WS and OS else WS"),
    Refuse(
        "TRANSPOSES",
        "weight-stationary, A and B are not both transposed; output-stationary, B only with A",
        "whole and b_transpose and (a_transpose if new_dataflow else not a_transpose)",
        original=forbidden("assertions of its RTL and its functional simulator end the run"),
    ),
    Set("stride_a", "a_stride"),
    Set("stride_c", "c_stride"),
    Set("empty_array", "1", when="whole and new_dataflow != weight_stationary"),
    Set("ex_configured", "1", when="whole"),
    Set("transpose_a", "a_transpose", when="whole"),
    Set("transpose_b", "b_transpose", when="whole"),
    Set("weight_stationary", "new_dataflow", when="whole"),
)


def _operand(name: str, real: str, transposed: str, stride: str = "1") -> tuple[Step, ...]:
    """Whether an operand is read from local memory, and the rows it takes there."""
    return (
        Let(f"{name}_real", real),
        Let(f"{name}_touches", f"{name}_real and {name}_rows != 0 and {name}_cols != 0"),
        Let(f"{name}_stored", f"{name}_cols if {transposed} else {name}_rows"),
        Let(f"{name}_first", f"row({name}) if {name}_touches else 0"),
        Let(f"{name}_past", f"{name}_first + ({name}_stored - 1) * {stride} + 1 if {name}_touches else 0"),
    )


def _sizes(*names: str) -> Refuse:
    too_large = [f"({name}_real and ({name}_rows > DIM or {name}_cols > DIM))" for name in names]
    return Refuse(
        "BAD_SIZE",
        "operands have at most DIM rows and columns",
        " or ".join(too_large),
        original=undefined(
            "sizes lose the bits above those of DIM in its RTL, not in its functional simulator"
        ),
    )


PRELOAD: tuple[Step, ...] = (
    Refuse(
        "OUT_OF_TURN",
        "the PRELOAD before it has had its COMPUTE",
        "pending",
        original=UNPAIRED,
    ),
    Refuse(
        "NOT_CONFIGURED",
        "a CONFIG_EX of everything has come before",
        "not ex_configured",
        original=undefined("no register of CONFIG_EX has a value after reset"),
    ),
    # without the feature the bias of an array that is output-stationary only is zero, whatever the command says
    *_operand("bd", "not nowhere(bd) and (WS or preload_d)", "weight_stationary and transpose_b"),
    *_operand("c", "not nowhere(c)", "0", "stride_c"),
    Refuse(
        "BAD_FLAGS",
        "the array reads from the scratchpad",
        "bd_real and accumulator(bd)",
        original=NO_WAY,
    ),
    Refuse(
        "BAD_FLAGS",
        "results in the scratchpad are built",
        "c_real and not accumulator(c) and not write_to_scratchpad",
        original=absent("built without ex_write_to_spad, it has no way from the array to the scratchpad"),
    ),
    _sizes("bd", "c"),
    Refuse(
        "LOCAL_ADDRESS",
        "the stationary operand exists, whole",
        "bd_past > SCRATCHPAD_ROWS",
        original=BEYOND,
    ),
    Refuse(
        "LOCAL_ADDRESS",
        "there is room for the result",
        "c_past > rows_of(c)",
        original=BEYOND,
    ),
    Set("pending", "1"),
    Set("stationary_first", "bd_first"),
    Set("stationary_past", "bd_past"),
    Set("result_kept", "c_touches"),
    Set("result_memory", "accumulator(c)"),
    Set("result_first", "c_first"),
    Set("result_past", "c_past"),
    Set("result_rows", "c_rows"),
)


def _compute(*first: Refuse) -> tuple[Step, ...]:
    return (
        Refuse(
            "OUT_OF_TURN",
            "a PRELOAD comes before it, which says where the result goes",
            "not pending",
            original=undefined("a COMPUTE takes the target of its result from the PRELOAD before it"),
        ),
        *first,
        *_operand("a", "not nowhere(a)", "transpose_a", "stride_a"),
        *_operand(
            # as with PRELOAD, in an array that is weight-stationary only
            "bd",
            "not nowhere(bd) and (OS or preload_d)",
            "not weight_stationary and transpose_b",
        ),
        Refuse(
            "BAD_FLAGS",
            "the array reads from the scratchpad",
            "(a_real and accumulator(a)) or (bd_real and accumulator(bd))",
            original=NO_WAY,
        ),
        _sizes("a", "bd"),
        Refuse(
            "LOCAL_ADDRESS",
            "A exists, whole",
            "a_past > SCRATCHPAD_ROWS",
            original=BEYOND,
        ),
        Refuse(
            "LOCAL_ADDRESS",
            "the second operand exists, whole",
            "bd_past > SCRATCHPAD_ROWS",
            original=BEYOND,
        ),
        Refuse(
            "ROWS_IN_USE",
            "weight-stationary, no row of the result falls on a later row of A, unless transposed, or of the bias",
            "weight_stationary and ("
            "(not transpose_a and meets_result(0, a_first, a_past)"
            " and overtakes(result_first, stride_c, a_first, stride_a, min(a_rows, result_rows)))"
            " or (meets_result(0, bd_first, bd_past)"
            " and overtakes(result_first, stride_c, bd_first, 1, min(bd_rows, result_rows))))",
            original=OVERTAKEN,
        ),
        Set("pending", "0"),
        # output-stationary, sums that leave as a result are in the array no longer
        Set("empty_array", "0 if weight_stationary else result_kept"),
    )


#: Steps by command.
RULES = {
    "CONFIG_EX": CONFIG_EX,
    "PRELOAD": PRELOAD,
    "COMPUTE_PRELOADED": _compute(),
    "COMPUTE_ACCUMULATED": _compute(
        Refuse(
            "NOTHING_TO_ADD_TO",
            "the array holds weights, or sums that have not left it as a result, of this dataflow",
            "empty_array",
            original=undefined("there is nothing in the array yet, or sums that have been pushed out of it"),
        )
    ),
}
