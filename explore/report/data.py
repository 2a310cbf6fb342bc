"""What a report is made of, independent of where it comes from (a study, a benchmark, a test)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from baco.accel.config import Accelerator
from baco.common.shown import Shown
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import format_mapping
from baco.exploration.accuracy import StudyAccuracy
from baco.exploration.breakdown import DesignCosts
from baco.exploration.candidate import BatchSummary, Candidate, Cost, CostModelName, LayerCost, Source
from baco.exploration.cost.detail import LayerDetail
from baco.exploration.explain.steps import Neighbours
from baco.exploration.known_errors import KnownError, known_errors
from baco.exploration.measure.measured_design import Design
from baco.exploration.objective import Objective
from baco.exploration.report.units import milliseconds, watts
from baco.workloads.network import Task, Workload


def cost_block(cost: Cost, clock_mhz: float) -> dict[str, Any]:
    """A cost with what derives from it, units in the names."""
    return {
        "source": cost.source,
        "latency_cycles": cost.latency_cycles,
        "latency_ms": milliseconds(cost.latency_cycles, clock_mhz),
        "energy_uj": cost.energy_uj,
        "edp_uj_cycles": cost.edp,
        "edp_js": cost.edp_js(clock_mhz),
        "area_mm2": cost.area_mm2,
        "edap_uj_cycles_mm2": cost.edap,
        "power_w": watts(cost.energy_pj, cost.latency_cycles, clock_mhz),
    }


@dataclass(frozen=True)
class CostBound:
    """A limit that no design can beat, by costs of the kind that the best design's are.

    Attributes:
        name: e.g. `compulsory traffic`.
        edp: energy-delay product, µJ·cycles.
        explanation: what it does and does not account for, one sentence.
        predicted: whether it holds for what the search's cost model predicts as well, where the best design is measured.
    """

    name: str
    edp: float
    explanation: str
    predicted: bool = True


@dataclass(frozen=True)
class Baseline:
    """The machine to compare with: Gemmini's default one under Gemmini's own tiling.

    Attributes:
        name: what it is, in full.
        accelerator: the hardware; its name is what reports call the design.
        mappings: that its schedules stand for, one a task.
        costs, details: of its parts, as predicted; of one run of each task.
        cost: of the workload, measured if it was.
    """

    name: str
    accelerator: Accelerator
    mappings: Sequence[Mapping]
    costs: DesignCosts
    details: Sequence[LayerDetail]
    cost: Cost


@dataclass(frozen=True)
class SearchRecord:
    """How the search was set up and how it ended.

    Attributes:
        searcher: its name.
        seed: of all randomness.
        space_name: name of the design space.
        space_text: the space in full, as YAML.
        ended: why the search stopped, in words that follow "the search" ("used its budget").
        notes: anything the user should know (assumptions, simplifications, warnings).
        cost_model: what predicted the latencies, a name of `baco.exploration.cost.choice.COST_MODELS`.
        whole: whether costs are those of whole programs, with what runs beside layers; else that is apart.
    """

    searcher: str
    seed: int
    space_name: str
    space_text: str = ""
    ended: str = "used its budget"
    notes: tuple[str, ...] = ()
    cost_model: CostModelName = "reference"
    whole: bool = False


class LaterDetails(Dictionary[int, Sequence[LayerDetail]]):
    """Details of the layers of some candidates, by their index; worked out for all of them when the first are asked for, which takes
    as long as all else that a report is made of.

    Args:
        indices: of the candidates.
        find: works out the details of each.
    """

    def __init__(self, indices: Sequence[int], find: Callable[[], Sequence[Sequence[LayerDetail]]]) -> None:
        self._indices, self._find = indices, find

    @cached_property
    def _details(self) -> dict[int, Sequence[LayerDetail]]:
        return dict(zip(self._indices, self._find(), strict=True))

    def __getitem__(self, index: int) -> Sequence[LayerDetail]:
        return self._details[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)

    def __contains__(self, index: object) -> bool:
        return index in self._indices


@dataclass(frozen=True, repr=False)
class ReportData(Shown):
    """Everything that a report shows.

    Attributes:
        workload: the networks explored.
        objective: what was minimised.
        candidates: the design points kept, all for the same tasks; a report calls them by their index.
        best: the one with the least objective; one of `candidates`.
        costs: of each candidate, what its programs cost part by part, with what was measured of it; None where that is not
            known; those of `best` are needed. What a report shows of time and energy is drawn from them.
        summaries: the history of the search, ascending in evaluations; may be empty.
        search: set-up and end of the search.
        provenance: plain JSON (versions, platform, time...).
        command: command line that reproduces the result.
        bounds: limits on the EDP, the tightest last.
        validated: candidates chosen to be measured, by their index; the cost of a measured one is the measured one.
        others: what else was measured (the reference machine).
        violations: where no design is feasible and `candidates` are the nearest ones: for each, (value reached, bound) of
            the constraints that it breaks, by path; else empty.
        baseline: the machine to compare with; None where the workload cannot be run on it.
        details: of the layers of some candidates, by their index.
        accuracy: what the networks lose in integers.
        find_neighbours: finds the designs one step away from the best, which takes seconds; None where nothing is known that they
            could be mapped with.

    Raises ValueError (a programming error) for parts that do not fit together.
    """

    workload: Workload
    objective: Objective
    candidates: Sequence[Candidate]
    best: Candidate
    costs: Sequence[DesignCosts | None]
    summaries: Sequence[BatchSummary]
    search: SearchRecord
    provenance: dict[str, Any]
    command: str
    bounds: Sequence[CostBound] = ()
    validated: Dictionary[int, Design] = field(default_factory=dict)
    others: Sequence[Design] = ()
    violations: Sequence[Dictionary[str, tuple[float, float]]] = ()
    baseline: Baseline | None = None
    accuracy: StudyAccuracy = field(default_factory=StudyAccuracy)
    details: Dictionary[int, Sequence[LayerDetail]] = field(default_factory=dict)
    find_neighbours: Callable[[], Neighbours] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if len(self.costs) != len(self.candidates):
            raise ValueError(f"{len(self.costs)} costs for {len(self.candidates)} candidates")
        for index, (candidate, costs) in enumerate(zip(self.candidates, self.costs, strict=True)):
            if candidate.tasks != self.tasks or len(candidate.mappings) != len(self.tasks):
                raise ValueError(f"candidate {index} is for other tasks than the best")
            if costs is None:
                continue
            if len(costs.layers) != len(self.tasks):
                raise ValueError(
                    f"candidate {index} has {len(costs.layers)} layers for {len(self.tasks)} tasks"
                )
            costs.check(candidate.cost if candidate.cost.source == "predicted" else None)
            if (candidate.cost.source == "measured") != (costs.measured is not None):
                raise ValueError(f"candidate {index} is {candidate.cost.source}, its parts are not")
        if self.costs[self.best_index] is None:
            raise ValueError("the parts of the best candidate's cost are missing")

    @cached_property
    def neighbours(self) -> Neighbours | None:
        """Designs one step away from the best, found when first asked for. Raises BacoError where they cannot be found."""
        return None if self.find_neighbours is None else self.find_neighbours()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The workload's unique problems with counts, as searched."""
        return self.best.tasks

    @cached_property
    def best_index(self) -> int:
        """Index of `best` among the candidates."""
        for index, candidate in enumerate(self.candidates):
            if candidate is self.best:
                return index
        return list(self.candidates).index(self.best)

    @cached_property
    def mapping_texts(self) -> list[list[str]]:
        """Every candidate's mappings in the published grammar, in task order."""
        return [[format_mapping(mapping) for mapping in c.mappings] for c in self.candidates]

    @property
    def best_costs(self) -> DesignCosts:
        """What the best candidate's programs cost, part by part."""
        costs = self.costs[self.best_index]
        assert costs is not None  # checked when the object was made
        return costs

    @property
    def best_layers(self) -> Sequence[LayerCost]:
        """Costs of the best candidate's layers, one run each."""
        return self.best_costs.layer_costs

    def prediction(self, index: int) -> Cost:
        """What the search predicted of a candidate, whether it was measured since or not."""
        cost, costs = self.candidates[index].cost, self.costs[index]
        if cost.source == "predicted" or costs is None:
            return cost
        validated = self.validated.get(index)
        if validated is not None and validated.prediction is not None:
            return validated.prediction
        return replace(cost, latency_cycles=costs.cycles, energy_pj=costs.energy_pj, source="predicted")

    def _headline(self) -> str:
        return f"{self.network_names}: {len(self.candidates):,} designs, {self.objective}"

    @property
    def resources(self) -> tuple[str, ...]:
        """What bounds latencies in the cost model, in the order of `LayerCost.latency_terms`."""
        return self.best_layers[0].resources

    @cached_property
    def errors(self) -> dict[str, KnownError]:
        """Known errors of what is predicted of designs, by metric."""
        return self._errors(whole=self.search.whole)

    @cached_property
    def part_errors(self) -> dict[str, KnownError]:
        """The same of single parts of programs."""
        return self._errors(whole=False)

    def _errors(self, *, whole: bool) -> dict[str, KnownError]:
        machine = self.best.accelerator
        model = self.search.cost_model
        return known_errors(
            model, whole=whole, timing=machine.timing, silicon=machine.technology, dim=machine.dim
        )

    @property
    def validated_designs(self) -> list[Design]:
        """Everything that was chosen to be measured, candidates first."""
        return [*self.validated.values(), *self.others]

    @property
    def source(self) -> Source:
        """Where the best candidate's cost comes from."""
        return self.best.cost.source

    @property
    def network_names(self) -> str:
        """The networks by name, in the order explored."""
        return ", ".join(network.name for network in self.workload.networks)

    @property
    def evaluations(self) -> int:
        """Problem-mapping evaluations that the search spent."""
        last = self.summaries[-1].evaluations if self.summaries else 0
        return max([last, *(candidate.samples for candidate in self.candidates)])

    @property
    def samples(self) -> float:
        """Design points that the search spent."""
        return self.evaluations / max(1, len(self.tasks))

    @property
    def proven_edp(self) -> float | None:
        """No design of the space has a lower EDP, µJ·cycles; None where that was not proven."""
        return next((one.edp for one in self.bounds if one.name == "proven"), None)

    @property
    def seconds(self) -> float:
        """Search time."""
        return self.summaries[-1].seconds if self.summaries else 0.0
