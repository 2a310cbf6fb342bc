"""A technology measured: netlists of some accelerators in a library, and the laws that are fitted to them.

Every netlist is kept with the design's hash, so that a measurement goes on where it was stopped, and modules that designs share
are mapped once (`baco.accel.synthesis.mapping`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.stats import spearmanr

from baco.accel.bank_law import BankLaw
from baco.accel.config import Accelerator, Features
from baco.accel.structure_law import QUANTITIES, structure_law
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.mapping import BankShape
from baco.accel.synthesis.memories import banks, doubts
from baco.accel.synthesis.report import GOALS, Synthesis, in_cells
from baco.accel.technology import NEXT_SIDE, PeriodLaw, Technology
from baco.accel.verilog.generate import verilog
from baco.common.cache import Cache
from baco.common.errors import InputError
from baco.common.files import atomic_write
from baco.common.provenance import stable_hash
from baco.common.yaml import load_yaml

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
#: Rows of each memory: banks' addresses stay equal as the side grows.
_ROWS = 512
#: What is measured, most telling first: side and what differs from Gemmini's default.
DESIGNS: tuple[dict[str, Any], ...] = tuple(load_yaml(Path(__file__).with_name("designs.yaml")).data)
#: The first of them, whose arrays compute integers; those of floating point, which few libraries are asked for, come behind.
INTEGER_DESIGNS = sum("input_format" not in changes for changes in DESIGNS)
#: What a period is at least next to that of the other paths, to be a feature's own.
_SLOWER = 1.02
#: Designs that are worth ranking.
_RANKED = 5
#: Shapes that the law of banks is fitted to: rows and bits of a word, with lanes of a byte.
_BANKS = tuple((1 << rows, 1 << width) for rows in range(5, 15) for width in range(4, 11))


@dataclass(frozen=True)
class Netlist:
    """A design in a library.

    Attributes:
        accelerator: what it is.
        design: hash of its Verilog and of what it was mapped with.
        logic_mm2, memories_mm2, clock_mhz, leakage_mw: as of `Synthesis`.
        modules: area of logic by module, mm2.
        optimise: what it was made for, as of `in_cells`.
    """

    accelerator: dict[str, Any]
    design: str
    logic_mm2: float
    memories_mm2: float
    clock_mhz: float
    leakage_mw: float
    modules: dict[str, float]
    optimise: str = "area"

    @property
    def configuration(self) -> Accelerator:
        """The accelerator as an object."""
        return Accelerator.model_validate(self.accelerator)


def accelerators() -> Iterator[Accelerator]:
    """Those of `DESIGNS`."""
    for changes in DESIGNS:
        dim = changes["dim"]
        features = {name: value for name, value in changes.items() if name in Features.model_fields}
        fields = {name: value for name, value in changes.items() if name not in features}
        kib = max(1, dim * _ROWS // 1024)
        yield Accelerator(
            name=f"d{dim}",
            scratchpad_kib=kib,
            accumulator_kib=4 * kib,
            features=Features(**features),
            **fields,
        )


def read_netlists(path: Path) -> list[Netlist]:
    """Those that a file holds; none where there is none."""
    if not path.exists():
        return []
    return [Netlist(**row) for row in json.loads(path.read_text(encoding="utf-8"))["netlists"]]


def measure(
    liberty: Sequence[Path],
    memories: Sequence[Path],
    kept: Path,
    *,
    designs: int = len(DESIGNS),
    optimise: str = "area",
    progress: Callable[[int, int, str], None] | None = None,
    cache: Cache | None = None,
) -> list[Netlist]:
    """Netlists of the first `designs` of `DESIGNS`, small sides first, those that a file keeps already taken from it.

    Args:
        liberty, memories, optimise: as of `in_cells`.
        kept: the file; written after each design. Netlists in it that were made for something else stay.
        progress: told how many designs are measured, of how many, and what is being done.

    Raises as `in_cells`.
    """
    library = read_library(liberty)
    macros = read_library(memories) if memories else ()
    told = progress or (lambda done, of, what: None)
    every = [*accelerators()]
    macro_names = tuple(path.name for path in memories)
    keys = [_key(accelerator, library.digest, macro_names) for accelerator in every]
    there = read_netlists(kept)
    others = [netlist for netlist in there if netlist.optimise != optimise]
    known = {netlist.design: netlist for netlist in there if netlist.optimise == optimise}
    wanted = sorted(zip(every[:designs], keys, strict=False), key=lambda design: design[0].dim)
    for number, (accelerator, key) in enumerate(wanted):
        if key not in known:

            def within(done: int, of: int, module: str, number: int = number) -> None:
                told(number, len(wanted), f"{module} ({done} of {of} modules)")

            design = in_cells(accelerator, library, macros, optimise=optimise, progress=within, cache=cache)
            known[key] = _netlist(accelerator, key, design.synthesis(), optimise)
        told(number + 1, len(wanted), accelerator.name)
        # those that a run measured which asked for more designs stay
        rows = [*others, *(known[key] for key in keys if key in known)]
        rows.sort(key=lambda netlist: GOALS.index(netlist.optimise))
        atomic_write(
            kept, json.dumps({"library": library.names, "netlists": [*map(vars, rows)]}, indent=1) + "\n"
        )
    return [known[key] for key in keys[:designs]]


@lru_cache(maxsize=256)
def _key(accelerator: Accelerator, library: str, macros: tuple[str, ...]) -> str:
    """Of a design in a library."""
    return stable_hash([verilog(accelerator), library, macros])


def _netlist(accelerator: Accelerator, key: str, found: Synthesis, optimise: str) -> Netlist:
    fields = accelerator.model_dump(mode="json", exclude_defaults=True)
    return Netlist(
        fields,
        key,
        round(found.logic_mm2, 8),
        round(found.memories_mm2, 8),
        round(found.clock_mhz, 4),
        round(found.leakage_mw, 6),
        {module.name: round(module.mm2, 8) for module in found.modules},
        optimise,
    )


def fit_technology(
    name: str, netlists: Sequence[Netlist], liberty: Sequence[Path], memories: Sequence[Path] = ()
) -> Technology:
    """The laws of least squared relative error on netlists made for the same, each design also predicted by laws that have not seen it:
    of arrays of integers, and what those of floating point have beyond them.

    Raises InputError with too few netlists.
    """
    netlists, floats = (
        [one for one in netlists if (one.configuration.input_format == "integer") == own]
        for own in (True, False)
    )
    if len(netlists) <= len(QUANTITIES):
        raise InputError(f"{len(netlists)} netlists are too few to fit: at least {len(QUANTITIES) + 1}")
    library = read_library(liberty)
    macros = read_library(memories) if memories else None
    law, bank_errors = _bank_law(library, macros)
    machines = [netlist.configuration for netlist in netlists]
    counts = _counts(machines)
    logic = np.array([netlist.logic_mm2 for netlist in netlists]) * 1e6
    period = np.array([1e3 / netlist.clock_mhz for netlist in netlists])
    prices, held_logic = _fitted(counts, logic)
    paths = _period_law(machines, period)
    rows = range(len(machines))
    others = [[other for other in rows if other != row] for row in rows]
    unseen_periods = [
        _period_law([machines[other] for other in some], period[some]).ns(machines[row], machines[row].dim)
        for row, some in enumerate(others)
    ]
    area = np.array([netlist.logic_mm2 + netlist.memories_mm2 for netlist in netlists])
    errors = {
        "logic": _errors(counts @ prices, logic),
        "logic, held out": _errors(held_logic, logic),
        "period": _errors(np.array([paths.ns(machine, machine.dim) for machine in machines]), period),
        "period, held out": _errors(np.array(unseen_periods), period),
        "banks": bank_errors,
    }
    corner = f"{library.volts:g} V, {library.celsius:g} °C"
    made = f"{len(netlists)} netlists made for {netlists[0].optimise}, before layout, {corner}"
    found = Technology(
        name=name,
        description="; ".join([made, *doubts(library)]),
        source=", ".join(library.names),
        logic_um2=dict(zip(QUANTITIES, _rounded(prices), strict=True)),
        memories=law,
        largest_side=max(machine.dim for machine in machines),
        period=PeriodLaw(**dict(zip(PeriodLaw.model_fields, _rounded([*vars(paths).values()]), strict=True))),
        energy={
            "leakage_mw_per_mm2": _rounded(
                [sum(netlist.leakage_mw for netlist in netlists) / float(area.sum())]
            )[0]
        },
    )
    whole = np.array(
        [
            float(
                found.area_mm2(machine, float(machine.dim), machine.accumulator_kib, machine.scratchpad_kib)
            )
            for machine in machines
        ]
    )
    unseen = whole + (held_logic - counts @ prices) * 1e-6
    errors |= {"area": _errors(whole, area), "area, held out": _errors(unseen, area)}
    largest = np.array([machine.dim == found.largest_side for machine in machines])
    if (~largest).sum() > len(QUANTITIES):
        # what laws of smaller sides say of the largest one: how far these go beyond it, to the next
        smaller = _period_law([machines[row] for row in np.flatnonzero(~largest)], period[~largest])
        continued = counts[largest] @ least_relative(counts[~largest], logic[~largest])
        paths_on = [smaller.ns(machines[row], machines[row].dim) for row in np.flatnonzero(largest)]
        area_on = whole[largest] + (continued - counts[largest] @ prices) * 1e-6
        errors |= {
            f"area{NEXT_SIDE}": _errors(area_on, area[largest]),
            f"period{NEXT_SIDE}": _errors(np.array(paths_on), period[largest]),
        }
    found = found.model_copy(update={"errors": errors})
    return _with_floats(found, floats) if floats else found


def _counts(machines: Sequence[Accelerator]) -> Floats:
    """Of the structure law, (machines, quantities)."""
    counts = [structure_law().counts(machine, machine.dim).values() for machine in machines]
    return np.array([[float(value) for value in row] for row in counts])


def _with_floats(found: Technology, netlists: Sequence[Netlist]) -> Technology:
    """A technology with what elements of floating point take beside what its laws of integers say of them: area of one, whose float32 adder
    netlists make larger for the clock, and the period of one, by its bits."""
    assert found.period is not None
    machines = [netlist.configuration for netlist in netlists]
    logic = np.array([netlist.logic_mm2 for netlist in netlists]) * 1e6
    area = logic + np.array([netlist.memories_mm2 for netlist in netlists]) * 1e6
    period = np.array([1e3 / netlist.clock_mhz for netlist in netlists])
    prices = np.array([found.logic_um2[name] for name in QUANTITIES])
    plain = _counts(machines) @ prices
    whole = np.array(
        [
            1e6
            * float(
                found.area_mm2(machine, float(machine.dim), machine.accumulator_kib, machine.scratchpad_kib)
            )
            for machine in machines
        ]
    )
    elements = np.array([float(machine.dim**2) for machine in machines])

    def of_element(rows: Ints) -> float:
        """Least squares of the relative error that the laws of integers leave."""
        share, missing = (elements / logic)[rows], (1 - plain / logic)[rows]
        return max(0.0, float(share @ missing / (share @ share)))

    every = np.arange(len(netlists))
    names = [PeriodLaw.name_of(machine) for machine in machines]
    tiles = np.array([float(machine.tile_rows) for machine in machines])

    def of_period(row: int, rows: Ints) -> float:
        """Of an element as that of a row, from those of other designs; not a number where there are none."""
        same = np.array([other for other in rows if names[other] == names[row]], np.int64)
        return float(least_relative(tiles[same, None], period[same])[0]) if len(same) else np.nan

    others = [every[every != row] for row in every]
    unseen = (
        np.array([of_element(rows) for rows in others]) * elements if len(netlists) > 1 else 0.0 * elements
    )
    periods = np.array([of_period(row, rows) * tiles[row] for row, rows in enumerate(others)])
    known = ~np.isnan(periods)
    errors = {
        "logic of floating point, held out": _errors(plain + unseen, logic),
        "area of floating point, held out": _errors(whole + unseen, area),
    }
    if known.any():
        errors["period of floating point, held out"] = _errors(periods[known], period[known])
    own = {names[row]: _rounded([of_period(row, every)])[0] for row in range(len(every))}
    return found.model_copy(
        update={
            "description": f"{found.description}; {len(netlists)} of floating point",
            "float_um2": _rounded([of_element(every)])[0],
            "period": found.period.model_copy(update=own),
            "errors": found.errors | errors,
        }
    )


def least_relative(design: Floats, target: Floats, *, signed: bool = False) -> Floats:
    """Coefficients (n,) of least squared relative error of `design` (rows, n) against a target (rows,); none negative, unless signed."""
    scale = np.abs(design).max(axis=0)
    scale[scale == 0] = 1.0
    relative, ones = design / scale / target[:, None], np.ones(len(target))
    solution = np.linalg.lstsq(relative, ones)[0] if signed else nnls(relative, ones)[0]
    found: Floats = solution / scale
    return found


def _fitted(design: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Coefficients, none negative, and what those without a row predict of it, shape (n,)."""
    rows = np.arange(len(target))
    held = [design[row] @ least_relative(design[rows != row], target[rows != row]) for row in rows]
    return least_relative(design, target), np.array(held)


