"""A user's C program that calls a compiled library again and again: written, linked and simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.c_library import CLibrary
from baco.sim.elf import symbol_range
from baco.sim.engines.base import run_job
from baco.sim.job import Job, Simulation
from tests.sim.compiled import zig
from tests.sim.linux_programs import run_linux_program

PROGRAMS = Path(__file__).parents[2] / "programs"
#: For any RV64GC; a warning in what baco wrote is a mistake.
FLAGS = (
    *(
        "-target",
        "riscv64-freestanding-none",
        "-mcpu=generic_rv64+m+a+f+d+c",
        "-mabi=lp64d",
        "-mcmodel=medany",
    ),
    *("-O2", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector", "-Wall", "-Wextra", "-Werror"),
)
_SEMANTICS = ("-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")
#: Of a program without a C library: arguments from the stack, and the call that ends it.
_LINUX_START = """\
  .text
  .globl _start
_start:
  ld a0, 0(sp)
  addi a1, sp, 8
  call main
  li a7, 94
  ecall
"""
Calls = Sequence[Mapping[str, np.ndarray]]


def call_library(
    library: CLibrary,
    buffers: Sequence[Buffer],
    calls: Calls,
    folder: Path,
    *,
    form: str = "object",
    engine: str = "functional",
    linked: Sequence[Path] = (),
    before: str = "",
    also: str = "0",
    linux: bool = False,
) -> tuple[list[dict[str, np.ndarray]], Simulation]:
    """What every call's outputs hold, and what was counted of all calls together.

    Args:
        buffers: the library's, in any order.
        calls: of each what the caller's arrays hold, by name; outputs begin as -1 in every byte.
        linked: further objects, whose headers are beside them.
        before: statements before the first call.
        also: an expression of C after the calls that is not 0 where something is wrong.
        linux: it is a static program of Linux, which is simulated with a proxy of that; functional engine only.
        form: `object` links NAME.o, `c` compiles NAME.c with the user's own compiler.
    """
    files = library.save_object(folder) if form == "object" else library.save_c(folder)
    sources = [*linked, *(path for path in files if path.suffix in (".o", ".c", ".S"))]
    step, offsets = _layout(buffers)
    given = np.full((len(calls), step), -1, np.int8)
    for row, call in zip(given, calls, strict=True):
        for name, array in call.items():
            data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8)
            row[offsets[name] : offsets[name] + len(data)] = data
    (folder / "given.bin").write_bytes(given.tobytes())
    (folder / "given.S").write_text(
        ".data\n.balign 64\n.globl given\n.type given, @object\n.size given, "
        f'{given.nbytes}\ngiven: .incbin "given.bin"\n.zero 65536\n.section .note.GNU-stack,"",@progbits\n'
    )
    headers = sorted(path.name for path in folder.glob("*.h") if path.name != "baco_gemmini.h")
    text = main_program(library.name, buffers, len(calls), step, offsets, headers, before, also)
    (folder / "main.c").write_text(text)
    target = folder / "program.elf"
    sources += [folder / "main.c", folder / "given.S"]
    if linux:
        (folder / "start.S").write_text(_LINUX_START)
        sources.append(folder / "start.S")
        flags = [f"-I{folder}", "-static", "-nostdlib"]
    else:
        sources.append(PROGRAMS / "crt.S")
        flags = [
            f"-I{folder}",
            "-static",
            "-nostdlib",
            f"-Wl,-T,{PROGRAMS / 'link.ld'}",
            "-Wl,--build-id=none",
        ]
    memory = [] if form == "object" else [write_memory(folder)]
    zig("cc", *FLAGS, *_SEMANTICS, *flags, *sources, *memory, "-o", target)
    dumps = (symbol_range(target, "given"),)
    if linux:
        result = run_linux_program(target, library.accelerator, folder, dumps=dumps)
    else:
        result = run_job(Job(machine=library.accelerator, program=target, dumps=dumps), engine=engine)
    assert result.exit_code == 0, result.console
    after = np.frombuffer(result.memory_dumps[0], np.int8).reshape(given.shape)
    return [
        {
            buffer.name: np.frombuffer(
                row[offsets[buffer.name] : offsets[buffer.name] + buffer.nbytes].tobytes(),
                np.dtype(buffer.dtype),
            ).reshape(buffer.shape)
            for buffer in buffers
            if buffer.role in ("output", "inout")
        }
        for row in after
    ], result


def write_memory(folder: Path) -> Path:
    """The C library's part that compilers expect."""
    path = folder / "libc.c"
    path.write_text(
        "#include <stddef.h>\n"
        "void* memcpy(void* t, const void* f, size_t n) { char* a = t; const char* b = f;"
        ' for (size_t i = 0; i < n; ++i) { a[i] = b[i]; __asm__ volatile(""); } return t; }\n'
        "void* memset(void* t, int x, size_t n) { char* a = t;"
        ' for (size_t i = 0; i < n; ++i) { a[i] = (char)x; __asm__ volatile(""); } return t; }\n'
    )
    return path


def _layout(buffers: Sequence[Buffer]) -> tuple[int, dict[str, int]]:
    """Bytes of a call's arrays, and where each begins."""
    at, offsets = 0, {}
    for one in buffers:
        if one.role in ("input", "output", "inout"):
            offsets[one.name] = at
            at += -(-one.nbytes // 64) * 64
    return at, offsets


def main_program(
    name: str,
    buffers: Sequence[Buffer],
    calls: int,
    step: int,
    offsets: Mapping[str, int],
    headers: Sequence[str],
    before: str,
    also: str,
) -> str:
    """C of a program whose exit code is that of the first call that fails."""
    includes = "".join(f'#include "{one}"\n' for one in headers)

    def members(*roles: str) -> str:
        return " ".join(
            f"{part}.{one.name} = (void*)(given + i * {step} + {offsets[one.name]});"
            for one in buffers
            if one.role in roles
            for part in ["outputs" if one.role == "output" else "inputs"]
        )

    return f"""\
{includes}
extern int8_t given[];
static inline __attribute__((unused)) unsigned long rounding(void) {{
  unsigned long mode;
  __asm__ volatile("frrm %0" : "=r"(mode));
  return mode;
}}
int main(int count, char** arguments) {{
  (void)count, (void)arguments;
  struct {name}_inputs inputs = {{0}};
  struct {name}_outputs outputs = {{0}};
  {before}
  for (long i = 0; i < {calls}; ++i) {{
    {members("input", "inout")}
    {members("output")}
    const int code = {name}_run(&inputs, &outputs);
    if (code) return code;
  }}
  return ({also}) ? 100 : 0;
}}
"""
