"""Pages of the evaluation: our figures beside the published ones, and why they differ, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from baco.bench.harness.experiment import each, geometric_mean, page_of, table
from baco.bench.paper.accuracy import ALL, AccuracyRow
from baco.bench.paper.descent import PROTOCOL, DescentRow
from baco.bench.paper.designs import BESIDE, STAGES
from baco.bench.paper.efficiency import CHECKPOINTS, EfficiencyRow
from baco.bench.paper.networks import AblationRow, NetworkRow
from baco.bench.paper.operators import OperatorRow
from baco.bench.paper.published import ACCURACY, NETWORK_LARGEST
from baco.bench.paper.systems import FREE
from baco.common.text import markdown_text

_SETUP = """Systems (each prediction: the reference model's energy laws and word counting, DRAM at 8 words a cycle):

* `eyeriss`, `nvdla-small`, `nvdla-large`: analytical machines (`accel/analytical/*.yaml` says what is assumed and left
  out), mappings searched for each operator within their dataflow; no bound on their area.
* `eyeriss-random`, ...: the same machines, best of 5,000 random mappings of each operator, the published way to map them.
* `gemmini-default`: 16x16, 256 KiB scratchpad, 64 KiB accumulator, with the tiling of Gemmini's C library.
* `gemmini-random`: the same machine, mapped in that way.
* `gemmini-best`: the same machine, optimal mappings (proven within 0.5%): what mappings alone give.
* `baco`: our search, hardware and mappings together, everything buildable, area at most that of gemmini-default.
* `proof`: the optimum of that space by branch and bound (within 0.5%): what no search can beat, not a search.
* `dosa-free`, `baco-free`: hardware and mappings together in the space of published searches (any side up to 128, whole
  KiB, no double buffering, no bound on the area): descent in DOSA's style, and our search."""


def _shown(value: float | None, form: str = ".2f", missing: str = "") -> str:
    return missing if value is None else format(value, form)


def operators_page(rows: Sequence[OperatorRow]) -> str:
    """Tables 6.4 to 6.6."""
    tables = [
        f"## {kind}\n\n"
        + table(
            [row for row in rows if row.kind == kind],
            {
                "system": lambda row: row.system,
                "cases": lambda row: row.cases,
                "cycles": lambda row: f"{row.cycles:,.0f}",
                "energy (µJ)": lambda row: f"{row.energy_uj:,.4g}",
                "EDP / baco": lambda row: _shown(row.ratio),
                "EDP / baco-free": lambda row: _shown(row.free_ratio),
                "of cases": lambda row: "" if row.free_ratio is None else row.free_cases,
                "published": lambda row: _shown(row.published),
            },
        )
        for kind in dict.fromkeys(row.kind for row in rows)
    ]
    return page_of(
        "Single operators",
        "All figures are predicted. Ratios of EDP are geometric means over cases; the published ones are to BACO, which "
        "ours stand beside in two ways: against `baco` (no more area than gemmini-default), and, on a part of the "
        "cases, against `baco-free` (no bound).",
        _SETUP,
        *tables,
        _operators_why(rows),
    )


def _operators_why(rows: Sequence[OperatorRow]) -> str:
    found = {(row.kind, row.system): row.ratio for row in rows}
    lines = ["## How this compares, and why", ""]
    above: list[str] = []
    below: list[str] = []
    for row in rows:
        best = row.free_ratio if row.system in FREE else row.ratio
        if row.published is not None and best is not None:
            (above if best >= row.published else below).append(
                f"{row.kind} {row.system} {best:.2f} ({row.published:.2f})"
            )
    if above:
        lines.append(
            "* At equal area, as large as published or larger, ours (published): " + ", ".join(above) + "."
        )
    if below:
        lines.append("* At equal area, smaller than published: " + ", ".join(below) + ".")
    lines += [
        "* The published shapes are not available; ours are drawn evenly in the logarithm from the published ranges, so "
        "small operators, on which all machines wait for the same DRAM, weigh more than in an even draw. "
        "Matrix-vector products do so at any size: each weight is used once, so at equal bandwidth no machine can be "
        "much slower than another nor spend much less energy, and ratios of 5 to 36 as published cannot come from this "
        "model.",
        "* The baselines' mappings are searched as hard as ours (within 5% of the optimum where that is known, mostly within 1%); "
        "the published ones are the best of 5,000 random ones. What that is worth shows in the rows `-random`, and on "
        "Gemmini's own machine in `gemmini-random` against `gemmini-best`.",
        "* The publication does not say what BACO's own hardware was bounded by. Without a bound our ratios grow (`EDP / baco-free`), "
        "on those cases that were searched so.",
        "* Word energies follow one law of capacity for every machine; Accelergy's tables, which the publication used "
        "for Eyeriss and NVDLA, are not reproduced.",
    ]
    mine, best = found.get(("GEMM", "gemmini-default")), found.get(("GEMM", "gemmini-best"))
    if mine and best:
        lines.append(
            f"* Of the {mine:.2f} that separate gemmini-default from `baco` on GEMM at equal area, mappings alone "
            f"give {mine / best:.2f} and hardware of the same area {best:.2f}."
        )
    return "\n".join(lines)


def networks_page(rows: Sequence[NetworkRow]) -> str:
    """Figure 6.10."""
    tables = [
        f"## {markdown_text(network)}\n\n"
        + table(
            [row for row in rows if row.network == network],
            {
                "system": lambda row: row.system,
                "latency by": lambda row: row.model,
                "source": lambda row: row.source,
                "accelerator": lambda row: row.accelerator,
                "cycles": lambda row: f"{row.cycles:,.0f}",
                "energy (µJ)": lambda row: f"{row.energy_uj:,.0f}",
                "EDP": lambda row: f"{row.edp:.4g}",
                "EDP / ours": lambda row: _shown(row.ratio),
            },
        )
        for network in dict.fromkeys(row.network for row in rows)
    ]
    return page_of(
        "Networks",
        "Batch 1. EDP of one run, µJ·cycles: sum of energies times sum of latencies. Latency by the reference model, by "
        "the instruction-aware model, or measured on the RTL (then energy is "
        "counted activity times the same table).",
        _SETUP,
        *tables,
        _networks_why(rows),
    )


def improvements(rows: Sequence[NetworkRow], system: str, model: str) -> dict[str, float]:
    """EDP of a system over ours, by network."""
    return {
        row.network: row.ratio
        for row in rows
        if (row.system, row.model) == (system, model) and row.ratio is not None
    }


def _networks_why(rows: Sequence[NetworkRow]) -> str:
    lines = ["## How this compares, and why", ""]
    for system, base in (("dosa-free", "dosa"), ("gemmini-default", "gemmini-default")):
        for model in dict.fromkeys(row.model for row in rows):
            found = improvements(rows, system, model)
            if found:
                name = max(found, key=lambda key: found[key])
                mean = geometric_mean(found.values())
                lines.append(
                    f"* Against `{system}`, latency by {model}: at most {found[name]:.2f} ({name}), geometric mean "
                    f"{mean:.2f} over {len(found)} networks; published: at most {NETWORK_LARGEST[base]:.2f}."
                )
    lines += [
        "* Ratios to `dosa-free` are within the space of published searches, all others at no more area than "
        "gemmini-default's. Our descent in DOSA's style has 5,000 samples and no learned model; the part `descent` has it at "
        "DOSA's own protocol.",
        "* The instruction-aware rows and the measured ones charge what the reference model does not see: whole blocks "
        "of the array, requests of memory, the host's pace. Where they are close to each other and far from the "
        "reference rows, believe them.",
    ]
    return "\n".join(lines)


def ablation_page(rows: Sequence[AblationRow], network: str) -> str:
    """Table 6.7."""
    order = (*STAGES, BESIDE)

    def improvement(row: AblationRow) -> str:
        return f"{row.improvement:.2f}" + (f" ({row.worst:.2f}–{row.best:.2f})" if row.samples else "")

    def judged(own: Sequence[AblationRow]) -> str:
        return f"## Judged by {own[0].model} ({own[0].source})\n\n" + table(
            sorted(own, key=lambda row: (order.index(row.stage), row.samples)),
            {
                "stage": lambda row: row.stage,
                "samples": lambda row: f"{row.samples:,}" if row.samples else "",
                "accelerator": lambda row: row.accelerator,
                "cycles": lambda row: f"{row.cycles:,.0f}",
                "energy (µJ)": lambda row: f"{row.energy_uj:,.0f}",
                "EDP (µJ·cycles)": lambda row: f"{row.edp:.4g}",
                "improvement": improvement,
                "published": lambda row: _shown(row.published),
            },
        )

    models = dict.fromkeys(row.model for row in rows)
    return page_of(
        f"Ablation on {markdown_text(network)}",
        "Improvement of EDP over Gemmini's machine and tiling, parts added one after the other. Stages: `default`; "
        "`partition`, block sizes as the compiler chooses them, same machine; `hardware`, likewise on the best of the "
        "largest machines of the same area; `analytical`, hardware and mappings searched with the instruction-aware model, "
        "effort spread evenly over layers, each layer taking the better of what was searched and the compiler's choice, as in programs; "
        "`importance`, effort given out by the importance estimator. A search keeps the design of "
        "`hardware` where it finds none that is predicted to be better. Beside the stages: `reference`, optimal by the published "
        "analytical model, which knows no instructions. Searches are run with several budgets and seeds (geometric means; in brackets "
        "the worst and the best seed). Every row of a table is judged by the same model (or the RTL), whatever chose it.",
        *(judged([row for row in rows if row.model == model]) for model in models),
        "## How this compares, and why\n\n"
        "* The stages are this product's nearest to the published ones; the publication does not describe its own in "
        "more than a sentence. Its stage `learned` (2.17) has no counterpart: no learned model is used by a search of ours "
        "by default.\n"
        "* The compiler chooses block sizes by the same instruction-aware model that judges here. So `partition` and "
        "`hardware` hold already most of what the published stages add by models, and searches add little to them.\n"
        "* Optimal by the reference model is not optimal by a model that knows instructions, nor on the RTL.\n"
        "* Importance is a matter of getting there sooner: compare the rows with equal budgets. `baco bench importance` "
        "has the same over several networks, with intervals.",
    )


def efficiency_page(rows: Sequence[EfficiencyRow], networks: Sequence[str], seeds: int) -> str:
    """Figure 6.11."""

    def at(n: int, row: EfficiencyRow) -> str:
        ratio = row.ratios[n]
        return "-" if ratio is None else f"{ratio:.2f} ({row.low[n]:.2f}–{row.high[n]:.2f})"

    points = CHECKPOINTS[: len(rows[0].ratios)]
    return page_of(
        "Search efficiency",
        f"EDP after so many samples (design points) over the EDP that our search (`gradient`) ends with; geometric "
        f"mean over {', '.join(map(markdown_text, networks))} and {seeds} seeds; space `reference`, reference model, all predicted. "
        "In brackets 95% intervals (seeds drawn anew within networks). A dash: some network has no design yet. `dosa` "
        "counts three evaluations of every layer for a step, `dosa-published` one sample, as its publication does.",
        table(
            rows,
            {
                "searcher": lambda row: row.searcher,
                **each({f"{one:,} samples": n for n, one in enumerate(points)}, at),
                "seconds a run": lambda row: f"{row.seconds:.0f}",
            },
        ),
        "The published figure has curves and no numbers: Bayesian optimisation ahead while samples are few, BACO "
        "lowest from there to 5,000. What carries our search is exact combination of layers' mappings on every "
        "accelerator, which all samples feed; see the README for what descent itself is worth.",
    )


def descent_page(rows: Sequence[DescentRow], samples: int) -> str:
    """DOSA at its own protocol."""
    return page_of(
        "DOSA at its own protocol",
        f"Descent in DOSA's style, {samples:,} samples (its protocol: 7 starts of 1,490 steps, {PROTOCOL:,} samples), "
        "against our search (`gradient`), both in the space `reference` by the reference model, all predicted; "
        "geometric means. EDP in µJ·cycles. Seconds are processor time of one thread.",
        "* *as published*: rounds every 298 steps to the nearest mapping, and so does *with roundings*, but takes the best "
        "of 32 near roundings of every layer.\n"
        "* *equal samples*: its EDP over ours after as many samples, each of its gradient steps one sample, as "
        "published; what its starts and roundings try is free.\n"
        "* *equal evaluations*: likewise where a step is three evaluations of every layer (forward and gradient) and "
        "what is tried counts, as in all other budgets of this product: it then has about a third of the steps.\n"
        "* *equal time*: after as many seconds as its protocol takes, or at our end where our samples took less.\n"
        "* *to reach it*: after which share of its samples, and of its seconds, our search had reached the EDP with "
        "roundings.",
        table(
            rows,
            {
                "kind": lambda row: row.kind,
                "workload": lambda row: markdown_text(row.name) if row.name else "all",
                "runs": lambda row: row.runs,
                "EDP as published": lambda row: _shown(row.nearest_edp, ".4g", "-"),
                "its equal samples": lambda row: _shown(row.nearest_ratio),
                "its equal time": lambda row: _shown(row.nearest_seconds_ratio),
                "EDP with roundings": lambda row: _shown(row.edp, ".4g", "-"),
                "seconds": lambda row: _shown(row.seconds, ".0f", "-"),
                "equal samples": lambda row: _shown(row.samples_ratio),
                "equal evaluations": lambda row: _shown(row.counted_ratio),
                "equal time": lambda row: _shown(row.seconds_ratio),
                "samples to reach it": lambda row: _shown(row.samples_needed, ".2%", "-"),
                "seconds to reach it": lambda row: _shown(row.seconds_needed, ".2%", "-"),
            },
        ),
        "The artifact of the publication reached 1.28e11 on ResNet-50 (its own layer table: "
        "`--network dosa-layers.csv:resnet50`). What held it back is the rounding: descent reaches relaxed designs a third "
        "better than what is left of them when each factor goes to its nearest divisor. Two things differ from the "
        "artifact even in *as published*: a start takes the best of 250 random mappings a layer where the original asks a "
        "commercial solver for one, and steps move logarithms of factors, all of them alike, where the original scales "
        "factors by the largest in its data, so that most never leave their start.",
    )


def accuracy_page(rows: Sequence[AccuracyRow], name: str) -> str:
    """Figure 6.12."""
    return page_of(
        "Accuracy of the models",
        f"Set `{name}`: random legal mappings, shapes and accelerators apart from all that was fitted, run on the "
        "RTL. Strata: what the layer waited for most, by measured counters. Correlation: Pearson's, of "
        "logarithms. Errors in percent of what was measured.",
        "## Cycles\n\nMeasured, against what models predict of the same programs. `macs`: multiply-accumulates over "
        "the array's elements.",
        _accuracy_table([row for row in rows if row.quantity == "cycles"]),
        f"Published, on 200 held-out samples of another implementation: correlation {ACCURACY['analytical']:.2f} "
        f"for the analytical model, {ACCURACY['learned']:.2f} with a learned encoder on top. "
        "`baco model evaluate` adds the learned residuals to this table.",
        "## Energy\n\nCounted activity of the RTL against predicted accesses, both with the same energy table. The "
        "instruction-aware model predicts what main memory moves, and takes the reference model's counts inside "
        "the accelerator.",
        _accuracy_table([row for row in rows if row.quantity == "energy"]),
    )


def _accuracy_table(rows: Sequence[AccuracyRow]) -> str:
    return table(
        sorted(rows, key=lambda row: row.stratum != ALL),
        {
            "model": lambda row: row.model,
            "stratum": lambda row: row.stratum,
            "rows": lambda row: f"{row.rows:,}",
            "Spearman": lambda row: _shown(row.spearman, ".4f", "-"),
            "correlation": lambda row: _shown(row.log_correlation, ".4f", "-"),
            "mean error": lambda row: f"{row.mean_percent:.1f}",
            "median error": lambda row: f"{row.median_percent:.1f}",
            "bias": lambda row: f"{row.bias_percent:+.1f}",
        },
    )
