"""Layers as graphs for sketches, and what a program of them costs on an accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.latency import predict_layers, schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping import nest
from baco.compiler.mapping.contraction import Access, Contraction, convolution
from baco.compiler.mapping.nest import ROW_DIM, requirement
from baco.compiler.mapping.tree import mapping_of
from baco.compiler.schedules.schedule import ExplicitSchedule, Schedule
from baco.compiler.styles.explicit.code import explicit_workspaces
from baco.compiler.styles.realise import flat_layer, realise
from baco.compiler.styles.realise import mapping_of as schedule_mapping
from baco.exploration.programs.graph import TensorGraph
from baco.exploration.programs.program import AnnotatedSketch, Annotation, array_tree
from baco.exploration.programs.rules import array_rules, derive
from baco.exploration.programs.sketch import Part, Sketch
from baco.workloads.problem import DIMS

__all__ = ["LayerPrograms", "layer_graph"]

#: Behind a layer's name: its operands and its sums.
_WEIGHTS, _IMAGE, _SUMS = ".weights", ".image", ".sums"


def layer_graph(layers: Mapping[str, Layer]) -> TensorGraph:
    """The layers by name: sums of products, and of requantised ones what happens on their way out.

    Results are called like their layer. Raises nothing.
    """
    operators: list[Contraction] = []
    for name, layer in layers.items():
        sums = name if layer.scale is None else name + _SUMS
        names = (name + _WEIGHTS, name + _IMAGE, sums)
        one = convolution(layer.problem, names=names, padding=layer.padding, operator=name)
        operators.append(one)
        if layer.scale is not None:
            kept = {dim: one.extents[dim] for dim in one.output.variables}
            way_out = Access(name, one.output.indices, "int8")
            operators.append(Contraction(kept, way_out, (one.output,), "pointwise", name))
    return TensorGraph(tuple(operators))


@dataclass(frozen=True, eq=False)
class LayerPrograms:
    """What a search needs to know of programs of some layers on an accelerator.

    Attributes:
        layers: by name; products of images are looked at as if their pixels were a single row (`flat_layer`).
        weights: how often each runs, 1 where none is given.
    """

    layers: Mapping[str, Layer]
    accelerator: Accelerator
    weights: Mapping[str, float] | None = None

    @cached_property
    def flat(self) -> dict[str, Layer]:
        """The layers as mappings see them, by the name of their sums."""
        return {
            (name if layer.scale is None else name + _SUMS): flat_layer(layer)
            for name, layer in self.layers.items()
        }

    @cached_property
    def sketches(self) -> list[Sketch]:
        """Their sketches. Raises InfeasibleError where there is none."""
        graph = layer_graph({name: flat_layer(layer) for name, layer in self.layers.items()})
        found = derive(graph, array_rules(self.accelerator))
        if not found:
            raise InfeasibleError(f"no rule puts {', '.join(self.layers)} onto {self.accelerator.name}")
        return found

    def _layer(self, tensor: str) -> Layer:
        return self.flat[tensor] if tensor in self.flat else self.flat[tensor.removesuffix(_SUMS)]

    def fits(self, part: Part, annotation: Annotation) -> bool:
        """Whether the memories hold an operator's tiles (`baco.compiler.mapping.nest.requirement`)."""
        if part.form is None or part.form.flow is None:
            return True
        mapping = mapping_of(array_tree(part, annotation))
        need = requirement(mapping, self._layer(part.tensor).problem)
        return (
            need.accumulator_words <= self.accelerator.accumulator_rows
            and need.scratchpad_rows <= self.accelerator.scratchpad_rows
        )

    def computed(self, program: AnnotatedSketch) -> list[str]:
        """Tensors that the array computes in a program, in order."""
        return [part.tensor for part in program.sketch.parts if part.form is not None]

    def cycles(self, programs: Sequence[AnnotatedSketch]) -> list[float]:
        """Predicted cycles of each program, all layers with their weights (`baco.compiler.latency`)."""
        rows = [(n, tensor) for n, one in enumerate(programs) for tensor in self.computed(one)]
        if not rows:
            return []
        layers = [self._layer(tensor) for _, tensor in rows]
        mappings = [programs[n].mapping(tensor) for n, tensor in rows]
        totals = [0.0] * len(programs)
        for (n, tensor), found in zip(rows, predict_layers(layers, mappings, self.accelerator), strict=True):
            totals[n] += self._weight(tensor) * float(found.cycles)
        return totals

    def known(self, schedules: Mapping[str, Schedule]) -> AnnotatedSketch | None:
        """The program that schedules of all layers, by name, stand for; None where no mapping says the same, or no sketch."""
        mappings = {}
        for name, schedule in schedules.items():
            tensor = name if self.layers[name].scale is None else name + _SUMS
            try:
                mappings[tensor] = schedule_mapping(self.flat[tensor], schedule, self.accelerator)
                mappings[tensor].check(self.flat[tensor].problem)
            except (InfeasibleError, InputError):  # of images that are looked at as a row of pixels, too
                return None
        for sketch in self.sketches:
            found = [
                _as_annotation(part, mappings[part.tensor]) if part.form is not None else Annotation()
                for part in sketch.parts
            ]
            made = tuple(one for one in found if one is not None)
            if len(made) == len(found):
                return AnnotatedSketch(sketch, made)
        return None

    def _weight(self, tensor: str) -> float:
        return 1.0 if self.weights is None else self.weights.get(tensor.removesuffix(_SUMS), 1.0)

    def realised(self, program: AnnotatedSketch, tensor: str) -> Schedule:
        """How the compiler carries a tensor's part of a program out, whether code for it has room or not."""
        return realise(self._layer(tensor), program.mapping(tensor), self.accelerator)

    def schedule(self, program: AnnotatedSketch, tensor: str) -> tuple[Layer, Schedule]:
        """The schedule that carries a tensor's part of a program out, and the layer that it is of.

        Raises InfeasibleError where code needs memory that the tiles leave none of.
        """
        layer = self._layer(tensor)
        schedule = self.realised(program, tensor)
        if isinstance(schedule, ExplicitSchedule):
            explicit_workspaces(layer, schedule.mapping, self.accelerator)
        return layer, schedule

    def schedule_cycles(self, program: AnnotatedSketch) -> float:
        """Predicted cycles of the schedules of a program. Raises as `schedule`."""
        return sum(
            self._weight(tensor) * schedule_cycles(*self.schedule(program, tensor), self.accelerator)
            for tensor in self.computed(program)
        )


def _as_annotation(part: Part, mapping: nest.Mapping) -> Annotation | None:
    """The annotation of a form that gives a mapping; None where it has no loop for one of the mapping's."""
    form = part.form
    assert form is not None
    spread = {2: ("K", mapping.columns), 1: (ROW_DIM[mapping.dataflow], mapping.rows)}
    factors: list[tuple[int, ...]] = []
    orders: list[tuple[str, ...]] = []
    placed: set[tuple[int, str]] = set()
    for slot in form.slots:
        if slot.lanes is not None:
            dim, lanes = spread[slot.level]
            if slot.dims != (dim,):
                return None
            factors.append((lanes,))
        else:
            factors.append(tuple(mapping.factor(dim, slot.level) for dim in slot.dims))
            placed |= {(slot.level, dim) for dim in slot.dims}
        order = mapping.order[slot.level][::-1]
        orders.append(tuple(sorted(slot.dims, key=order.index)))
    for level in range(4):
        if any(mapping.factor(dim, level) > 1 and (level, dim) not in placed for dim in DIMS):
            return None
    if form.flow != mapping.dataflow or (not form.copies and mapping.buffering != (2, 2, 2)):
        return None
    return Annotation(tuple(factors), tuple(orders), mapping.buffering)
