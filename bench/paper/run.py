"""`baco bench paper`: the parts of the published evaluation, each a page, a table of numbers and a figure."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from baco.bench.curves import figure
from baco.bench.harness.experiment import ResultFiles, Say, check_names, plain, silent
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
from baco.bench.paper.operators import FREE_CASES, cases_csv, run_operators, summarise
from baco.bench.paper.systems import SAMPLES
from baco.bench.search import curves_csv
from baco.bench.sets.dataset import read_dataset
from baco.common.files import atomic_write, output_folder
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.choice import COST_MODELS
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.workloads.inputs.load import load_network

PARTS = ("operators", "networks", "descent", "ablation", "efficiency", "accuracy")
#: Samples and networks of a quick look.
_QUICK_SAMPLES, _QUICK_NETWORKS = 300, ("deepbench_face", "bert_base")


@dataclass(frozen=True)
class _Evaluation:
    """What to run, and where; attributes as the arguments of `run`."""

    folder: Path
    kept: Path
    quick: bool
    networks: tuple[str, ...]
    cost_models: tuple[CostModelName, ...]
    measure: tuple[str, ...]
    studies: tuple[Path, ...]
    dataset: str
    per_kind: int | None
    free_cases: int
    engine: ExecutorChoice
    say: Say

    @property
    def samples(self) -> int:
        """Budget of a search."""
        return _QUICK_SAMPLES if self.quick else SAMPLES

    def measuring(self, network: str | None = None) -> Measuring | None:
        """How designs are measured; None where they are not, of all networks or of one."""
        if not self.measure or (network is not None and network not in self.measure):
            return None
        return Measuring(self.kept / "measurements.sqlite", self.engine, self.measure)

    def records(self, part: str) -> RecordCache:
        """Finished pieces of a part."""
        return RecordCache(self.kept / f"{part}.jsonl")

    def write(self, name: str, content: str | bytes) -> None:
        """A file beside the page."""
        atomic_write(self.folder / name, content)


#: The rows of a part, and its page.
_Part = tuple[list[Any], str]


def run(
    *,
    only: Sequence[str] = PARTS,
    quick: bool = False,
    networks: Sequence[str] = (),
    cost_models: Sequence[str] = ("reference", "instruction"),
    measure: Sequence[str] = (),
    studies: Sequence[Path] = (),
    dataset: str = "test",
    per_kind: PositiveInt | None = None,
    free_cases: PositiveInt = FREE_CASES,
    engine: ExecutorChoice = HERE,
    out: Path = Path("baco-paper"),
    say: Say = silent,
) -> dict[str, Any]:
    """Single operators, networks, DOSA at its own protocol, ablation, search efficiency and accuracy, beside the published.

    Every row says whether it is predicted or measured. Finished pieces are kept in the output folder: an interrupted
    run goes on where it was.

    Args:
        only: operators, networks, descent, ablation, efficiency, accuracy; repeatable; all by default.
        quick: few shapes, two networks, short searches: a look in minutes.
        networks (--network, -n): of the network, descent and efficiency parts; the published six by default.
        cost_models (--cost-model): what predicts latencies of networks: reference, instruction; both by default.
        dataset (--set): measured set of the accuracy part: a name or a file.
        per_kind: operators of each kind at most; by default the published numbers.
        free_cases: shapes of each kind searched in the space without bounds.
        measure (NETWORK): also measure this network's designs on the RTL; repeatable.
        studies (--study, DIR): a validated study whose measured designs join the network table.
        out: folder for `PART.md`, `PART.json` and `PART.png` of each part.

    Returns by part: `rows` (also in the JSON file) and `seconds` (of this run, what was kept from earlier excluded).

    Raises InputError for unknown parts, models, networks or data, before anything is run, StorageError, and what
    searching and measuring raise.
    """
    check_names(only, PARTS, "part of the evaluation")
    check_names(cost_models, COST_MODELS, "cost model")
    for name in (*networks, *measure):
        load_network(name)
    folder = output_folder(out)
    one = _Evaluation(
        folder,
        output_folder(folder, "parts"),
        quick,
        tuple(networks) or (_QUICK_NETWORKS if quick else NETWORKS),
        tuple(cost_models),  # type: ignore[arg-type]
        tuple(measure),
        tuple(studies),
        dataset,
        per_kind,
        free_cases,
        engine,
        say,
    )
    result: dict[str, Any] = {}
    for part in only:
        start = time.monotonic()
        rows, text = _RUN[part](one)
        seconds = round(time.monotonic() - start, 1)
        ResultFiles(folder, part, str).keep_as({"rows": rows}, text)
        result[part] = {"seconds": seconds, "rows": plain(rows)}
        say(f"{part}: {folder / f'{part}.md'} ({seconds:.0f} s)")
    return result


def page(result: dict[str, Any]) -> str:
    """What was written."""
    return "\n".join(
        f"{part}: {len(one['rows'])} rows, {one['seconds']:.0f} s" for part, one in result.items()
    )


def _operators(one: _Evaluation) -> _Part:
    cases = run_operators(
        one.records("operators"),
        quick=one.quick,
        per_kind=one.per_kind,
        free_cases=one.free_cases,
        samples=one.samples,
        say=one.say,
    )
    rows = summarise(cases)
    one.write("operators.csv.gz", gzip.compress(cases_csv(cases).encode(), mtime=0))
    one.write("operators.png", charts.operators_chart(rows))
    return [{**vars(row), "source": "predicted"} for row in rows], report.operators_page(rows)


def _networks(one: _Evaluation) -> _Part:
    rows = run_networks(
        one.records("networks"),
        one.networks,
        one.cost_models,
        samples=one.samples,
        measuring=one.measuring(),
        studies=one.studies,
        say=one.say,
    )
    one.write("networks.png", charts.networks_chart(rows))
    return rows, report.networks_page(rows)


def _ablation(one: _Evaluation) -> _Part:
    network = one.networks[0] if one.quick else "resnet50"
    rows = run_ablation(
        one.records("ablation"),
        network=network,
        measuring=one.measuring(network),
        samples=(60, _QUICK_SAMPLES) if one.quick else ABLATION_SAMPLES,
        seeds=1 if one.quick else ABLATION_SEEDS,
        say=one.say,
    )
    one.write("ablation.png", charts.ablation_chart(rows))
    return rows, report.ablation_page(rows, network)


def _efficiency(one: _Evaluation) -> _Part:
    seeds = 1 if one.quick else SEEDS
    rows, runs = run_efficiency(
        output_folder(one.kept, "efficiency"),
        one.networks,
        samples=_QUICK_SAMPLES if one.quick else EFFICIENCY_SAMPLES,
        seeds=seeds,
        engine=one.engine,
        say=one.say,
    )
    one.write("efficiency.png", figure(runs, "png"))
    one.write("efficiency.csv", curves_csv(runs))
    return rows, report.efficiency_page(rows, one.networks, seeds)


def _descent(one: _Evaluation) -> _Part:
    samples = _QUICK_SAMPLES if one.quick else PROTOCOL
    rows = run_descent(
        output_folder(one.kept, "descent"),
        one.networks,
        samples=samples,
        seeds=1 if one.quick else DESCENT_SEEDS,
        cases=1 if one.quick else one.per_kind or CASES,
        engine=one.engine,
        say=one.say,
    )
    return rows, report.descent_page(rows, samples)


def _accuracy(one: _Evaluation) -> _Part:
    data = read_dataset(one.dataset)
    predicted = predictions(data, one.say)
    rows = score_table(predicted["cycles"], data.cycles, data.strata)
    rows += score_table(predicted["energy"], data.numbers("energy_pj"), data.strata, "energy")
    one.write("accuracy.png", charts.accuracy_chart(predicted["cycles"], data.cycles))
    return rows, report.accuracy_page(rows, Path(one.dataset).name)


_RUN: dict[str, Callable[[_Evaluation], _Part]] = {
    "operators": _operators,
    "networks": _networks,
    "ablation": _ablation,
    "descent": _descent,
    "efficiency": _efficiency,
    "accuracy": _accuracy,
}
