"""Whole quantised networks to one program: steps, memory, code, data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.codegen.program import Program, build_program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.wide_sums import array_sums
from baco.compiler.network.checks import add_checks
from baco.compiler.network.combinations import Combinations, chosen_combinations
from baco.compiler.network.emission import ENTRY, emit_network, step_labels
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import GroupScheduler, group_rows
from baco.compiler.network.lowered import LoweredNetwork, Scheduler
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.memory_plan import Lifetime, MemoryPlan, plan_memory
from baco.compiler.network.operator_code import KINDS
from baco.compiler.network.placement import Placement, place
from baco.compiler.network.steps import ValueAddress
from baco.compiler.ops.operator import IntegerTensor, itemsize
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import View
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.fused.merged import MergedProducts
from baco.compiler.styles.fused.row_unit import table_rows

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from baco.compiler.codegen.c_library import CLibrary


Array = np.ndarray[Any, Any]
#: How images lie.
_ORDER = "; channels last here (N, H, W, C)"


@dataclass(frozen=True)
class NetworkProgram:
    """A program that runs a quantised network.

    Attributes:
        program: the ELF file and its buffers.
        network: what it computes.
        lowered: its steps and the layers among them.
        memory: where activations lie in the buffer `activations`.
        placement: where every value lies.
        waits: for each step whether it waits until all that came before it is done.
    """

    program: Program
    network: QuantisedNetwork
    lowered: LoweredNetwork
    memory: MemoryPlan
    placement: Placement = field(repr=False)
    waits: tuple[bool, ...] = field(repr=False)

    @property
    def buffer_names(self) -> Mapping[str, str]:
        """Buffer of every input and output by the name of its value."""
        return self.placement.names

    @property
    def image(self) -> Array:
        """Content of the buffer `constants` (weights, biases, tables), bytes."""
        return self.placement.image

    @property
    def fences(self) -> int:
        """How many steps wait for what came before them."""
        return sum(self.waits)

    def address(self, pointer: ValueAddress) -> int:
        """Byte address in main memory."""
        buffer, offset = self.placement.address(pointer)
        return self.program.symbols[self.placement.buffers[buffer].name] + offset

    def report(self) -> list[str]:
        """What the program consists of, a line each."""
        lowered = self.lowered
        on_accelerator = sum(step.accelerator for step in lowered.steps)
        kinds = [code.kinds for code in lowered.codes.values()]
        others = {"groups": len(lowered.groups), **{name: kinds.count(name) for name in KINDS}}
        different = [f"{len(lowered.layers)} different layers"]
        different += [f"{count} {name}" for name, count in others.items() if count]
        called = " and ".join(one for one in (", ".join(different[:-1]), different[-1]) if one)
        lines = [
            f"{len(self.network.operators)} operators: {on_accelerator} calls of {called} on the accelerator,"
            f" {len(lowered.steps) - on_accelerator} calls of the host, {self.fences} fences",
            f"constants {self.image.nbytes:,} bytes, activations {self.memory.nbytes:,} bytes"
            f" (least {self.memory.live_bytes or 0:,}, without sharing {self.memory.total_bytes:,})",
        ]
        for name, code in lowered.layers.items():
            calls = sum(step.function == name for step in lowered.steps)
            lines.append(f"{name} ({calls}x): {code.layer.problem}: {code.schedule}")
        for name, group in lowered.groups.items():
            calls = sum(step.function == name for step in lowered.steps)
            lines.append(f"{name} ({calls}x): {group.group}: {group.schedule}")
        return lines + lowered.notes


def fuses_by_default(accelerator: Accelerator) -> bool:
    """Whether programs for an accelerator use moves that the original Gemmini lacks, as groups do, without being told to: where it
    has additions of ours, so that it is no machine of the original's."""
    return accelerator.features.row_functions and accelerator.timing == "baco"


