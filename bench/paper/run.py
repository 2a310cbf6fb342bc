"""`baco bench paper`: the parts of the published evaluation, each a page, a table of numbers and a figure."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from baco.bench.paper import charts, report
from baco.bench.paper.accuracy import predictions, score_table
from baco.bench.paper.cache import RecordCache
from baco.bench.paper.descent import CASES, PROTOCOL, run_descent
from baco.bench.paper.descent import SEEDS as DESCENT_SEEDS
from baco.bench.paper.efficiency import SAMPLES as EFFICIENCY_SAMPLES
from baco.bench.paper.efficiency import SEEDS, run_efficiency
from baco.bench.paper.networks import (
    ABLATION_SAMPLES,
    ABLATION_SEEDS,
    NETWORKS,
    Measuring,
    run_ablation,
    run_networks,
)
from baco.bench.paper.operators import FREE_CASES, cases_csv, run_operators, summarise, to_json
from baco.bench.paper.systems import SAMPLES
from baco.bench.sets.dataset import read_dataset
from baco.common.errors import InputError, did_you_mean
from baco.common.files import atomic_write, output_folder
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.choice import COST_MODELS
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice

PARTS = ("operators", "networks", "descent", "ablation", "efficiency", "accuracy")
#: Samples and networks of a quick look.
_QUICK_SAMPLES, _QUICK_NETWORKS = 300, ("deepbench_face", "bert_base")

Note = Callable[[str], None]


@dataclass(frozen=True)
class PaperOptions:
    """What to run.

    Attributes:
        parts: of `PARTS`.
        quick: few shapes, few networks, few samples: minutes instead of hours.
        networks: of the network, descent and efficiency parts; by default the published ones.
        models: what predicts latencies of networks.
        dataset: measured set of the accuracy part, by name or file.
        per_kind: shapes of each kind of operator at most; by default all that the published table counts.
        free_cases: shapes of each kind that are also searched in the free space.
        engine: who measures and runs the efficiency part.
        studies: validated studies whose measured designs join the network table.
        measure: networks whose designs are also measured on the RTL; the ablation's are if its network is one.
    """

    parts: tuple[str, ...] = PARTS
    quick: bool = False
    networks: tuple[str, ...] = ()
    models: tuple[CostModelName, ...] = ("reference", "instruction")
    dataset: str = "test"
    per_kind: int | None = None
    free_cases: int = FREE_CASES
    engine: ExecutorChoice = HERE
    measure: tuple[str, ...] = ()
    studies: tuple[Path, ...] = ()

    @property
    def samples(self) -> int:
        """Budget of a search."""
        return _QUICK_SAMPLES if self.quick else SAMPLES

    @property
    def chosen_networks(self) -> tuple[str, ...]:
        """Networks to run."""
        return self.networks or (_QUICK_NETWORKS if self.quick else NETWORKS)


def paper(
    *,
    parts: Sequence[str] = PARTS,
    quick: bool = False,
    networks: Sequence[str] = (),
    models: Sequence[str] = ("reference", "instruction"),
    dataset: str = "test",
    per_kind: PositiveInt | None = None,
    free_cases: PositiveInt = FREE_CASES,
    measure: Sequence[str] = (),
    studies: Sequence[Path] = (),
    out: Path = Path("baco-paper"),
    engine: ExecutorChoice = HERE,
    note: Note = lambda _: None,
) -> dict[str, Any]:
    """Single operators, networks, DOSA at its own protocol, ablation, search efficiency and accuracy, beside the published.

    Every row says whether it is predicted or measured. Finished pieces are kept in the output folder: an interrupted
    run goes on where it was.

    Args:
        parts (--only): operators, networks, descent, ablation, efficiency, accuracy; repeatable; all by default.
        quick: few shapes, two networks, short searches: a look in minutes.
        networks (--network, -n): of the network, descent and efficiency parts; the published six by default.
        models (--cost-model): what predicts latencies of networks: reference, instruction; both by default.
        dataset (--set): measured set of the accuracy part: a name or a file.
        per_kind: operators of each kind at most; by default the published numbers.
        free_cases: shapes of each kind searched in the space without bounds.
        measure (NETWORK): also measure this network's designs on the RTL; repeatable.
        studies (--study, DIR): a validated study whose measured designs join the network table.
        out: folder for pages, numbers and figures.

    Raises and returns as `bench_paper`.
    """
    options = PaperOptions(
        tuple(parts),
        quick,
        tuple(networks),
        tuple(models),  # type: ignore[arg-type]
        dataset,
        per_kind,
        free_cases,
        engine,
        tuple(measure),
        tuple(studies),
    )
    return bench_paper(out, options, note)


def paper_text(result: Mapping[str, Any]) -> str:
    """Which parts were made, in how long."""
    return "\n".join(f"{name}: {part['seconds']:.0f} s" for name, part in result.items())


def bench_paper(out: str | Path, options: PaperOptions, note: Note = lambda _: None) -> dict[str, Any]:
    """Run parts of the evaluation and write `PART.md`, `PART.json` and `PART.png` for each into `out`.

    Finished pieces are kept in `out`/parts: an interrupted run goes on where it was.

    Returns:
        by part: `rows` (also in the JSON file) and `seconds` (of this run, what was kept from earlier excluded).

    Raises InputError for unknown parts, models, networks or data, before anything is run, StorageError, and what
    searching and measuring raise.
    """
    for part in options.parts:
        if part not in PARTS:
            raise InputError(f"the evaluation has no part '{part}'", hint=did_you_mean(part, PARTS))
    for model in options.models:
        if model not in COST_MODELS:
            raise InputError(f"unknown cost model '{model}'", hint=did_you_mean(model, COST_MODELS))
    _check_networks([*options.networks, *options.measure])
    folder = output_folder(out)
    kept = output_folder(folder, "parts")
    result: dict[str, Any] = {}
    for part in options.parts:
        start = time.monotonic()
        rows = _RUN[part](folder, kept, options, note)
        seconds = round(time.monotonic() - start, 1)
        result[part] = {"seconds": seconds, "rows": rows}
        atomic_write(folder / f"{part}.json", json.dumps({"rows": rows}, indent=1) + "\n")
        note(f"{part}: {folder / f'{part}.md'} ({seconds:.0f} s)")
    return result


def _check_networks(names: Sequence[str]) -> None:
    from baco.workloads.inputs.load import load_network

    for name in names:
        load_network(name)


def _plain(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(vars(row)) for row in rows]


def _operators(folder: Path, kept: Path, options: PaperOptions, note: Note) -> list[dict[str, Any]]:
    cases = run_operators(
        RecordCache(kept / "operators.jsonl"),
        quick=options.quick,
        per_kind=options.per_kind,
        free_cases=options.free_cases,
        samples=options.samples,
        note=note,
    )
    rows = summarise(cases)
    atomic_write(folder / "operators.csv.gz", gzip.compress(cases_csv(cases).encode(), mtime=0))
    atomic_write(folder / "operators.md", report.operators_page(rows))
    atomic_write(folder / "operators.png", charts.operators_chart(rows))
    return to_json(rows)


def _measuring(kept: Path, options: PaperOptions, network: str | None = None) -> Measuring | None:
    if not options.measure or (network is not None and network not in options.measure):
        return None
    return Measuring(kept / "measurements.sqlite", options.engine, options.measure)


def _networks(folder: Path, kept: Path, options: PaperOptions, note: Note) -> list[dict[str, Any]]:
    rows = run_networks(
        RecordCache(kept / "networks.jsonl"),
        options.chosen_networks,
        options.models,
        samples=options.samples,
        measuring=_measuring(kept, options),
        studies=options.studies,
        note=note,
    )
    atomic_write(folder / "networks.md", report.networks_page(rows))
    atomic_write(folder / "networks.png", charts.networks_chart(rows))
    return _plain(rows)


def _ablation(folder: Path, kept: Path, options: PaperOptions, note: Note) -> list[dict[str, Any]]:
    network = options.chosen_networks[0] if options.quick else "resnet50"
    rows = run_ablation(
        RecordCache(kept / "ablation.jsonl"),
        network=network,
        measuring=_measuring(kept, options, network),
        note=note,
        samples=(60, _QUICK_SAMPLES) if options.quick else ABLATION_SAMPLES,
        seeds=1 if options.quick else ABLATION_SEEDS,
    )
    atomic_write(folder / "ablation.md", report.ablation_page(rows, network))
    atomic_write(folder / "ablation.png", charts.ablation_chart(rows))
    return _plain(rows)


def _efficiency(folder: Path, kept: Path, options: PaperOptions, note: Note) -> list[dict[str, Any]]:
    seeds = 1 if options.quick else SEEDS
    rows = run_efficiency(
        output_folder(kept, "efficiency"),
        options.chosen_networks,
        samples=_QUICK_SAMPLES if options.quick else EFFICIENCY_SAMPLES,
        seeds=seeds,
        engine=options.engine,
        note=note,
    )
    atomic_write(folder / "efficiency.md", report.efficiency_page(rows, options.chosen_networks, seeds))
    atomic_write(folder / "efficiency.png", (kept / "efficiency" / "search.png").read_bytes())
    atomic_write(folder / "efficiency.csv", (kept / "efficiency" / "curves.csv").read_bytes())
    return _plain(rows)


def _descent(folder: Path, kept: Path, options: PaperOptions, note: Note) -> list[dict[str, Any]]:
    samples = _QUICK_SAMPLES if options.quick else PROTOCOL
    rows = run_descent(
        output_folder(kept, "descent"),
        options.chosen_networks,
        samples=samples,
        engine=options.engine,
        note=note,
        seeds=1 if options.quick else DESCENT_SEEDS,
        cases=1 if options.quick else options.per_kind or CASES,
    )
    atomic_write(folder / "descent.md", report.descent_page(rows, samples))
    return _plain(rows)


def _accuracy(folder: Path, kept: Path, options: PaperOptions, note: Note) -> list[dict[str, Any]]:
    data = read_dataset(options.dataset)
    predicted = predictions(data, note)
    rows = score_table(predicted["cycles"], data.cycles, data.strata)
    rows += score_table(predicted["energy"], data.numbers("energy_pj"), data.strata, "energy")
    atomic_write(folder / "accuracy.md", report.accuracy_page(rows, Path(options.dataset).name))
    atomic_write(folder / "accuracy.png", charts.accuracy_chart(predicted["cycles"], data.cycles))
    return _plain(rows)


_RUN: dict[str, Callable[[Path, Path, PaperOptions, Note], list[dict[str, Any]]]] = {
    "operators": _operators,
    "networks": _networks,
    "ablation": _ablation,
    "descent": _descent,
    "efficiency": _efficiency,
    "accuracy": _accuracy,
}
