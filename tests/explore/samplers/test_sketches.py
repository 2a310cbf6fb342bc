"""Sketches: the published derivations, counts by enumeration, and programs that compute what their graph says."""

import itertools
import random

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction, matmul
from baco.compiler.mapping.contraction_text import parse_contraction
from baco.compiler.mapping.execution import execute_tree
from baco.compiler.mapping.expression import variable
from baco.compiler.mapping.factors import divisions
from baco.compiler.mapping.sketches import Rule, Sketch, cpu_rules, derive, gpu_rules, letters, tilings
from baco.compiler.mapping.tensor_graph import TensorGraph
from baco.compiler.mapping.text import format_tree, parse_tree
from baco.compiler.mapping.tree import Tile
from baco.exploration.samplers.sketches import random_program


def pointwise(text: str, extents: dict[str, int]) -> Contraction:
    """A function of single elements, written like a sum."""
    one = parse_contraction(text, extents)
    return Contraction(one.extents, one.output, one.inputs, "pointwise")


def first_input(i: int = 512, j: int = 512, k: int = 512) -> TensorGraph:
    """C = A B, D = max(C, 0)."""
    product = parse_contraction("C[i,j] += A[i,k] * B[k,j]", {"i": i, "j": j, "k": k})
    return TensorGraph((product, pointwise("D[i,j] += C[i,j]", {"i": i, "j": j})))


def second_input(i: int = 8, j: int = 4, k: int = 512, stored: int = 400) -> TensorGraph:
    """B = max(A, 0); C = B with zeros behind it; E = C D."""
    return TensorGraph(
        (
            pointwise("B[i,l] += A[i,l]", {"i": i, "l": stored}),
            pointwise("C[i,k] += B[i,k]", {"i": i, "k": k}),
            parse_contraction("E[i,j] += C[i,k] * D[k,j]", {"i": i, "j": j, "k": k}),
        )
    )


def traces(sketches: list[Sketch]) -> list[list[tuple[str, int]]]:
    return [list(one.trace) for one in sketches]


def test_first_published_derivation() -> None:
    graph = first_input()
    assert graph.nodes == ("A", "B", "C", "D")
    found = traces(derive(graph, cpu_rules()))
    assert [("skip", 4), ("tile and fuse", 3), ("skip", 2), ("skip", 1)] in found
    assert len(found) < 10


def test_second_and_third_published_derivation() -> None:
    graph = second_input()
    assert graph.nodes == ("A", "B", "C", "D", "E")
    found = traces(derive(graph, cpu_rules()))
    assert [
        ("cache write", 5), ("tile and fuse", 5), ("skip", 4), ("skip", 3), ("inline", 2), ("skip", 1),
    ] in found  # fmt: skip
    assert [("rfactor", 5), ("skip", 4), ("skip", 3), ("inline", 2), ("skip", 1)] in found
    assert len(found) < 10


def conv2d() -> Contraction:
    return parse_contraction(
        "O[n,k,p,q] += I[n,c,p + r,q + s] * W[k,c,r,s]",
        dict(zip("nkpqcrs", (1, 64, 56, 56, 64, 3, 3), strict=True)),
    )


@pytest.mark.parametrize(
    ("operator", "structure", "loops"),
    [
        (matmul(512, 512, 512), "SSRSRS", 10),
        (conv2d(), "SSRSRS", 22),
        (matmul(512, 512, 512), "SSSRRSRS", 13),
    ],
)
def test_published_numbers_of_loops(operator: Contraction, structure: str, loops: int) -> None:
    assert letters(structure, operator, 0).loops == loops


def test_a_gpus_outer_loops_run_side_by_side() -> None:
    (sketch,) = (one for one in derive(first_input(), gpu_rules()) if "tile and fuse" in one.rules)
    form = sketch.part("C").form
    assert form is not None
    assert form.loops == 13
    assert [slot.spatial for slot in form.slots] == [True] * 3 + [False] * 5


def test_a_product_of_512_has_484000_tilings() -> None:
    operator = matmul(512, 512, 512)
    assert sum(1 for _ in tilings(letters("SSRSRS", operator, 0), operator)) == 484_000


