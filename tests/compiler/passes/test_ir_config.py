"""Removing and hoisting configuration commands leaves every other command with the configuration that it had."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from baco.compiler.codegen.pipeline import run_passes
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.ir.text import write_ir
from tests.compiler.ir.ir_helpers import function, parsed
from tests.compiler.ir.ir_machine import Machine
from tests.seeds import seeds

#: What each command leaves in the registers of the hardware (instruction set, section 4), and who reads which unit.
_READERS = {
    "MVIN": ("ld0",),
    "MVIN2": ("ld1",),
    "MVIN3": ("ld2",),
    "MVOUT": ("st",),
    "PRELOAD": ("ex",),
    "COMPUTE_PRELOADED": ("ex",),
    "COMPUTE_ACCUMULATED": ("ex",),
    "LOOP_WS": ("ex", "st", "ld0", "ld1", "ld2"),
    "LOOP_CONV_WS": ("ex", "st"),
}


def observed(commands: list[tuple[str, dict[str, int]]]) -> list[tuple[str, dict[str, int], object]]:
    """Every command that is no configuration, with all registers of the units it reads."""
    registers: dict[str, dict[str, object]] = {unit: {} for unit in ("ex", "st", "ld0", "ld1", "ld2")}
    seen = []
    for name, fields in commands:
        if name == "CONFIG_EX":
            new = {key: fields[key] for key in ("a_stride", "c_stride")}
            if not fields["set_only_strides"]:
                new = {
                    key: value
                    for key, value in fields.items()
                    if key not in ("set_only_strides", "relu6_shift")
                }
            registers["ex"] |= new
        elif name == "CONFIG_LD":
            new = {key: value for key, value in fields.items() if key != "state"}
            registers[f"ld{fields['state']}"] |= new
        elif name == "CONFIG_ST":
            new = {key: fields[key] for key in ("activation", "stride", "pool_stride", "pool_size")}
            if fields["acc_scale"] != 0xFFFFFFFF:
                new["acc_scale"] = fields["acc_scale"]
            if fields["pool_stride"] or fields["pool_size"]:
                new |= {
                    k: fields[k]
                    for k in ("upad", "lpad", "pool_out_dim", "porows", "pocols", "orows", "ocols")
                }
            registers["st"] |= new
        else:
            units = {unit: dict(registers[unit]) for unit in _READERS.get(name, ())}
            seen.append((name, fields, units))
            if (
                name == "LOOP_CONV_WS"
            ):  # what it leaves behind depends on the layer: nothing that a program knows
                spoiled = {"ld0", "ld1", "ld2"} | (set() if fields["no_pool"] else {"st"})
                for unit in spoiled:
                    registers[unit] = {"left by": len(seen)}
    return seen


def _configurations(commands: list[tuple[str, dict[str, int]]]) -> int:
    return sum(name.startswith("CONFIG") for name, _ in commands)


def _random_program(random: np.random.Generator) -> ModuleOp:
    e = Emitter("f", ["a", "b", "n"])
    numbers: list[Number] = [*e.arguments[:2], 64, 64, 128]
    variable = e.variable(e.arguments[0])

    def number() -> Number:
        return numbers[random.integers(len(numbers))]

    def write(depth: int) -> None:
        for _ in range(int(random.integers(1, 6))):
            kind = random.integers(12)
            if kind < 2:
                state, packed = int(random.integers(3)), int(random.integers(2))
                e.command("config_ld", state=state, stride=number(), packed=packed, block_stride=16)
            elif kind == 2:
                e.command(
                    "config_ex",
                    dataflow=1,
                    c_stride=int(random.integers(1, 3)),
                    set_only_strides=int(random.integers(2)),
                )
            elif kind == 3:
                keep = 0xFFFFFFFF if random.integers(2) else int(random.integers(2))
                pool = int(random.integers(4) == 0)
                e.command(
                    "config_st",
                    stride=number(),
                    acc_scale=keep,
                    pool_stride=pool,
                    porows=int(random.integers(2)),
                )
            elif kind == 4:
                e.command("mvin", address=number(), rows=1, cols=1)
                e.command("mvin2", address=number(), rows=1, cols=1)
            elif kind == 5:
                e.command("mvout", address=number(), rows=1, cols=1)
                e.command("mvin3", address=number(), rows=1, cols=1)
            elif kind == 6:
                e.command("preload", bd=1, c=2)
            elif kind == 7 and random.integers(3) == 0:
                e.command("loop_conv_ws" if random.integers(2) else "loop_ws")
            elif kind == 8:
                variable.set(e.add(variable.get(), 64))
                e.command("config_ld", stride=variable.get())
            elif depth < 3 and kind == 9:
                bound: Number = int(random.integers(0, 4)) if random.integers(2) else e.arguments[2]
                with e.loop(bound) as i:
                    numbers.append(i)
                    write(depth + 1)
                    numbers.remove(i)
            elif depth < 3:
                with e.when(e.compare("slt", number(), number())):
                    write(depth + 1)

    write(0)
    return e.finish()


@pytest.mark.parametrize("seed", seeds(2, of=16))
def test_random_programs_keep_their_meaning(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(3):
        text = write_ir(_random_program(random))
        inputs = [(64, 128, 0), (128, 64, 1), (64, 64, 3)]
        for passes in (
            ["instgem-elide-config"],
            ["instgem-hoist-config"],
            ["instgem-hoist-config", "instgem-elide-config"],
        ):
            module = parsed(text)
            run_passes(module, passes)
            for arguments in inputs:
                before, after = Machine(parsed(text)), Machine(module)
                before.run("f", arguments)
                after.run("f", arguments)
                assert observed(after.commands) == observed(before.commands), text
                if passes == ["instgem-elide-config"]:
                    assert _configurations(after.commands) <= _configurations(before.commands)


def _lines(body: str, *passes: str) -> list[str]:
    module = parsed(function(body, "%a: i64, %b: i64, %c: i1"))
    run_passes(module, passes)
    return [line.strip() for line in write_ir(module).splitlines() if "instgem." in line or "scf." in line]


LOAD = "instgem.mvin address = %a, cols = 1, rows = 1"


def test_what_repeats_is_removed() -> None:
    body = f"""
    instgem.config_ld stride = 64
    {LOAD}
    instgem.config_ld stride = 64
    instgem.config_ld state = 1, stride = 64
    {LOAD}
    instgem.config_ld stride = %b
    instgem.config_ld stride = %b
    """
    assert _lines(body, "instgem-elide-config") == [
        "instgem.config_ld stride = 64",
        LOAD,
        "instgem.config_ld state = 1, stride = 64",
        LOAD,
        "instgem.config_ld stride = %b",
    ]


@pytest.mark.parametrize(
    "between",
    [
        "instgem.config_ld stride = 128",
        "instgem.config_ld state = %a, stride = 128",
        "instgem.loop_conv_ws",
        "func.call @g() : () -> ()",
        "scf.if %c {\n instgem.config_ld stride = 1\n }",
        "scf.for %i = %a to %b step %a : i64 {\n instgem.config_ld stride = %i\n }",
    ],
)
def test_what_may_have_changed_stays(between: str) -> None:
    body = f"instgem.config_ld stride = 64\n{between}\ninstgem.config_ld stride = 64"
    text = function(body, "%a: i64, %b: i64, %c: i1") + "func.func private @g() -> ()\n"
    module = parsed(text)
    run_passes(module, ["instgem-elide-config"])
    assert write_ir(module).count("instgem.config_ld stride = 64") == 2


@pytest.mark.parametrize(
    "between",
    [
        "instgem.config_ld state = 1, stride = 128",
        "instgem.config_ex dataflow = 1",
        "instgem.loop_ws",
        "instgem.fence",
        "instgem.flush",
        "scf.if %c {\n instgem.config_ld stride = 64\n }",
        "scf.for %i = %a to %b step %a : i64 {\n instgem.config_ld stride = 64\n }",
    ],
)
def test_what_cannot_have_changed_goes(between: str) -> None:
    body = f"instgem.config_ld stride = 64\n{between}\ninstgem.config_ld stride = 64"
    module = parsed(function(body, "%a: i64, %b: i64, %c: i1"))
    run_passes(module, ["instgem-elide-config"])
    assert write_ir(module).count("instgem.config_ld stride = 64") == 1


def test_both_branches_agree() -> None:
    then, other = "instgem.config_st stride = 4", "instgem.config_st stride = 8"
    for first, second, left in ((then, then, 2), (then, other, 3)):
        body = f"scf.if %c {{\n{first}\n}} else {{\n{second}\n}}\n{then}"
        assert sum("config_st" in line for line in _lines(body, "instgem-elide-config")) == left


def test_hoisting_out_of_nested_loops() -> None:
    body = f"""
    %z = arith.constant 0 : i64
    %n = arith.constant 4 : i64
    %s = arith.constant 1 : i64
    scf.for %i = %z to %n step %s : i64 {{
      scf.for %j = %z to %n step %s : i64 {{
        instgem.config_ld stride = %b
        instgem.config_st stride = %i
        {LOAD}
      }}
    }}
    """
    assert _lines(body, "instgem-hoist-config") == [
        "instgem.config_ld stride = %b",
        "scf.for %i = %z to %n step %s : i64 {",
        "instgem.config_st stride = %i",
        "scf.for %j = %z to %n step %s : i64 {",
        LOAD,
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LOAD, "instgem.fence"),  # reads the configuration of the round before
        ("instgem.fence", "instgem.config_ld stride = 8"),
        ("instgem.fence", "instgem.loop_conv_ws"),
        ("instgem.loop_ws", "instgem.fence"),
        ("scf.if %c {\n" + LOAD + "\n}", "instgem.fence"),
    ],
)
def test_what_must_stay_in_the_loop(first: str, second: str) -> None:
    body = f"""
    %z = arith.constant 0 : i64
    %n = arith.constant 4 : i64
    %s = arith.constant 1 : i64
    scf.for %i = %z to %n step %s : i64 {{
      {first}
      instgem.config_ld stride = 64
      {second}
    }}
    """
    lines = _lines(body, "instgem-hoist-config")
    assert lines.index("instgem.config_ld stride = 64") > lines.index("scf.for %i = %z to %n step %s : i64 {")


def test_a_loop_that_may_not_run() -> None:
    body = """
    scf.for %i = %a to %b step %a : i64 {
      instgem.config_ld stride = 64
    }
    """
    assert _lines(body, "instgem-hoist-config") == [
        "scf.if %0 {",
        "instgem.config_ld stride = 64",
        "scf.for %i = %a to %b step %a : i64 {",
    ]


def test_passes_are_idempotent() -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        module = _random_program(random)
        passes = ["instgem-hoist-config", "instgem-elide-config"]
        run_passes(module, passes)
        once = write_ir(module)
        run_passes(module, ["instgem-elide-config"])
        assert write_ir(module) == once
