"""`baco.cost`: trees whose parts add up, and that say the same as programs, studies and the published model."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import baco
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.layer_costs import layer_costs
from tests.machines import FLOATS

LAYER = baco.gemm(128, 96, 64)
TEXT = "L3[WIO] K4 - L2[WI] N1 K16X - L1[O] P8 C6 C16X - L0[W] P16"
TABLE = """
name: small
layers:
  - {name: window, type: conv, R: 3, S: 3, P: 14, Q: 14, C: 8, K: 16, count: 2}
  - {name: product, type: gemm, M: 64, K: 50, N: 48}
"""


def check_sums(tree: baco.CostTree) -> None:
    if not tree.parts:
        return
    assert math.fsum(part.energy_uj for part in tree.parts) == pytest.approx(tree.energy_uj, rel=1e-12)
    if tree.parts[0].latency_cycles is not None:
        cycles = math.fsum(part.latency_cycles or 0.0 for part in tree.parts)
        assert cycles == pytest.approx(tree.latency_cycles, rel=1e-12)
    for part in tree.parts:
        check_sums(part)


@pytest.mark.parametrize("mapping", [None, TEXT])
def test_a_layer_costs_what_its_program_is_predicted_to_take(mapping: str | None) -> None:
    tree = baco.cost(LAYER, "gemmini-default", mapping)
    built = baco.compile(LAYER, "gemmini-default", mapping=mapping)
    assert built.predicted_cycles is not None
    assert tree.latency_cycles == pytest.approx(built.predicted_cycles, rel=1e-9)
    assert tree.macs == built.macs == 128 * 96 * 64
    assert tree.utilisation == pytest.approx(built.predicted_utilisation, rel=1e-9)
    check_sums(tree)
    assert tree.bottleneck in tree.terms
    assert tree.latency_cycles >= 0.99 * max(tree.terms.values())
    assert tree.seconds == tree.latency_cycles / 1e9
    assert tree.edp == tree.energy_uj * tree.latency_cycles
    assert tree.area_mm2 == baco.accelerator().area_mm2
    assert set(tree.sources) == {"latency_cycles", "energy_uj", "area_mm2"}
    assert all(
        re.fullmatch(r"predicted: .*; mean error [0-9.]+% \(.*\)", one) for one in tree.sources.values()
    )


def test_in_floating_point() -> None:
    machine = FLOATS.replace(name="roomy", scratchpad_kib=16, accumulator_kib=8)
    tree, built = baco.cost(LAYER, machine), baco.compile(LAYER, machine)
    assert tree.latency_cycles == pytest.approx(built.predicted_cycles, rel=1e-9)
    check_sums(tree)
    integers = baco.cost(LAYER, machine.replace(input_format="integer"))
    mac, less = (one.parts[0] for one in (tree, integers))
    assert mac.name == "mac"
    # 0.9 of a float32 sum and 1.1 (4 / 11)^2 of a product, in 45 nm, for 0.3 of integers
    assert mac.energy_uj / less.energy_uj == pytest.approx((0.9 + 1.1 * (4 / 11) ** 2) / 0.3)
    assert "is assumed" in tree.sources["energy_uj"]
    assert "is assumed" not in integers.sources["energy_uj"]


def test_the_published_model_of_a_mapping() -> None:
    mapping = baco.Mapping.parse(TEXT)
    machine = baco.accelerator()
    tree = baco.cost(LAYER, machine, mapping, cost_model="reference")
    (expected,) = layer_costs([LAYER.problem], [mapping], machine)
    assert (tree.latency_cycles, tree.energy_uj) == pytest.approx(
        (expected.latency_cycles, expected.energy_pj * 1e-6)
    )
    # all inputs stay in the scratchpad while the four blocks of columns go by: every operand crosses main memory once
    assert tree.words["dram"] == 96 * 64 + 128 * 96 + 128 * 64
    check_sums(tree)


def test_a_schedule_as_text_is_what_the_compiler_chose() -> None:
    chosen = baco.cost(LAYER)
    assert chosen.mapping is not None
    assert baco.cost(LAYER, mapping=chosen.mapping).latency_cycles == chosen.latency_cycles


def test_a_design_costs_what_its_study_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.yaml").write_text(TABLE)
    space = baco.Space(dim=[8, 16], scratchpad_kib=[16, 32], accumulator_kib=[8], units="none")
    study = baco.Study("table.yaml", space, fusion=False).optimize(samples=40)
    own = study.cost()
    check_sums(own)
    assert own.latency_cycles == pytest.approx(study.best.cost.latency_cycles, rel=1e-9)
    assert own.energy_uj == pytest.approx(study.best.cost.energy_uj, rel=1e-9)
    again = baco.cost("table.yaml", study)
    assert again.latency_cycles == pytest.approx(own.latency_cycles, rel=1e-9)
    assert again.energy_uj == pytest.approx(own.energy_uj, rel=1e-9)
    layers = study.layers()
    for name, mapping, cycles in zip(
        layers["layer"], study.best.mappings, layers["latency_cycles"], strict=False
    ):
        named = baco.cost("table.yaml", study.best.accelerator, {name: mapping})[name]
        assert named.latency_cycles == pytest.approx(cycles * named.runs, rel=1e-9)
    frame = own.frame()
    assert list(frame["path"][:2]) == ["small", "small / window"]
    assert frame["share"][0] == 1.0
    with pytest.raises(InputError, match="there is no design 1000"):
        study.cost(1000)


def test_a_network_with_all_that_its_program_does() -> None:
    tree = baco.cost("resnet18", "gemmini-default,dim=8")
    check_sums(tree)
    kinds = {one.kind for one in tree.parts}
    assert kinds == {"layer", "operator"}
    assert tree["conv1"].macs == 112 * 112 * 7 * 7 * 3 * 64
    alone = baco.cost("resnet18", "gemmini-default,dim=8", cost_model="reference")
    assert {one.kind for one in alone.parts} == {"layer"}
    # the program sums the last average's 7 x 7 positions of 512 channels on the array, which is no layer of the graph
    assert tree.macs == alone.macs + 7 * 7 * 512
    with pytest.raises(KeyError):
        _ = tree["conv9"]
    assert "conv1" in str(tree)
    assert "resnet18" in tree._repr_html_()


MAPPING = Mapping.parse(TEXT)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((LAYER, "gemmini-default,dim=8", MAPPING), InfeasibleError, "spreads 16 lanes over an array of side 8"),
        ((LAYER, "gemmini-default,scratchpad_kib=4,accumulator_kib=2", MAPPING), InfeasibleError, "scratchpad|accumulator"),
        ((baco.gemm(256, 96, 64), "gemmini-default", MAPPING), InputError, "factors of P multiply to 128, less than its bound 256"),
        ((LAYER, "gemmini-default", "K3"), InputError, "expected level 3, found 'K3'"),
        ((LAYER, "gemmini-default", "loop_ws 4"), InputError, "is no schedule"),
        ((LAYER, "gemmini-default", 3), InputError, "mapping must be text, a baco.Mapping or a dict"),
        ((LAYER, "gemmini-default", {}), InputError, "one mapping of a layer, not a dict"),
        ((LAYER, "gemini"), InputError, "gemini"),
        (("resnet18", "gemmini-default", MAPPING), InputError, "a mapping each"),
        (("resnet18", "gemmini-default", {"conv9": MAPPING}), InputError, "there is no layer 'conv9'"),
        (("resnet18", "gemmini-default", {"conv1": MAPPING}), InputError, "layer conv1: factors of R"),
        ((7, "gemmini-default"), InputError, "int is no network"),
    ],
)  # fmt: skip
def test_what_costs_nothing(arguments: tuple[object, ...], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        baco.cost(*arguments)  # type: ignore[arg-type]


def test_models_and_timings_that_are_none() -> None:
    with pytest.raises(InputError, match="there is no cost model 'exact'"):
        baco.cost(LAYER, cost_model="exact")
    with pytest.raises(InputError, match="there is no timing"):
        baco.cost(LAYER, timing="fast")
    other = baco.cost(LAYER, timing="gemmini")
    assert other.latency_cycles != baco.cost(LAYER).latency_cycles
    assert "of the original Gemmini" in other.sources["latency_cycles"]
