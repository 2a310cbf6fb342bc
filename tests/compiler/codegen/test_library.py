"""Programs as functions of a user's C program: called again and again, as an object and as C, they compute what integers say."""

from __future__ import annotations

import io
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import baco
from baco.accel.config import Accelerator
from baco.accel.isa import COMMANDS, encode, float32_bits
from baco.api.network_unit import NetworkUnit
from baco.api.unit import launch_unit, layer_unit, unit_library
from baco.common.errors import InputError
from baco.compiler.choice.choose import choose
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.c_commands import MACROS, command_statement, commands_header
from baco.compiler.codegen.c_library import CLibrary, build_library, check_name, library_name
from baco.compiler.dialects.context import all_dialects
from baco.compiler.ir.text import read_ir
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import network_code, network_library
from baco.compiler.network.quantise import quantise
from baco.compiler.network.reference import reference_runs
from tests.compiler.codegen.library_calls import FLAGS, call_library
from tests.compiler.kernels import CASES
from tests.compiler.network import net_quant_networks as small
from tests.compiler.network.net_sketch import DIM4
from tests.compiler.network.test_net_program_random import NETWORKS
from tests.machines import SMALL
from tests.sim.compiled import zig
from tests.sim.linux_programs import run_linux_program


def quantised(name: str) -> QuantisedNetwork:
    return quantise(getattr(small, name)(), seed=1)


def random_runs(network: QuantisedNetwork, count: int, seed: int = 3) -> list[dict[str, np.ndarray]]:
    """Inputs by value: any int8, and indices that are small."""
    rng = np.random.default_rng(seed)
    ends = {"int8": (-128, 128), "int32": (0, 2)}
    return [
        {
            one.name: rng.integers(*ends[one.dtype], one.shape).astype(one.dtype)
            for one in network.values.values()
            if one.role == "input"
        }
        for _ in range(count)
    ]


def check_network(name: str, machine: Accelerator, count: int, folder: Path, **options: Any) -> None:
    """All outputs of all calls equal numpy's integers, and calls differ from one another."""
    network = quantised(name)
    code = network_code(network, machine)
    placement = code.placement
    runs = random_runs(network, count)
    calls = [{placement.names[value]: array for value, array in run.items()} for run in runs]
    library = network_library(code, machine, "net")
    found, _ = call_library(library, placement.buffers, calls, folder, **options)
    wanted = reference_runs(network, runs)
    outputs = [one.name for one in network.values.values() if one.role == "output"]
    for value in outputs:
        got = np.stack([call[placement.names[value]] for call in found])
        np.testing.assert_array_equal(got, wanted[value])
    assert count == 1 or any(len(np.unique(wanted[value], axis=0)) > 1 for value in outputs)


#: What every kind of host code, of loops and of commands is in; the rest has its tests as ELF files, too.
_QUICK = (
    "normalised",
    "selected",
    "pointwise",
    "add int32",
    "requantise 0.05",
    "attention",
    "sparse",
    "in place",
)


def quick(names: Sequence[str]) -> list[Any]:
    return [one if one in _QUICK else pytest.param(one, marks=pytest.mark.slow) for one in names]


@pytest.mark.parametrize("name", quick(NETWORKS))
def test_objects_of_networks_of_all_operators(name: str, tmp_path: Path) -> None:
    check_network(name, DIM4, 4, tmp_path)


def test_an_object_is_called_a_hundred_times(tmp_path: Path) -> None:
    check_network("convolutions", DIM4, 100, tmp_path)


def test_a_linux_program_calls_an_object(tmp_path: Path) -> None:
    """Linked statically, at Linux's addresses, on Linux's stack; what it maps is not locked, since nothing is ever paged."""
    check_network("normalised", DIM4, 10, tmp_path, linux=True, also="count != 1 || arguments[0][0] != 'p'")


@pytest.mark.slow  # the C library is compiled first
def test_a_linux_program_with_a_c_library_calls_an_object(tmp_path: Path) -> None:
    layer = baco.gemm(9, 7, 13, bias=True)
    library, buffers = layer_library(layer, SMALL, "layer")
    library.save_object(tmp_path)
    tensors = draw_tensors(layer, 3)
    arrays = {one.name: one for one in buffers}
    fill = "".join(
        f"  static const unsigned char {name}[] = {{{', '.join(map(str, array.tobytes()))}}};\n"
        f"  memcpy(room[{at}], {name}, sizeof {name});\n  inputs.{name} = room[{at}];\n"
        for at, (name, array) in enumerate(tensors.items())
    )
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n"
        '#include "layer.h"\nint main(void) {\n  if (mlockall(MCL_CURRENT | MCL_FUTURE)) return 1;\n'
        "  void* room[4];\n  for (int i = 0; i < 4; ++i) if (!(room[i] = aligned_alloc(LAYER_ALIGN, 4096))) return 2;\n"
        "  struct layer_inputs inputs;\n  struct layer_outputs outputs = {room[3]};\n"
        f"{fill}  const int code = layer_run(&inputs, &outputs);\n"
        '  for (int i = 0; i < LAYER_OUTPUT_ELEMENTS; ++i) printf("%d ", outputs.output[i]);\n  return code;\n}\n'
    )
    target = tmp_path / "program"
    zig(
        "cc",
        "-target",
        "riscv64-linux-musl",
        "-static",
        "-O2",
        tmp_path / "main.c",
        tmp_path / "layer.o",
        "-o",
        target,
    )
    counted = run_linux_program(target, SMALL, tmp_path)
    assert counted.exit_code == 0
    assert arrays["output"].role == "output"
    assert [int(word) for word in counted.console.split()] == layer_result(layer, tensors).tolist()


