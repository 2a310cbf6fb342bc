"""Something to compile: a module of the IR with its buffers, on the way from what a user gives to a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.common.errors import InputError
from baco.compiler.codegen.buffer import Buffer

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from baco.accel.config import Accelerator
    from baco.compiler.codegen.c_library import CLibrary
    from baco.compiler.codegen.program import Program
    from baco.compiler.ir.text import Level
    from baco.compiler.language.jit import BoundLaunch
    from baco.compiler.layers.layer import Layer
    from baco.compiler.schedules.schedule import Schedule
    from baco.sim.job import Simulation


#: Sees the module after every pass, by the pass's name.
Observer = Callable[[str, "ModuleOp"], None]
#: Of the interpretation that results are compared with, a minute or so.
_MOST_OPERATIONS = 1 << 23


@dataclass(frozen=True)
class Unit:
    """Something to compile.

    Attributes:
        name: of the program.
        level: of the module.
        module: to be lowered.
        entry: its function that the program calls.
        buffers: its arguments; None where nothing describes them.
        requirement: least hardware that it runs on, where it is known.
        schedule: how a layer is carried out; None for anything else.
        predicted_cycles: that it will take, where they can be predicted.
        macs: multiply-accumulates that it asks for, where they are known.
    """

    name: str
    level: Level
    module: ModuleOp
    entry: str
    buffers: tuple[Buffer, ...] | None
    requirement: Mapping[str, int] | None = None
    schedule: Schedule | None = None
    predicted_cycles: float | None = None
    macs: int | None = None


def layer_unit(
    layer: Layer,
    schedule: Schedule,
    accelerator: Accelerator,
    *,
    seed: int = 0,
    compare: bool = True,
) -> Unit:
    """A layer with random tensors. Its code is written at the level `instgem`: nothing of it is ever above.

    Args:
        compare: work out what the results must be.

    Raises InfeasibleError where main memory does not hold the tensors, or no code can be written.
    """
    from baco.compiler.codegen.layer_program import layer_buffers, layer_module
    from baco.compiler.latency import schedule_cycles
    from baco.compiler.layers.reference import draw_tensors, layer_result
    from baco.compiler.styles.registry import plan_layer

    tensors = draw_tensors(layer, seed)
    expected = layer_result(layer, tensors, accelerator.dim) if compare else None
    buffers = layer_buffers(layer, schedule, accelerator, tensors, expected)
    names = tuple(one.name for one in buffers)
    module = layer_module(layer, schedule, accelerator, "layer", names)
    return Unit(
        "layer",
        "instgem",
        module,
        "layer",
        buffers,
        plan_layer(layer, schedule, accelerator).requirement,
        schedule,
        schedule_cycles(layer, schedule, accelerator),
        layer.problem.macs,
    )


def launch_unit(launch: BoundLaunch, accelerator: Accelerator, *, compare: bool = True) -> Unit:
    """The block program of a kernel's launch, with the arrays it is launched on, as they are now.

    Args:
        accelerator: that it is for.
        compare: work out by interpretation what the arrays must hold at the end.

    Raises KernelError, which shows the line of the user's file.
    """
    from baco.compiler.language.interpret import run_module
    from baco.compiler.language.jit import stored

    module = launch.module()
    written = set(stored(module))
    before = [buffer.memory.copy() for buffer in launch.buffers]
    after = before
    if compare:
        after = [buffer.memory.copy() for buffer in launch.buffers]
        run_module(module, after, accelerator, _MOST_OPERATIONS)
    buffers = tuple(
        Buffer(
            buffer.names[0],
            (buffer.size,),
            str(start.dtype),
            "inout" if index in written else "input",
            start,
            end if compare and index in written else None,
        )
        for index, (buffer, start, end) in enumerate(zip(launch.buffers, before, after, strict=True))
    )
    return Unit(launch.kernel.name, "baco", module, _entry(module), buffers)


def lower_unit(
    unit: Unit, accelerator: Accelerator, *, check: bool, observe: Observer | None = None
) -> Program:
    """The unit as a program; with `check` it compares its results itself, and else does not carry what they must be.

    Raises InputError when nothing describes its arguments, and what the compiler raises.
    """
    from baco.compiler.codegen.pipeline import FRONT_END
    from baco.compiler.codegen.program import build_program

    to_instgem(unit, accelerator, observe)
    least, buffers = unit.requirement, unit.buffers or ()
    if not check:
        buffers = tuple(replace(one, expected=None) for one in buffers)
    if least is None and unit.level != "llvm":
        from baco.compiler.codegen.block_program import requirement_of, with_workspace

        if unit.level in FRONT_END:
            least = requirement_of(unit.module, unit.entry, accelerator)
        buffers = with_workspace(unit.module, unit.entry, buffers)
    return build_program(
        unit.module,
        unit.entry,
        buffers,
        accelerator,
        check=check,
        name=unit.name,
        requirement=least,
        observe=observe,
    )


def unit_library(
    unit: Unit, accelerator: Accelerator, name: str, observe: Observer | None = None
) -> CLibrary:
    """The unit as a function of a C program; its module is lowered in place. Raises InputError for text of the level llvm, whose
    loops are branches, and where nothing describes its arguments."""
    from baco.compiler.codegen.block_program import with_workspace
    from baco.compiler.codegen.c_library import build_library

    if unit.level == "llvm":
        raise InputError(
            "what begins at the level 'llvm' has no form in C",
            hint="begin at 'instgem' or above, or link an ELF file",
        )
    if unit.buffers is None:
        raise InputError(
            f"nothing says what the arguments of @{unit.entry} are",
            hint="give --arg for each, as name=int8[64,64]",
        )
    to_instgem(unit, accelerator, observe)
    buffers = with_workspace(unit.module, unit.entry, unit.buffers)
    return build_library(unit.module, unit.entry, buffers, accelerator, name=name)


def check_run(
    accelerator: Accelerator, engine: str, *, timing: str | None = None, log: Path | None = None
) -> None:
    """Raises InputError or InfeasibleError where no program for the accelerator can be run so: known before it is compiled."""
    from baco.sim.engines.base import check_job
    from baco.sim.job import Job, Recording

    check_job(Job(accelerator, timing=timing, recording=Recording(log=log)), engine)


def run_unit(
    program: Program,
    expected: Mapping[str, np.ndarray[Any, Any]],
    engine: str,
    *,
    timing: str | None = None,
    log: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> tuple[dict[str, np.ndarray[Any, Any]], Simulation, tuple[str, ...]]:
    """What every array holds at the end, what was counted, and how arrays differ from what is expected, in words.

    Args:
        timing: whose cycles are counted, one of `baco.accel.config.TIMINGS`; by default the accelerator's.
        log: file for a log of every command.
        report: told how building a simulator goes on.

    Raises SimulationError for a program that had to be stopped, InputError for an unknown engine.
    """
    from baco.api.arrays import difference
    from baco.sim.engines.program import run_program
    from baco.sim.job import Recording

    arrays, result = run_program(
        program,
        engine=engine,
        timing=timing,
        recording=Recording(log=log),
        report=report,
        read_all=True,
    )
    wrong = (difference(name, arrays[name], array) for name, array in expected.items())
    return arrays, result, tuple(text for text in wrong if text)


def to_instgem(
    unit: Unit, accelerator: Accelerator, observe: Observer | None = None, until: str = "instgem"
) -> None:
    """Lower the unit's module, in place, to the level `until`."""
    from baco.compiler.codegen.pipeline import FRONT_END, run_pass
    from baco.compiler.dialects.context import all_dialects
    from baco.compiler.ir.text import LEVELS
    from baco.compiler.passes import pass_named

    context = all_dialects()
    for level, names in FRONT_END.items():
        if LEVELS.index(unit.level) > LEVELS.index(level) or level == until:
            continue
        for name in names:
            cls = pass_named(name)
            options = {"accelerator": accelerator} if "accelerator" in cls.__dataclass_fields__ else {}
            run_pass(unit.module, cls(**options), context)
            if observe is not None:
                observe(name, unit.module)


def _entry(module: Any) -> str:
    from xdsl.dialects.func import FuncOp

    from baco.compiler.dialects.baco import GRID

    return next(
        op.sym_name.data for op in module.body.block.ops if isinstance(op, FuncOp) and GRID in op.attributes
    )