def scheduler(accelerator: Accelerator, *, baseline: bool = False) -> Scheduler:
    """Chooses schedules by estimated cost, or as Gemmini's library does (`baseline`)."""
    from baco.compiler.choice.choose import choose
    from baco.compiler.choice.gemmini import gemmini_schedule
    from baco.compiler.styles.registry import plan_layer

    def schedule(layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        chosen = gemmini_schedule(layer, accelerator) if baseline else choose(layer, accelerator)
        return chosen, plan_layer(layer, chosen, accelerator).workspaces

    return schedule


def default_choices(
    accelerator: Accelerator, *, library: bool = False, groups: GroupScheduler | None = None
) -> tuple[Scheduler, GroupScheduler | None, Combinations]:
    """What a program has unless it is told otherwise: how layers are carried out, how groups where others are not given, and what
    else operators do together; arguments as those of `compile_network`."""
    from baco.compiler.network.group_choice import GroupChoice

    schedule = scheduler(accelerator, baseline=library)
    if not library and groups is None and fuses_by_default(accelerator):
        groups = GroupChoice(accelerator, schedule)
    return schedule, groups, chosen_combinations(accelerator, schedule, fused=groups is not None)


@dataclass(frozen=True)
class NetworkCode:
    """A network as a module at the `instgem` level, and what it works on.

    Attributes:
        module: functions of the layers and the entry `ENTRY`, which takes the addresses of the buffers.
        lowered: steps and layers.
        memory: where activations lie in their buffer.
        placement: buffers.
        waits: for each step whether it waits until all that came before it is done.
    """

    module: ModuleOp
    lowered: LoweredNetwork
    memory: MemoryPlan
    placement: Placement
    waits: tuple[bool, ...]


def network_code(
    network: QuantisedNetwork,
    accelerator: Accelerator,
    *,
    schedule: Scheduler | None = None,
    groups: GroupScheduler | None = None,
    combinations: Combinations | None = None,
    library: bool = False,
    data: Mapping[str, Array] | None = None,
    reference: Mapping[str, Array] | None = None,
    check_layers: bool = False,
) -> NetworkCode:
    """The module of a network; arguments and errors as those of `compile_network`."""
    _check_elements(network, accelerator)
    if not accelerator.common_elements:
        raise InfeasibleError(
            f"quantised networks have 8-bit elements and 32-bit sums, and {accelerator.name} has"
            f" {accelerator.input_bits}-bit and {accelerator.accumulator_bits}-bit ones"
        )
    if check_layers and reference is None:
        raise InputError("checking every layer needs the values of all of them")
    if schedule is None:
        schedule, groups, chosen = default_choices(accelerator, library=library, groups=groups)
        combinations = chosen if combinations is None else combinations
    if library:
        from baco.compiler.network.library import lower_as_library

        lowered = lower_as_library(network, accelerator, schedule)
    else:
        lowered = lower_network(network, accelerator, schedule, groups, combinations)
    if check_layers:
        add_checks(lowered, reference or {})
    memory = plan_memory(lifetimes(lowered))
    placement = place(lowered, memory, data or {}, reference or {})
    module, waits = emit_network(lowered, placement, accelerator)
    return NetworkCode(module, lowered, memory, placement, waits)


def _check_elements(network: QuantisedNetwork, accelerator: Accelerator) -> None:
    """Raise InfeasibleError for a network in other numbers than the accelerator's."""
    products = [op for op in network.operators if isinstance(op, Convolution | MatMul)]
    wanted = array_sums(accelerator)
    for op in products:
        if op.floats != wanted:
            given, own = (str(one or "integers") for one in (op.floats, wanted))
            raise InfeasibleError(f"the network is in {given}, and {accelerator.name} computes {own}")


def compile_network(
    network: QuantisedNetwork,
    accelerator: Accelerator,
    *,
    schedule: Scheduler | None = None,
    groups: GroupScheduler | None = None,
    combinations: Combinations | None = None,
    library: bool = False,
    data: Mapping[str, Array] | None = None,
    reference: Mapping[str, Array] | None = None,
    check: bool = True,
    check_layers: bool = False,
    observe: Callable[[str, ModuleOp], None] | None = None,
) -> NetworkProgram:
    """Compile a network to one program whose buffers are its inputs, its outputs, `constants` and `activations`.

    The same arguments give the same bytes.

    Args:
        schedule: how layers are carried out; default: `scheduler(accelerator)`.
        groups: how operators are carried out as one unit; with the default schedule by default
            a `group_choice.GroupChoice` where `fuses_by_default`, with another one not at all.
        combinations: what else operators do together; with the default schedule by default `combinations.chosen_combinations`.
        library: lower all as Gemmini's library would run it (`baco.compiler.network.library`), without groups; `schedule` is then the
            library's by default.
        data: what the inputs hold at the start, by the names of values; zeros without.
        reference: values by name, of each value's shape (`baco.compiler.network.reference`).
        check: with a reference, the program compares its outputs with it and ends with exit code 1 at a difference.
        check_layers: compare after every operator, too; the first difference ends the program.
        observe: called with the name and the module after every pass.

    Raises InputError for data that do not fit, InfeasibleError for an operator without code and for an accelerator
    of other element widths.
    """
    code = network_code(
        network,
        accelerator,
        schedule=schedule,
        groups=groups,
        combinations=combinations,
        library=library,
        data=data,
        reference=reference,
        check_layers=check_layers,
    )
    program = build_program(
        code.module,
        ENTRY,
        code.placement.buffers,
        accelerator,
        check=check and reference is not None,
        name=network.name,
        sources=host_sources(code.lowered.sources),
        requirement=_requirement(code.lowered, accelerator),
        slack_bytes=slack_bytes(code.lowered, accelerator),
        labels=step_labels(len(code.lowered.steps)),
        observe=observe,
    )
    return NetworkProgram(
        program, code.lowered.network, code.lowered, code.memory, code.placement, code.waits
    )


def network_library(code: NetworkCode, accelerator: Accelerator, name: str) -> CLibrary:
    """A network's code as a function of a C program, whose arrays are the inputs and outputs as they are stored.

    Args:
        name: of the library, a C identifier.

    Raises InputError for what has no form in C.
    """
    from baco.compiler.codegen.c_library import build_library

    network = code.lowered.network
    stored = {code.placement.names[one]: network.values[one] for one in code.placement.names}
    return build_library(
        code.module,
        ENTRY,
        code.placement.buffers,
        accelerator,
        name=name,
        sources=host_sources(code.lowered.sources),
        slack_bytes=slack_bytes(code.lowered, accelerator),
        notes=_seen_as(network, code.placement),
        scales={buffer: (one.scale, one.zero) for buffer, one in stored.items() if one.coded},
    )


def _seen_as(network: QuantisedNetwork, placement: Placement) -> dict[str, str]:
    """What the network calls the inputs and outputs that lie in a buffer, and the shape that they have there, by buffer."""
    seen: dict[str, list[str]] = {}
    for name, view in (*network.inputs.items(), *network.outputs.items()):
        if isinstance(view, View) and view.value in placement.names:
            shape = ", ".join(map(str, view.shape))
            seen.setdefault(placement.names[view.value], []).append(f"'{name}', there [{shape}]")
    return {
        buffer: f"of the network {' and '.join(texts)}{_ORDER if _is_image(network, placement, buffer) else ''}"
        for buffer, texts in seen.items()
    }


def _is_image(network: QuantisedNetwork, placement: Placement, buffer: str) -> bool:
    """Whether channels come last in the buffer and first where the user looks at it."""
    views = [one for one in (*network.inputs.values(), *network.outputs.values()) if isinstance(one, View)]
    return any(
        placement.names.get(one.value) == buffer
        and len(one.shape) == 4
        and one.strides[1] == 1 < one.strides[3]
        for one in views
    )


def host_sources(files: Mapping[str, str]) -> dict[str, str]:
    """Texts of C files, of those in `host/` where they are not given, behind the headers that they include."""
    folder = resources.files("baco.compiler") / "ops" / "host"
    texts = {
        name: text or (folder / name).read_text(encoding="utf-8") for name, text in sorted(files.items())
    }
    real = any('#include "real.h"' in text for text in texts.values())
    headers = [*(["host.h"] if texts else []), *(["real.h"] if real else [])]
    return {**{name: (folder / name).read_text(encoding="utf-8") for name in headers}, **texts}


def lifetimes(
    lowered: LoweredNetwork, done: Sequence[tuple[int, ...]] | None = None, units: Sequence[int] | None = None
) -> list[Lifetime]:
    """When values are needed that operators hand to each other.

    Args:
        done: by step, how many steps of every unit are done before it; by default those that come before it on the one unit.
        units: by step, which unit runs it.
    """
    done = [(number,) for number in range(len(lowered.steps))] if done is None else done
    units = [0] * len(done) if units is None else units
    life: dict[str, Lifetime] = {}
    in_parts = lowered.replaced_parts()
    for step, before, unit in zip(lowered.steps, done, units, strict=True):
        behind = tuple(count + 1 if at == unit else 0 for at, count in enumerate(before))
        for one in (*step.reads, *step.writes):
            value, replaced = lowered.values[one.value], lowered.in_place.get(one.value)
            known = life.get(one.value) or Lifetime(
                one.value, _nbytes(value), before, behind, replaced, replaced in in_parts, unit
            )
            life[one.value] = replace(
                known, done=tuple(map(min, known.done, before)), over=tuple(map(max, known.over, behind))
            )
    return [
        life[name] for name, value in lowered.values.items() if value.role == "intermediate" and name in life
    ]


def _nbytes(value: IntegerTensor) -> int:
    return int(np.prod(value.shape, dtype=np.int64)) * itemsize(value)


def _requirement(lowered: LoweredNetwork, accelerator: Accelerator) -> dict[str, int]:
    """Least hardware of the same kind that the code runs on; see `baco.compiler.schedules.style.LayerPlan`."""
    from baco.compiler.styles.registry import plan_layer

    found = {"dim": accelerator.dim, "scratchpad_rows": 0, "accumulator_rows": 0}
    needs = [plan_layer(one.layer, one.schedule, accelerator).requirement for one in lowered.layers.values()]
    for group in lowered.groups.values():
        needs.append(group_rows(group, accelerator))
    for code in lowered.codes.values():
        scratchpad, accumulator = code.rows_used(accelerator)
        needs.append({"scratchpad_rows": scratchpad, "accumulator_rows": accumulator})
    if any(layer.table for layer in lowered.layers.values()):
        needs.append({"accumulator_rows": table_rows(accelerator)})
    for need in needs:
        for name, value in need.items():
            found[name] = max(found.get(name, 0), value)
    return found


def slack_bytes(lowered: LoweredNetwork, accelerator: Accelerator) -> int:
    """Bytes that commands may read behind an operand: LOOP_WS fetches whole blocks of B's rows (instruction set, 7)."""
    pitches = [code.layer.weight.pitch for code in lowered.layers.values()]
    merged = [one.group for one in lowered.groups.values() if isinstance(one.group, MergedProducts)]
    pitches += [one.weight.pitch for group in merged for one in group.layers]
    return -(-(64 + accelerator.dim * max(pitches, default=0)) // 64) * 64
