"""Evolution of programs: mutants keep the products of their tiles and compute what numpy computes."""

import random

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choices
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.mapping.execution import execute_tree
from baco.compiler.mapping.nest import requirement
from baco.compiler.schedules.schedule import ExplicitSchedule, LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.realise import mapping_of
from baco.exploration.programs.annotation import random_program
from baco.exploration.programs.evolution import Evolution, crossed, mutated
from baco.exploration.programs.layers import LayerPrograms
from baco.exploration.programs.program import AnnotatedSketch, factor_products
from baco.exploration.programs.rules import cpu_rules, derive
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.explore.programs.test_sketches import by_hand, first_input, outside, second_input

ACCELERATOR = load_accelerator("gemmini-default")
LAYERS = {
    "product": Layer(Problem(P=40, K=35, C=50)),
    "convolution": Layer(Problem(R=3, S=3, P=7, Q=6, C=20, K=18), relu=True, padding=(1, 1), image=(6, 7)),
}


@pytest.mark.parametrize("graph", [first_input(4, 6, 8), second_input(4, 2, 12, 10)])
def test_mutants_on_a_processor_keep_products_and_results(graph) -> None:
    drawn, numbers = random.Random(1), np.random.default_rng(2)
    tensors = {name: numbers.integers(-128, 128, shape) for name, shape in outside(graph).items()}
    functions = dict.fromkeys(("B",) if "E" in graph.nodes else ("D",), lambda x: np.maximum(x, 0))
    sketches = derive(graph, cpu_rules())
    changed = 0
    for sketch in sketches:
        program = random_program([sketch], drawn)
        for _ in range(6):
            assert program is not None
            mutant = mutated(program, sketches, drawn, lambda _p, _a: True)
            if mutant is None:  # a sketch without anything open
                break
            for part, one in zip(mutant.sketch.parts, mutant.annotations, strict=True):
                if part.form is not None:
                    assert factor_products(part, one) == part.operator.extents
            found = execute_tree(mutant.tree, mutant.operators, tensors, functions)
            np.testing.assert_array_equal(found[graph.nodes[-1]], by_hand(graph, tensors))
            changed += mutant != program
            program = mutant
    assert changed > 10


@pytest.mark.parametrize("name", LAYERS)
def test_mutants_on_the_array_fit_and_cover_their_layer(name: str) -> None:
    found = LayerPrograms({"x": LAYERS[name]}, ACCELERATOR)
    drawn = random.Random(5)
    kinds = set()
    program = random_program(found.sketches, drawn, found.fits)
    for _ in range(300):
        assert program is not None
        (tensor,) = found.computed(program)
        mapping = program.mapping(tensor)
        mapping.check(LAYERS[name].problem)
        need = requirement(mapping, LAYERS[name].problem)
        assert need.accumulator_words <= ACCELERATOR.accumulator_rows
        assert need.scratchpad_rows <= ACCELERATOR.scratchpad_rows
        form = program.sketch.part(tensor).form
        assert form is not None
        kinds.add(form.name)
        program = mutated(program, found.sketches, drawn, found.fits) or program
    assert kinds == {"macro", "WS", "OS"}


@pytest.mark.parametrize("name", LAYERS)
def test_evolved_programs_compute_what_numpy_computes(name: str) -> None:
    layer = LAYERS[name]
    found = LayerPrograms({"x": layer}, ACCELERATOR)
    search = Evolution(found.sketches, found.cycles, found.fits, seed=1)
    for _ in range(3):
        search.step(24)
    best: dict[str, AnnotatedSketch] = {}
    for program in sorted(search.scored, key=search.scored.__getitem__):
        (tensor,) = found.computed(program)
        form = program.sketch.part(tensor).form
        assert form is not None
        best.setdefault(form.name, program)
    assert set(best) == {"macro", "WS", "OS"}
    tensors = draw_tensors(layer, 0)
    expected = layer_result(layer, tensors)
    styles = set()
    for program in best.values():
        of, schedule = found.schedule(program, found.computed(program)[0])
        styles.add(type(schedule))
        outputs, result = run_program(layer_program(of, schedule, ACCELERATOR, tensors))
        assert result.exit_code == 0
        np.testing.assert_array_equal(outputs["output"].ravel(), expected, err_msg=str(schedule))
    assert ExplicitSchedule in styles
    assert styles & {LoopWsSchedule, LoopConvSchedule}


def test_evolution_is_repeatable_and_gets_better() -> None:
    found = LayerPrograms({"x": Layer(Problem(P=300, K=100, C=700))}, ACCELERATOR)

    def run(seed: int) -> Evolution:
        search = Evolution(found.sketches, found.cycles, found.fits, seed=seed)
        search.begin(count=24)
        first = min(search.scored.values())
        for _ in range(3):
            search.step(24)
        assert search.best is not None
        assert search.best[1] <= first
        return search

    assert run(3).scored == run(3).scored
    assert run(3).scored != run(4).scored


@pytest.mark.parametrize("name", LAYERS)
def test_what_the_compiler_chooses_is_a_program_of_a_sketch(name: str) -> None:
    layer = LAYERS[name]
    found = LayerPrograms({"x": layer}, ACCELERATOR)
    seen = 0
    for choice in choices(layer, ACCELERATOR, 3):
        program = found.known({"x": choice.schedule})
        if program is not None:
            mine = program.mapping(found.computed(program)[0])
            theirs = mapping_of(found.flat[found.computed(program)[0]], choice.schedule, ACCELERATOR)
            # loops that run once may stand elsewhere
            assert (mine.temporal, mine.dataflow, mine.buffering, mine.rows, mine.columns) == (
                theirs.temporal, theirs.dataflow, theirs.buffering, theirs.rows, theirs.columns,
            )  # fmt: skip
            seen += 1
    assert seen >= 3


def test_children_of_two_parents_take_every_layer_whole_from_one() -> None:
    found = LayerPrograms(LAYERS, ACCELERATOR)
    drawn = random.Random(9)
    one, other = (random_program(found.sketches, drawn, found.fits) for _ in range(2))
    assert one is not None
    assert other is not None
    seen = set()
    for _ in range(40):
        child = crossed(one, other, drawn, found.fits)
        assert isinstance(child, AnnotatedSketch)
        picks = []
        for tensor in found.computed(child):
            mapping = child.mapping(tensor)
            assert mapping in (one.mapping(tensor), other.mapping(tensor))
            picks.append(mapping == one.mapping(tensor))
        seen.add(tuple(picks))
        assert child.sketch.parts in [sketch.parts for sketch in found.sketches]
    assert len(seen) == 4
