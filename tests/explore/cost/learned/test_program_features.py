"""What a residual sees of a program, and the analytical model that it corrects."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.cost.learned.analytical import instruction_base
from baco.exploration.cost.learned.features import FLAT, described, program_features
from baco.exploration.cost.learned.protocol import ProgramFeatures
from baco.workloads.problem import Problem
from tests.explore.learned_programs import WIDE, programs, reference_base


def test_features_have_the_documented_places() -> None:
    layers, mappings, accelerators = programs(5)
    found, predicted = described(layers, mappings, accelerators, ["explicit"] * 5, reference_base)
    assert found.names[: len(FLAT)] == FLAT
    assert found.names[len(FLAT) :] == (
        "share accumulator",
        "share array",
        "share memory",
        "share scratchpad",
    )
    assert len(set(found.names)) == len(found.names)
    assert np.isfinite(found.flat).all()
    assert found.flat[:, FLAT.index("predicted")] == pytest.approx(np.log(predicted))
    for i, layer in enumerate(layers):
        assert found.flat[i, FLAT.index("MACs")] == pytest.approx(math.log(layer.problem.macs))
        assert found.flat[i, FLAT.index("dim")] == pytest.approx(math.log(accelerators[i].dim))


def test_tiles_come_and_go_as_often_as_a_walk_through_the_loops_changes_them() -> None:
    problem, side = Problem(R=3, P=24, C=32, K=48), WIDE.dim
    outer = {"R": 3, "P": 4, "C": 2, "K": 3}
    seen = set()
    for order in itertools.permutations("RPCK"):
        text = " ".join(f"{name}{outer[name]}" for name in order)
        mapping = parse_mapping(f"L3[WIO] {text} - L2[WI] K{side}X - L1[O] C{side}X - L0[W] P6")
        changes, before = Counter[str](), dict[str, tuple[int, ...]]()
        for place in itertools.product(*(range(outer[name]) for name in order)):
            at = dict(zip(order, place, strict=True))
            for tensor, names in {"W": "RCK", "I": "RPC", "O": "PK"}.items():
                tile = tuple(at[name] for name in names)
                changes[tensor] += before.get(tensor) != tile
                before[tensor] = tile
        found, _ = described([Layer(problem, scale=0.01)], [mapping], [WIDE], ["explicit"], reference_base)
        row = np.exp(found.flat[0])
        sums = row[FLAT.index("sum loads")]
        assert sums == pytest.approx(changes["O"] / (outer["P"] * outer["K"]))
        for column, tensor in (("weight loads", "W"), ("input loads", "I"), ("stores", "O")):
            # a tile of each is one command
            assert row[FLAT.index(column)] == pytest.approx(changes[tensor]), (order, column)
        seen.add(round(sums))
    assert seen == {1, 2, 3, 6}


def test_shares_are_terms_over_the_prediction() -> None:
    layers, mappings, accelerators = programs(3)
    cycles = np.array([100.0, 200.0, 300.0])
    terms = {"b": np.array([50.0, 200.0, 0.0]), "a": np.array([10.0, 20.0, 30.0])}
    found = program_features(layers, mappings, accelerators, ["explicit"] * 3, cycles, terms)
    assert found.names[-2:] == ("share a", "share b")
    assert np.exp(found.flat[:, -2]) == pytest.approx([0.1, 0.1, 0.1])
    assert np.exp(found.flat[:, -1]) == pytest.approx([0.5, 1.0, 0.0], abs=1e-5)


def test_the_instruction_aware_model_is_a_base() -> None:
    layers, mappings, accelerators = programs(4)
    found = instruction_base(layers, mappings, accelerators, ["explicit"] * 4)
    assert (found.cycles > 0).all()
    assert all(term.shape == (4,) for term in found.terms.values())
    passes = [math.prod(m.temporal[1]) * math.prod(m.temporal[3]) for m in mappings]
    rows = [-(-m.factor("P", 0) // a.dim) for m, a in zip(mappings, accelerators, strict=True)]
    assert found.terms["passes"] == pytest.approx([p * r for p, r in zip(passes, rows, strict=True)])


def test_features_of_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="fit together"):
        ProgramFeatures(("a", "b"), np.zeros((3, 1)))
