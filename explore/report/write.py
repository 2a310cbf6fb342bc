"""Writes a report to a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from baco.accel.c_header import c_header
from baco.accel.presets import BEST
from baco.accel.verilog.generate import rtl_problems, verilog
from baco.common.files import atomic_write, output_folder
from baco.exploration.report.data import ReportData
from baco.exploration.report.figures import pareto_figures
from baco.exploration.report.page import page_html
from baco.exploration.report.summary import summary_json
from baco.exploration.report.tables import candidates_parquet, mappings_csv, mappings_yaml

_FILES: dict[str, Callable[[ReportData], str | bytes]] = {
    BEST: lambda data: data.best.accelerator.to_yaml(),
    "best/gemmini_params.h": lambda data: c_header(data.best.accelerator),
    "best/mappings.yaml": mappings_yaml,
    "best/mappings.csv": mappings_csv,
    "candidates.parquet": candidates_parquet,
}


def write_report(data: ReportData, out: str | Path) -> list[Path]:
    """Write all files of a report to the folder `out` (created when missing), each of them atomically.

    `best/accelerator.v` is written where Verilog can be made of the best design. `summary.json` comes last: where it is there, the rest is too. Returns the paths, `summary.json` first.
    Raises StorageError when the folder cannot be written or the disk is full; files written before stay,
    none is left half written.
    """
    folder = output_folder(out)
    output_folder(folder, "best")
    paths = []
    for name, make in _FILES.items():
        atomic_write(folder / name, make(data))
        paths.append(folder / name)
    hardware = folder / "best/accelerator.v"
    if rtl_problems(data.best.accelerator):
        hardware.unlink(missing_ok=True)  # that of an earlier best
    else:
        atomic_write(hardware, verilog(data.best.accelerator))
        paths.append(hardware)
    for name, content in pareto_figures(data).items():
        atomic_write(folder / name, content)
        paths.append(folder / name)
    # what waits for neighbours of the best design comes last: another process may be at them yet
    atomic_write(folder / "report.html", page_html(data))
    paths.append(folder / "report.html")
    atomic_write(folder / "summary.json", summary_json(data))
    return [folder / "summary.json", *paths]
