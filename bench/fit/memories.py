"""Fit what banks of memory cost where a library has no macros: `python -m baco.bench.fit.memories --liberty FILE… --memories FILE…`.

Areas, times, leakages and energies of the two-port memories of a library, in units of its own cells (areas, leakages and charges of
its smallest NAND, delays of an inverter that drives four), become `baco.accel.bank_law.BankLaws`, of least squared
relative error: so they follow the cells of any other library. Those that come with baco are of IHP's 130 nm (IHP-Open-PDK at 5cccb16,
typical corner: `sg13g2_stdcell_typ_1p20V_25C.lib` and the ten `RM_IHPSG13_2P_*_typ_1p20V_25C.lib`). Takes a second.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baco.accel.bank_law import BankLaw
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.memories import Macro, fo4_s, macros_of, nand2_charge_j, nand2_leakage_w, nand2_um2
from baco.accel.technologies.measuring import least_relative
from baco.bench.fit.fitting import rounded
from baco.common.errors import BacoError, InputError
from baco.common.files import atomic_write

Floats = npt.NDArray[np.float64]


def fit(cells: Library, macros: Sequence[Macro]) -> dict[str, Any]:
    """The laws and their errors (mean and worst, percent), as `memories.json` has them.

    Raises InputError for fewer macros than a law has terms.
    """
    if len(macros) < len(BankLaw.model_fields):
        raise InputError(
            f"{len(macros)} memories with two ports are too few to fit: at least {len(BankLaw.model_fields)}"
        )
    bits = np.array([float(macro.words * macro.bits) for macro in macros])
    width = np.array([float(macro.bits) for macro in macros])
    banks = np.stack([np.ones(len(bits)), np.sqrt(bits), width, bits], axis=1)
    logs = np.stack([np.ones(len(bits)), np.log2(bits)], axis=1)
    errors: dict[str, dict[str, float]] = {}

    def law(
        name: str, design: Floats, of: Callable[[Macro], float], unit: float, *, signed: bool = False
    ) -> list[float]:
        target = np.array([of(macro) for macro in macros]) / unit
        found = [rounded(value) for value in least_relative(design, target, signed=signed)]
        off = np.abs(design @ np.array(found) / target - 1) * 100
        errors[name] = {
            "mean_percent": round(float(off.mean()), 2),
            "worst_percent": round(float(off.max()), 2),
        }
        return found

    delay = fo4_s(cells)
    return {
        "area": _named(law("area", banks, lambda macro: macro.cell.area_um2, nand2_um2(cells))),
        "access": _named(law("access", banks, lambda macro: macro.access_j, nand2_charge_j(cells))),
        "access_fo4": law("access_fo4", logs, lambda macro: macro.access_s, delay, signed=True),
        "words": max(macro.words for macro in macros),
        "word_bits": max(macro.bits for macro in macros),
        "setup_fo4": law("setup_fo4", logs[:, :1], lambda macro: macro.setup_s, delay)[0],
        "bit_leakage": law(
            "bit_leakage", bits[:, None], lambda macro: macro.cell.leakage_w, nand2_leakage_w(cells)
        )[0],
        "errors": errors,
    }


def _named(values: Sequence[float]) -> dict[str, float]:
    return dict(zip(BankLaw.model_fields, values, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print the laws and their errors, and write `memories.json` of `accel` (or --out)."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.fit.memories", description=main.__doc__)
    parser.add_argument("--liberty", type=Path, nargs="+", required=True, help="the standard cells")
    parser.add_argument(
        "--memories", type=Path, nargs="+", required=True, help="memory macros; those with two ports count"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(str(resources.files("baco.accel") / "memories.json"))
    )
    options = parser.parse_args(arguments)
    try:
        cells, library = read_library(options.liberty), read_library(options.memories)
        macros = [one for one in macros_of(library) if one.ports > 1]
        record = {"source": f"{len(macros)} memories with two ports of {', '.join(cells.names)}"} | fit(
            cells, macros
        )
        atomic_write(options.out, json.dumps(record, indent=2) + "\n")
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(record, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
