"""Searches whose studies are kept, and their best designs as whole programs on the RTL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco.accel.presets import load_accelerator
from baco.bench.sets.spaces import published_space
from baco.common.errors import BacoError
from baco.common.files import output_folder
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.session import ValidationOptions, ValidationProgress, validate_file
from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.exploration.studies.study import FILE_NAME
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

#: What designs are compared with, and whose area they may have.
DEFAULT_MACHINE = "gemmini-default"


@dataclass(frozen=True)
class ProgramRow:
    """What a whole program takes on the RTL.

    Attributes:
        cycles: from reset to the end.
        host_cycles: of these, those of operators that the host core runs alone.
        predicted_cycles: that it would take.
        energy_uj: of accelerator, main memory and host core.
        host_uj: of these, the host core's.
    """

    cycles: int
    host_cycles: int
    predicted_cycles: float
    energy_uj: float
    host_uj: float

    @property
    def edp(self) -> float:
        """µJ·cycles."""
        return self.energy_uj * self.cycles


def default_area() -> float:
    """mm² of the default machine."""
    return load_accelerator(DEFAULT_MACHINE).area_mm2


def within(area_mm2: float | None, option: str = "area") -> DesignSpace:
    """The default space in the published technology, accelerators of at most so many mm²."""
    space = published_space()
    return space if area_mm2 is None else space.constrain(option, area_mm2=area_mm2)


def searched(
    network: str, space: DesignSpace, folder: Path, *, samples: int, seed: int, **options: Any
) -> tuple[Path, SearchOutcome]:
    """The study of a search for the least EDP of a network, and its outcome; one that is in `folder` is gone on with.

    Args:
        options: of `run_exploration`.
    """
    study = output_folder(folder) / FILE_NAME
    outcome = run_exploration(
        Workload.of([load_network(network)]),
        space,
        Objective.parse("edp"),
        samples=samples,
        seed=seed,
        out=folder,
        resume=study.exists(),
        **options,
    )
    return study, outcome


def measured_programs(
    study: Path, progress: ValidationProgress | None, *, baseline: bool = False
) -> dict[str, ProgramRow]:
    """The best predicted design (`candidate`) of a study as a whole program on the RTL, every operator compared; with `baseline`, the
    default machine with the tiling of Gemmini's library, too, and under `mappings` searched for it. Raises BacoError for a wrong
    result, and what compiling and simulating raise."""
    options = ValidationOptions(best=1, spread=0)
    found = validate_file(study, options, baseline=baseline, progress=progress)
    return {design.role: program_cost(design) for design in found.designs}


def program_cost(design: Design) -> ProgramRow:
    """Of a design's only program. Raises BacoError for one that was not measured, or wrong."""
    (program,) = design.programs or (None,)
    if program is None or program.measured is None or program.status != "measured":
        reason = design.failure or design.status
        raise BacoError(f"{design.name}: its whole program was not measured: {reason}")
    found, guess = program.measured, program.predicted
    return ProgramRow(
        found.cycles,
        found.host_cycles,
        guess.cycles if guess else 0.0,
        found.energy_pj * 1e-6,
        found.host_pj * 1e-6,
    )
