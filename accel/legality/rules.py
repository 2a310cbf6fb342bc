"""All rules by command, and which accelerators have which command."""

from __future__ import annotations

from collections.abc import Mapping

from accel.config import MOVE_BYTES, Accelerator, Features
from accel.isa.address import local_address_bits
from accel.isa.commands import COMMANDS
from accel.legality import loop_conv, loop_ws, moves, products
from accel.legality.language import Step

__all__ = ["COMMON", "RULES", "parameters"]

#: What holds for every command and comes before its own rules: code and rule.
COMMON = (
    ("UNKNOWN_COMMAND", "the function code is one of a command"),
    ("NOT_BUILT", "the command is built"),
    ("NO_RESULT", "a result (xd) is asked of COUNTER_OP only"),
)

#: Steps of each command; those without any can always run.
RULES: Mapping[str, tuple[Step, ...]] = {
    name: {**moves.RULES, **products.RULES, **loop_ws.RULES, **loop_conv.RULES}.get(name, ())
    for name in COMMANDS
}


def parameters(accelerator: Accelerator) -> dict[str, int]:
    """Values of `PARAMETERS` and of all features, as rules name them."""
    values = {
        "DIM": accelerator.dim,
        "SCRATCHPAD_ROWS": accelerator.scratchpad_rows,
        "ACCUMULATOR_ROWS": accelerator.accumulator_rows,
        "ROW_BITS": local_address_bits(accelerator),
        "ROW_BYTES": max(MOVE_BYTES, accelerator.dma_max_bytes, 4 * accelerator.dim),
        "WS": int("WS" in accelerator.dataflows),
        "OS": int("OS" in accelerator.dataflows),
    }
    return values | {name: int(getattr(accelerator.features, name)) for name in Features.model_fields}
