"""Rules of LOOP_WS and its configuration (ISA specification, section 7).

A macro is judged as a whole when it is to run: what it unrolls into is legal then, but for main memory. Besides sizes
that is a matter of order: hardware sends the loads, products and stores of a loop side by side, which gives what the
order of the specification gives only as long as each of them touches the rows that the loop means. So the
configuration that the macro finds must be the one that software owes it, as far as the loop uses it.
"""

from __future__ import annotations

from baco.accel.legality.language import Let, Refuse, Set, Step
from baco.accel.legality.original import (
    BEYOND,
    KEPT,
    NO_CONFIG,
    NOTHING,
    OVERFULL,
    SIDE_BY_SIDE,
    TWO_HALVES,
    UNPAIRED,
    absent,
    forbidden,
    undefined,
)

_GIVEN = {"BOUNDS": 0, "ADDRS_AB": 1, "ADDRS_DC": 2, "STRIDES_AB": 3, "STRIDES_DC": 4}


def _given(name: str) -> Set:
    return Set("ws_given", f"ws_given | {1 << _GIVEN[name]}")


BOUNDS: tuple[Step, ...] = (
    Refuse(
        "BAD_SIZE",
        "pads are below DIM",
        "pad_i >= DIM or pad_j >= DIM or pad_k >= DIM",
        original=undefined("pads lose the bits above those of DIM - 1"),
    ),
    Set("ws_i", "i"),
    Set("ws_j", "j"),
    Set("ws_k", "k"),
    _given("BOUNDS"),
)
ADDRS_AB: tuple[Step, ...] = (Set("ws_a", "a != 0"), Set("ws_b", "b != 0"), _given("ADDRS_AB"))
ADDRS_DC: tuple[Step, ...] = (Set("ws_d", "d != 0"), Set("ws_c", "c != 0"), _given("ADDRS_DC"))
SPAD_AB: tuple[Step, ...] = (
    Refuse(
        "LOCAL_ADDRESS",
        "A starts and B ends in the scratchpad",
        "a_start > SCRATCHPAD_ROWS or b_end > SCRATCHPAD_ROWS",
        original=BEYOND,
    ),
    Set("ws_placed", "1", index="ws_slot"),
    Set("ws_a_start", "a_start", index="ws_slot"),
    Set("ws_b_end", "b_end", index="ws_slot"),
)

