"""`baco.verilog` and `baco.synthesise`: an accelerator as hardware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baco.api.argument_types import checked
from baco.api.sources import AcceleratorSource
from baco.api.sources import accelerator as find

if TYPE_CHECKING:
    from baco.accel.synthesis.report import Synthesis

__all__ = ["synthesise", "verilog"]


def verilog(accelerator: AcceleratorSource = "gemmini-default") -> str:
    """An accelerator as one self-contained Verilog file; its top module is `baco_accelerator`.

    Args:
        accelerator: as `baco.accelerator` takes it.

    Raises InputError for an accelerator that cannot be built.
    """
    from baco.accel.verilog.generate import verilog as text_of

    return text_of(find(accelerator))


@checked()
def synthesise(
    accelerator: AcceleratorSource = "gemmini-default",
    *,
    liberty: str | Path | Sequence[str | Path],
    memories: str | Path | Sequence[str | Path] = (),
    period_ns: float | None = None,
    margin: float = 0.2,
    report: Callable[[str], None] | None = None,
) -> Synthesis:
    """Map an accelerator to the cells of a technology: its area, clock and leakage there.

    Args:
        accelerator: as `baco.accelerator` takes it.
        liberty: Liberty files of one library of standard cells, compressed by gzip or not.
        memories: Liberty files of memory macros; without, banks of memory cost what a law says.
        period_ns: delay that logic between registers is mapped for; by default 65 times that of an inverter that drives four.
        margin: part of the period that is kept for layout, clock tree and variation.
        report: told how it goes on.

    Returns area by module and class of cells, mm2, the clock that it closes at before layout, MHz, with the paths that
    limit it, and leakage, mW. Mapped modules are kept: what was interrupted goes on where it was. Raises InputError for
    files that are no Liberty or lack flip-flops or gates, and where Yosys is not installed; BacoError where it fails.
    """
    from baco.accel.synthesis.report import synthesise as synthesise_files

    def told(done: int, of: int, name: str) -> None:
        if report is not None:
            report(f"mapping: {done} of {of} modules, {name}" if of else f"{name} (Yosys)")

    return synthesise_files(
        find(accelerator),
        _paths(liberty),
        _paths(memories),
        period_ns=period_ns,
        margin=margin,
        progress=told,
    )


def _paths(files: str | Path | Sequence[str | Path]) -> list[Path]:
    return [Path(files)] if isinstance(files, str | Path) else [Path(one) for one in files]