def test_divisions_are_all_that_multiply_to_the_extent() -> None:
    found = divisions(36, 3)
    brute = [one for one in itertools.product(range(1, 37), repeat=3) if one[0] * one[1] * one[2] == 36]
    assert sorted(found) == sorted(brute)
    assert len(divisions(1024, 4)) == 286


@pytest.mark.parametrize(
    ("graph", "functions"),
    [
        (first_input(4, 6, 8), {"D": lambda x: np.maximum(x, 0)}),
        (second_input(4, 2, 12, 10), {"B": lambda x: np.maximum(x, 0)}),
        (second_input(2, 3, 8, 7), {"B": lambda x: np.maximum(x, 0)}),
    ],
)
@pytest.mark.parametrize("rules", [cpu_rules(), gpu_rules()])
def test_random_programs_compute_what_the_graph_says(
    graph: TensorGraph, functions: dict, rules: list[Rule]
) -> None:
    drawn, numbers = random.Random(3), np.random.default_rng(4)
    tensors = {name: numbers.integers(-128, 128, shape) for name, shape in outside(graph).items()}
    expected = by_hand(graph, tensors)
    sketches = derive(graph, rules)
    last = graph.nodes[-1]
    for sketch, _ in itertools.product(sketches, range(3)):
        program = random_program(sketch, drawn)
        assert parse_tree(format_tree(program.tree)) == program.tree
        found = execute_tree(program.tree, program.operators, tensors, functions)
        np.testing.assert_array_equal(found[last], expected, err_msg=str(sketch.trace))


def outside(graph: TensorGraph) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors from outside."""
    found = {}
    for one in graph.operators:
        for access in one.inputs:
            if graph.maker(access.operand) is None:
                found[access.operand] = tuple(one.extents[str(index)] for index in access.indices)
    return found


def by_hand(graph: TensorGraph, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """The last tensor of one of the two inputs."""
    if "E" not in graph.nodes:
        return np.maximum(tensors["A"] @ tensors["B"], 0)
    padded = np.zeros((tensors["A"].shape[0], tensors["D"].shape[0]), np.int64)
    padded[:, : tensors["A"].shape[1]] = np.maximum(tensors["A"], 0)
    return padded @ tensors["D"]


def test_what_is_stored_can_be_padded_inside_the_tiles_that_read_it() -> None:
    graph = second_input(4, 4, 24, 20)
    drawn = random.Random(0)
    sketch = next(one for one in derive(graph, cpu_rules()) if "tile and fuse" in one.rules)
    depths = {depth(random_program(sketch, drawn).tree, "C") for _ in range(80)}
    assert depths == set(range(7))


def depth(tile: Tile, operator: str) -> int:
    """Tiles around an operator, the whole program apart, that another one's lie inside; 0 where it runs before them."""
    for child in tile.children:
        if child.operator == operator:
            return 0
        if any(one.operator == operator for one in child.tiles):
            return 1 + depth(child, operator)
    raise AssertionError(f"{operator} does not run")


def test_a_rule_of_ones_own_is_applied_like_the_others() -> None:
    seen = []

    def apply(sketch: Sketch, tensor: str) -> list[tuple[Sketch, bool]]:
        seen.append(tensor)
        return [(sketch, True)]

    own = Rule("mine", lambda sketch, tensor: tensor == "C", apply)
    found = derive(first_input(), [*cpu_rules(), own])
    assert [("skip", 4), ("mine", 3), ("skip", 2), ("skip", 1)] in traces(found)
    assert seen == ["C"]


def test_a_rule_that_never_ends_is_refused() -> None:
    forever = Rule("again", lambda _s, _t: True, lambda sketch, _t: [(sketch, False)])
    with pytest.raises(InputError, match="states of sketches"):
        derive(first_input(), [forever])


def test_a_tensor_read_before_it_is_made_is_refused() -> None:
    i = variable("i")
    late = Contraction({"i": 4}, Access("B", (i,)), (Access("C", (i,)),), "pointwise")
    early = Contraction({"i": 4}, Access("C", (i,)), (Access("A", (i,)),), "pointwise")
    with pytest.raises(InputError, match="'C' is read before it is made"):
        TensorGraph((late, early))
