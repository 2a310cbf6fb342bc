"""`instgem-to-llvm`: accelerator commands to RISC-V instructions, as inline assembly of the `llvm` dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import builtin, llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from baco.compiler.dialects.instgem import CommandOp, FenceOp
from baco.compiler.ir.known import integer

_MASK64 = (1 << 64) - 1
#: funct3 of a RoCC instruction: reads rs1 and rs2, and writes rd.
_READS, _WRITES = 0x3, 0x7


@dataclass(frozen=True)
class InstGemToLlvm(ModulePass):
    """Packs the fields of every command into two 64-bit registers and issues it by one `.insn`.

    What is known of a register becomes one constant; a computed field is shifted and *added* to it, so that LLVM can
    make the packed register itself the induction variable of a loop. Hence a computed value must fit its field: its
    other bits are not masked. Commands have side effects and touch memory: they keep their order, and no access of
    the host core to memory moves across them.
    """

    name: ClassVar[str] = "instgem-to-llvm"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for one in list(op.walk()):
            if isinstance(one, CommandOp):
                _replace(one, _command(one))
            elif isinstance(one, FenceOp):
                _replace(one, [llvm.InlineAsmOp("fence", "~{memory}", [], has_side_effects=True)])


def _replace(old: Operation, new: list[Operation]) -> None:
    block = old.parent
    assert block is not None
    for op in new:
        op.location = old.location
    block.insert_ops_before(new, old)
    if old.results:
        old.results[0].replace_all_uses_with(new[-1].results[0])
    block.erase_op(old)


def _command(op: CommandOp) -> list[Operation]:
    kind = op.KIND
    known = {"rs1": kind.subtype or 0, "rs2": 0}
    computed: dict[str, list[tuple[int, SSAValue]]] = {"rs1": [], "rs2": []}
    fields = op.fields
    for field in kind.fields:
        value = fields[field.name]
        if isinstance(value, int):
            known[field.register] |= value << field.low
        else:
            computed[field.register].append((field.low, value))
    new: list[Operation] = []
    registers: list[str] = []
    operands: list[SSAValue] = []
    for register in ("rs1", "rs2"):
        if not computed[register] and known[register] == 0:
            registers.append("x0")
            continue
        registers.append(f"${len(operands) + kind.response}")
        operands.append(_packed(known[register], computed[register], new))
    funct3, target = (_WRITES, "$0") if kind.response else (_READS, "x0")
    text = f".insn r CUSTOM_3, {funct3:#x}, {kind.funct}, {target}, {registers[0]}, {registers[1]}"
    constraints = ["=r"] * kind.response + ["r"] * len(operands) + ["~{memory}"]
    results = [i64] if kind.response else []
    new.append(llvm.InlineAsmOp(text, ",".join(constraints), operands, results, has_side_effects=True))
    return new


def _packed(known: int, computed: list[tuple[int, SSAValue]], new: list[Operation]) -> SSAValue:
    """A register's value; operations that compute it are appended to `new`."""

    def add(op: Operation) -> SSAValue:
        new.append(op)
        return op.results[0]

    def constant(value: int) -> SSAValue:
        value &= _MASK64
        signed = value - (1 << 64) if value >> 63 else value
        return add(llvm.ConstantOp(integer(signed, i64), i64))

    total = None
    for low, value in computed:
        part = add(llvm.ShlOp(value, constant(low))) if low else value
        total = part if total is None else add(llvm.AddOp(total, part))
    if total is None:
        return constant(known)
    return add(llvm.AddOp(total, constant(known))) if known else total
