"""What fusion is worth: the best designs of the same search with groups of operators and without, as whole programs on the RTL; and,
by prediction alone, where it pays by the size of buffers (`baco.bench.buffers`)."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench import buffers as by_buffers
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, median_place, page_of, silent, table
from baco.bench.studies import ProgramRow, default_area, measured_programs, searched, within
from baco.exploration.measure.session import ValidationProgress

NETWORKS = ("mobilenet_v2", "resnet50", "bert_base:seq=512", "vit_b16")
_KINDS = {"alone": False, "fused": True}


def run(
    networks: Sequence[str] = NETWORKS,
    *,
    samples: PositiveInt = 2000,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    areas: Sequence[Annotated[float, Interval(ge=0.01)]] = (),
    buffers: bool = False,
    out: Path = FOLDER,
    progress: ValidationProgress | None = None,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Searches with groups of operators and without, within the same area: their best designs on the RTL, every operator compared.

    Args:
        networks (--network, -n): repeatable; by default four networks.
        samples: budget of each search in design points.
        seeds: searches of each, with seeds 0, 1, ...
        out: folder for fusion.md and .json, studies and finished runs.
        areas (--area, MM2): limit in mm²; repeatable; by default the area of gemmini-default.
        buffers: instead, by prediction alone: where fusion pays and why not, by the size of scratchpad and accumulator.

    Studies are kept in `out`, with what was measured: an interrupted benchmark goes on where it was.

    Raises as `measured_programs` and what searching raises.
    """
    if buffers:
        return by_buffers.buffers(networks, out=out, say=say)
    files, usual = ResultFiles(out, "fusion", fusion_page), default_area()
    rows: list[dict[str, Any]] = []
    for area, network in itertools.product(areas or (usual,), networks):
        found: dict[str, list[ProgramRow]] = {kind: [] for kind in _KINDS}
        designs: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for seed, (kind, fused) in itertools.product(range(seeds), _KINDS.items()):
            at = "" if area == usual else f"-{area:g}"
            folder = out / "studies" / f"{network.replace(':', '-')}{at}-{seed}-{kind}"
            study, outcome = searched(network, within(area), folder, samples=samples, seed=seed, fusion=fused)
            found[kind].append(measured_programs(study, progress)["candidate"])
            designs[kind].append(outcome.best.accelerator.name)
        pairs = zip(found["alone"], found["fused"], strict=True)
        rows.append(
            {"network": network, "area_mm2": area, "samples": samples}
            | {kind: [vars(candidate) for candidate in ones] for kind, ones in found.items()}
            | {"designs": designs, "gain": [one.edp / other.edp for one, other in pairs]}
        )
        files.keep(rows)
    return rows


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Of searches, or of buffers."""
    return fusion_page(rows) if "gain" in rows[0] else by_buffers.buffers_page(rows)


def fusion_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """For each network and area the seed of the median gain, and all gains."""
    lines = [
        {**row, **row[kind][median_place(row["gain"])], "kind": kind, "all": row[kind]}
        for row in rows
        for kind in _KINDS
    ]

    def errors(line: Mapping[str, Any]) -> str:
        ratios = [other["predicted_cycles"] / other["cycles"] for other in line["all"]]
        return f"{min(ratios):.3f} to {max(ratios):.3f}"

    def gain(line: Mapping[str, Any], text: str) -> str:
        return text if line["kind"] == "fused" else ""

    medians: dict[float, list[float]] = {}
    for row in rows:
        medians.setdefault(row["area_mm2"], []).append(statistics.median(row["gain"]))
    means = ", ".join(
        f"**{statistics.geometric_mean(ones):.2f}×** in {area:.2f} mm²" for area, ones in medians.items()
    )
    return page_of(
        "Fusion: the best designs of searches with groups of operators and without",
        "Within an area, for the energy-delay product of the whole program: the best predicted design of each search, measured on"
        " the RTL from input to output, every operator's output equal to integers.",
        table(
            lines,
            {
                "area, mm²": lambda line: f"{line['area_mm2']:.2f}",
                "network": lambda line: line["network"],
                "search": lambda line: "with groups" if line["kind"] == "fused" else "without",
                "design": lambda line: line["designs"][line["kind"]][median_place(line["gain"])],
                "cycles": lambda line: f"{line['cycles']:,}",
                "energy, mJ": lambda line: f"{line['energy_uj'] / 1e3:.2f}",
                "EDP, µJ·cycles": lambda line: f"{line['cycles'] * line['energy_uj']:.3e}",
                "gain": lambda line: gain(line, f"**{statistics.median(line['gain']):.2f}×**"),
                "all seeds": lambda line: gain(line, f"{min(line['gain']):.2f} to {max(line['gain']):.2f}"),
                "predicted/measured cycles": errors,
            },
        ),
        f"Geometric mean of the medians: {means}. {len(rows[0]['gain'])} seeds, {rows[0]['samples']:,} samples each.",
    )
