"""What a search gains on whole programs: designs of at most the area of Gemmini's default machine, against that machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.presets import load_accelerator
from baco.common.errors import BacoError
from baco.common.files import atomic_write, output_folder
from baco.exploration.measure.design import Design
from baco.exploration.measure.session import ValidationOptions, ValidationProgress, validate_file
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

__all__ = ["NETWORKS", "ProgramRow", "program_cost", "whole_programs", "whole_programs_table"]

NETWORKS = ("resnet50", "bert_base", "mobilenet_v2", "gpt2:seq=128", "deepbench_face")
_MACHINE = "gemmini-default"


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


def whole_programs(
    networks: Sequence[str] = NETWORKS,
    *,
    samples: PositiveInt = 2000,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    out: Path = Path("baco-bench"),
    progress: ValidationProgress | None = None,
) -> list[dict[str, Any]]:
    """Whole programs on the RTL: the best designs in the area of gemmini-default against that machine and its tiling.

    Args:
        networks (--network, -n): repeatable; by default five networks.
        samples: budget of each search in design points.
        seeds: searches of each, with seeds 0, 1, ...
        out: folder for whole-programs.md and .json, studies and finished runs.

    A row has the costs of `baseline` (the default machine, with the tiling of Gemmini's library), `mappings` (that machine
    under mappings searched for it), and of every seed's best predicted design. Studies are kept in `out`, with what was measured:
    an interrupted benchmark goes on where it was.

    Raises BacoError for a wrong result, and what searching, compiling and simulating raise.
    """
    folder = output_folder(out)
    limit = load_accelerator(_MACHINE).area_mm2
    space = load_space("gemmini").constrain("area", area_mm2=limit)
    rows = []
    for network in networks:
        workload = Workload.of([load_network(network)])
        best: list[ProgramRow] = []
        others: dict[str, ProgramRow] = {}
        for seed in range(seeds):
            study = output_folder(folder, "studies", f"{network.replace(':', '-')}-{seed}")
            run_exploration(
                workload,
                space,
                Objective.parse("edp"),
                samples=samples,
                seed=seed,
                out=study,
                resume=(study / FILE_NAME).exists(),
            )
            path = study / FILE_NAME
            found = validate_file(
                path, ValidationOptions(best=1, spread=0), baseline=seed == 0, progress=progress
            )
            for design in found.designs:
                cost = program_cost(design)
                if design.role == "candidate":
                    best.append(cost)
                else:
                    others[design.role] = cost
        baseline = others["baseline"]
        row: dict[str, Any] = {"network": network, "samples": samples}
        row |= {name: asdict(cost) for name, cost in others.items()}
        row["best"] = [asdict(one) for one in best]
        row["gain_mappings"] = baseline.edp / others["mappings"].edp
        row["gain_best"] = [baseline.edp / one.edp for one in best]
        rows.append(row)
    atomic_write(folder / "whole-programs.json", json.dumps(rows, indent=1) + "\n")
    atomic_write(folder / "whole-programs.md", whole_programs_table(rows))
    return rows


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


def whole_programs_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: accelerator, host and whole of the default machine and the best design (the seed of median EDP)."""
    lines = [
        "# Whole programs: designs in the area of gemmini-default, against that machine",
        "",
        "From input to output on the RTL, every operator's output equal to integers. Default: Gemmini's default machine with the"
        " tiling of its library (windows of one pixel as products). Mappings: that machine under mappings searched for it. Best:"
        " the best predicted design of a search, of the seed with the median EDP. Host: operators that the host core runs;"
        " energies are those of accelerator, main memory and host core.",
        "",
        "| network | | accelerator, cycles | host | whole | energy, mJ | of this host | EDP gain | all seeds | predicted/measured"
        " cycles |",
        "|" + "---|" * 10,
    ]
    for row in rows:
        best, gains = row["best"], row["gain_best"]
        order = sorted(range(len(best)), key=gains.__getitem__)
        median = best[order[len(order) // 2]]
        errors = [one["predicted_cycles"] / one["cycles"] for one in best]
        shown = (
            ("default", row["baseline"], "1", "", ""),
            ("mappings", row["mappings"], f"{row['gain_mappings']:.2f}×", "", ""),
            (
                "best",
                median,
                f"**{statistics.median(gains):.2f}×**",
                f"{min(gains):.2f} to {max(gains):.2f}",
                f"{min(errors):.3f} to {max(errors):.3f}",
            ),
        )
        for name, one, gain, spread, error in shown:
            cells = [
                row["network"],
                name,
                f"{(one['cycles'] - one['host_cycles']) / 1e6:.2f} M",
                f"{one['host_cycles'] / 1e6:.2f} M",
                f"{one['cycles'] / 1e6:.2f} M",
                f"{one['energy_uj'] / 1e3:.2f}",
                f"{one['host_uj'] / 1e3:.2f}",
                gain,
                spread,
                error or f"{one['predicted_cycles'] / one['cycles']:.3f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    seeds, samples = len(rows[0]["best"]), rows[0]["samples"]
    return "\n".join([*lines, "", f"{seeds} seeds, {samples:,} samples each.", ""])