LOOP_WS: tuple[Step, ...] = (
    Refuse(
        "OUT_OF_TURN",
        "no PRELOAD waits for its COMPUTE",
        "pending",
        original=UNPAIRED,
    ),
    Refuse(
        "INCOMPLETE",
        "bounds, addresses and strides were given since the last LOOP_WS",
        "ws_given != 31",
        original=KEPT,
    ),
    Let("loads_a", "ws_a and not skip_a"),
    Let("loads_b", "ws_b and not skip_b"),
    Let("loads_d", "ws_d and not skip_d"),
    Let("computes", "not skip_ex and not is_resadd"),
    Let("stores", "(ws_c or spad_only) and not skip_st"),
    Refuse(
        "BAD_FLAGS",
        "spad ids are 0, 1 or 2",
        "a_spad_id > 2 or b_spad_id > 2",
        original=TWO_HALVES,
    ),
    Refuse(
        "BAD_FLAGS",
        "an addition has no D and transposes nothing",
        "is_resadd and (loads_d or a_transpose or b_transpose)",
        original=undefined("its addition loads two operands, as they are"),
    ),
    Refuse(
        "BAD_FLAGS",
        "with spad_only, C is not full, and given places are where A and B are loaded",
        "spad_only and (full_c or (ws_placed[ws_slot]"
        " and ((loads_a and a_spad_id != 0) or (loads_b and b_spad_id != 0))))",
        original=undefined(
            "copies into the scratchpad are scaled, and products ignore ids then: they would not read what was loaded"
        ),
    ),
    Refuse(
        "BAD_FLAGS",
        "results of layer norm and softmax (act 2, 4) are scaled ones in main memory",
        "(act == 2 or act == 4) and normalizations and (full_c or spad_only)",
        original=undefined("the passes over rows are stores to main memory, of scaled elements"),
    ),
    Refuse(
        "NOT_BUILT",
        "layer norm and softmax (act 2, 4) are built",
        "(act == 2 or act == 4) and not normalizations",
        original=forbidden("CONFIG_NORM, which such a loop issues, is decoded as a store there"),
    ),
    Refuse(
        "NOT_BUILT",
        "the kind of accumulator reads that its stores need is built",
        "stores and not (read_full_width if full_c else read_small_width)",
        original=absent("what is not built leads nowhere"),
    ),
    Refuse(
        "BAD_SIZE",
        "I and J are at least 1",
        "ws_i == 0 or ws_j == 0",
        original=NOTHING,
    ),
    Let("uses_a", "not is_resadd and (loads_a or computes)"),
    Let("uses_b", "not is_resadd and (loads_b or computes)"),
    Refuse(
        "BAD_SIZE",
        "K is at least 1",
        "(uses_a or uses_b) and ws_k == 0",
        original=NOTHING,
    ),
    # A from the bottom of its half, B up to the top of its half, unless software has placed them; products of spad_only
    # find them in the slot's own half or place, whatever the ids say
    Let("half", "SCRATCHPAD_ROWS // 2"),
    Let("a_half", "a_spad_id if loads_a or not spad_only else 0"),
    Let("b_half", "b_spad_id if loads_b or not spad_only else 0"),
    Let("a_placed", "ws_placed[ws_slot] and a_half == 0"),
    Let("b_placed", "ws_placed[ws_slot] and b_half == 0"),
    Let("a_first", "ws_a_start[ws_slot] if a_placed else (a_half - 1 if a_half else ws_slot) * half"),
    Let("b_past", "ws_b_end[ws_slot] if b_placed else (b_half if b_half else ws_slot + 1) * half"),
    Let("a_rows", "ws_i * ws_k * DIM if uses_a else 0"),
    Let("b_rows", "ws_k * ws_j * DIM if uses_b else 0"),
    Let("c_rows", "ws_i * ws_j * DIM"),
    Refuse(
        "BAD_SIZE",
        "A fits half of the scratchpad, or what lies behind its given place",
        "a_rows > (SCRATCHPAD_ROWS - a_first if a_placed else half)",
        original=OVERFULL,
    ),
    Refuse(
        "BAD_SIZE",
        "B fits half of the scratchpad, or what lies before its given place",
        "b_rows > (b_past if b_placed else half)",
        original=OVERFULL,
    ),
    Refuse(
        "BAD_SIZE",
        "A and B do not overlap",
        "a_rows != 0 and b_rows != 0 and meet(0, a_first, a_first + a_rows, 0, b_past - b_rows, b_past)",
        original=OVERFULL,
    ),
    Refuse(
        "BAD_SIZE",
        "A and B fit the half of the scratchpad together where spad_only multiplies them",
        "spad_only and computes and not ws_placed[ws_slot] and a_rows + b_rows > half",
        original=OVERFULL,
    ),
    Refuse(
        "BAD_SIZE",
        "C fits half of the accumulator",
        "c_rows > ACCUMULATOR_ROWS // 2",
        original=OVERFULL,
    ),
    Refuse(
        "LOCAL_ADDRESS",
        "the scratchpad has room for C where spad_only directs it",
        "stores and spad_only and c_spad_addr + c_rows > SCRATCHPAD_ROWS",
        original=BEYOND,
    ),
    Refuse(
        "NOT_CONFIGURED",
        "the CONFIG_LD, CONFIG_EX and CONFIG_ST that it uses have come before",
        "(loads_a and not ld_configured[0]) or (loads_b and not ld_configured[1])"
        " or (loads_d and not ld_configured[2]) or (computes and not ex_configured)"
        " or (stores and not st_configured)",
        original=NO_CONFIG,
    ),
    Refuse(
        "UNSUITABLE",
        "loads have a block_stride of DIM, repeat no pixels and find no elements of blocks",
        "(loads_a and (ld_block_stride[0] != DIM or ld_repeats[0] != 1 or ld_blocks[0]))"
        " or (loads_b and (ld_block_stride[1] != DIM or ld_repeats[1] != 1 or ld_blocks[1]))"
        " or (loads_d and (ld_block_stride[2] != DIM or ld_repeats[2] != 1 or ld_blocks[2]))",
        original=SIDE_BY_SIDE,
    ),
    Refuse(
        "UNSUITABLE",
        "D has the width that low_d says, the operands of an addition have input width (shrink)",
        "(loads_d and ld_shrink[2] != low_d)"
        " or (is_resadd and ((loads_a and not ld_shrink[0]) or (loads_b and not ld_shrink[1])))",
        original=undefined("addresses are reckoned for elements of the other width"),
    ),
    Refuse(
        "UNSUITABLE",
        "products are weight-stationary, with strides of 1",
        "computes and (not weight_stationary or stride_a != 1 or stride_c != 1)",
        original=SIDE_BY_SIDE,
    ),
    Refuse(
        "UNSUITABLE",
        "stores neither pool, use the 1-D mode, nor softmax or normalise rows",
        "stores and (st_windowed or st_function >= 2)",
        original=SIDE_BY_SIDE,
    ),
    Set("ws_slot", "1 - ws_slot"),
    Set("ws_given", "0"),
    Set("empty_array", "0", when="computes"),
)

#: Steps by command; LOOP_WS_CONFIG_SPAD_C has none.
RULES = {
    "LOOP_WS": LOOP_WS,
    "LOOP_WS_CONFIG_BOUNDS": BOUNDS,
    "LOOP_WS_CONFIG_ADDRS_AB": ADDRS_AB,
    "LOOP_WS_CONFIG_ADDRS_DC": ADDRS_DC,
    "LOOP_WS_CONFIG_STRIDES_AB": (_given("STRIDES_AB"),),
    "LOOP_WS_CONFIG_STRIDES_DC": (_given("STRIDES_DC"),),
    "LOOP_WS_CONFIG_SPAD_AB": SPAD_AB,
}
