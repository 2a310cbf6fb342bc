"""Compiling and linking for the host core: Clang and LLD of the package `ziglang`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from baco.accel.system import MOST_UNITS
from baco.common.cache import Cache
from baco.common.errors import BacoError, InputError, Location, StorageError
from baco.common.packages import zig_program, zig_version
from baco.common.provenance import stable_hash
from baco.common.scratch import scratch_folder

#: Every RV64GC core; hardware floating point, since scales are float32.
_TARGET = (
    *(
        "-target",
        "riscv64-freestanding-none",
        "-mcpu=generic_rv64+m+a+f+d+c",
        "-mabi=lp64d",
        "-mcmodel=medany",
    ),
    *("-O2", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector", "-fno-pic", "-fno-ident", "-g0"),
    # float32 arithmetic is part of the result: every product rounds on its own
    *("-ffp-contract=off", "-ffunction-sections", "-w", "-Wno-override-module"),
)
_C = ("-std=c11", "-fno-builtin", "-fno-strict-aliasing")
#: What C of programs means beyond the language: to be given to any compiler of it.
C_SEMANTICS = ("-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")
_LINK = (
    *("-m", "elf64lriscv", "-static", "--no-relax", "--gc-sections", "--build-id=none"),
    # nothing in a program tells where it was made
    *("--strip-debug", "--discard-locals"),
)
_SECONDS = 600


class CompileError(BacoError):
    """Clang or the linker refused what the compiler gave it."""


def compile_source(source: Path, target: Path, *, assembly: bool = False, flags: Sequence[str] = ()) -> None:
    """Compile one file (.ll, .c, .S) to an object, or to assembly text; `flags` beside those of every file of its kind.

    The compiler sees the file's name without its folder, so the object does not depend on where it was made.
    Raises CompileError with the compiler's first message, InputError when the package `ziglang` is missing.
    """
    usual = _C if source.suffix == ".c" else ()
    what = "-S" if assembly else "-c"
    _run(["cc", *_TARGET, *usual, *flags, what, source.name, "-o", str(target.resolve())], source.parent)
    if not target.exists():
        raise CompileError(f"compiling {source.name} gave no output")


def link_program(objects: Sequence[Path], target: Path) -> None:
    """Link objects with the memory map of compiled programs. Raises as `compile_source`."""
    script = _runtime_folder() / "link.ld"
    _run(["ld.lld", *_LINK, "-T", str(script), *map(str, objects), "-o", str(target)], target.parent)


def join_objects(objects: Sequence[Path], target: Path) -> None:
    """One object of several. Raises as `compile_source`."""
    flags = ("-m", "elf64lriscv", "-r", "--strip-debug", "--discard-locals")
    _run(["ld.lld", *flags, *map(str, objects), "-o", str(target)], target.parent)


def memory_source() -> str:
    """C of the functions that compilers expect to exist, for objects that may be linked with others of these names."""
    text = (_runtime_folder() / "memory.c").read_text(encoding="utf-8")
    include = '#include "runtime.h"\n'
    assert include in text
    weak = "".join(f"#pragma weak {name}\n" for name in ("memcmp", "memcpy", "memmove", "memset"))
    return text.replace(include, f"#include <stddef.h>\n#include <stdint.h>\n{weak}")


def runtime_objects(*, harts: bool = False) -> list[Path]:
    """Objects that every program is linked with, as `kept_objects`.

    Args:
        harts: for a system of several units: all harts call `baco_main` (runtime/start.S).
    """
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(_runtime_folder().iterdir())
        if path.suffix in (".c", ".S", ".h")
    }
    if harts:
        texts["start.S"] = f"#define BACO_HARTS {MOST_UNITS}\n{texts['start.S']}"
    return kept_objects(texts)


def kept_objects(texts: Mapping[str, str]) -> list[Path]:
    """An object of each C or assembly file, in their order, made once and then kept in the cache.

    Args:
        texts: by file name; the headers (.h) are there for all files.

    Raises as `compile_source`, StorageError when the cache cannot be written.
    """
    headers = {name: text for name, text in texts.items() if name.endswith(".h")}
    common = {"headers": headers, "flags": [*_TARGET, *_C], "zig": zig_version()}
    cache = Cache()

    def kept(name: str, text: str) -> Path:
        def make(entry: Path) -> None:
            with scratch_folder() as folder:
                for one, content in {**headers, name: text}.items():
                    (folder / one).write_text(content, encoding="utf-8")
                compile_source(folder / name, entry / target)

        target = f"{Path(name).stem}.o"
        return cache.entry(f"host-{stable_hash({**common, 'name': name, 'text': text})}", make) / target

    return [kept(name, text) for name, text in texts.items() if name not in headers]


def _runtime_folder() -> Path:
    return Path(str(resources.files("baco.compiler") / "codegen" / "runtime"))


def _run(arguments: Sequence[str], folder: Path) -> None:
    zig = zig_program()
    if zig is None:
        raise InputError(
            "the package 'ziglang' is missing, which compiles programs", hint="install it with pip"
        )
    try:
        done = subprocess.run(
            [str(zig), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"the compiler did not end within {_SECONDS} s") from None
    except OSError as error:
        raise CompileError(f"the compiler does not run: {error.strerror or error}") from None
    if done.returncode == 0:
        return
    output = done.stderr.strip()
    if "o space left" in output or "NoSpaceLeft" in output:
        raise StorageError(
            "compiling failed: the disk is full", location=Location(str(folder)), hint="free disk space"
        )
    errors = [line for line in output.splitlines() if "error" in line.lower()] or output.splitlines()
    raise CompileError(
        f"compiling failed: {errors[0] if errors else f'exit code {done.returncode}'}", details=errors[1:6]
    )