def test_a_call_gives_the_commands_of_the_program(tmp_path: Path) -> None:
    """As many of each as the ELF file of the same options, and one that flushes translations."""
    program = baco.compile(small.convolutions(), DIM4, timing="gemmini")
    unit = program._unit
    assert isinstance(unit, NetworkUnit)
    code = unit.code()
    calls = [{code.placement.names[value]: array for value, array in unit.data.items()}]
    library = network_library(code, program.accelerator, "net")
    found, counted = call_library(library, code.placement.buffers, calls, tmp_path)
    alone = program.run()
    assert alone.right
    assert counted.commands == alone.simulation.commands | {"FLUSH": 1}
    assert unit.reference is not None
    for value, buffer in code.placement.names.items():
        if buffer in found[0]:
            np.testing.assert_array_equal(found[0][buffer], unit.reference[value])


@pytest.mark.parametrize("name", quick(["convolutions", "normalised"]))
def test_c_is_what_the_users_compiler_compiles(name: str, tmp_path: Path) -> None:
    check_network(name, DIM4, 4, tmp_path, form="c")


@pytest.mark.parametrize("name", quick(list(CASES)))
def test_kernels(name: str, tmp_path: Path) -> None:
    """Of two calls with the same arrays, the second finds nothing of the first."""
    case = CASES[name](np.random.default_rng(2))
    unit = launch_unit(case.launcher.bind(*case.arguments), SMALL, compare=False)
    assert unit.buffers is not None
    calls = [{one.name: one.data for one in unit.buffers if one.data is not None}] * 2
    library = unit_library(unit, SMALL, "kernel")
    found, _ = call_library(library, unit.buffers, calls, tmp_path)
    arrays = {id(one): one for one in case.arguments if isinstance(one, np.ndarray)}
    buffers = dict(zip(arrays, unit.buffers, strict=True))
    assert case.expected
    for position, expected in case.expected.items():
        given = case.arguments[position]
        for call in found:
            memory = call[buffers[id(given)].name]
            array = np.ndarray(given.shape, given.dtype, memory.tobytes(), strides=given.strides)
            np.testing.assert_array_equal(array, expected)


def layer_library(layer: Layer, machine: Accelerator, name: str) -> tuple[CLibrary, Sequence[Buffer]]:
    unit = layer_unit(layer, choose(layer, machine), machine, compare=False)
    assert unit.buffers is not None
    return unit_library(unit, machine, name), unit.buffers


@pytest.mark.parametrize("engine", ["functional", "timed", "rtl"])
def test_a_layer_on_every_engine(engine: str, tmp_path: Path) -> None:
    layer = baco.gemm(9, 7, 13, bias=True)
    library, buffers = layer_library(layer, SMALL, "layer")
    calls = [draw_tensors(layer, seed) for seed in range(5)]
    found, counted = call_library(library, buffers, calls, tmp_path, engine=engine)
    for call, tensors in zip(found, calls, strict=True):
        np.testing.assert_array_equal(call["output"], layer_result(layer, tensors))
    assert (counted.cycles is None) == (engine == "functional")


def symbols(path: Path) -> dict[str, str]:
    """Binding of every symbol that other objects see, by its name."""
    table = ELFFile(io.BytesIO(path.read_bytes())).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    return {
        one.name: one["st_info"]["bind"].removeprefix("STB_").lower()
        for one in table.iter_symbols()
        if one["st_info"]["bind"] != "STB_LOCAL"
    }


@pytest.fixture(scope="module")
def saved_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("object")
    code = network_code(quantised("normalised"), DIM4)
    path, header = network_library(code, DIM4, "net").save_object(folder)
    assert (path.name, header.name) == ("net.o", "net.h")
    return path


def test_nothing_but_the_function_is_seen_and_nothing_is_missing(saved_object: Path) -> None:
    own = {"net_run": "global", "net_constants": "global"}
    weak = dict.fromkeys(("memcmp", "memcpy", "memmove", "memset"), "weak")
    assert symbols(saved_object) == own | weak


