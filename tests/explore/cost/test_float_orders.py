"""Searched mappings of floating point: those that add up in its order are predicted as the compiler predicts them alone, others nowhere; of
int16 all are."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.input_format import InputFormat
from baco.accel.number_formats import FLOATS
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.latency import predict_layers
from baco.compiler.layers.float_sums import check_sum_order, in_sum_order
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.styles.registry import plan_layer, realise
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    FLOW,
    K_AXIS,
    ORDER,
    ORDERS,
    PLAIN,
    ROWS,
    T1,
    T2,
    T3,
    tighten,
    to_mapping,
)
from baco.exploration.cost.predicted import InstructionModel, instruction_costs
from baco.exploration.search.archive import Archive
from baco.exploration.search.tilings import in_macro_form
from baco.exploration.space import DesignSpace
from baco.workloads.network import Task
from tests.compiler.styles.random_layers import draw_convolution, draw_product
from tests.compiler.styles.random_mappings import draw_layer
from tests.compiler.styles.test_float_layers import real
from tests.explore.genome_helpers import random_rows
from tests.seeds import seeds

POINTS = ((4, 16, 64), (8, 16, 64), (16, 16, 64), (16, 8, 8))


def space_of(form: InputFormat) -> DesignSpace:
    base = load_accelerator("gemmini-default").in_format(form)
    return DesignSpace(
        name="floats",
        rules="gemmini",
        base=base,
        dim=(4, 8, 16),
        scratchpad_kib=(8, 64),
        accumulator_kib=(8, 16),
        dataflows=("WS",),
        double_buffer=True,
    )


def drawn(r: random.Random, space: DesignSpace, count: int) -> list[Layer]:
    found: list[Layer] = []
    while len(found) < count:
        kind = len(found) % 3
        layer = (
            draw_product(r, *(r.randint(1, 40) for _ in range(3)))
            if kind == 0
            else draw_convolution(r) if kind == 1 else draw_layer(r)
        )  # fmt: skip
        p = layer.problem
        # searches take macros for such layers only where these can do tiles of any shape
        if (p.stride_h, p.dilation_h) == (p.stride_w, p.dilation_w):
            found.append(real(r, layer, space.base))
    return found


def refused(layer: Layer, mapping: Mapping, machine: Accelerator) -> bool:
    """Whether the compiler does not carry a mapping out."""
    try:
        plan_layer(layer, realise(layer, mapping, machine), machine)
    except InfeasibleError:
        return True
    return False


@pytest.mark.parametrize("seed", seeds(4, of=24))
def test_same_as_alone(seed: int) -> None:
    forms: tuple[InputFormat, ...] = (*FLOATS, "int16")
    space = space_of(forms[seed % len(forms)])
    layers = drawn(random.Random(seed), space, 12 if seed < 4 else 24)
    model = InstructionModel(layers, space)
    tasks = [Task("net", layer.problem, 1.0, (f"layer{n}",)) for n, layer in enumerate(layers)]
    archive, rng = Archive(tasks, space, model), np.random.default_rng(seed)
    task = rng.integers(0, len(layers), 400)
    bounds = archive.problems.bounds[task]
    rows = random_rows(bounds, 16, rng)
    rows[:, FLOW], rows[:, ORDER] = PLAIN, rng.integers(0, len(ORDERS), len(rows))
    tighten(rows, bounds)
    shaped = in_macro_form(rows, bounds, rng.choice(np.array([4, 8, 16]), len(rows)))
    # several groups at once
    some = np.flatnonzero(archive.problems.packs[task] & (bounds[:, [C_AXIS, K_AXIS]].max(1) <= 8))
    grouped, of = rows[some].copy(), bounds[some]
    most = 16 // of[:, [C_AXIS, K_AXIS]].max(1)
    packed = rng.integers(1, most + 1)[:, None] * of[:, [C_AXIS, K_AXIS]]
    grouped[:, [ROWS, COLUMNS]] = packed
    for level in (T1, T2, T3):
        grouped[:, [level.start + C_AXIS, level.start + K_AXIS]] = 1
    rows = np.concatenate([model.styled(task, rows), shaped, grouped])
    task = np.concatenate([task, task, task[some]])
    archive.add(task, rows)
    seen = {"macro": 0, "explicit": 0, "packed": 0, "refused": 0}
    for point in POINTS:
        machine = space.accelerator(*point)
        ordered = model.in_order(task, rows, np.full(len(rows), point[0]))
        fits = archive.fits(task, rows, np.tile(np.array(point, dtype=float), (len(rows), 1)))
        for n, layer in enumerate(layers):
            groups = layer.problem.groups
            energy, cycles = archive.costs(n, archive.point(point))
            mine = np.flatnonzero(task == n)
            mappings = [to_mapping(row, groups, True) for row in rows[mine]]
            for k, mapping in zip(mine, mappings, strict=True):
                if max(mapping.rows, mapping.columns) > point[0]:
                    continue
                if not ordered[k]:
                    assert not fits[k], (layer, mapping)
                    assert refused(layer, mapping, machine), (layer, mapping)
                    seen["refused"] += 1
            usable = np.flatnonzero(np.isfinite(cycles[0]))
            kept = [mappings[k] for k in usable]
            alone = predict_layers([layer] * len(kept), kept, machine)
            own = instruction_costs([layer] * len(kept), kept, machine) if kept else []
            for k, one, cost in zip(usable, alone, own, strict=True):
                assert not refused(layer, mappings[k], machine), (layer, mappings[k])
                assert cycles[0, k] == pytest.approx(float(one.cycles), rel=1e-9), (layer, mappings[k])
                assert cost.latency_cycles == pytest.approx(cycles[0, k], rel=1e-9)
                assert cost.energy_pj == pytest.approx(energy[0, k])
                seen[str(cost.style)] += 1
    if not space.base.floating:  # integers are added up in any order
        assert seen.pop("refused") == 0
    assert min(seen.values()) > 5, seen


def test_orders_one_by_one() -> None:
    """Against what says so of one tiling: all orders of loops that run or do not, around tiles of one position or two; and whole blocks."""
    seen = set()
    for trips in itertools.product((1, 2), repeat=3):
        for tile in itertools.product((1, 2), (1, 2), (3, 4, 8)):
            for order in itertools.permutations("SRC"):
                sizes, extents = dict(zip("SRC", trips, strict=True)), dict(zip("SRC", tile, strict=True))
                inside = extents | {"C": -(-extents["C"] // 4)}
                try:
                    check_sum_order([*((axis, sizes[axis]) for axis in order), *inside.items()], "this")
                    wanted = sizes["C"] == 1 or extents["C"] % 4 == 0
                except InfeasibleError:
                    wanted = False
                rank = {axis: np.array(-place) for place, axis in enumerate(order)}
                found = in_sum_order(
                    {axis: np.array(n) for axis, n in sizes.items()}, rank,
                    {axis: np.array(n) for axis, n in extents.items()}, 4,
                )  # fmt: skip
                assert bool(found) == wanted, (trips, tile, order)
                seen.add(wanted)
    assert seen == {False, True}
