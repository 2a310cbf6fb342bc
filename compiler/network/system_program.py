"""One program for several units: groups of networks on units as a plan says, each unit a hart that works through its own.

* Every unit has a function of its own, which the hart of its number runs. What a network's operators hand to each other lies in main
  memory, in one place and layout for all units; what a unit alone uses (packed weights, copies, workspaces) is its own.
* A task waits until those that it reads from and that ran elsewhere have raised their units' flags. A flag is a word that counts its
  unit's steps; behind a fence it is set to how many are done. What is known through others is not waited for again.
* Values share memory where these waits order all uses, whatever time they take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.accel.system import System
from baco.compiler.codegen.program import SLACK_BYTES, build_program
from baco.compiler.network.compose import prefixed
from baco.compiler.network.emission import ENTRY, emit_entry, emit_functions, step_labels
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.memory_plan import plan_memory
from baco.compiler.network.placement import place
from baco.compiler.network.program import NetworkProgram, host_sources, lifetimes, slack_bytes
from baco.compiler.network.steps import ByteRange, Step, ValueAddress
from baco.compiler.ops.operator import IntegerTensor

Array = np.ndarray[Any, Any]
#: The value that flags are in, and bytes from one unit's to the next: each has a cache line of its own.
_FLAGS, _LINE = "flags", 64
_HARTS = "harts.c"


@dataclass(frozen=True, eq=False)
class SystemRun:
    """A run of a network.

    Attributes:
        network: what runs.
        lowered: by unit, all of it as a program for that unit has it.
        data: what its inputs hold, by value.
        reference: what its values must be, by name.
    """

    network: QuantisedNetwork
    lowered: Sequence[LoweredNetwork]
    data: Mapping[str, Array] = field(default_factory=dict)
    reference: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemTask:
    """A group of a run on a unit.

    Attributes:
        run, unit: their numbers.
        steps: numbers of the calls that compute it, of those of its network on its unit.
        needs: tasks that it reads from.
        begin: cycles from reset before which it does not begin.
    """

    run: int
    unit: int
    steps: tuple[int, ...]
    needs: tuple[int, ...] = ()
    begin: int = 0


@dataclass(frozen=True)
class SystemProgram:
    """A program for several units.

    Attributes:
        built: the program, with the steps of all units one unit's behind the other's, names behind the number of their run.
        units: by step, whose it is.
        tasks: of each task the numbers of its first step and of that behind its last one.
    """

    built: NetworkProgram
    units: tuple[int, ...]
    tasks: tuple[tuple[int, int], ...]


def value_name(run: int, name: str) -> str:
    """What a value or operator of a run is called in the program."""
    return f"{run}:{name}"


def compile_system(
    name: str,
    runs: Sequence[SystemRun],
    tasks: Sequence[SystemTask],
    system: System,
) -> SystemProgram:
    """The program, which compares its outputs with what the runs say they must be.

    Args:
        name: of it.
        tasks: in an order in which each comes behind all that it needs; those of a unit run in this order.
        system: its units.
    """
    count = len(system.units)
    joined = _Joined(name, runs, tasks, _Order(tasks, count), count)
    lowered = joined.lowered
    memory = plan_memory(lifetimes(lowered, joined.done, joined.units))
    given = {value_name(n, key): array for n, run in enumerate(runs) for key, array in run.data.items()}
    wanted = {value_name(n, key): array for n, run in enumerate(runs) for key, array in run.reference.items()}
    placement = place(lowered, memory, given, wanted)
    module = ModuleOp([])
    machines: dict[int, Accelerator] = {}
    for run in runs:
        for lowering, unit in zip(run.lowered, system.units, strict=True):
            if unit.accelerator is not None:
                machines[joined.kinds[id(lowering)]] = unit.accelerator
    for kind, part in joined.functions.items():
        emit_functions(module, part, machines[kind])
    labels, waits, first = step_labels(len(lowered.steps)), list[bool](), 0
    entries = [ENTRY, *(f"{ENTRY}_{unit}" for unit in range(1, count))]
    for entry, steps in zip(entries, joined.of_unit, strict=True):
        end = labels[-1] if entry == entries[-1] else f"{entry}_end"
        own = [*labels[first : first + len(steps)], end]
        waits += emit_entry(module, entry, steps, placement, own)
        first += len(steps)
    program = build_program(
        module,
        ENTRY,
        placement.buffers,
        system.accelerators[0],
        system=system,
        others=entries[1:],
        check=True,
        name=name,
        sources=host_sources(lowered.sources),
        slack_bytes=max(
            (slack_bytes(part, machines[kind]) for kind, part in joined.functions.items()),
            default=SLACK_BYTES,
        ),
        labels=labels,
    )
    built = NetworkProgram(program, lowered.network, lowered, memory, placement, tuple(waits))
    return SystemProgram(built, tuple(joined.units), tuple(joined.spans))


class _Order:
    """What tasks wait for.

    Attributes:
        waits: of each task, tasks of other units whose flags it waits for.
        known: of each task, how many tasks of every unit are done when it begins.
        signals: tasks that somebody waits for.
        last: the last task of every unit, None where it has none.
    """

    def __init__(self, tasks: Sequence[SystemTask], units: int) -> None:
        self.waits: list[list[int]] = []
        self.known: list[tuple[int, ...]] = []
        queues: list[list[int]] = [[] for _ in range(units)]
        place: list[int] = []
        for number, task in enumerate(tasks):
            before = queues[task.unit][-1:]
            known = self._behind(before, place, tasks, [0] * units)
            needs = [
                need
                for need in task.needs
                if tasks[need].unit != task.unit and place[need] >= known[tasks[need].unit]
            ]
            # what another one of them has waited for is known through it
            reached = {need: self._behind([need], place, tasks, [0] * units) for need in needs}
            waits = [
                need
                for need in reached
                if not any(
                    other != need and behind[tasks[need].unit] > place[need]
                    for other, behind in reached.items()
                )
            ]
            self.waits.append(waits)
            self.known.append(tuple(self._behind(waits, place, tasks, known)))
            place.append(len(queues[task.unit]))
            queues[task.unit].append(number)
        self.signals = {one for waits in self.waits for one in waits}
        self.last = [queue[-1] if queue else None for queue in queues]
        self.place = place

    def _behind(
        self, done: Sequence[int], place: Sequence[int], tasks: Sequence[SystemTask], known: list[int]
    ) -> list[int]:
        """How many tasks of every unit are done once certain ones are."""
        for one in done:
            known = list(map(max, known, self.known[one]))
            known[tasks[one].unit] = max(known[tasks[one].unit], place[one] + 1)
        return known


class _Joined:
    """The steps of all units, and what they touch.

    Attributes:
        lowered: all together.
        functions: what runs on accelerators, by the number of the lowered network that it is of.
        kinds: these numbers, by identity.
        of_unit: steps of every unit.
        units, done: by step, its unit, and how many steps of each are done before it.
        spans: of every task, its first step and the one behind its last.
    """

    def __init__(
        self, name: str, runs: Sequence[SystemRun], tasks: Sequence[SystemTask], order: _Order, units: int
    ) -> None:
        self.functions: dict[int, LoweredNetwork] = {}
        self.kinds: dict[int, int] = {}
        self._runs, self._count = runs, units
        networks: dict[int, int] = {}
        self._networks = [networks.setdefault(id(run.network), len(networks)) for run in runs]
        for run in runs:
            for program in run.lowered:
                self.kinds.setdefault(id(program), len(self.kinds))
        self.lowered = LoweredNetwork(self._network(name))
        self.lowered.values[_FLAGS] = self.lowered.network.values[_FLAGS]
        self.lowered.sources[_HARTS] = ""
        self.of_unit: list[list[Step]] = [[] for _ in range(units)]
        self._done: list[list[tuple[int, ...]]] = [[] for _ in range(units)]
        #: Steps that are done once so many tasks of a unit are, where somebody waits for that.
        self._counts: list[dict[int, int]] = [{0: 0} for _ in range(units)]
        spans = []
        for number, task in enumerate(tasks):
            begin = len(self.of_unit[task.unit])
            if task.begin:
                self._append(task.unit, order.known[number], _call("harts_sleep", task.begin))
            for producer in order.waits[number]:
                self._wait(task.unit, order.known[number], tasks[producer].unit, order.place[producer] + 1)
            begin = len(self.of_unit[task.unit])
            for step in task.steps:
                self._append(task.unit, order.known[number], self._step(task, step))
            spans.append((task.unit, begin, len(self.of_unit[task.unit])))
            if number in order.signals or number in order.last[1:]:
                self._signal(task.unit, order.known[number], order.place[number] + 1)
        ends = [0 if last is None else order.place[last] + 1 for last in order.last]
        for unit, count in enumerate(ends):  # hart 0 ends the program
            if count and unit:
                self._wait(0, ends, unit, count)
        self._signal(0, ends, ends[0])
        firsts = np.cumsum([0, *(len(steps) for steps in self.of_unit)]).tolist()
        self.spans = [(firsts[unit] + begin, firsts[unit] + end) for unit, begin, end in spans]
        self.units = [unit for unit, steps in enumerate(self.of_unit) for _ in steps]
        self.done = [done for unit_done in self._done for done in unit_done]
        self.lowered.steps = [step for steps in self.of_unit for step in steps]

    def _network(self, name: str) -> QuantisedNetwork:
        parts = [
            prefixed(run.network, value_name(number, ""), f"network{kind}:")
            for number, (run, kind) in enumerate(zip(self._runs, self._networks, strict=True))
        ]
        flags = IntegerTensor(_FLAGS, (self._count, _LINE // 8), "int64", role="input")
        return QuantisedNetwork(
            name,
            {_FLAGS: flags} | {key: value for part in parts for key, value in part.values.items()},
            tuple(op for part in parts for op in part.operators),
            {},
            {},
            {},
        )

    def _append(self, unit: int, known: Sequence[int], step: Step) -> None:
        """`known`: how many tasks of every unit are done."""
        done = [counts.get(count, 0) for counts, count in zip(self._counts, known, strict=True)]
        done[unit] = len(self.of_unit[unit])
        self._done[unit].append(tuple(done))
        self.of_unit[unit].append(step)

    def _signal(self, unit: int, known: Sequence[int], tasks: int) -> None:
        count = len(self.of_unit[unit])
        self._counts[unit][tasks] = count
        flag = _flag(unit)
        step = _call("harts_signal", ValueAddress(_FLAGS, flag.start), count)
        self._append(unit, known, replace(step, writes=(flag,), waits=True))

    def _wait(self, unit: int, known: Sequence[int], other: int, tasks: int) -> None:
        flag = _flag(other)
        step = _call("harts_wait", ValueAddress(_FLAGS, flag.start), self._counts[other][tasks])
        self._append(unit, known, replace(step, reads=(flag,)))

    def _step(self, task: SystemTask, number: int) -> Step:
        """A step of a run on a unit, with what it touches."""
        run, lowered = self._runs[task.run], self._runs[task.run].lowered[task.unit]
        kind = self.kinds[id(lowered)]
        step, shared = lowered.steps[number], run.network.values

        def named(name: str) -> str:
            value = lowered.values.get(name) or shared[name]
            if name in lowered.constants:
                new = f"network{self._networks[task.run]}:" if name in shared else f"unit{kind}:"
                self.lowered.constants[new + name] = lowered.constants[name]
            elif name in shared:
                new = value_name(task.run, "")
            else:
                new = value_name(task.run, f"{task.unit}:")
            self.lowered.values[new + name] = replace(value, name=new + name)
            return new + name

        def region(touched: ByteRange) -> ByteRange:
            return replace(touched, value=named(touched.value))

        replaced = lowered.in_place
        for touched in step.writes:
            if touched.value in replaced:
                self.lowered.in_place[named(touched.value)] = named(replaced[touched.value])
        return replace(
            step,
            operator=value_name(task.run, step.operator),
            also=tuple(value_name(task.run, operator) for operator in step.also),
            function=self._function(kind, lowered, step.function),
            arguments=tuple(
                argument if isinstance(argument, int) else replace(argument, value=named(argument.value))
                for argument in step.arguments
            ),
            reads=tuple(map(region, step.reads)),
            writes=tuple(map(region, step.writes)),
            replaces=None
            if step.replaces is None
            else replace(step.replaces, value=named(step.replaces.value)),
        )

    def _function(self, kind: int, lowered: LoweredNetwork, name: str) -> str:
        """What a function is called here; those of accelerators are kept."""
        new, part = f"unit{kind}_{name}", self.functions.get(kind) or LoweredNetwork(lowered.network)
        for here in (part, self.lowered):
            if name in lowered.layers:
                here.layers[new] = lowered.layers[name]
            elif name in lowered.groups:
                here.groups[new] = lowered.groups[name]
            elif name in lowered.codes:
                here.codes[new] = lowered.codes[name]
            else:
                break
        else:
            self.functions[kind] = part
            return new
        self.lowered.sources.update(lowered.sources)
        return name


def _flag(unit: int) -> ByteRange:
    return ByteRange(_FLAGS, unit * _LINE, unit * _LINE + 8)


def _call(function: str, *arguments: ValueAddress | int) -> Step:
    return Step(function, function, arguments, (), ())
