"""Counts the commands of programs at the `instgem` level, by carrying their control flow out: the oracle of every style's counts."""

from __future__ import annotations

from collections import Counter

from baco.accel.config import Accelerator
from baco.accel.isa.command import CommandType
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer
from tests.compiler.ir.ir_machine import Machine


class CountingMachine(Machine):
    """Runs functions of a module; `issued` has how many commands of each name in lower case, fences included.

    Attributes:
        rows: of loads and stores, by name.
    """

    def __init__(self, module) -> None:
        super().__init__(module)
        self.issued: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()

    def command(self, kind: CommandType, fields: dict[str, int]) -> None:
        self.issued[kind.name.lower()] += 1
        if "rows" in fields:
            self.rows[kind.name.lower()] += fields["rows"]

    def fence(self) -> None:
        self.issued["fence"] += 1


def issued_commands(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> CountingMachine:
    """The machine after the code of a layer; tensors and workspaces lie far from each other."""
    names = ["input", "weight", "output", "bias", "residual"]
    plan = plan_layer(layer, schedule, accelerator)
    spaces = [name for name, _ in plan.workspaces]
    e = Emitter("layer", [*names, *spaces])
    at = dict(zip([*names, *spaces], e.arguments, strict=True))
    operands = Operands(*(at[name] for name in names), {name: at[name] for name in spaces})
    plan.emit(e, operands)
    machine = CountingMachine(e.finish())
    machine.run("layer", [(1 + n) << 32 for n in range(len(at))])
    return machine
