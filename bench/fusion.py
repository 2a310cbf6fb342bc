"""What fusion is worth: the best designs of the same search with groups of operators and without, as whole programs on the RTL."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.presets import load_accelerator
from baco.bench.buffers import buffers as buffer_rows
from baco.bench.buffers import buffers_table
from baco.bench.whole_programs import ProgramRow, program_cost
from baco.common.files import atomic_write, output_folder
from baco.exploration.measure.session import ValidationOptions, ValidationProgress, validate_file
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

__all__ = ["FUSION_NETWORKS", "fusion", "fusion_table"]

FUSION_NETWORKS = ("mobilenet_v2", "resnet50", "bert_base:seq=512", "vit_b16")
_MACHINE = "gemmini-default"
_KINDS = {"alone": False, "fused": True}


def fusion(
    networks: Sequence[str] = FUSION_NETWORKS,
    *,
    samples: PositiveInt = 2000,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    out: Path = Path("baco-bench"),
    areas: Sequence[Annotated[float, Interval(ge=0.01)]] = (),
    buffers: bool = False,
    progress: ValidationProgress | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Searches with groups of operators and without, within the same area: their best designs on the RTL, every operator compared.

    Args:
        networks (--network, -n): repeatable; by default four networks.
        samples: budget of each search in design points.
        seeds: searches of each, with seeds 0, 1, ...
        out: folder for fusion.md and .json, studies and finished runs.
        areas (--area, MM2): limit in mm²; repeatable; by default the area of gemmini-default.
        buffers: instead, by prediction alone: where fusion pays and why not, by the size of scratchpad and accumulator.

    Studies are kept in `out`, with what was measured: an interrupted benchmark goes on where it was. Raises BacoError for a
    wrong result, and what searching, compiling and simulating raise.
    """
    if buffers:
        return buffer_rows(networks, out=out, watch=watch)
    folder = output_folder(out)
    usual = load_accelerator(_MACHINE).area_mm2
    rows = []
    for area, network in itertools.product(areas or (usual,), networks):
        space = load_space("gemmini").constrain("area", area_mm2=area)
        workload = Workload.of([load_network(network)])
        row: dict[str, Any] = {"network": network, "area_mm2": area, "samples": samples}
        found: dict[str, list[ProgramRow]] = {kind: [] for kind in _KINDS}
        designs: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for seed in range(seeds):
            for kind, fused in _KINDS.items():
                at = "" if area == usual else f"-{area:g}"
                study = output_folder(folder, "studies", f"{network.replace(':', '-')}{at}-{seed}-{kind}")
                outcome = run_exploration(
                    workload,
                    space,
                    Objective.parse("edp"),
                    samples=samples,
                    seed=seed,
                    out=study,
                    resume=(study / FILE_NAME).exists(),
                    fusion=fused,
                )
                options = ValidationOptions(best=1, spread=0)
                measured = validate_file(study / FILE_NAME, options, progress=progress)
                found[kind].append(program_cost(measured.designs[0]))
                designs[kind].append(outcome.best.accelerator.name)
        row |= {kind: [asdict(one) for one in ones] for kind, ones in found.items()}
        row["designs"] = designs
        row["gain"] = [one.edp / other.edp for one, other in zip(found["alone"], found["fused"], strict=True)]
        rows.append(row)
        atomic_write(folder / "fusion.json", json.dumps(rows, indent=1) + "\n")
        atomic_write(folder / "fusion.md", fusion_table(rows))
    return rows


def fusion_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: for each network and area the seed of the median gain, and all gains; or that of buffers."""
    if "gain" not in rows[0]:
        return buffers_table(rows)
    lines = [
        "# Fusion: the best designs of searches with groups of operators and without",
        "",
        "Within an area, for the energy-delay product of the whole program: the best predicted design of each search, measured on"
        " the RTL from input to output, every operator's output equal to integers.",
        "",
        "| area, mm² | network | search | design | cycles | energy, mJ | EDP, µJ·cycles | gain | all seeds | predicted/measured cycles |",
        "|" + "---|" * 10,
    ]
    medians: dict[float, list[float]] = {}
    for row in rows:
        gains, area = row["gain"], row["area_mm2"]
        seed = sorted(range(len(gains)), key=gains.__getitem__)[len(gains) // 2]
        median = statistics.median(gains)
        medians.setdefault(area, []).append(median)
        for kind in _KINDS:
            one = row[kind][seed]
            errors = [other["predicted_cycles"] / other["cycles"] for other in row[kind]]
            fused = kind == "fused"
            cells = [
                f"{area:.2f}",
                row["network"],
                "with groups" if fused else "without",
                row["designs"][kind][seed],
                f"{one['cycles']:,}",
                f"{one['energy_uj'] / 1e3:.2f}",
                f"{one['cycles'] * one['energy_uj']:.3e}",
                f"**{median:.2f}×**" if fused else "",
                f"{min(gains):.2f} to {max(gains):.2f}" if fused else "",
                f"{min(errors):.3f} to {max(errors):.3f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    means = ", ".join(
        f"**{math.exp(statistics.fmean(map(math.log, ones))):.2f}×** in {area:.2f} mm²"
        for area, ones in medians.items()
    )
    seeds, samples = len(rows[0]["gain"]), rows[0]["samples"]
    lines += ["", f"Geometric mean of the medians: {means}. {seeds} seeds, {samples:,} samples each.", ""]
    return "\n".join(lines)
