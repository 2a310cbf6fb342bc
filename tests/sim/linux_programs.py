"""Static Linux programs on the simulators, which have one privilege mode and no page tables: a proxy takes their system calls."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from baco.accel.config import Accelerator
from baco.compiler.codegen.data_object import DataSection, data_object
from baco.sim.engines.base import run_job
from baco.sim.job import Job, MainMemory, Simulation
from tests.sim.compiled import zig

_FOLDER = Path(__file__).parent / "linux_proxy"
#: Programs of Linux lie low; the proxy is behind what they may map, and their stack is before it.
_BASE, _SIZE = 0x10000, (256 << 20) - 0x10000
_LIMIT, _PROXY = 0xE000000, 0xF000000
_FLAGS = (
    *(
        "-target",
        "riscv64-freestanding-none",
        "-mcpu=generic_rv64+m+a+f+d+c",
        "-mabi=lp64d",
        "-mcmodel=medany",
    ),
    *(
        "-O2",
        "-ffreestanding",
        "-fno-builtin",
        "-fno-sanitize=all",
        "-fno-stack-protector",
        "-Wall",
        "-Werror",
    ),
)


def run_linux_program(
    program: Path, accelerator: Accelerator, folder: Path, *, dumps: Sequence[tuple[int, int]] = ()
) -> Simulation:
    """What a static executable does when Linux starts it, with its name as the only argument; as of functional simulation.

    Calls that the proxy does not know give ENOSYS; any trap but a call ends the program with 64 + its cause.
    """
    elf = ELFFile(io.BytesIO(program.read_bytes()))
    assert elf["e_type"] == "ET_EXEC", "it is linked for fixed addresses"
    kinds = {segment["p_type"] for segment in elf.iter_segments()}
    assert "PT_INTERP" not in kinds, "it is static"
    loads = [part for part in elf.iter_segments() if part["p_type"] == "PT_LOAD" and part["p_memsz"]]
    headers = next(
        part["p_vaddr"] + elf["e_phoff"] - part["p_offset"]
        for part in loads
        if part["p_offset"] <= elf["e_phoff"] < part["p_offset"] + part["p_filesz"]
    )
    sections = [
        DataSection(f".user{number}", [(f"user_segment_{number}", part["p_memsz"], part.data())], align=1)
        for number, part in enumerate(loads)
    ]
    with open(folder / "segments.o", "wb") as file:
        file.writelines(data_object(sections))
    end = max(part["p_vaddr"] + part["p_memsz"] for part in loads)
    assert _BASE <= loads[0]["p_vaddr"] < end < _LIMIT - (64 << 20)
    placed = "".join(
        f"  .user{number} {part['p_vaddr']:#x} : {{ KEEP(*(.user{number})) }}\n"
        for number, part in enumerate(loads)
    )
    (folder / "proxy.ld").write_text(
        f"ENTRY(_start)\nuser_entry = {elf['e_entry']:#x};\nuser_headers = {headers:#x};\n"
        f"user_header_count = {elf['e_phnum']};\nuser_end = {end:#x};\nuser_limit = {_LIMIT:#x};\n"
        f"SECTIONS {{\n{placed}  . = {_PROXY:#x};\n"
        "  .text : { *(.text.start) *(.text .text.*) }\n  .rodata : { *(.rodata .rodata.*) }\n"
        "  .tohost : ALIGN(64) { *(.tohost) }\n  .data : { *(.data .data.*) }\n"
        "  .bss : ALIGN(64) { *(.bss .bss.* .sbss .sbss.*) *(.stack) }\n}\n"
    )
    target = folder / "with_proxy.elf"
    sources = (_FOLDER / "proxy.S", _FOLDER / "proxy.c", folder / "segments.o")
    script = f"-Wl,-T,{folder / 'proxy.ld'}"
    zig("cc", *_FLAGS, script, "-static", "-nostdlib", "-Wl,--build-id=none", *sources, "-o", target)
    memory = MainMemory(base=_BASE, size_bytes=_SIZE)
    job = Job(machine=accelerator, program=target, memory=memory, dumps=tuple(dumps))
    return run_job(job, engine="functional")
