"""Programs: a module at the `instgem` or `llvm` level and its data become an ELF file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.elf_note import SECTION, note_bytes
from baco.accel.system import System
from baco.common.errors import InputError
from baco.common.scratch import scratch_folder
from baco.compiler.codegen.buffer import Buffer, Role
from baco.compiler.codegen.data_object import DataSection, data_object
from baco.compiler.codegen.elf_symbols import elf_symbols
from baco.compiler.codegen.entry import entry_ir
from baco.compiler.codegen.toolchain import (
    compile_source,
    kept_objects,
    link_program,
    runtime_objects,
)
from baco.compiler.ir.location import location_of
from baco.compiler.main_memory import MEMORY_BASE, check_memory

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

__all__ = [
    "BACK_END",
    "Buffer",
    "Program",
    "Role",
    "build_program",
    "lower_to_ir",
    "program_assembly",
]

#: Passes from the `instgem` level to LLVM IR.
BACK_END = ("instgem-hoist-config", "instgem-elide-config", "instgem-to-llvm", "lower-to-llvm")
#: Bytes that are readable behind every buffer.
SLACK_BYTES = 64
#: Symbols of the runtime (runtime/*) and of what `entry_ir` writes.
_RUNTIME_NAMES = frozenset(
    (
        *(
            "baco_main",
            "check_buffers",
            "checks",
            "exit",
            "print",
            "print_hex",
            "print_number",
            "report_trap",
        ),
        *("memcmp", "memcpy", "memmove", "memset", "_start", "trap_entry", "tohost", "fromhost"),
        *("bss_start", "bss_end", "stack_end", "program_end", "__global_pointer$"),
    )
)
_ALIGN = 64


@dataclass(frozen=True)
class Program:
    """A program for one accelerator, ready to run on it or on a simulator.

    Attributes:
        name: for people.
        elf: the file's bytes.
        symbols: addresses of the buffers by their names.
        buffers: in the order of the entry function's arguments.
        accelerator: what it was compiled for; its hash is in the file.
        memory_bytes: from the start of main memory to behind everything the program needs.
        checked: whether it compares its results itself.
        requirement: least hardware by name, where it is known.
        labels: addresses of other symbols that `build_program` was asked for.
        system: of several units, if it is for one; `accelerator` is then the first there.
    """

    name: str
    elf: bytes
    symbols: dict[str, int]
    buffers: tuple[Buffer, ...]
    accelerator: Accelerator
    memory_bytes: int
    checked: bool = False
    requirement: Mapping[str, int] | None = None
    labels: Mapping[str, int] = field(default_factory=dict)
    system: System | None = None

    @property
    def machine(self) -> Accelerator | System:
        """What it runs on."""
        return self.system or self.accelerator

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name. Raises InputError when there is none."""
        for one in self.buffers:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.buffers)
        raise InputError(f"the program has no buffer '{name}'", hint=f"it has {known}")


#: Called with a pass's name and the module after it.
Observer = Callable[[str, "ModuleOp"], None]


def lower_to_ir(module: ModuleOp, observe: Observer | None = None) -> str:
    """LLVM IR text of a module at the `instgem` or `llvm` level; the module is lowered in place.

    Raises InputError for what cannot be lowered.
    """
    from baco.compiler.codegen.llvm_text import llvm_ir
    from baco.compiler.codegen.pipeline import run_passes

    run_passes(module, BACK_END, observe)
    return llvm_ir(module)


def build_program(
    module: ModuleOp,
    entry: str,
    buffers: Sequence[Buffer],
    accelerator: Accelerator,
    *,
    system: System | None = None,
    others: Sequence[str] = (),
    check: bool = False,
    name: str | None = None,
    sources: Mapping[str, str] | None = None,
    requirement: Mapping[str, int] | None = None,
    slack_bytes: int = SLACK_BYTES,
    labels: Sequence[str] = (),
    observe: Observer | None = None,
) -> Program:
    """Compile and link a program that calls `entry` once with the addresses of `buffers`.

    The same arguments give the same bytes.

    Args:
        module: at the `instgem` or `llvm` level; lowered in place.
        entry: a function of it that takes one i64 a buffer.
        buffers: their data go into the ELF file.
        accelerator: its hash goes into the file, or that of the system.
        system: that the program is for, if it is for one.
        others: functions of the same arguments that harts 1, 2... of the system run.
        check: compare every buffer that has `expected` at the end; print the first wrong element of each and exit
            with 1 if any is wrong.
        name: of the program; default: the entry's.
        sources: more C or assembly by file name (functions that the module calls).
        requirement: kept in the program.
        slack_bytes: readable bytes behind every buffer, for commands that load more than they use.
        labels: global symbols of the code whose addresses are wanted.
        observe: called after every pass.

    Raises InputError for an entry that is missing or takes other arguments and for what cannot be lowered,
    InfeasibleError for data beyond 2 GiB, CompileError when Clang refuses the code.
    """
    buffers = tuple(buffers)
    _check_buffers(buffers)
    arguments = _entry_arguments(module, entry)
    if arguments != len(buffers):
        raise InputError(f"@{entry} takes {arguments} arguments, but there are {len(buffers)} buffers")
    _check_names(module, buffers)
    text = lower_to_ir(module, observe)
    checked = [buffer for buffer in buffers if check and buffer.expected is not None]
    text += "\n" + entry_ir((entry, *others), buffers, checked)
    with scratch_folder() as folder:
        sections = _sections(buffers, checked, system or accelerator, slack_bytes)
        elf = _build(folder, text, sources or {}, sections, harts=bool(others))
    addresses = elf_symbols(elf)
    return Program(
        name=name or entry,
        elf=elf,
        symbols={buffer.name: addresses[buffer.symbol] for buffer in buffers},
        buffers=buffers,
        accelerator=accelerator,
        memory_bytes=addresses["program_end"] - MEMORY_BASE,
        checked=check,
        requirement=requirement,
        labels={label: addresses[label] for label in labels},
        system=system,
    )