def _period_law(machines: Sequence[Accelerator], period: Floats) -> PeriodLaw:
    """Fitted to the periods (ns) of designs: the sum to those without features that have paths of their own, and then each of these to
    the slower ones among those that have it."""
    features = [PeriodLaw.features(machine, machine.dim) for machine in machines]
    terms = [PeriodLaw.values(machine, machine.dim) for machine in machines]
    values, own = (np.array([[*row.values()] for row in table]) for table in (terms, features))
    plain = ~own.any(1)
    found = least_relative(values[plain], period[plain])
    slower = period > _SLOWER * (values @ found)
    law = dict(zip(terms[0], found.tolist(), strict=True))
    for name, column in zip(features[0], own.T, strict=True):
        rows = slower & (column > 0)
        if rows.any():
            law[name] = float(least_relative(column[rows, None], period[rows])[0])
    return PeriodLaw(**law)


def _errors(predicted: Floats, measured: Floats) -> dict[str, float]:
    """Mean and worst, percent, and agreement in rank where there are some to rank."""
    off = np.abs(predicted / measured - 1) * 100
    # what differs by rounding only is equal
    found = {"mean_percent": round(float(off.mean()), 2), "worst_percent": round(float(off.max()), 2)}
    if len(off) < _RANKED:  # of few designs it says nothing
        return found
    rank = float(spearmanr(_rounded(predicted), _rounded(measured)).statistic)
    return found | {"rank": round(rank, 4)}


def _bank_law(library: Library, macros: Library | None) -> tuple[BankLaw, dict[str, float]]:
    """Fitted to what banks of `_BANKS` are composed of."""
    shapes = [BankShape(rows, width // 8, 8) for rows, width in _BANKS]
    found, _ = banks(shapes, library, macros)
    area = np.array([found[shape].area_um2 for shape in shapes])
    bits = np.array([float(shape.bits) for shape in shapes])
    width = np.array([float(width) for _, width in _BANKS])
    design = np.stack([np.ones(len(shapes)), bits**0.5, width, bits], axis=1)
    solution, _ = _fitted(design, area)
    law = BankLaw(**dict(zip(BankLaw.model_fields, _rounded(solution), strict=True)))
    return law, _errors(law.of(bits, width), area)


def _rounded(values: Sequence[float] | Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
