"""What structures cost in silicon, by technology: areas, delays and leakage of cells and memories, each with its error.

`published-45nm` stands for the published areas (`baco.accel.area`), which every other figure of the reference model goes with. All
others are measured: netlists of some designs (`baco.accel.technologies.measuring`) give the area of one of each quantity that
`baco.accel.structure_law` counts, what memories of some bits and width take, and the period that a design closes at, so that

    area = sum over quantities (area of one x count) + sum over banks (bank + a sqrt(bits) + b width + c bits).

Control logic and every feature are in the counts.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from baco.accel.area import TABLE_BITS, TABLE_ENTRIES, priced_mm2, term_prices
from baco.accel.bank_law import BankLaw
from baco.accel.number_formats import array_float
from baco.accel.structure_law import Configuration, terms
from baco.accel.switching_figures import SwitchingFigures
from baco.common import portable
from baco.common.cache import cache_folder
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, read_input

#: The one that published figures are in.
PUBLISHED = "published-45nm"
#: What errors of the largest side by laws of smaller ones end in: so far off are all laws on twice the largest side.
NEXT_SIDE = ", next side"
_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
_MOST_BYTES = 1 << 20
#: Those that come with baco.
_OURS = Path(str(resources.files(__package__).joinpath("technologies")))
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"


class PeriodLaw(BaseModel):
    """Period that a design closes at before layout, margin included, ns: a base, and what grows with it; or what a normaliser,
    row functions or products and sums in floating point take, where that is longer."""

    model_config = _STRICT

    base: float = Field(ge=0, description="of all")
    log_dim: float = Field(ge=0, description="for each doubling of the array's side")
    log_entries: float = Field(ge=0, description="for each doubling of the reservation station")
    chained: float = Field(
        ge=0, description="for each row more of a tile, whose multiplications follow each other"
    )

    normalizer: float = Field(0.0, ge=0, description="at least, with a normaliser")
    row_functions: float = Field(0.0, ge=0, description="at least, with row functions")
    floats: float = Field(
        0.0, ge=0, description="for each row of a tile that multiplies and adds up floating point of 8 bits"
    )
    wide_floats: float = Field(0.0, ge=0, description="the same of 16 bits")

    @staticmethod
    def features(configuration: Configuration, dim: float) -> dict[str, float]:
        """What the coefficients of features' own paths are multiplied by: 1 with a normaliser, with row functions, rows of a tile of floating
        point; 0 without."""
        has = configuration.features
        name = PeriodLaw.name_of(configuration)
        return {
            "normalizer": float(has.normalizations),
            "row_functions": float(has.row_functions),
            "floats": float(name == "floats") * configuration.tile_rows,
            "wide_floats": float(name == "wide_floats") * configuration.tile_rows,
        }

    @staticmethod
    def name_of(configuration: Configuration) -> str:
        """Which figure elements have that are not int8; there is none yet of int16."""
        form = array_float(configuration.input_format)
        if form is None:
            return "" if configuration.input_bits == 8 else "wide_integers"
        return "floats" if form.bits == 8 else "wide_floats"

    def known(self, configuration: Configuration) -> bool:
        """Whether designs with such elements were measured."""
        name = self.name_of(configuration)
        return not name or getattr(self, name, 0.0) > 0

    @staticmethod
    def values(configuration: Configuration, dim: float) -> dict[str, float]:
        """What the coefficients of the sum are multiplied by."""
        entries = configuration.load_entries + configuration.execute_entries + configuration.store_entries
        return {
            "base": 1.0,
            "log_dim": portable.log2(dim),
            "log_entries": portable.log2(entries),
            "chained": float(configuration.tile_rows - 1),
        }

    def ns(self, configuration: Configuration, dim: float) -> float:
        """Of an accelerator with an array of some side."""
        whole = sum(getattr(self, name) * value for name, value in self.values(configuration, dim).items())
        own = self.features(configuration, dim).items()
        return float(max(whole, *(getattr(self, name) * value for name, value in own)))


class Technology(BaseModel):
    """A technology; all figures are before layout.

    Attributes:
        name: what files and commands call it.
        description, source: in words; the libraries and corner that it was measured in.
        logic_um2: of one of each of `baco.accel.structure_law.QUANTITIES`; empty: the published areas speak.
        float_um2: of an element of floating point beyond what `logic_um2` says of it: netlists make its adder larger for the clock.
        memories: of banks.
        period: None: clocks are assumed.
        largest_side: of the arrays among the netlists; laws are not checked beyond. None where there are none.
        idle: constants of `baco.accel.energy.EnergyTable` that design spaces in it assume of silicon that does nothing; accelerators by
            themselves have what the table says (the published one: none).
        energy: constants of `baco.accel.energy.EnergyTable` that are other than the published ones, leakage among them.
        switching: energies of what switches, fitted at gate level (`python -m baco.bench.fit.switching`); None: the energy table speaks.
        float_macs: energy of a multiply-accumulate in floating point, in those of integers, by `Accelerator.input_format`
            (`python -m baco.bench.fit.switching --floats`).
        errors: of the laws against netlists, percent, by what was predicted.
    """

    model_config = _STRICT

    name: str = Field(pattern=rf"^{_NAME}$")
    description: str = ""
    source: str = ""
    logic_um2: dict[str, float] = Field(default_factory=dict)
    float_um2: float = Field(0.0, ge=0)
    memories: BankLaw | None = None
    period: PeriodLaw | None = None
    largest_side: int | None = Field(None, ge=2, le=128)
    idle: dict[str, float] = Field(default_factory=dict)
    energy: dict[str, float] = Field(default_factory=dict)
    switching: SwitchingFigures | None = None
    float_macs: dict[str, float] = Field(default_factory=dict)
    errors: dict[str, dict[str, float]] = Field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether areas come from netlists."""
        return bool(self.logic_um2) and self.memories is not None

    def blocks_mm2(
        self, configuration: Configuration, dim: Any, accumulator_kib: Any, scratchpad_kib: Any
    ) -> dict[str, Any]:
        """Areas of logic, memories and tables (of row functions), mm2, of accelerators that have everything but their sizes from a
        configuration; numbers, arrays or tensors that broadcast. Only of a measured technology."""
        assert self.memories is not None
        found = {"logic": priced_mm2(configuration, dim, self._prices)}
        if self.float_um2 and array_float(configuration.input_format):
            found["logic"] = found["logic"] + 1e-6 * self.float_um2 * dim * dim
        for name, kib, banks, bits in (
            ("accumulator", accumulator_kib, configuration.accumulator_banks, 32),
            ("scratchpad", scratchpad_kib, configuration.scratchpad_banks, configuration.input_bits),
        ):
            found[name] = banks * 1e-6 * self.memories.of(kib * 8192.0 / banks, bits * dim)
        if configuration.features.row_functions:
            table = self.memories.of(float(TABLE_ENTRIES * TABLE_BITS), TABLE_BITS)
            found["tables"] = 1e-6 * table * terms(configuration, dim)["lanes"]
        return found

    def area_mm2(
        self, configuration: Configuration, dim: Any, accumulator_kib: Any, scratchpad_kib: Any
    ) -> Any:
        """The sum of `blocks_mm2`."""
        return sum(self.blocks_mm2(configuration, dim, accumulator_kib, scratchpad_kib).values())

    def closes_at_mhz(self, configuration: Configuration, dim: float) -> float | None:
        """The clock that an accelerator closes at before layout; None where clocks are assumed."""
        return None if self.period is None else 1e3 / self.period.ns(configuration, dim)

    @property
    def _prices(self) -> tuple[tuple[str, float], ...]:
        return term_prices(tuple(self.logic_um2.items()))

    @property
    def evidence(self) -> dict[str, str]:
        """Where areas, clocks and energies come from, in words."""
        within = {
            name: f", off by {off['mean_percent']:g}% in the mean of designs that they have not seen"
            if (off := self.error(name))
            else ""
            for name in ("area", "period")
        }
        sides = "" if self.largest_side is None else f" of sides up to {self.largest_side}"
        leakage = ", leakage is the cells' own" if "leakage_mw_per_mm2" in self.energy else ""
        switching = self.switching
        energy = (
            "published constants of 45 nm: none is measured"
            if switching is None
            else f"what switches, by figures before layout that are {100 * switching.error:.2g}% off against gate level, the clock apart;"
            " main memory and host core by published constants"
        )
        return {
            "area": f"laws fitted to netlists{sides} before layout{within['area']}"
            if self.measured
            else "the law of published areas",
            "clock": "assumed"
            if self.period is None
            else f"what netlists close at before layout{within['period']}",
            "energy": f"{energy}{leakage}",
        }

    def error(self, law: str, dim: int | None = None) -> dict[str, float] | None:
        """How far off a law (`area`, `period`) is on designs that it has not seen: on sides that its netlists have, or, of one beyond
        these, on their largest by a law of the smaller ones. None where that is not known."""
        further = dim is not None and self.largest_side is not None and dim > self.largest_side
        return self.errors.get(f"{law}{NEXT_SIDE if further else ', held out'}")

    def beyond(self, dim: int) -> str:
        """That its netlists have no such side, in words, and what is known of that; empty where they have."""
        if self.largest_side is None or dim <= self.largest_side:
            return ""
        told = f"a side of {dim} continues laws of netlists with sides up to {self.largest_side}"
        area, period = self.error("area", dim), self.error("period", dim)
        if area is None or period is None or dim > 2 * self.largest_side:
            return f"{told}: how far off these are there is not known"
        return f"{told}: those of smaller sides are {area['mean_percent']:g}% off there in area and {period['mean_percent']:g}% in the clock"

    def text(self) -> str:
        """Its figures and how far they are off, a line each."""
        lines = [f"{self.name}: {self.description}", f"source      {self.source}"]
        if not self.measured:
            lines.append("area        the law of published areas; clocks are assumed")
        lines += [f"idle {name:18} {value:.5g} in spaces" for name, value in self.idle.items()]
        lines += [f"{name:18} {um2:.5g} µm² each" for name, um2 in self.logic_um2.items()]
        if self.float_um2:
            lines.append(f"{'floating point':18} {self.float_um2:.5g} µm² an element beside these")
        for law, unit in ((self.memories, "µm²"), (self.period, "ns")):
            for name, field in type(law).model_fields.items() if law is not None else ():
                lines.append(f"{name:18} {getattr(law, name):.5g} {unit} {field.description}")
        lines += [f"{name:18} {value:.5g}" for name, value in self.energy.items()]
        if self.switching is not None:
            lines += [
                f"{f'switching {name}':18} {value:.5g}" for name, value in self.switching.to_dict().items()
            ]
        lines += [
            f"{f'mac {form}':18} {ratio:.5g} of an integer one" for form, ratio in self.float_macs.items()
        ]
        for what, off in self.errors.items():
            rank = f", rank {off['rank']:g}" if "rank" in off else ""
            lines.append(
                f"off by      {what}: {off['mean_percent']:g}% mean, {off['worst_percent']:g}% worst{rank}"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """As files have it."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), indent=2) + "\n"


def own_technologies() -> Path:
    """The folder of those that were measured on this machine."""
    return cache_folder() / "technologies"


def technology_names() -> list[str]:
    """Those that come with baco, and the user's own."""
    return sorted({path.stem for folder in (_OURS, own_technologies()) for path in folder.glob("*.json")})


def technology(name: str) -> Technology:
    """A technology by its name. Raises InputError for an unknown one or a malformed file."""
    # a search asks tens of thousands of times: where the user's own lie is looked up only for names that are not ours
    found = _ours(name) or _in(own_technologies(), name)
    if found is None:
        raise InputError(f"unknown technology '{name}'", hint=did_you_mean(name, technology_names()))
    return found


def known_figures(name: str) -> SwitchingFigures | None:
    """Energies of what switches in a technology; None for one that has none. Raises as `technology`."""
    return None if name == PUBLISHED else technology(name).switching


def switching_figures(name: str) -> SwitchingFigures:
    """The same. Raises InputError for a technology that has none, too."""
    found = known_figures(name)
    if found is None:
        there = [one for one in technology_names() if known_figures(one) is not None]
        raise InputError(
            f"no figures of switching in the technology '{name}'", hint=f"there are: {', '.join(there)}"
        )
    return found


def keep_technology(made: Technology) -> None:
    """Keep the user's own."""
    atomic_write(own_technologies() / f"{made.name}.json", made.to_json())
    _read.cache_clear()


@cache
def _ours(name: str) -> Technology | None:
    return _in(_OURS, name)


def _in(folder: Path, name: str) -> Technology | None:
    path = folder / f"{name}.json"
    return _read(path) if re.fullmatch(_NAME, name) and path.exists() else None


def check_own_name(name: str) -> None:
    """Raises InputError for a name that a technology of the user's cannot have."""
    if not re.fullmatch(_NAME, name):
        raise InputError(
            f"'{name}' is no name of a technology", hint="letters, digits, '.', '_', '+' and '-', 64 at most"
        )
    if (_OURS / f"{name}.json").exists():
        raise InputError(f"the technology '{name}' comes with baco", hint="give another name")


@cache
def _read(path: Path) -> Technology:
    try:
        return Technology.model_validate_json(read_input(path, limit_bytes=_MOST_BYTES))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"no technology: {place}: {first['msg']}",
            location=Location(str(path)),
            hint="measure it again: baco technology add",
        ) from None
