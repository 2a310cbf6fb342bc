"""What a search gains on whole programs: designs of at most the area of Gemmini's default machine, against that machine."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baco.api.explore import explore
from baco.api.programs import Compiled, compile
from baco.api.result import Result
from baco.api.sources import accelerator
from common.errors import BacoError
from common.files import atomic_write, output_folder
from explore.study import FILE_NAME

__all__ = ["NETWORKS", "program_gains", "program_gains_table"]

NETWORKS = ("resnet50", "bert_base", "mobilenet_v2", "deepbench_face")
_MACHINE = "gemmini-default"
_RUNS = "runs.json"


@dataclass(frozen=True)
class ProgramCost:
    """What a whole program takes on the RTL.

    Attributes:
        cycles: from reset to the end.
        host_cycles: of these, those of operators that the host core runs, or takes part in.
        predicted_cycles: that it would take.
        energy_uj: of the accelerator and its main memory.
    """

    cycles: int
    host_cycles: int
    predicted_cycles: float
    energy_uj: float

    @property
    def edp(self) -> float:
        """µJ·cycles."""
        return self.energy_uj * self.cycles


def program_gains(
    networks: Sequence[str],
    *,
    samples: int,
    seeds: int,
    out: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Search for each network and seed, run whole programs on the RTL, every operator compared; a row a network.

    A row has the costs of `default` (the default machine, with the tiling of Gemmini's library), `mappings` (that machine
    with the compiler's schedules), and of every seed's `best` design, as predicted, with its mappings where they are best.
    Studies and measured programs are kept in `out`: an interrupted benchmark goes on where it was.

    Raises BacoError for a wrong result, and what searching, compiling and simulating raise.
    """
    folder = output_folder(out)
    rows = []
    for network in networks:
        default = _cost(compile(network, _MACHINE, baseline=True), "default", folder, progress)
        mappings = _cost(compile(network, _MACHINE), "mappings", folder, progress)
        best = []
        for seed in range(seeds):
            found = _searched(network, samples, seed, folder)
            cost = _cost(compile(network, found), f"best of seed {seed}", folder, progress)
            best.append(cost)
        costs = {
            "default": asdict(default),
            "mappings": asdict(mappings),
            "best": [asdict(one) for one in best],
        }
        gains = [default.edp / one.edp for one in best]
        row = {"network": network, "samples": samples, **costs}
        rows.append(row | {"gain_mappings": default.edp / mappings.edp, "gain_best": gains})
    atomic_write(folder / "whole-programs.json", json.dumps(rows, indent=1) + "\n")
    atomic_write(folder / "whole-programs.md", program_gains_table(rows))
    return rows


def program_gains_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: a table with the median over seeds and its range."""
    lines = [
        "# Whole programs: designs in the area of gemmini-default, against that machine",
        "",
        "From input to output on the RTL, host operators included, every operator's output equal to integers. Default: Gemmini's"
        " default machine with the tiling of its library (windows of one pixel as products). Mappings: that machine with the"
        " compiler's schedules. Best: the best predicted design of a search, median over seeds, and their range.",
        "",
        "| network | cycles: default | of these host | mappings | best | energy, mJ: default | best | EDP gain: mappings |"
        " best | range | predicted/measured cycles, best |",
        "|" + "---|" * 11,
    ]
    for row in rows:
        default, best = row["default"], row["best"]
        errors = [one["predicted_cycles"] / one["cycles"] for one in best]
        gains = row["gain_best"]
        cells = [
            row["network"],
            f"{default['cycles'] / 1e6:.2f} M",
            f"{default['host_cycles'] / 1e6:.2f} M",
            f"{row['mappings']['cycles'] / 1e6:.2f} M",
            f"{statistics.median(one['cycles'] for one in best) / 1e6:.2f} M",
            f"{default['energy_uj'] / 1e3:.2f}",
            f"{statistics.median(one['energy_uj'] for one in best) / 1e3:.2f}",
            f"{row['gain_mappings']:.2f}×",
            f"{statistics.median(gains):.2f}×",
            f"{min(gains):.2f} to {max(gains):.2f}",
            f"{min(errors):.3f} to {max(errors):.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    seeds, samples = len(rows[0]["best"]), rows[0]["samples"]
    return "\n".join([*lines, "", f"{seeds} seeds, {samples:,} samples each.", ""])


def _searched(network: str, samples: int, seed: int, folder: Path) -> Result:
    limit = accelerator(_MACHINE).area_mm2
    out = folder / "studies" / f"{network.replace(':', '-')}-{seed}"
    return explore(
        network,
        objective="edp",
        constraints={"area_mm2": limit},
        samples=samples,
        seed=seed,
        out=out,
        resume=os.path.exists(out / FILE_NAME),
        progress=False,
    )


def _cost(program: Compiled, what: str, folder: Path, progress: Callable[[str], None]) -> ProgramCost:
    """Of a run, or of an earlier one of the same bytes on the same accelerator."""
    key = hashlib.sha256(program.elf).hexdigest() + "-" + program.accelerator.config_hash
    path = folder / _RUNS
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if key not in kept:
        run = program.run("rtl")
        if not run.right:
            raise BacoError(
                f"{program.name}, {what}: wrong: {'; '.join(run.wrong) or run.simulation.console}"
            )
        assert run.operators is not None
        assert run.cycles is not None
        assert run.energy_uj is not None
        host = run.operators.loc[run.operators["on"] != "accelerator", "cycles"].sum()
        cost = ProgramCost(run.cycles, int(host), run.predicted_cycles or 0.0, run.energy_uj)
        kept[key] = asdict(cost)
        atomic_write(path, json.dumps(kept, indent=1) + "\n")
    cost = ProgramCost(**kept[key])
    progress(
        f"{program.name}, {what}: {cost.cycles:,} cycles, {cost.energy_uj:,.0f} µJ, EDP {cost.edp:.4g} µJ·cycles"
    )
    return cost