def test_two_libraries_in_one_program(tmp_path: Path) -> None:
    """The second is linked as a user's own code that the first knows nothing of, both with the same functions of the host."""
    network = quantised("pointwise")
    other = network_library(network_code(network, DIM4), DIM4, "other").save_object(tmp_path)[0]
    (tmp_path / "other.o").rename(tmp_path / "kept.o")
    code = network_code(network, DIM4)
    placement = code.placement
    library = network_library(code, DIM4, "net")
    runs = random_runs(network, 2)
    calls = [{placement.names[value]: array for value, array in run.items()} for run in runs]
    found, _ = call_library(
        library, placement.buffers, calls, tmp_path, linked=[tmp_path / "kept.o"], also="other_run(0, 0) != 1"
    )
    assert other.name == "other.o"
    wanted = reference_runs(network, runs)
    for value in (one.name for one in network.values.values() if one.role == "output"):
        np.testing.assert_array_equal(
            np.stack([call[placement.names[value]] for call in found]), wanted[value]
        )


def test_no_instruction_is_a_machines_own(saved_object: Path) -> None:
    """A program of an operating system may execute all of it: of the control registers, only that of rounding."""
    elf = ELFFile(io.BytesIO(saved_object.read_bytes()))
    registers = set()
    for section in elf.iter_sections():
        if not section["sh_flags"] & 4:
            continue
        code, at = section.data(), 0
        while at < len(code):
            low = code[at]
            if low & 3 != 3:
                at += 2
                continue
            (word,) = struct.unpack_from("<I", code, at)
            if word & 0x7F == 0x73:
                registers.add(word >> 20 if word >> 12 & 7 else f"system {word:#x}")
            at += 4
    assert registers == {2}, "frm"


def test_wrong_arguments_have_codes_and_the_callers_rounding_stays(tmp_path: Path) -> None:
    layer = baco.gemm(5, 6, 7)
    library, buffers = layer_library(layer, SMALL, "layer")
    tensors = draw_tensors(layer, 0)
    found, _ = call_library(
        library,
        buffers,
        [tensors],
        tmp_path,
        also="layer_run(0, &outputs) != LAYER_NULL || layer_run(&inputs, 0) != LAYER_NULL"
        " || (outputs.output += 4, layer_run(&inputs, &outputs)) != LAYER_MISALIGNED || (outputs.output = 0, 0)"
        " || layer_run(&inputs, &outputs) != LAYER_NULL || rounding() != 1",
        before='__asm__ volatile("fsrmi 1");',
    )
    np.testing.assert_array_equal(found[0]["output"], layer_result(layer, tensors))


def test_headers_are_those_of_cpp_too(tmp_path: Path) -> None:
    network_library(network_code(quantised("moved"), DIM4), DIM4, "net").save_c(tmp_path)
    (tmp_path / "user.cpp").write_text(
        '#include "net.h"\n#include "baco_gemmini.h"\n'
        "void flush() { gemmini_flush(0); gemmini_fence(); }\n"
        "int call(const net_inputs& i, net_outputs& o) { return net_run(&i, &o); }\n"
    )
    zig("c++", *FLAGS, "-std=c++17", f"-I{tmp_path}", "-c", tmp_path / "user.cpp", "-o", tmp_path / "user.o")


def test_macros_pack_as_the_instruction_set_says(tmp_path: Path) -> None:
    """Every macro of the header with random values, computed at run time, gives the registers that `encode` gives."""
    rng = np.random.default_rng(5)
    lines, wanted = [], []
    for name, macro in MACROS.items():
        kind = COMMANDS[name]
        for _ in range(4):
            fields = {
                field: int(rng.integers(0, 1 << min(kind.field(field).width, 62)))
                for _, field in macro.parameters
            }
            for field in fields:
                if kind.field(field).kind == "float32":
                    fields[field] = float32_bits(float(rng.normal()))
            computed = {one.name: fields.get(one.name, one.default) for one in kind.fields}
            lines.append(command_statement(kind, computed))
            wanted.append(tuple(encode(name, **fields)))
    header = commands_header().replace(
        commands_header()[
            commands_header().index("#define ROCC_INST") : commands_header().index("#define gemmini_fence")
        ],
        "#define ROCC_INSTRUCTION_RS1_RS2(x, rs1, rs2, funct) "
        'printf("%d %llu %llu\\n", funct, (unsigned long long)(rs1), (unsigned long long)(rs2))\n',
    )
    (tmp_path / "baco_gemmini.h").write_text("#include <stdio.h>\n" + header)
    (tmp_path / "macros.c").write_text(
        '#include "baco_gemmini.h"\nint main(void) {\n' + "\n".join(lines) + "\n}\n"
    )
    zig("cc", "-Wall", "-Werror", tmp_path / "macros.c", "-o", tmp_path / "macros")
    done = subprocess.run([tmp_path / "macros"], capture_output=True, text=True, check=True)
    assert [tuple(map(int, line.split())) for line in done.stdout.splitlines()] == wanted


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("resnet50", "resnet50"), ("my-net v2", "my_net_v2"), ("2b", "net_2b"), ("a.b", "a_b")),
        *(("stdint", "net_stdint"), ("int", "int")),
    ],
)
def test_networks_give_their_names(text: str, name: str) -> None:
    assert library_name(text) == check_name(name) == name


