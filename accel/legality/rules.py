"""All rules by command."""

from __future__ import annotations

from collections.abc import Mapping

from baco.accel.isa.commands import COMMANDS
from baco.accel.legality import loop_conv, loop_ws, moves, products
from baco.accel.legality.language import Step
from baco.accel.legality.original import forbidden

#: What holds for every command and comes before its own rules: code, rule, and what the original makes of such a command.
COMMON = (
    (
        "UNKNOWN_COMMAND",
        "the function code is one of a command",
        forbidden("an assertion of its RTL; its functional simulator takes it for an illegal instruction"),
    ),
    ("NOT_BUILT", "the command is built", forbidden("to what is built without it, it is an unknown command")),
    (
        "NO_RESULT",
        "a result (xd) is asked of COUNTER_OP only",
        forbidden("the host core waits for a result that never comes"),
    ),
)

#: Steps of each command; those without any can always run.
RULES: Mapping[str, tuple[Step, ...]] = {
    name: {**moves.RULES, **products.RULES, **loop_ws.RULES, **loop_conv.RULES}.get(name, ())
    for name in COMMANDS
}
