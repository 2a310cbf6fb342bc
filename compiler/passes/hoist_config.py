"""`instgem-hoist-config`: configuration that is the same in every round of a loop moves in front of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, builtin, scf
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from baco.compiler.ir.known import runs_at_least_once
from baco.compiler.passes.config_state import Effect, defined_inside, effect_of, effects_inside


@dataclass(frozen=True)
class HoistConfig(ModulePass):
    """Moves CONFIG_EX, CONFIG_LD and CONFIG_ST commands out of `scf.for` loops, from the innermost outwards.

    A command moves if it runs in every round with values from outside the loop, nothing else in the loop writes its
    registers differently, and nothing in front of it in the loop reads them. Where the loop may not run at all, the
    command moves into an `scf.if` that asks for that.
    """

    name: ClassVar[str] = "instgem-hoist-config"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for loop in [one for one in op.walk(region_first=True) if isinstance(one, scf.ForOp)]:
            _hoist(loop)


def _hoist(loop: scf.ForOp) -> None:
    body = loop.body.block
    inside = effects_inside(loop.body)
    read_before: set[str] = set()
    moved: list[Operation] = []
    for op in list(body.ops):
        effect = effect_of(op)
        if (
            effect.pure
            and _invariant(effect, loop, inside)
            and not _units(effect) & read_before
            and _can_move(op, loop)
        ):
            moved.append(op)
            continue
        read_before |= effect.reads
        for inner in effects_inside(*op.regions):
            read_before |= inner.reads
    if moved:
        _move(moved, loop)


def _units(effect: Effect) -> set[str]:
    return {unit for unit, _ in effect.writes}


def _invariant(effect: Effect, loop: scf.ForOp, inside: list[Effect]) -> bool:
    """Whether the command's registers hold its values throughout the loop once it has run."""
    if any(defined_inside(value, loop) for value in effect.writes.values()):
        return False
    registers = set(effect.writes)
    for other in inside:
        if registers & other.spoils:
            return False
        if any(key in registers and value != effect.writes[key] for key, value in other.writes.items()):
            return False
    return True


def _can_move(op: Operation, loop: scf.ForOp) -> bool:
    """Whether its operands come from outside the loop, or are constants, which can move along."""
    return all(
        not loop.is_ancestor(one.owner) or isinstance(one.owner, arith.ConstantOp) for one in op.operands
    )


def _move(ops: list[Operation], loop: scf.ForOp) -> None:
    block = loop.parent
    assert block is not None
    constants = [
        one.owner
        for op in ops
        for one in op.operands
        if isinstance(one.owner, arith.ConstantOp) and loop.is_ancestor(one.owner)
    ]
    for constant in dict.fromkeys(constants):
        constant.detach()  # type: ignore[no-untyped-call]
        block.insert_op_before(constant, loop)
    for op in ops:
        op.detach()  # type: ignore[no-untyped-call]
    if runs_at_least_once(loop):
        block.insert_ops_before(ops, loop)
        return
    runs = arith.CmpiOp(loop.lb, loop.ub, "slt")
    guarded = Region(Block([*ops, scf.YieldOp()]))
    block.insert_ops_before([runs, scf.IfOp(runs.result, [], guarded)], loop)
