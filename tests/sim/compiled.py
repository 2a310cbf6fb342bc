"""What tests compile with the compiler of the package index, kept in their cache by all that it was made from."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from baco.sim.toolchain import toolchain

#: How Verilated programs of tests are compiled.
VERILATED = ("-std=c++17", "-fno-sanitize=undefined", "-w", "-DVL_TIME_CONTEXT")
#: Files beside the sources that they may include.
_INCLUDED = ("*.h", "*.ld", "*.S")


def compiled(
    language: str,
    sources: Iterable[Path],
    *,
    flags: Sequence[str] = (),
    folders: Iterable[Path] = (),
    written: Mapping[str, str] | None = None,
    script: Path | None = None,
    verilated: bool = False,
) -> Path:
    """A program.

    Args:
        language: `cc` or `c++`.
        flags: for the compiler, without paths.
        folders: where headers are.
        written: texts of generated files by name, the headers first found; those of C++ are compiled as well, as one file.
        script: for the linker.
        verilated: with Verilator's run-time library and its headers.
    """
    sources, folders, written = list(sources), list(folders), dict(written or {})
    key = hashlib.sha256(repr((importlib.metadata.version("ziglang"), language, *flags)).encode())
    included = [file for folder in folders for pattern in _INCLUDED for file in sorted(folder.glob(pattern))]
    for path in [*sources, *included, *([script] if script else [])]:
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name, text in written.items():
        key.update(f"{name}\0{text}\0".encode())
    if verilated:
        key.update(repr((toolchain().key, *VERILATED)).encode())
        flags, folders = verilated_flags(flags), [*folders, *verilator_folders()]

    def make(target: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in written.items():
                Path(scratch, name).write_text(text)
            parts = list(sources)
            if units := [name for name in written if name.endswith(".cpp")]:
                # most of the time goes into headers that all of them read
                parts.append(Path(scratch, "all_written.cpp"))
                parts[-1].write_text("".join(f'#include "{name}"\n' for name in units))
            parts += verilated_objects() if verilated else []
            places = [f"-I{folder}" for folder in (scratch, *folders)]
            objects = []
            for number, part in enumerate(parts):
                objects.append(part if part.suffix == ".o" else Path(scratch, f"part{number}.o"))
                if part.suffix != ".o":
                    zig(language, *flags, *places, "-c", part, "-o", objects[-1])
            # Zig builds the library of C++ and the compiler's own for what is linked without optimisation once more
            linked = ["-O1" if flag == "-O0" else flag for flag in flags]
            linked += [f"-Wl,-T,{script}"] if script else []
            zig(language, *linked, *objects, "-o", target)

    return _kept(f"programs/{key.hexdigest()[:24]}", make)


def verilated_objects() -> list[Path]:
    """Verilator's run-time library, compiled once for all programs but those of the product."""
    key = hashlib.sha256(repr((toolchain().key, *VERILATED)).encode()).hexdigest()[:24]
    include, *_ = verilator_folders()

    def compile_file(name: str) -> Callable[[Path], None]:
        places = [f"-I{folder}" for folder in verilator_folders()]
        return lambda target: zig(
            "c++", *VERILATED, "-O1", *places, "-c", include / f"{name}.cpp", "-o", target
        )

    return [
        _kept(f"verilated/{name}-{key}.o", compile_file(name)) for name in ("verilated", "verilated_threads")
    ]


def verilated_flags(flags: Sequence[str]) -> list[str]:
    """Those of a program with Verilator's headers, beside some that have a level of optimisation: every file begins with the
    largest as it was compiled once, since reading it takes a second of each."""
    (level,) = (flag for flag in flags if flag.startswith("-O"))
    include, more = verilator_folders()
    header = include / "verilated.h"
    key = repr((toolchain().key, VERILATED, level, str(header), header.stat().st_mtime_ns))
    precompiled = _kept(
        f"verilated/header-{hashlib.sha256(key.encode()).hexdigest()[:24]}.pch",
        lambda target: zig(
            "c++", *VERILATED, level, f"-I{include}", f"-I{more}", "-x", "c++-header", header, "-o", target
        ),
    )
    return [*VERILATED, *flags, "-include-pch", str(precompiled), "-lpthread"]


def verilator_folders() -> tuple[Path, Path]:
    """Where Verilator's headers are."""
    include = Path(toolchain().verilator_root, "include")
    return include, include / "vltstd"


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """A file of the tests' cache, made unless it is there."""
    target = Path(os.environ["BACO_CACHE"]) / name
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.exists():
        return target
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not target.exists():
            partial = target.with_name(f"{os.getpid()}-{target.name}")
            make(partial)
            partial.chmod(0o700)
            partial.replace(target)
    return target


def zig(*arguments: str | Path) -> None:
    """Run the compiler; what it complains of fails the test."""
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
