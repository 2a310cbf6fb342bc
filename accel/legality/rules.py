"""All rules by command."""

from __future__ import annotations

from collections.abc import Mapping

from baco.accel.isa.commands import COMMANDS
from baco.accel.legality import loop_conv, loop_ws, moves, products
from baco.accel.legality.language import Step

__all__ = ["COMMON", "RULES"]

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
