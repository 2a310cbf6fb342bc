"""What the original Gemmini makes of commands that are refused here: no rule takes anything from its programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Original:
    """What the original makes of a command that breaks a rule: nothing that a program could use.

    Args:
        standing: `forbidden`: it asserts, stops or hangs; `undefined`: what comes of it depends on timing or on what was
            there before, or its RTL and its functional simulator differ; `absent`: it has nothing of the kind.
        why: what it does, for the documentation, without a full stop.
    """

    standing: Literal["forbidden", "undefined", "absent"]
    why: str


def forbidden(why: str) -> Original:
    """It asserts, stops or hangs."""
    return Original("forbidden", why)


def undefined(why: str) -> Original:
    """No program can rely on what comes of it."""
    return Original("undefined", why)


def absent(why: str) -> Original:
    """It has nothing of the kind."""
    return Original("absent", why)


# ---- what several rules have in common
ASSERTION = forbidden("an assertion of its RTL")
BEYOND = undefined("in its RTL, rows beyond a memory are other rows or none; its functional simulator stops")
KEPT = undefined(
    "each of two sets of registers keeps what it was last given, in its functional simulator there is one "
    "set; none has a value after reset"
)
LONG_ROWS = undefined(
    "a row has at most DIM int32 elements or dma_maxbytes in memory, and no size is 0; longer rows come "
    "with functions of rows only"
)
NOTHING = undefined("a loop of nothing has no meaning; sizes come from software, which never asks for it")
NO_BLOCKS = absent("it has no elements of blocks")
NO_CONFIG = undefined("registers that CONFIG commands did not set have no value")
NO_CONFIG_ST = undefined("no register of CONFIG_ST has a value after reset")
NO_COPIES = undefined("copies beyond a row have no place")
NO_FUNCTIONS = absent("it has no functions of rows")
NO_ROWS = undefined("a walk over no rows has no meaning")
NO_SCALED_READS = absent("built without acc_read_small_width, the scaled elements lead nowhere")
NO_WAY = forbidden(
    "nothing takes the operand out of the accumulator: the machine hangs (or, built without, reads the "
    "scratchpad there)"
)
OVERFULL = undefined(
    "its RTL does not look, and what it loads would overwrite what it still multiplies; its functional "
    "simulator stops"
)
OVERFULL_CONV = undefined(
    "neither its RTL nor its functional simulator looks: what it loads would overwrite what it still "
    "multiplies"
)
OVERTAKEN = undefined(
    "rows of the result are written while later operand rows are still read, how many of them depends on "
    "banks and loads beside"
)
RESERVED = forbidden("an assertion of its RTL; for products, the values are reserved")
SIDE_BY_SIDE = undefined(
    "loads, products and stores of a loop run side by side: the rows that such a configuration reaches "
    "beside the loop's are found as they happen to be"
)
TWO_HALVES = undefined("there are two halves, and none for 3")
UNPAIRED = undefined("it takes whatever stands behind a PRELOAD for its COMPUTE")
WAITS = undefined(
    "its RTL lets the command wait for the PRELOAD, its functional simulator does not; where the COMPUTE "
    "waits for the command, its RTL hangs"
)