@pytest.mark.parametrize("name", ["", "2b", "a-b", "ä", "a" * 61, "stdint", "baco_gemmini"])
def test_names_that_no_library_has(name: str) -> None:
    with pytest.raises(InputError):
        check_name(name)


def test_names_that_c_takes_for_one_are_refused() -> None:
    module = "func.func @f(%a: i64, %b: i64) {\n  func.return\n}\n"
    for names in (("x", "X"), ("ok", "y")):
        buffers = [Buffer(one, (4,), "int8") for one in names]
        with pytest.raises(InputError, match="have one name in C"):
            build_library(
                read_ir(module, "f.mlir", all_dialects(), "instgem"), "f", buffers, SMALL, name="net"
            )
    buffers = [Buffer("int", (4,), "int8"), Buffer("return", (4,), "int8", "output")]
    made = build_library(
        read_ir(module, "f.mlir", all_dialects(), "instgem"), "f", buffers, SMALL, name="net"
    )
    assert "const int8_t* int_;" in made.header
    assert "int8_t* return_;" in made.header


def test_python_writes_them_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = baco.compile(baco.gemm(20, 12, 8), SMALL)
    first = program.save_object("layer.o")
    assert [path.name for path in first] == ["layer.o", "layer.h"]
    before = [path.read_bytes() for path in first]
    assert program.run().right, "the program is as it was"
    assert [path.read_bytes() for path in program.save_object(tmp_path / "layer.o")] == before
    with pytest.raises(InputError, match=r"the file is called NAME\.c, not 'layer\.o'"):
        program.save_c("layer.o")
    assert [path.name for path in program.save_c("layer.c")] == ["layer.c", "layer.h", "baco_gemmini.h"]


_FLOATS = """
func.func @f(%in: i64, %out: i64) {
  %four = arith.constant 4 : i64
  %eight = arith.constant 8 : i64
  %next = arith.addi %in, %four : i64
  %p0 = "llvm.inttoptr"(%in) : (i64) -> !llvm.ptr
  %p1 = "llvm.inttoptr"(%next) : (i64) -> !llvm.ptr
  %x = "llvm.load"(%p0) <{ordering = 0 : i64}> : (!llvm.ptr) -> f32
  %y = "llvm.load"(%p1) <{ordering = 0 : i64}> : (!llvm.ptr) -> f32
  %a = math.absf %x : f32
  %root = math.sqrt %a : f32
  %high = arith.maxnumf %root, %y : f32
  %low = arith.minnumf %high, %x : f32
  %whole = math.roundeven %low : f32
  %less = arith.cmpf olt, %whole, %y : f32
  %chosen = arith.select %less, %whole, %root : f32
  %n = arith.fptosi %chosen : f32 to i32
  %q0 = "llvm.inttoptr"(%out) : (i64) -> !llvm.ptr
  "llvm.store"(%n, %q0) <{ordering = 0 : i64}> : (i32, !llvm.ptr) -> ()
  func.return
}
"""


@pytest.mark.parametrize("form", ["object", "c"])
def test_arithmetic_of_floats(form: str, tmp_path: Path) -> None:
    module = read_ir(_FLOATS, "f.mlir", all_dialects(), "instgem")
    buffers = [Buffer("given_pair", (2,), "float32"), Buffer("number", (1,), "int32", "output")]
    library = build_library(module, "f", buffers, SMALL, name="net")
    pairs = np.array(
        [
            (2.25, 9.0),
            (-7.5, 1.0),
            (2.5, 3.0),
            (-2.5, 0.0),
            (1e30, 1e31),
            (-1e30, 2.0),
            (np.nan, 5.0),
            (3.5, np.nan),
        ],
        np.float32,
    )
    found, _ = call_library(library, buffers, [{"given_pair": pair} for pair in pairs], tmp_path, form=form)
    for (x, y), call in zip(pairs, found, strict=True):
        root = np.sqrt(np.abs(x))
        whole = np.rint(np.fmin(np.fmax(root, y), x))
        chosen = float(whole if whole < y else root)
        wanted = 0 if np.isnan(chosen) else int(np.clip(np.trunc(chosen), -(2.0**31), 2.0**31 - 1))
        assert call["number"][0] == wanted, (x, y)
