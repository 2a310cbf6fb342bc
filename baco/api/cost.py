"""`baco.cost`: what a layer or a network costs on an accelerator, part by part, and where each figure comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from baco.api.argument_types import checked
from baco.api.layers import schedule_for
from baco.api.sources import AcceleratorSource, NetworkSource, design, with_timing
from baco.api.sources import accelerator as load_accelerator
from baco.api.sources import network as load_network
from baco.common.errors import InfeasibleError, InputError, Location, did_you_mean
from baco.common.shown import Shown
from baco.common.units import si
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping as LayerMapping
from baco.compiler.mapping.nest import requirement

if TYPE_CHECKING:
    import pandas as pd

    from baco.accel.config import Accelerator
    from baco.compiler.schedules.schedule import Schedule
    from baco.exploration.breakdown import CostEntry, DesignCosts
    from baco.exploration.candidate import Candidate, CostModelName, LayerCost
    from baco.workloads.network import Network, Task


#: How a layer is carried out: a mapping, or the text of one or of a schedule.
MappingSource: TypeAlias = "str | LayerMapping"
#: Levels of `LayerCost.accesses`.
_LEVELS = ("registers", "accumulator", "scratchpad", "dram")
#: What a text of a schedule begins with, where it is not a mapping's.
_STYLES = ("explicit ", "packed ", "loop_ws ", "loop_conv ")


@dataclass(frozen=True, repr=False)
class CostTree(Shown):
    """What something costs, all its runs, and the parts that this adds up from: a network of layers, groups and other operators, each
    of components that take energy.

    Attributes:
        name: what it is called.
        kind: `network`, `layer`, `group`, `operator`, or the `component` that an energy goes to.
        latency_cycles: the parts run one after the other, so that theirs add up; None for components.
        energy_uj: microjoules, static energy included; those of the parts add up.
        runs: how often, in the whole.
        on: `accelerator` or `host`.
        macs: multiply-accumulates asked for, all runs.
        parts: what it consists of.
        sources: where each figure comes from, by its name: how predicted, and how far such predictions are known to be off.
        accelerator: that it runs on.
        mapping: of a layer, as text.
        terms: of a layer, the cycles that each resource needs in one run: the latency is at least the largest.
        words: of a layer, words read and written in one run, by level.
    """

    name: str
    kind: str
    latency_cycles: float | None
    energy_uj: float
    accelerator: Accelerator = field(repr=False)
    runs: float = 1.0
    on: str = "accelerator"
    macs: float = 0.0
    parts: tuple[CostTree, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    mapping: str | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, float] = field(default_factory=dict)

    @property
    def edp(self) -> float | None:
        """Energy-delay product, µJ·cycles; None for components."""
        return None if self.latency_cycles is None else self.energy_uj * self.latency_cycles

    @property
    def area_mm2(self) -> float:
        """Of the accelerator."""
        return self.accelerator.area_mm2

    @property
    def seconds(self) -> float | None:
        """At the accelerator's clock; None for components."""
        return (
            None if self.latency_cycles is None else self.latency_cycles / (self.accelerator.clock_mhz * 1e6)
        )

    @property
    def utilisation(self) -> float | None:
        """macs / (latency · dim²)."""
        return self.macs / (self.latency_cycles * self.accelerator.dim**2) if self.latency_cycles else None

    @property
    def bottleneck(self) -> str | None:
        """Of a layer, the resource that needs most cycles."""
        return max(self.terms, key=self.terms.__getitem__) if self.terms else None

    def __getitem__(self, name: str) -> CostTree:
        """The part of a name, at any depth. Raises KeyError."""
        for one in self.parts:
            if one.name == name:
                return one
        for one in self.parts:
            try:
                return one[name]
            except KeyError:
                continue
        raise KeyError(name)

    def frame(self) -> pd.DataFrame:
        """A row for the whole and for every part: `path`, `kind`, `on`, `runs`, `latency_cycles`, `energy_uj`, `share` (of the
        energy), `macs`, `utilisation`, `bottleneck`, `mapping`, `source`."""
        import pandas as pd

        rows = [
            {
                "path": " / ".join(path),
                "kind": one.kind,
                "on": one.on,
                "runs": one.runs,
                "latency_cycles": one.latency_cycles,
                "energy_uj": one.energy_uj,
                "share": one.energy_uj / self.energy_uj if self.energy_uj else 0.0,
                "macs": one.macs,
                "utilisation": one.utilisation,
                "bottleneck": one.bottleneck,
                "mapping": one.mapping,
                "source": "; ".join(f"{name} {text}" for name, text in one.sources.items()) or None,
            }
            for path, one in self._walk(())
        ]
        return pd.DataFrame(rows)

    def _walk(self, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], CostTree]]:
        path = (*above, self.name)
        yield path, self
        for one in self.parts:
            yield from one._walk(path)

    def text(self, depth: int = 2) -> str:
        """Lines for people, parts below what they are part of, to some depth; the sources at the end."""
        lines = []
        for path, one in self._walk(()):
            if len(path) <= depth + 1:
                lines.append("  " * (len(path) - 1) + one._line())
        lines += [f"{name}: {text}" for name, text in self.sources.items()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def _line(self) -> str:
        words = [self.name if self.runs == 1.0 else f"{self.name} ({self.runs:g} runs)"]
        if self.latency_cycles is not None:
            words.append(f"{self.latency_cycles:,.0f} cycles")
        words.append(si(self.energy_uj * 1e-6, "J"))
        if self.bottleneck:
            words.append(f"bound by {self.bottleneck}")
        return ", ".join(words)

    def _headline(self) -> str:
        whole = f"{self._line()}, EDP {self.edp:.4g} µJ·cycles" if self.edp is not None else self._line()
        return f"{whole}, on {self.accelerator.name}" if self.kind != "component" else whole

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "utilisation", None if self.utilisation is None else f"{self.utilisation:.1%}"
        yield "mapping", self.mapping
        yield (
            "cycles by resource",
            ", ".join(f"{name} {one:,.0f}" for name, one in self.terms.items()) or None,
        )
        yield "words by level", ", ".join(f"{name} {one:,.0f}" for name, one in self.words.items()) or None
        for name, text in self.sources.items():
            yield f"{name} is", text

    def _rows(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        rows = [
            (
                one.name,
                one.kind,
                f"{one.runs:g}",
                "" if one.latency_cycles is None else f"{one.latency_cycles:,.0f}",
                si(one.energy_uj * 1e-6, "J"),
            )
            for one in self.parts
        ]
        return ("part", "kind", "runs", "cycles", "energy"), rows


@checked(mapping="a mapping, its text, or for a network a dict of them by the names of layers")
def cost(
    source: Layer | NetworkSource,
    accelerator: AcceleratorSource = "gemmini-default",
    mapping: str | LayerMapping | Mapping[str, str | LayerMapping] | None = None,
    *,
    cost_model: str = "instruction",
    timing: str | None = None,
) -> CostTree:
    """What a layer, or a whole network, is predicted to cost on an accelerator: a tree whose parts add up.

    Args:
        source: `baco.gemm(...)` or `baco.conv(...)`, or a network as `baco.network` takes it: then with all that its program does
            beside layers, operator by operator (groups of them run as one unit only in designs of a study: `Study.cost`).
        accelerator: see `baco.accelerator`. A design of a study brings its mappings.
        mapping: of a layer: a `baco.Mapping`, carried out as searches do (by a macro where its tiles are those of one); or a text, of
            a mapping, carried out as `baco.compile` does (explicitly, with as many copies of tiles as fit), or of a schedule. Of a
            network: a dict of these, by the names of its layers. What is not said is as the compiler chooses.
        cost_model: `instruction` (of the compiled program), or `reference` (the published model, of layers alone).
        timing: whose cycles are predicted: `baco` (our Verilog's) or `gemmini` (the original's); by default what the accelerator
            says.

    Raises InputError for what is malformed, unknown, or no mapping of the layer, InfeasibleError for a mapping that the accelerator
    cannot carry out.
    """
    from baco.exploration.cost.choice import COST_MODELS

    if cost_model not in COST_MODELS:
        raise InputError(f"there is no cost model '{cost_model}'", hint=did_you_mean(cost_model, COST_MODELS))
    model: CostModelName = "reference" if cost_model == "reference" else "instruction"
    found = design(accelerator)
    machine = load_accelerator(accelerator)
    if timing is not None:
        machine = with_timing(machine, timing)
    if isinstance(source, Layer):
        source = replace(source, elements=machine.input_format)
        if isinstance(mapping, Mapping):
            raise InputError(
                "mapping must be one mapping of a layer, not a dict", location=Location("mapping")
            )
        if mapping is None and found is not None:
            mapping = _of_design(found[0]).get(str(source.problem))
        found_cost, text = _layer_cost(source, machine, mapping, model)
        return _layer_tree(source, found_cost, text, machine, model)
    return _network_tree(load_network(source), machine, mapping, found and found[0], model)


# -------------------------------------------------------------------- layers


def _layer_cost(
    layer: Layer, machine: Accelerator, mapping: MappingSource | None, model: CostModelName
) -> tuple[LayerCost, str]:
    """Of one run, and the text of how it is carried out."""

    from baco.compiler.styles.registry import plan_layer
    from baco.exploration.cost.layer_costs import layer_costs
    from baco.exploration.cost.schedules import schedule_costs

    if model == "reference" and mapping is not None and not _is_schedule(mapping):
        one = mapping if isinstance(mapping, LayerMapping) else LayerMapping.parse(mapping)
        one.check(layer.problem)
        _check_fits(one, layer, machine)
        return layer_costs([layer.problem], [one], machine)[0], one.text
    schedule = _schedule(layer, machine, mapping)
    plan_layer(layer, schedule, machine)
    return schedule_costs([layer], [schedule], machine, model)[0], schedule.text


def _is_schedule(mapping: MappingSource) -> bool:
    return isinstance(mapping, str) and mapping.startswith(_STYLES)


def _schedule(layer: Layer, machine: Accelerator, mapping: MappingSource | None) -> Schedule:
    """How a layer is carried out. Raises InputError for a mapping of another layer."""
    from baco.compiler.mapping.grammar import BUFFERS
    from baco.compiler.styles.registry import parse_schedule, realise

    if mapping is None:
        return schedule_for(layer, machine)
    if isinstance(mapping, str) and mapping.startswith(_STYLES):
        return parse_schedule(mapping)
    one = mapping if isinstance(mapping, LayerMapping) else LayerMapping.parse(mapping)
    if max(one.rows, one.columns) > machine.dim:
        raise InfeasibleError(
            f"the mapping spreads {max(one.rows, one.columns)} lanes over an array of side {machine.dim}"
        )
    if isinstance(mapping, str) and not BUFFERS.fullmatch(mapping):
        one.check(layer.problem)
        return schedule_for(layer, machine, mapping=mapping)
    return realise(layer, one, machine)


def _check_fits(mapping: LayerMapping, layer: Layer, machine: Accelerator) -> None:
    """Raises InfeasibleError for a mapping whose tiles do not fit, by the published count of words."""
    needs = requirement(mapping, layer.problem)
    for what, need, has in (
        ("lanes of the array's side", needs.dim, machine.dim),
        ("KiB of accumulator", needs.accumulator_kib(machine.dim), machine.accumulator_kib),
        ("KiB of scratchpad", needs.scratchpad_words * machine.input_bits / 8192, machine.scratchpad_kib),
    ):
        if need > has:
            raise InfeasibleError(f"the mapping needs {need:g} {what}, and there are {has:g}")


def _layer_tree(
    layer: Layer, found: LayerCost, text: str, machine: Accelerator, model: CostModelName
) -> CostTree:
    from baco.exploration.breakdown import layer_entries
    from baco.workloads.network import Task

    (entry,) = layer_entries([Task(str(layer.problem), layer.problem, 1.0)], [found], [1.0], ())
    return replace(_entry_tree(entry, machine, text), sources=_sources(machine, model, whole=False))


# -------------------------------------------------------------------- networks


def _of_design(candidate: Candidate) -> dict[str, LayerMapping]:
    """Mappings by the problems that they are of."""
    pairs = zip(candidate.tasks, candidate.mappings, strict=True)
    return {str(task.problem): mapping for task, mapping in pairs}


def _network_tree(
    network: Network,
    machine: Accelerator,
    mapping: MappingSource | Mapping[str, MappingSource] | None,
    candidate: Candidate | None,
    model: CostModelName,
) -> CostTree:
    from baco.compiler.network.quantiser import DEFAULT
    from baco.exploration.breakdown import DesignCosts, layer_entries, operator_entries
    from baco.exploration.cost.program_rest import Programs, rest_of_programs
    from baco.exploration.task_layers import layers_of_tasks
    from baco.workloads.network import Workload

    if mapping is not None and not isinstance(mapping, Mapping):
        raise InputError("the layers of a network have a mapping each", hint="give a dict by their names")
    workload = Workload.of([network])
    programs = Programs([network], quantiser=DEFAULT.on(machine)) if model == "instruction" else None
    tasks = workload.tasks if programs is None else programs.tasks(network.name, machine)
    if not tasks:
        raise InputError(f"{network.name} has no operator that the accelerator could run")
    chosen = _chosen(tasks, dict(mapping or {}), candidate)
    pairs = []
    for task, layer, how in zip(tasks, layers_of_tasks(tasks, workload), chosen, strict=True):
        try:
            pairs.append(_layer_cost(layer, machine, how, model))
        except (InputError, InfeasibleError) as error:
            if error.location is None:
                error.location = Location(f"layer {task.name}")
            raise
    costs, texts = [cost for cost, _ in pairs], [text for _, text in pairs]
    beside: tuple[CostEntry, ...] = ()
    notes = {}
    if model == "instruction":
        rest = rest_of_programs(workload, [machine], programs=programs)
        macs = {
            operator.name: float(operator.problem.macs) for operator in network.operators if operator.problem
        }
        beside = operator_entries(network.name, 1.0, rest.operators_of(network.name, machine), machine, macs)
        notes = dict(rest.reasons)
    entries = layer_entries(tasks, costs, [float(task.count) for task in tasks], beside)
    tree = design_tree(
        DesignCosts(entries, beside, model == "instruction"), network.name, machine, texts, model
    )
    sources = dict(tree.sources)
    if network.name in notes:
        sources["operators beside layers"] = (
            f"estimated from the graph, since the network is no program: {notes[network.name]}"
        )
    return replace(tree, sources=sources)


def _chosen(
    tasks: Sequence[Task], given: dict[str, MappingSource], candidate: Candidate | None
) -> list[MappingSource | None]:
    """How each task is carried out, where that is said. Raises InputError for a name that no layer has."""
    known = {} if candidate is None else _of_design(candidate)
    names: dict[str, int] = {}
    for place, task in enumerate(tasks):
        for name in (task.name, *task.operators):
            names.setdefault(name, place)
    found: list[MappingSource | None] = [known.get(str(task.problem)) for task in tasks]
    for name, how in given.items():
        if name not in names:
            raise InputError(
                f"there is no layer '{name}'", hint=did_you_mean(name, [one.name for one in tasks])
            )
        found[names[name]] = how
    return found


def design_tree(
    costs: DesignCosts, name: str, machine: Accelerator, texts: Sequence[str], model: CostModelName
) -> CostTree:
    """The tree of a design's costs, as predicted.

    Args:
        texts: mappings, one a layer.
    """
    networks = []
    for one in costs.networks:
        parts = tuple(
            _entry_tree(entry, machine, None if entry.task is None else texts[entry.task])
            for entry in one.entries
            if entry.runs > 0
        )
        networks.append(_sum(one.name, parts, machine))
    whole = networks[0] if len(networks) == 1 else _sum(name, tuple(networks), machine)
    return replace(whole, sources=_sources(machine, model, whole=costs.whole))


def _sum(name: str, parts: tuple[CostTree, ...], machine: Accelerator) -> CostTree:
    return CostTree(
        name,
        "network",
        math.fsum(part.latency_cycles or 0.0 for part in parts),
        math.fsum(part.energy_uj for part in parts),
        machine,
        macs=math.fsum(part.macs for part in parts),
        parts=parts,
    )


def _entry_tree(entry: CostEntry, machine: Accelerator, text: str | None) -> CostTree:
    components = tuple(
        CostTree(name, "component", None, entry.runs * pj * 1e-6, machine, on=entry.on)
        for name, pj in entry.energy_terms_pj.items()
        if pj
    )
    layer = entry.layer
    return CostTree(
        entry.name,
        entry.kind,
        entry.total_cycles,
        entry.total_pj * 1e-6,
        machine,
        entry.runs,
        entry.on,
        entry.runs * entry.macs,
        components,
        {},
        text,
        {} if layer is None else dict(zip(layer.resources, layer.latency_terms, strict=True)),
        {} if layer is None else dict(zip(_LEVELS, layer.accesses, strict=True)),
    )


def _sources(machine: Accelerator, model: CostModelName, *, whole: bool) -> dict[str, str]:
    """Where figures come from, and how far such predictions are off where they were compared with measurements."""
    from baco.accel.technology import PUBLISHED, technology
    from baco.exploration.known_errors import known_errors

    how = {
        "instruction": "counted from the commands of the compiled program",
        "reference": "the published analytical model",
    }[model]
    beside = ", host operators from counted operations" if whole else ""
    of = ", of the original Gemmini" if machine.timing == "gemmini" else ""
    evidence, published = technology(machine.technology).evidence, machine.technology == PUBLISHED
    energies = "" if published else f" ({evidence['energy']})"
    told = {
        "latency": ("latency_cycles", f"{how}{beside}{of}"),
        "energy": (
            "energy_uj",
            f"accesses, traffic and cycles times the accelerator's table of energies{energies}{beside}",
        ),
        "area": (
            "area_mm2",
            "sizes of structures times fitted areas"
            if published
            else f"{machine.technology}: {evidence['area']}",
        ),
    }
    errors = known_errors(model, whole=whole, timing=machine.timing, silicon=machine.technology)
    form = machine.input_format
    assumed = {
        "energy": f"; that a multiply-accumulate of {form} takes more is assumed",
        "area": f"; what {form} takes beside integers is counted in cells",
    }
    return {
        name: f"predicted: {text}; mean error {errors[metric].mean:.1%} ({errors[metric].subject})"
        + (assumed.get(metric, "") if form != "integer" and published else "")
        for metric, (name, text) in told.items()
    }
