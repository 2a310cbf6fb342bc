"""Whole networks (Figure 6.10) and the ablation on ResNet-50 (Table 6.7)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baco.bench.harness.experiment import Say, silent
from baco.bench.paper import systems
from baco.bench.paper.cache import Json, RecordCache
from baco.bench.paper.designs import (
    BESIDE,
    NETWORK_DESIGNS,
    SEARCHED_STAGES,
    STAGES,
    NetworkLayers,
    cached_design,
    machine_name,
    measured,
    predicted,
)
from baco.bench.paper.published import ABLATION
from baco.bench.paper.systems import (
    EQUAL_AREA,
    FREE,
    SAMPLES,
    SystemCost,
    evaluate_system,
)
from baco.common.errors import BacoError, InputError, Location
from baco.exploration.candidate import CostModelName
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.measure.compare import best_measured
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.session import measured_designs
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.studies.study import FILE_NAME, StudyRecord

#: Networks of the published comparison, batch 1.
NETWORKS = ("resnet50", "unet", "retinanet", "bert_base", "deepbench_ocr", "deepbench_face")
#: Those that are also searched in the space of published searches, which takes longest.
FREE_NETWORKS = ("resnet50", "bert_base", "deepbench_face")
ABLATION_NETWORK = "resnet50"
#: Budgets of the ablation's searches: the published table has one, but importance is a matter of getting there sooner.
ABLATION_SAMPLES, ABLATION_SEEDS = (100, 500, 2000), 5


@dataclass(frozen=True)
class Measuring:
    """How designs are measured on the RTL.

    Attributes:
        store: file of finished measurements.
        engine: who measures.
        networks: whose designs are measured.
    """

    store: Path
    engine: ExecutorChoice
    networks: tuple[str, ...]


@dataclass(frozen=True)
class NetworkRow:
    """One network on one system.

    Attributes:
        model: what the latency comes from, `reference`, `instruction` or `rtl`.
        source: `predicted` or `measured`.
        accelerator: side, scratchpad and accumulator KiB, or a name.
        energy_uj, cycles, edp: of one run; EDP in µJ·cycles.
        ratio: EDP over that of `baco` with the same model (over `baco-free` for what is searched in the free space).
        gap: EDP over its proven lower bound, less one; None where not proven.
    """

    network: str
    system: str
    model: str
    source: str
    accelerator: str
    energy_uj: float
    cycles: float
    edp: float
    ratio: float | None
    gap: float | None = None


@dataclass(frozen=True)
class AblationRow:
    """One stage of the ablation.

    Attributes:
        samples: budget of the stage's search; 0 where nothing is searched.
        model: as in `NetworkRow`.
        accelerator: on which most seeds end.
        energy_uj, cycles, edp: geometric means over seeds.
        improvement: EDP of the first stage over this one's.
        worst, best: improvements of single seeds.
        published: the same, published; None for a stage that has none.
    """

    stage: str
    samples: int
    model: str
    source: str
    accelerator: str
    energy_uj: float
    cycles: float
    edp: float
    improvement: float
    worst: float
    best: float
    published: float | None


def run_networks(
    cache: RecordCache,
    networks: Sequence[str] = NETWORKS,
    models: Sequence[CostModelName] = ("reference", "instruction"),
    *,
    samples: int = SAMPLES,
    measuring: Measuring | None = None,
    studies: Sequence[Path] = (),
    say: Say = silent,
) -> list[NetworkRow]:
    """Every system on every network by the reference model; Gemmini's machine and ours by the other models too.

    Args:
        samples: budget of searches in design points.
        measuring: also measure the designs of the last of `models` on the RTL.
        studies: validated studies whose measured designs join the table.
    """
    rows: list[NetworkRow] = []
    validated = [row for folder in studies for row in rows_of_study(folder)]
    for name in networks:
        network = NetworkLayers.load(name)
        if "reference" in models:
            rows += _by_reference(cache, network, samples, say)
        if "instruction" in models:
            rows += _by_design(cache, network, "instruction", samples, say)
        if measuring is not None and name in measuring.networks:
            rows += _measured(cache, network, models[-1], samples, measuring, say)
    return rows + validated


def _by_reference(cache: RecordCache, network: NetworkLayers, samples: int, say: Say) -> list[NetworkRow]:
    found: dict[str, SystemCost] = {}
    for system in (*EQUAL_AREA, *(FREE if network.name in FREE_NETWORKS else ())):
        subject = {"network": network.name, "tasks": network.texts, "system": system, "samples": samples}

        def evaluated(system: str = system) -> Json:
            return evaluate_system(system, network.tasks, network.layers, samples=samples).to_dict()

        found[system] = SystemCost(**cache.get(subject, systems.__name__, evaluated))
        say(f"{network.name}, reference model: {system} {found[system].edp:.4g} µJ·cycles")
    return _rows(network.name, "reference", "predicted", found)


def _by_design(
    cache: RecordCache, network: NetworkLayers, model: CostModelName, samples: int, say: Say
) -> list[NetworkRow]:
    found = {}
    for system in NETWORK_DESIGNS:
        design = cached_design(cache, network, system, model, samples)
        found[system] = predicted(design, network.tasks)
        say(f"{network.name}, {model} model: {system} {found[system].edp:.4g} µJ·cycles")
    return _rows(network.name, model, "predicted", found)


def _measured(
    cache: RecordCache,
    network: NetworkLayers,
    model: CostModelName,
    samples: int,
    measuring: Measuring,
    say: Say,
) -> list[NetworkRow]:
    found: dict[str, SystemCost] = {}
    with MeasurementStore(measuring.store) as store:
        for system in NETWORK_DESIGNS:
            design = measured(
                cached_design(cache, network, system, model, samples), store, measuring.engine, say
            )
            if design.measured is None:
                say(f"{network.name}: {system} could not be measured: {design.status}")
            else:
                found[system] = _measured_cost(design)
    return _rows(network.name, "rtl", "measured", found)


def _measured_cost(design: Design) -> SystemCost:
    assert design.measured is not None
    cost = design.measured
    return SystemCost(cost.energy_pj, cost.latency_cycles, machine_name(design))


#: Designs of a validated study by what the table calls them.
_ROLES = {"baseline": "gemmini-default", "mappings": "gemmini-best"}


def rows_of_study(folder: Path) -> list[NetworkRow]:
    """Measured rows of a study that `explore --validate --baseline` or `baco validate --baseline` left.

    The best measured candidate stands for `baco`; its area is what the study's space allowed. Raises StorageError for
    what is no study, InputError for one without measured designs.
    """
    path = folder / FILE_NAME if folder.is_dir() else folder
    with StudyRecord.open(path, read_only=True) as study:
        designs = measured_designs(study)
        best = best_measured(designs, study.objective)
        name = study.tasks[0].network
    found: dict[str, SystemCost] = {}
    for one in designs:
        system = _ROLES.get(one.role, "baco" if one is best else "")
        if system and one.measured is not None:
            found[system] = _measured_cost(one)
    if not found:
        raise InputError(
            "this study has no measured designs",
            location=Location(str(folder)),
            hint="measure some: baco validate STUDY --baseline",
        )
    return _rows(name, "rtl", "measured", found)


def _rows(network: str, model: str, source: str, found: dict[str, SystemCost]) -> list[NetworkRow]:
    rows = []
    for system, cost in found.items():
        base = found.get("baco-free" if system in FREE else "baco")
        ratio = None if base is None else cost.edp / base.edp
        gap = None if cost.bound_edp is None else cost.edp / cost.bound_edp - 1
        energy = cost.energy_pj * 1e-6
        rows.append(
            NetworkRow(
                network,
                system,
                model,
                source,
                cost.accelerator,
                energy,
                cost.latency_cycles,
                cost.edp,
                ratio,
                gap,
            )
        )
    return rows


#: What one stage reached with a budget (0 where nothing is searched), seed by seed.
Stages = dict[tuple[str, int], list[SystemCost]]


def run_ablation(
    cache: RecordCache,
    model: CostModelName = "instruction",
    *,
    network: str = ABLATION_NETWORK,
    samples: Sequence[int] = ABLATION_SAMPLES,
    seeds: int = ABLATION_SEEDS,
    measuring: Measuring | None = None,
    say: Say = silent,
) -> list[AblationRow]:
    """The stages of `baco.bench.paper.designs`, judged by a model; its designs also measured.

    The reference model is no judge of the first stages: it charges their last, smaller tiles as whole ones.
    """
    layers = NetworkLayers.load(network)
    found: Stages = {}
    for stage, budget, seed in _ablation_runs(samples, seeds):
        try:
            design = _stage_design(cache, layers, stage, model, budget, seed)
            cost = predicted(design, layers.tasks)
        except BacoError as error:
            say(f"ablation: {stage} left out: {error.message}")
            continue
        found.setdefault((stage, budget), []).append(cost)
        say(
            f"ablation: {stage}, {budget} samples, seed {seed}: {cost.edp:.4g} µJ·cycles on {cost.accelerator}"
        )
    rows = ablation_rows(found, model, "predicted")
    if measuring is not None:
        measured_stages = _measured_stages(cache, layers, model, samples, seeds, measuring, say)
        rows += ablation_rows(measured_stages, "rtl", "measured")
    return rows


def _ablation_runs(samples: Sequence[int], seeds: int) -> list[tuple[str, int, int]]:
    """(stage, budget, seed), those of one search together."""
    runs = []
    for stage in (*STAGES, BESIDE):
        if stage in SEARCHED_STAGES:
            runs += [(stage, budget, seed) for budget in samples for seed in range(seeds)]
        else:
            runs.append((stage, 0, 0))
    return runs


def _stage_design(
    cache: RecordCache, layers: NetworkLayers, stage: str, model: CostModelName, budget: int, seed: int
) -> Design:
    """A stage's design; the one before the searches where that is predicted to be better."""
    own = cached_design(cache, layers, stage, model, budget, seed)
    if stage not in SEARCHED_STAGES:
        return own
    before = cached_design(cache, layers, STAGES[STAGES.index(SEARCHED_STAGES[0]) - 1], model, 0)
    return min((own, before), key=lambda design: predicted(design, layers.tasks).edp)


