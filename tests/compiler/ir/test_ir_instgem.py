"""The `instgem` dialect: every command goes through text unchanged, and means what `baco.accel.isa` encodes."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, i64

from baco.accel.isa import COMMANDS
from baco.compiler.dialects.instgem import OPERATIONS, CommandOp
from baco.compiler.ir.emit import Emitter
from baco.compiler.ir.text import write_ir
from tests.compiler.ir.ir_helpers import function, parsed


def _command(name: str, module_text: str) -> CommandOp:
    found = [op for op in parsed(module_text).walk() if isinstance(op, OPERATIONS[name])]
    assert len(found) == 1
    return found[0]


def _legal(name: str, field: str, value: int) -> int:
    """A value that the verifier accepts beside any others."""
    if name.startswith("mv") and field in ("rows", "cols"):
        return max(1, value)
    if (name, field) in (("config_ld", "state"), ("config_ex", "b_transpose")):
        return 0
    return value if value != 1 << 63 else 1


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_command_goes_through_text_unchanged(name: str) -> None:
    random = np.random.default_rng(sum(name.encode()))
    kind = COMMANDS[name.upper()]
    for _ in range(8):
        e = Emitter("f", ["a", "b"])
        fields = {}
        for field in kind.fields:
            choice = random.integers(4)
            if choice == 0:
                fields[field.name] = _legal(name, field.name, 0)
            elif choice == 1:
                fields[field.name] = _legal(name, field.name, field.mask)
            elif choice == 2:
                value = int.from_bytes(random.bytes(8), "little") & field.mask
                fields[field.name] = _legal(name, field.name, value)
            else:
                fields[field.name] = e.arguments[random.integers(2)]
        e.command(name, **fields)
        text = write_ir(e.finish())
        assert write_ir(parsed(text, "instgem")) == text
        read = _command(name, text).fields
        for field in kind.fields:
            if isinstance(fields[field.name], int):
                assert read[field.name] == fields[field.name]
            else:
                assert getattr(read[field.name], "name_hint", "") in ("a", "b")


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_fields_left_out_take_their_defaults(name: str) -> None:
    kind = COMMANDS[name.upper()]
    needed = ", ".join(f"{one} = 1" for one in ("cols", "rows") if name.startswith("mv"))
    answer = " -> i64" if kind.response else ""
    line = f"{'%r = ' if kind.response else ''}instgem.{name} {needed}{answer}"
    fields = _command(name, function(line)).fields
    for field in kind.fields:
        assert fields[field.name] == (1 if field.name in needed.split() else field.default)


def test_golden_text() -> None:
    e = Emitter("tile", ["a", "c", "rows"])
    a, c, rows = e.arguments
    e.command("config_ex", dataflow=1)
    e.command("config_ld", stride=64, block_stride=16)
    with e.loop(4) as i:
        e.command("mvin", address=e.add(a, e.mul(i, 1024)), local=e.local(0), cols=64, rows=rows)
        e.command("preload", bd=0xFFFFFFFF, c=e.local(3, accumulator=True), c_cols=16, c_rows=rows)
    e.command("mvout", address=c, local=e.local(3, accumulator=True), cols=16, rows=16)
    e.fence()
    assert (
        write_ir(e.finish())
        == """\
builtin.module {
  func.func @tile(%a: i64, %c: i64, %rows: i64) {
    instgem.config_ex dataflow = 1
    instgem.config_ld block_stride = 16, stride = 64
    %0 = arith.constant 0 : i64
    %1 = arith.constant 4 : i64
    %2 = arith.constant 1 : i64
    scf.for %i = %0 to %1 step %2 : i64 {
      %3 = arith.constant 1024 : i64
      %4 = arith.muli %i, %3 : i64
      %5 = arith.addi %a, %4 : i64
      instgem.mvin address = %5, cols = 64, rows = %rows
      instgem.preload bd = 4294967295, c = 2147483651, c_cols = 16, c_rows = %rows
    }
    instgem.mvout address = %c, local = 2147483651, cols = 16, rows = 16
    instgem.fence
    func.return
  }
}
"""
    )


def test_operations_made_wrongly_are_rejected() -> None:
    e = Emitter("f")
    with pytest.raises(KeyError):
        e.command("mvin", colour=3)
    op = OPERATIONS["mvin"]({"rows": 1, "cols": 1})
    op.properties["known"] = DenseArrayBase.from_list(i64, [0, 0])
    with pytest.raises(Exception, match="MVIN has 4 fields, `known` lists 2"):
        op.verify()
    op.properties["known"] = DenseArrayBase.from_list(i64, [0, 0, 1, 1 << 16])
    with pytest.raises(Exception, match="field 'rows' of MVIN has 16 bits, 65536 does not fit"):
        op.verify()
    op.properties["known"] = DenseArrayBase.from_list(i64, [-(1 << 63), 0, 1, 1])
    with pytest.raises(Exception, match="1 computed fields of MVIN, but 0 values"):
        op.verify()
