"""Builds a Verilated module and its C++ bench into one executable, with the tools of the package index.

Executables are kept in the tests' cache, named by a hash of everything that went in.
"""

import fcntl
import hashlib
import importlib.metadata
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from baco.accel.legality.document import verilog_constants
from baco.accel.verilog.elements import of_width
from baco.sim.toolchain import toolchain
from tests.sim.compiled import verilated_flags, verilated_objects, verilator_folders, zig

RTL = Path(__file__).parents[2] / "baco" / "accel" / "rtl"
BENCHES = Path(__file__).parent / "benches"
#: Macros that the sources use, as the generated file defines them.
CONSTANTS = [
    f"-D{name}={value}" for name, value in verilog_constants().items() if name.startswith("BACO_ERROR")
]


def _cache() -> Path:
    folder = Path(os.environ["BACO_CACHE"]) / "benches"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _run(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "VERILATOR_ROOT": toolchain().verilator_root}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{' '.join(command[:3])} ...\n{done.stdout}{done.stderr}"


def build(
    sources: Iterable[Path],
    top: str,
    parameters: Mapping[str, int],
    defines: Iterable[str],
    bench_cpp: Path,
) -> Path:
    """Verilates module `top` and links it with `bench_cpp`; returns the executable.

    The bench includes "Vdut.h" and uses class `Vdut`. Each parameter is a macro of that name in the bench, each
    of `defines` a macro in both. Elements have 8 bits. Verilator's lint warnings are errors.
    """
    sources = [Path(source) for source in sources]
    defines = list(defines)
    headers = sorted(bench_cpp.parent.glob("*.h"))
    key = hashlib.sha256()
    for part in [
        *(
            f"{source.name}\0{of_width(source.read_text(), 8)}"
            for source in [*sources, bench_cpp, *headers, Path(__file__)]
        ),
        top,
        repr(sorted(parameters.items())),
        repr([*defines, *CONSTANTS]),
        importlib.metadata.version("verilator"),
        importlib.metadata.version("ziglang"),
    ]:
        key.update(part.encode() + b"\0")
    folder = _cache() / f"{top}-{key.hexdigest()[:20]}"
    folder.mkdir(exist_ok=True)
    executable = folder / "bench"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if executable.exists():
            return executable
        verilate = [
            toolchain().verilator,
            "--cc",
            "--prefix",
            "Vdut",
            "--top-module",
            top,
            "-Wall",
        ]
        verilate += ["--Mdir", str(folder), "--no-timing", "-O3", "--x-assign", "unique", "--quiet"]
        verilate += [f"-G{name}={value}" for name, value in parameters.items()]
        verilate += [*(f"-D{name}" for name in defines), *CONSTANTS]
        for source in sources:
            (folder / source.name).write_text(of_width(source.read_text(), 8))
        _run([*verilate, *(source.name for source in sources)], folder)
        macros = {**parameters, **dict.fromkeys(defines, 1)}
        # one translation unit: most of the time goes into Verilator's headers
        parts = [*sorted(folder.glob("Vdut*.cpp")), bench_cpp]
        (folder / "all.cpp").write_text(
            "".join(f"#define {name} {value}\n" for name, value in macros.items())
            + "".join(f'#include "{part}"\n' for part in parts)
        )
        includes = [f"-I{path}" for path in (folder, bench_cpp.parent, *verilator_folders())]
        partial = folder / "bench.partial"
        zig(
            "c++",
            *verilated_flags(["-O1"]),
            *includes,
            folder / "all.cpp",
            *verilated_objects(),
            "-o",
            partial,
        )
        partial.replace(executable)
    return executable
