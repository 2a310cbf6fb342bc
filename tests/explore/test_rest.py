"""What programs do beside their layers: by what whole programs measure, and as part of what a search minimises."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import SETTINGS
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.network.program import compile_network, network_code
from baco.compiler.network.quantise import quantise, sketch
from baco.exploration.cost.program_rest import (
    Programs,
    no_schedule,
    rest_costs,
    rest_in_space,
    rest_of_programs,
)
from baco.exploration.importance import ImportanceEstimator
from baco.exploration.objective import Objective
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import load_space
from baco.exploration.space.points import with_units
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import StudyRecord
from baco.sim.energy import counted_energy
from baco.sim.network.run import run_network
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network, Workload

DEFAULT = load_accelerator("gemmini-default")
SMALL = "bert_base:seq=16"
#: Values of settings of which 1 is none.
OTHERS = {"dma_bits": 32, "clock_mhz": 500}


def workload(*names: str) -> Workload:
    return Workload.of([load_network(name) for name in names])


def test_energy_of_additions_is_what_the_functional_model_counts() -> None:
    """Of a block of residual additions: every access that is predicted happens, and none besides but the identity's."""
    network = quantise(load_network(SMALL), layers=1)
    built = compile_network(network, DEFAULT)
    run = run_network(built)
    predicted = {one.operator: one for one in rest_costs(network, DEFAULT) if one.function == "addition"}
    found = 0
    for step in run.steps:
        if step.function.startswith("addition"):
            energy = sum(counted_energy(step.activity, DEFAULT).values())
            cost = predicted[step.operator].cost
            assert cost.energy_pj(DEFAULT) == pytest.approx(energy, rel=0.03)
            found += 1
    assert found == len(predicted) == 4


def test_a_sketch_costs_what_the_network_does() -> None:
    """Values decide nothing of what a program does beside its layers."""
    network = load_network("mobilenet_v2:image=64")
    real = rest_costs(quantise(network), DEFAULT)
    assert rest_costs(sketch(network), DEFAULT) == real
    assert {one.function for one in real} == {"addition"}


@pytest.mark.parametrize("name", [SMALL, "gpt2:seq=16", "vit_b16:image=32", "resnet18:image=32"])
def test_repeated_blocks_are_counted_from_two_of_them(name: str) -> None:
    network = load_network(name)
    whole = rest_costs(sketch(network), DEFAULT)
    rest = rest_of_programs(Workload.of([network]), [DEFAULT])
    cycles, energy = rest.total(network.name, DEFAULT)
    assert cycles == pytest.approx(sum(operator.cost.cycles for operator in whole), rel=1e-9)
    assert energy == pytest.approx(sum(operator.cost.energy_pj(DEFAULT) for operator in whole), rel=1e-9)
    assert sum(operator.runs for operator in rest.operators[network.name][16]) == len(whole)


def test_weights_and_sides() -> None:
    machines = [DEFAULT, DEFAULT.replace(dim=32)]
    mix = Workload.of([load_network(SMALL), load_network("resnet18:image=32")], [2.0, 3.0])
    rest = rest_of_programs(mix, machines)
    names = [one.name for one in mix.networks]
    for machine in machines:
        each = [rest.total(name, machine) for name in names]
        assert rest.whole(machine) == pytest.approx(
            tuple(2 * one + 3 * other for one, other in zip(*each, strict=True))
        )
        cycles, *_ = rest.of(np.array([float(machine.dim)]))
        assert cycles[0].sum() == pytest.approx(rest.whole(machine)[0])
    assert rest.total(names[1], machines[0])[1] < rest.total(names[1], machines[1])[1], (
        "a larger array costs more"
    )


def test_json_round_trip_and_what_is_none() -> None:
    rest = rest_of_programs(workload(SMALL), [DEFAULT, with_units(DEFAULT, True)])
    assert RestOfPrograms.from_json(rest.to_json()) == rest
    assert RestOfPrograms.from_json(rest.without_units().to_json()) == rest.without_units() != rest
    record = rest.to_json()
    record["operators"][rest.networks[0]]["16"][0]["runs"] = -1
    with pytest.raises(InputError):
        RestOfPrograms.from_json(record)


def test_row_functions_take_operators_from_the_host() -> None:
    """Those that programs compiled for either machine say, and only where there are any."""
    machines = {units: with_units(DEFAULT, units) for units in (False, True)}
    mix = workload(SMALL, "resnet18:image=32")
    rest = rest_of_programs(mix, list(machines.values()))
    transformer, image = (network.name for network in mix.networks)
    for units, machine in machines.items():
        code = network_code(sketch(load_network(SMALL), 1), machine, schedule=no_schedule)
        on_host = {
            operator.function
            for operator in rest.operators_of(transformer, machine)
            if not operator.on_accelerator
        }
        assert (rest.total(transformer, machine), on_host) == (
            pytest.approx(rest_of_programs(mix, [machine]).total(transformer, machine)),
            {step.function for step in code.lowered.steps if not step.accelerator},
        )
        cycles, *_ = rest.of(np.array([16.0]), units=np.array([units]))
        assert cycles[0].tolist() == pytest.approx([rest.total(name, machine)[0] for name in rest.networks])
    plain, units = machines.values()
    assert rest.total(transformer, units)[0] < 0.2 * rest.total(transformer, plain)[0]
    assert rest.total(image, units) == pytest.approx(rest.total(image, plain))
    assert rest.units_may_pay(power_bounded=False)
    assert not rest_of_programs(workload("resnet18:image=32"), list(machines.values())).units_may_pay(
        power_bounded=True
    )


