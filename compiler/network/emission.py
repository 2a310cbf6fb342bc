"""The code of a network's program: a function for every different layer, and the entry that calls them in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.compiler.dialects.instgem import OPERATIONS
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.network.fences import StepAccess, fences
from baco.compiler.network.groups import GroupStyle
from baco.compiler.network.lowered import ANY_SCALE, LayerCode, LoweredNetwork
from baco.compiler.network.operator_code import KINDS
from baco.compiler.network.output_stage import begin_output, end_output
from baco.compiler.network.placement import Placement
from baco.compiler.network.steps import Argument, Step
from baco.compiler.styles.fused.row_unit import begin_table, end_function

#: The function that a program starts with.
ENTRY = "network"


def step_labels(steps: int) -> list[str]:
    """Symbols of the places where each step begins, behind the fence that it waits at, and of the end of the last one.

    At the end everything is done: the accelerator's results are in memory.
    """
    return [f"network_step_{number}" for number in range(steps + 1)]


def emit_network(
    lowered: LoweredNetwork, placement: Placement, accelerator: Accelerator
) -> tuple[ModuleOp, tuple[bool, ...]]:
    """The module at the `instgem` level, and for each step whether its entry has a fence before it.

    The entry `network` takes the addresses of the placement's buffers. It has the symbols of `step_labels`.
    """
    module = ModuleOp([])
    emit_functions(module, lowered, accelerator)
    waits = emit_entry(module, ENTRY, lowered.steps, placement, step_labels(len(lowered.steps)))
    return module, waits


def emit_functions(module: ModuleOp, lowered: LoweredNetwork, accelerator: Accelerator) -> None:
    """Append the functions that run on the accelerator."""
    for name, layer in lowered.layers.items():
        _append(module, _emit_layer(name, layer, accelerator))
    for name, group in lowered.groups.items():
        unit = GroupStyle.of(group.group)
        _append(module, unit.emit(name, group.group, group.schedule, accelerator).finish())
    for name, code in sorted(lowered.codes.items(), key=lambda known: KINDS.index(known[1].kinds)):
        _append(module, code.emit(name, accelerator))


def emit_entry(
    module: ModuleOp, name: str, steps: Sequence[Step], placement: Placement, labels: Sequence[str]
) -> tuple[bool, ...]:
    """Append a function that calls steps in order, and takes the addresses of the placement's buffers.

    Args:
        labels: symbols of the steps, and of the end.

    Returns for each step whether there is a fence before it.
    """
    _declare(module, steps)
    entry = Emitter(name, [buffer.name for buffer in placement.buffers], module)
    waits = fences(
        StepAccess(
            [placement.span(view) for view in step.reads],
            [placement.span(view) for view in step.writes],
            step.accelerator,
            step.host,
            step.waits,
        )
        for step in steps
    )

    def number(argument: Argument) -> Number:
        if isinstance(argument, int):
            return argument
        buffer, offset = placement.address(argument)
        return entry.add(entry.arguments[buffer], offset)

    *labels, end = labels
    for step, wait, label in zip(steps, waits, labels, strict=True):
        if wait:
            entry.fence()
        _label(entry, label)
        entry.call(step.function, [number(argument) for argument in step.arguments])
    entry.fence()
    _label(entry, end)
    entry.finish()
    return tuple(waits)


def _label(entry: Emitter, name: str) -> None:
    """A symbol for this place of the program: no instruction, and nothing moves across it."""
    label = entry.insert(llvm.InlineAsmOp(f".globl {name}\n{name}:", "", [], has_side_effects=True))
    label.attributes["noduplicate"] = UnitAttr()


def _append(module: ModuleOp, function: ModuleOp) -> None:
    """Move a function, verified in a module of its own, which takes less time than in one that grows."""
    for op in list(function.body.block.ops):
        op.detach()  # type: ignore[no-untyped-call]
        module.body.block.add_op(op)


def _declare(module: ModuleOp, steps: Iterable[Step]) -> None:
    """The host's functions, which are C."""
    known = {op.sym_name.data for op in module.body.block.ops if isinstance(op, FuncOp)}
    for step in steps:
        if step.function not in known:
            known.add(step.function)
            module.body.block.add_op(FuncOp.external(step.function, [i64] * len(step.arguments), []))


def _emit_layer(name: str, code: LayerCode, accelerator: Accelerator) -> ModuleOp:
    from baco.compiler.layers.operands import Operands
    from baco.compiler.styles.registry import plan_layer

    bias = ["bias"] if code.layer.bias else []
    spaces = [space for space, _ in code.workspaces]
    table = ["table"] if code.table else []
    scales = ["scales"] if code.output is not None and code.output.by_column else []
    scale = ["scale"] if code.layer.scale == ANY_SCALE else []
    e = Emitter(name, ["input", "weight", "output", *bias, *spaces, *table, *scales, *scale])
    source, weight, target, *rest = e.arguments
    operands = Operands(
        input=source,
        weight=weight,
        output=target,
        bias=rest[0] if bias else 0,
        workspaces=dict(zip(spaces, rest[len(bias) :], strict=False)),
    )
    if table:
        begin_table(e, accelerator, rest[len(bias) + len(spaces)])
    if code.output is not None:
        problem = code.layer.problem
        begin_output(e, code.output, problem.groups * problem.K, rest[-1 - len(scale)] if scales else 0)
    plan_layer(code.layer, code.schedule, accelerator).emit(e, operands)
    if code.output is not None:
        end_output(e)
    if table:
        end_function(e)
    module = e.finish()
    if scale:
        scale_by(module, e.arguments[-1])
    return module


def scale_by(module: ModuleOp, scale: SSAValue) -> None:
    """Stores that scale by `ANY_SCALE` scale by the number whose bits are an argument of their function."""
    store, wanted = OPERATIONS["config_st"], float32_bits(ANY_SCALE)
    found = [op for op in module.walk() if isinstance(op, store) and op.fields["acc_scale"] == wanted]
    assert found, "a layer with a scale stores with it"
    for op in found:
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(store({**op.fields, "acc_scale": scale}), op)
        block.erase_op(op)