def _measured_stages(
    cache: RecordCache,
    layers: NetworkLayers,
    model: CostModelName,
    samples: Sequence[int],
    seeds: int,
    measuring: Measuring,
    say: Say,
) -> Stages:
    found: Stages = {}
    with MeasurementStore(measuring.store) as store:
        for stage, budget, seed in _ablation_runs(samples, seeds):
            design = _stage_design(cache, layers, stage, model, budget, seed)
            result = measured(design, store, measuring.engine, say)
            if result.measured is not None:
                found.setdefault((stage, budget), []).append(_measured_cost(result))
    return found


def ablation_rows(found: Stages, model: str, source: str) -> list[AblationRow]:
    """Rows in the order of the stages; none without the first."""
    base = found.get((STAGES[0], 0))
    if base is None:
        return []
    rows = []
    for (stage, budget), costs in found.items():
        energy, cycles, edp = (
            statistics.geometric_mean(values)
            for values in zip(*((c.energy_pj * 1e-6, c.latency_cycles, c.edp) for c in costs), strict=True)
        )
        names = [c.accelerator for c in costs]
        rows.append(
            AblationRow(
                stage,
                budget,
                model,
                source,
                max(names, key=names.count),
                energy,
                cycles,
                edp,
                base[0].edp / edp,
                base[0].edp / max(c.edp for c in costs),
                base[0].edp / min(c.edp for c in costs),
                ABLATION.get(stage),
            )
        )
    return rows