def test_a_network_that_is_no_program_is_estimated_from_its_graph() -> None:
    network = load_network(SMALL)
    blind = Network(
        network.name,
        network.inputs,
        tuple(type(op)(**{**vars(op), "semantics": None}) for op in network.operators),
    )
    rest = rest_of_programs(Workload.of([blind]), [DEFAULT])
    assert "is not known" in rest.reasons[network.name]
    assert rest.total(network.name, DEFAULT)[0] > 0


def test_a_search_minimises_the_whole_program(tmp_path: Path) -> None:
    """The cost of every design is that of its layers and of the rest; with only the accelerator's part it is less."""
    mix = workload(SMALL)
    space = dataclasses.replace(
        load_space("gemmini"), dim=(8, 16), scratchpad_kib=(64, 256), accumulator_kib=(16, 64)
    )
    found = run_exploration(mix, space, Objective.parse("edp"), samples=60, out=tmp_path / "whole")
    part = run_exploration(mix, space, Objective.parse("edp"), samples=60, out=tmp_path / "part", whole=False)
    rest = rest_in_space(mix, space)
    with StudyRecord.open(tmp_path / "whole" / "study.sqlite", read_only=True) as study:
        assert study.rest is not None
        assert dataclasses.replace(study.rest, fused=rest.fused) == rest
        cycles, energy = study.rest.whole(found.best.accelerator)
        assert found.best.cost.latency_cycles > cycles
        assert found.best.cost.energy_pj > energy
    with StudyRecord.open(tmp_path / "part" / "study.sqlite", read_only=True) as study:
        assert study.rest is None
    assert part.best.accelerator.dim == found.best.accelerator.dim == 16
    assert part.best.cost.latency_cycles < found.best.cost.latency_cycles
    with pytest.raises(InputError, match="fusion is on in the study, off now"):
        run_exploration(
            mix, space, Objective.parse("edp"), samples=90, out=tmp_path / "whole", resume=True, fusion=False
        )
    with pytest.raises(InputError, match="whole programs in the study, of tensor operators alone now"):
        run_exploration(
            mix, space, Objective.parse("edp"), samples=90, out=tmp_path / "whole", resume=True, whole=False
        )


def test_importance_remembers_the_rest_when_a_search_is_resumed() -> None:
    """What a program does beside its layers weighs energy against latency, so it belongs to the snapshot."""
    one, other = (ImportanceEstimator(np.array([1.0, 2.0])) for _ in range(2))
    one.observe(np.array([5.0, 3.0]), np.array([7.0, 2.0]), np.array([4.0, 1.0]), np.array([3.0, 2.0]))
    without = one.gradient()
    one.rest = np.array([100.0, 1.0])
    other.restore(one.state())
    assert (other.gradient() == one.gradient()).all()
    assert (one.gradient() != without).any()


def test_memories_that_hold_no_rows_leave_row_functions_to_the_host() -> None:
    """By size, every accelerator of a space takes what its own program would, as if it were the only one."""
    base = load_space("gemmini")
    space = dataclasses.replace(base, dim=(8, 16), scratchpad_kib=(4, 8, 32), accumulator_kib=(1, 2, 4, 16))
    mix = workload(SMALL, "gpt2:seq=8")
    rest = rest_in_space(mix, space)
    points = space.rule_points()
    points = points.take(points.units)
    sizes = [
        np.asarray(one, dtype=float) for one in (points.dim, points.accumulator_kib, points.scratchpad_kib)
    ]
    cycles, *_ = rest.of(*sizes, np.full(len(points), True))
    kinds, programs = set(), Programs(mix.networks, keep=False)
    for index, one in enumerate(zip(*sizes, strict=True)):
        machine = space.accelerator(*map(int, one), units=True)
        alone = rest_of_programs(mix, [DEFAULT, machine], programs=programs)
        for place, name in enumerate(rest.networks):
            assert rest.operators_of(name, machine) == alone.operators_of(name, machine)
            assert cycles[index, place] == pytest.approx(alone.total(name, machine)[0], rel=1e-12)
            kinds.add((machine.dim, name, round(cycles[index, place])))
    assert len(kinds) >= 6


def test_what_is_kept_of_programs_is_never_another_accelerators() -> None:
    """Whatever two accelerators differ in: asked about one after the other, each gets what it costs by itself."""
    network = load_network("gpt2:seq=16")
    machine = with_units(DEFAULT, True)
    tables = {"dram_pj": 7.0, "instruction_pj": 3.0}
    others = [
        *(
            machine.with_setting(name, max(row.least, 1))
            for name, (_, row) in SETTINGS.items()
            if name not in OTHERS
        ),
        *(machine.with_setting(name, value) for name, value in OTHERS.items()),
        *(
            machine.replace(energy={**machine.energy.model_dump(), name: value})
            for name, value in tables.items()
        ),
        machine.replace(tile_rows=4),
        machine.replace(timing="gemmini"),
        machine.replace(dma_max_bytes=32),
        machine.replace(scratchpad_kib=64),
        machine.replace(features={**machine.features.model_dump(), "read_small_width": False}),
        DEFAULT,
    ]
    kept = Programs([network])
    first = kept.costs(network.name, machine)
    found = [kept.costs(network.name, machine) for machine in others]
    assert found == [Programs([network]).costs(network.name, machine) for machine in others]
    assert sum(costs != first for costs in found) > 8
    assert kept.costs(network.name, machine.replace(name="other")) == first
