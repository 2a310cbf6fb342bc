"""Programs: code, data and runtime in one ELF file that tells whether its results are right."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.accel.elf_note import SECTION, read_note
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.data_object import DataSection, data_object
from baco.compiler.codegen.program import Program, build_program
from baco.compiler.codegen.toolchain import CompileError
from baco.compiler.ir.emit import Emitter
from baco.sim.engines.program import run_program
from tests.compiler.ir.ir_helpers import parsed

GEMMINI: Accelerator = load_accelerator("gemmini-default")


def _copy(rows: int) -> ModuleOp:
    """Copies `rows` rows of 16 bytes from one buffer to another."""
    e = Emitter("copy", ["source", "target"])
    source, target = e.arguments
    e.command("config_ld", stride=16, block_stride=16)
    e.command("config_st", stride=16)
    for first in range(0, rows, 16):
        count = min(16, rows - first)
        e.command("mvin", address=e.add(source, 16 * first), local=first, cols=16, rows=count)
        e.command("mvout", address=e.add(target, 16 * first), local=first, cols=16, rows=count)
    e.fence()
    return e.finish()


def _buffers(rows: int, expected: np.ndarray | None = None, seed: int = 0) -> list[Buffer]:
    data = np.random.default_rng(seed).integers(-128, 128, (rows, 16), dtype=np.int8)
    return [
        Buffer("source", (rows, 16), "int8", "input", data),
        Buffer("target", (rows, 16), "int8", "output", None, data if expected is None else expected),
    ]


def _program(rows: int = 20, *, check: bool = False, expected: np.ndarray | None = None) -> Program:
    return build_program(_copy(rows), "copy", _buffers(rows, expected), GEMMINI, check=check)


def test_arrays_in_arrays_out() -> None:
    program = _program()
    outputs, result = run_program(program)
    assert result.exit_code == 0
    assert list(outputs) == ["target"]
    np.testing.assert_array_equal(outputs["target"], program.buffers[0].data)
    other = np.full((20, 16), 7, np.int8)
    outputs, _ = run_program(program, {"source": other})
    np.testing.assert_array_equal(outputs["target"], other)
    everything, _ = run_program(program, {"source": other}, read_all=True)
    np.testing.assert_array_equal(everything["source"], other)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float32"])
def test_a_program_checks_itself(dtype: str) -> None:
    e = Emitter("nothing", ["x", "y"])
    module_text = e.finish()
    data = np.arange(30).reshape(2, 3, 5).astype(dtype)
    good = Buffer("x", data.shape, dtype, "input", data, data)
    wrong = data.copy()
    wrong[1, 0, 2] += 1
    wrong[1, 2, 4] += 1
    for expected, code in ((data, 0), (wrong, 1)):
        buffers = [good, Buffer("y", data.shape, dtype, "inout", data, expected)]
        program = build_program(module_text.clone(), "nothing", buffers, GEMMINI, check=True)
        assert program.checked
        _, result = run_program(program)
        assert result.exit_code == code, result.console
        if code:
            found, wanted = data[1, 0, 2], wrong[1, 0, 2]
            texts = [
                f"{one.view(np.uint32):#x}" if dtype == "float32" else str(one) for one in (found, wanted)
            ]
            assert result.console == (
                f"wrong: y[1, 0, 2] is {texts[0]}, not {texts[1]}; 2 of 30 elements are wrong\n"
            )
        else:
            assert result.console == ""


def test_negative_numbers_and_a_single_element() -> None:
    e = Emitter("nothing", ["x"])
    data, expected = np.array(-3, np.int32), np.array(-70000, np.int32)
    program = build_program(
        e.finish(), "nothing", [Buffer("x", (), "int32", "inout", data, expected)], GEMMINI, check=True
    )
    outputs, result = run_program(program)
    assert result.console == "wrong: x[] is -3, not -70000; 1 of 1 elements are wrong\n"
    assert outputs["x"].shape == ()
    assert int(outputs["x"]) == -3


@pytest.mark.parametrize(
    "at", [0, 8, 319, *(pytest.param(one, marks=pytest.mark.slow) for one in (1, 7, 9, 318))]
)
def test_every_element_is_checked(at: int) -> None:
    wrong = _buffers(20)[0].data
    assert wrong is not None
    wrong = wrong.copy()
    wrong.reshape(-1)[at] ^= 1
    _, result = run_program(_program(check=True, expected=wrong))
    assert result.exit_code == 1
    assert f"[{at // 16}, {at % 16}]" in result.console


def test_the_same_input_gives_the_same_bytes() -> None:
    first, second = _program(check=True), _program(check=True)
    assert first.elf == second.elf
    assert first.symbols == second.symbols
    other = build_program(_copy(20), "copy", _buffers(20, seed=1), GEMMINI, check=True)
    assert other.elf != first.elf


def test_what_the_file_says() -> None:
    program = _program(check=True)
    elf = ELFFile(io.BytesIO(program.elf))
    assert read_note(elf.get_section_by_name(SECTION).data()) == GEMMINI.config_hash
    symbols = {}
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            symbols |= {one.name: (one["st_value"], one["st_size"]) for one in section.iter_symbols()}
    assert symbols["buffer_source"] == (program.symbols["source"], 320)
    assert symbols["buffer_target"] == (program.symbols["target"], 320)
    assert {"tohost", "fromhost", "_start", "expected_target"} <= set(symbols)
    assert elf["e_entry"] == 0x80000000
    for address in program.symbols.values():
        assert address % 64 == 0
    ends = sorted((address, address + 320) for address in program.symbols.values())
    assert ends[0][1] + 64 <= ends[1][0]
    assert ends[1][1] + 64 <= 0x80000000 + program.memory_bytes
    # nothing of the machine that compiled it
    code = program.elf.replace(bytes(range(32, 127)), b"")
    for text in (b"/tmp", b"/home", b"/root", b".cache", b".py", b"clang", b"LLVM"):
        assert text not in code


def test_outputs_take_no_room_in_the_file() -> None:
    e = Emitter("nothing", ["big"])
    program = build_program(e.finish(), "nothing", [Buffer("big", (64 << 20,), "uint8", "output")], GEMMINI)
    assert len(program.elf) < 1 << 16
    assert program.memory_bytes > 64 << 20


def test_more_memory_than_usual() -> None:
    e = Emitter("touch", ["far", "near"])
    e.store(e.add(e.arguments[0], (600 << 20) - 8), 77)
    e.store(e.arguments[1], e.load(e.add(e.arguments[0], (600 << 20) - 8)))
    buffers = [Buffer("far", (600 << 20,), "uint8", "workspace"), Buffer("near", (1,), "int64", "output")]
    outputs, result = run_program(build_program(e.finish(), "touch", buffers, GEMMINI))
    assert result.exit_code == 0
    assert int(outputs["near"][0]) == 77


def test_many_arguments() -> None:
    """More than registers pass."""
    names = [f"a{i}" for i in range(12)]
    e = Emitter("sum", [*names, "out"])
    total = e.add(*(e.load(one) for one in e.arguments[:-1]))
    e.store(e.arguments[-1], total)
    buffers = [Buffer(name, (1,), "int64", "constant", np.array([1 << i])) for i, name in enumerate(names)]
    buffers.append(Buffer("out", (1,), "int64", "output"))
    outputs, _ = run_program(build_program(e.finish(), "sum", buffers, GEMMINI))
    assert int(outputs["out"][0]) == (1 << 12) - 1


def test_c_functions_beside_the_module() -> None:
    text = """
    func.func private @twice(i64) -> ()
    func.func @f(%x: i64) {
      func.call @twice(%x) : (i64) -> ()
      func.return
    }
    """
    source = "#include <stdint.h>\nvoid twice(int64_t x) { int64_t* p = (int64_t*)x; for (int i = 0; i < 4; ++i) p[i] *= 2; }\n"
    data = np.array([1, -2, 3, 1 << 40])
    buffers = [Buffer("x", (4,), "int64", "inout", data)]
    program = build_program(parsed(text), "f", buffers, GEMMINI, sources={"twice.c": source})
    outputs, result = run_program(program)
    assert result.exit_code == 0
    np.testing.assert_array_equal(outputs["x"], 2 * data)
    with pytest.raises(CompileError, match="undefined symbol: twice"):
        build_program(parsed(text), "f", buffers, GEMMINI)
    with pytest.raises(CompileError, match=r"twice\.c:1:"):
        build_program(parsed(text), "f", buffers, GEMMINI, sources={"twice.c": "nonsense"})


def test_traps_are_reported() -> None:
    e = Emitter("bad", [])
    e.store(8, 1)
    _, result = run_program(build_program(e.finish(), "bad", [], GEMMINI))
    assert result.exit_code == 64 + 7
    assert result.console.startswith("trap: cause 7 at 0x8")
    assert result.console.endswith(", value 0x8\n")
    text = 'llvm.func @bad() {\n  llvm.inline_asm has_side_effects "unimp", "" : () -> ()\n  llvm.return\n}\n'
    _, result = run_program(build_program(parsed(text, "llvm"), "bad", [], GEMMINI))
    assert result.exit_code == 64 + 2
    assert result.console.startswith("trap: cause 2 at 0x8")


def test_assembly_that_is_no_part_of_programs() -> None:
    text = 'llvm.func @bad() {\n  llvm.inline_asm has_side_effects "nonsense x9", "" : () -> ()\n  llvm.return\n}\n'
    with pytest.raises(InputError, match=r"test\.mlir:2:3: .* 'nonsense x9'"):
        build_program(parsed(text, "llvm"), "bad", [], GEMMINI)


@pytest.mark.parametrize(
    ("entry", "buffers", "reason"),
    [
        ("nowhere", 2, "no function @nowhere"),
        ("copy", 1, "takes 2 arguments, but there are 1"),
        ("copy", 3, "takes 2 arguments, but there are 3"),
    ],
)
def test_entries_that_cannot_be_called(entry: str, buffers: int, reason: str) -> None:
    given = [Buffer(f"b{i}", (1,), "int8") for i in range(buffers)]
    with pytest.raises(InputError, match=reason):
        build_program(_copy(4), entry, given, GEMMINI)


def test_entries_of_a_wrong_type() -> None:
    for text in ("func.func @f(%a: i32) {\n  func.return\n}", "func.func private @f(i64) -> ()"):
        with pytest.raises(InputError, match="cannot be where a program begins"):
            build_program(parsed(text), "f", [Buffer("a", (1,), "int8")], GEMMINI)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("a b", (1,), "int8"), "cannot name a buffer"),
        (("a", (0,), "int8"), "sizes of at least 1"),
        (("a", (1,), "int9"), "cannot hold int9"),
        (("a", (1,), "int8", "somehow"), "cannot be 'somehow'"),
        (
            ("a", (2,), "int8", "input", np.zeros(3, np.int8)),
            r"data of buffer 'a' is int8\[3\], not int8\[2\]",
        ),
        (("a", (2,), "int8", "input", np.zeros(2, np.int16)), "is int16"),
        (("a", (2,), "int8", "output", None, np.zeros(2, np.int16)), "expected of buffer 'a' is int16"),
    ],
)
def test_buffers_that_make_no_sense(arguments: tuple, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Buffer(*arguments)


def test_names_twice_and_too_much_data() -> None:
    e = Emitter("f", ["a", "b"])
    module = e.finish()
    with pytest.raises(InputError, match="two buffers are called 'a'"):
        build_program(module, "f", [Buffer("a", (1,), "int8")] * 2, GEMMINI)
    big = [Buffer(name, (1 << 30,), "int8", "workspace") for name in "ab"]
    with pytest.raises(InfeasibleError, match="more than the"):
        build_program(module, "f", big, GEMMINI)


def test_names_of_functions() -> None:
    for name in ("main", "copy", "input", "x.y", "größe"):
        e = Emitter(name, ["a"])
        e.store(e.arguments[0], 7)
        program = build_program(e.finish(), name, [Buffer("a", (1,), "int64", "output")], GEMMINI)
        assert int(run_program(program)[0]["a"][0]) == 7
    for name in ("exit", "print", "memcpy", "_start", "buffer_a", "baco_main"):
        e = Emitter(name, ["a"])
        with pytest.raises(InputError, match=f"cannot be called @{name}"):
            build_program(e.finish(), name, [Buffer("a", (1,), "int64", "output")], GEMMINI)


def test_inputs_that_do_not_fit() -> None:
    program = _program()
    with pytest.raises(InputError, match="no buffer 'sauce'"):
        run_program(program, {"sauce": np.zeros(3)})
    with pytest.raises(InputError, match=r"takes int8\[20, 16\], not float64\[3\]"):
        run_program(program, {"source": np.zeros(3)})


def test_data_objects_are_elf() -> None:
    pieces = data_object(
        [
            DataSection(".one", [("a", 3, b"abc"), ("b", 100, b"xyz")], 64, 8),
            DataSection(".none", []),
            DataSection(".two", [("c", 5, None)], 32, content=False),
        ]
    )
    elf = ELFFile(io.BytesIO(b"".join(pieces)))
    one, two = elf.get_section_by_name(".one"), elf.get_section_by_name(".two")
    assert one.data()[:3] == b"abc"
    assert one.data()[64:67] == b"xyz"
    assert one.data_size % 64 == 0
    assert one.data_size >= 64 + 108
    assert two["sh_type"] == "SHT_NOBITS"
    table = elf.get_section_by_name(".symtab")
    found = {one.name: (one["st_value"], one["st_size"]) for one in table.iter_symbols() if one.name}
    assert found == {"a": (0, 3), "b": (64, 100), "c": (0, 5)}


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import baco.compiler.codegen.toolchain as toolchain

    monkeypatch.setattr(toolchain, "zig_program", lambda: None)
    with pytest.raises(InputError, match="the package 'ziglang' is missing"):
        _program()


def test_objects_are_kept_by_what_they_are_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import baco.compiler.codegen.toolchain as toolchain

    monkeypatch.setenv("BACO_CACHE", str(tmp_path))
    first = toolchain.runtime_objects()
    assert {path.name for path in first} == {"check.o", "htif.o", "memory.o", "start.o"}
    sources = {
        "number.h": "#define NUMBER 7\n",
        "f.c": '#include "number.h"\nint f(void) { return NUMBER; }\n',
    }
    (other,) = toolchain.kept_objects({**sources, "number.h": "#define NUMBER 8\n"})
    first += toolchain.kept_objects(sources)
    assert other.read_bytes() != first[-1].read_bytes()
    stamps = [path.stat().st_mtime_ns for path in first]
    monkeypatch.setattr(toolchain, "compile_source", None)
    again = toolchain.runtime_objects() + toolchain.kept_objects(sources)
    assert [path.stat().st_mtime_ns for path in again] == stamps
