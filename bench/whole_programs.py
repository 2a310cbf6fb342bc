"""What a search gains on whole programs: designs of at most the area of Gemmini's default machine, against that machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.harness.experiment import FOLDER, ResultFiles, median_place, page_of, table
from baco.bench.studies import default_area, measured_programs, searched, within
from baco.exploration.measure.session import ValidationProgress

NETWORKS = ("resnet50", "bert_base", "mobilenet_v2", "gpt2:seq=128", "deepbench_face")


def run(
    networks: Sequence[str] = NETWORKS,
    *,
    samples: PositiveInt = 2000,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 3,
    out: Path = FOLDER,
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

    Raises as `measured_programs` and what searching raises.
    """
    files, space = ResultFiles(out, "whole-programs", page), within(default_area())
    rows: list[dict[str, Any]] = []
    for network in networks:
        found = []
        for seed in range(seeds):
            folder = out / "studies" / f"{network.replace(':', '-')}-{seed}"
            study, _ = searched(network, space, folder, samples=samples, seed=seed)
            found.append(measured_programs(study, progress, baseline=seed == 0))
        best, baseline, mappings = (
            [result["candidate"] for result in found],
            found[0]["baseline"],
            found[0]["mappings"],
        )
        rows.append(
            {
                "network": network,
                "samples": samples,
                "baseline": vars(baseline),
                "mappings": vars(mappings),
                "best": [vars(candidate) for candidate in best],
                "gain_mappings": baseline.edp / mappings.edp,
                "gain_best": [baseline.edp / candidate.edp for candidate in best],
            }
        )
        files.keep(rows)
    return rows


def _shown(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lines of the page: the default machine, that with searched mappings, and the seed with the median gain."""
    for row in rows:
        best, gains, name = row["best"], row["gain_best"], row["network"]
        errors = [one["predicted_cycles"] / one["cycles"] for one in best]
        yield {"network": name, "what": "default", **row["baseline"], "gain": "1"}
        yield {"network": name, "what": "mappings", **row["mappings"], "gain": f"{row['gain_mappings']:.2f}×"}
        yield {
            "network": name,
            "what": "best",
            **best[median_place(gains)],
            "gain": f"**{statistics.median(gains):.2f}×**",
            "seeds": f"{min(gains):.2f} to {max(gains):.2f}",
            "error": f"{min(errors):.3f} to {max(errors):.3f}",
        }


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Accelerator, host and whole of the default machine and the best design (the seed of median EDP)."""
    return page_of(
        "Whole programs: designs in the area of gemmini-default, against that machine",
        "From input to output on the RTL, every operator's output equal to integers. Default: Gemmini's default machine with the"
        " tiling of its library (windows of one pixel as products). Mappings: that machine under mappings searched for it. Best:"
        " the best predicted design of a search, of the seed with the median EDP. Host: operators that the host core runs;"
        " energies are those of accelerator, main memory and host core.",
        table(
            _shown(rows),
            {
                "network": lambda line: line["network"],
                "": lambda line: line["what"],
                "accelerator, cycles": lambda line: f"{(line['cycles'] - line['host_cycles']) / 1e6:.2f} M",
                "host": lambda line: f"{line['host_cycles'] / 1e6:.2f} M",
                "whole": lambda line: f"{line['cycles'] / 1e6:.2f} M",
                "energy, mJ": lambda line: f"{line['energy_uj'] / 1e3:.2f}",
                "of this host": lambda line: f"{line['host_uj'] / 1e3:.2f}",
                "EDP gain": lambda line: line["gain"],
                "all seeds": lambda line: line.get("seeds", ""),
                "predicted/measured cycles": lambda line: line.get(
                    "error", f"{line['predicted_cycles'] / line['cycles']:.3f}"
                ),
            },
        ),
        f"{len(rows[0]['best'])} seeds, {rows[0]['samples']:,} samples each.",
    )
