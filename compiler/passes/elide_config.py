"""`instgem-elide-config`: configuration commands that change nothing are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects import builtin, func, scf
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from baco.compiler.ir.known import runs_at_least_once
from baco.compiler.passes.config_state import (
    Effect,
    Register,
    Value,
    defined_inside,
    effect_of,
    effects_inside,
)

#: What the registers are known to hold.
_State: TypeAlias = dict[Register, Value]


@dataclass(frozen=True)
class ElideConfig(ModulePass):
    """Removes CONFIG_EX, CONFIG_LD and CONFIG_ST commands whose registers hold their values already.

    A forward dataflow analysis through straight-line code, loops and branches. Nothing is known at the start of a
    function, behind a call, and in the blocks of unstructured control flow.
    """

    name: ClassVar[str] = "instgem-elide-config"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp):
                for block in function.body.blocks:
                    _elide(block, {})


def _elide(block: Block, state: _State) -> None:
    """Remove what changes nothing in a block; `state` is what is known before it and becomes what is known behind."""
    for op in list(block.ops):
        if isinstance(op, (scf.ForOp, scf.WhileOp)):
            _loop(op, state)
        elif isinstance(op, scf.IfOp):
            _branches(op, state)
        elif op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    _elide(inner, {})
            state.clear()
        else:
            effect = effect_of(op)
            if effect.pure and _holds(state, effect.writes):
                block.erase_op(op)
            else:
                _apply(state, effect)


def _holds(state: _State, writes: Mapping[Register, Value]) -> bool:
    return all(register in state and state[register] == value for register, value in writes.items())


def _apply(state: _State, effect: Effect) -> None:
    for register in effect.spoils:
        state.pop(register, None)
    state.update(effect.writes)


def _loop(op: scf.ForOp | scf.WhileOp, state: _State) -> None:
    # what is known before every round: what was before the loop, unless a round changes it
    for effect in effects_inside(*op.regions):
        for register in effect.spoils:
            state.pop(register, None)
        for register, value in effect.writes.items():
            if register in state and state[register] != value:
                del state[register]
    inside = dict(state)
    for region in op.regions:
        _elide(_only(region), inside)
        if isinstance(op, scf.WhileOp) and region is op.before_region:
            behind = dict(inside)  # a loop ends after its condition
    if isinstance(op, scf.ForOp):
        behind = inside if runs_at_least_once(op) else _common(state, inside)
    state.clear()
    state.update({key: value for key, value in behind.items() if not defined_inside(value, op)})


def _branches(op: scf.IfOp, state: _State) -> None:
    then, otherwise = dict(state), dict(state)
    _elide(_only(op.true_region), then)
    if op.false_region.blocks:
        _elide(_only(op.false_region), otherwise)
    behind = _common(then, otherwise)
    state.clear()
    state.update({key: value for key, value in behind.items() if not defined_inside(value, op)})


def _common(a: _State, b: _State) -> _State:
    return {key: value for key, value in a.items() if key in b and b[key] == value}


def _only(region: Region) -> Block:
    return region.block