def program_assembly(ir: str) -> str:
    """RISC-V assembly of LLVM IR text. Raises CompileError when Clang refuses it."""
    with scratch_folder() as folder:
        source, target = folder / "program.ll", folder / "program.s"
        source.write_text(ir, encoding="utf-8")
        compile_source(source, target, assembly=True)
        return target.read_text(encoding="utf-8")


def _build(
    folder: Path, ir: str, sources: Mapping[str, str], sections: Sequence[DataSection], *, harts: bool
) -> bytes:
    (folder / "program.ll").write_text(ir, encoding="utf-8")
    compile_source(folder / "program.ll", folder / "program.o")
    with open(folder / "data.o", "wb") as file:
        file.writelines(data_object(sections))
    target = folder / "program.elf"
    objects = [folder / "program.o", *kept_objects(sources), folder / "data.o"]
    link_program([*runtime_objects(harts=harts), *objects], target)
    return target.read_bytes()


def _sections(
    buffers: Sequence[Buffer], checked: Sequence[Buffer], machine: Accelerator | System, slack: int
) -> list[DataSection]:
    note = note_bytes(machine.config_hash)
    filled = [buffer for buffer in buffers if _starts_filled(buffer)]
    rest = [buffer for buffer in buffers if not _starts_filled(buffer)]
    sections = [
        DataSection(SECTION, [("", len(note), note)], align=4, writable=False, note=True),
        DataSection(
            ".buffers",
            [(buffer.symbol, buffer.nbytes, _bytes(buffer.data)) for buffer in filled],
            _ALIGN,
            slack,
        ),
        DataSection(
            ".expected",
            [(f"expected_{buffer.name}", buffer.nbytes, _bytes(buffer.expected)) for buffer in checked],
            _ALIGN,
            writable=False,
        ),
        DataSection(
            ".room", [(buffer.symbol, buffer.nbytes, None) for buffer in rest], _ALIGN, slack, content=False
        ),
    ]
    check_memory("the program's data", {section.name: section.offsets()[1] for section in sections})
    return sections


def _starts_filled(buffer: Buffer) -> bool:
    return buffer.data is not None or buffer.role in ("input", "inout", "constant")


def _bytes(array: np.ndarray[Any, Any] | None) -> memoryview:
    """Little-endian bytes in row-major order, without a copy where that is how they lie."""
    if array is None:
        return memoryview(b"")
    dense = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return dense.reshape(-1).view(np.uint8).data


def _check_buffers(buffers: Sequence[Buffer]) -> None:
    seen: set[str] = set()
    for one in buffers:
        if one.name in seen:
            raise InputError(f"two buffers are called '{one.name}'")
        seen.add(one.name)


def _check_names(module: ModuleOp, buffers: Sequence[Buffer]) -> None:
    """Raise InputError for a function or global whose name something else in the program has."""
    from xdsl.dialects import func, llvm

    taken = _RUNTIME_NAMES | {one.symbol for one in buffers} | {f"expected_{one.name}" for one in buffers}
    for op in module.body.block.ops:
        if isinstance(op, (func.FuncOp, llvm.FuncOp)):
            what, defined = "function", bool(op.body.blocks)
        elif isinstance(op, llvm.GlobalOp):
            what, defined = "global", True
        else:
            continue
        if defined and op.sym_name.data in taken:
            raise InputError(
                f"a {what} cannot be called @{op.sym_name.data}: the program's runtime uses that name",
                location=location_of(op),
            )


def _entry_arguments(module: ModuleOp, entry: str) -> int:
    """How many numbers the entry function takes."""
    from xdsl.dialects import func, llvm
    from xdsl.dialects.builtin import i64

    names = []
    for op in module.body.block.ops:
        if not isinstance(op, (func.FuncOp, llvm.FuncOp)):
            continue
        names.append(op.sym_name.data)
        if op.sym_name.data != entry:
            continue
        inputs = list(op.function_type.inputs)
        outputs = op.function_type.outputs.data if isinstance(op, func.FuncOp) else ()
        void = isinstance(op, func.FuncOp) or isinstance(op.function_type.output, llvm.LLVMVoidType)
        if not op.body.blocks or any(input_type != i64 for input_type in inputs) or outputs or not void:
            raise InputError(
                f"@{entry} cannot be where a program begins: it takes i64 numbers and returns nothing"
            )
        return len(inputs)
    known = ", ".join(f"@{name}" for name in names) or "none"
    raise InputError(f"the module has no function @{entry}", hint=f"its functions: {known}")
