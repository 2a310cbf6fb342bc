"""Whole networks in one simulation of the Verilog: right at every boundary, and as long as predicted.

`pytest -m slow tests/system/test_networks_in_rtl.py` takes some minutes.
"""

from __future__ import annotations

import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.api.network_unit import NetworkRequest, prepare_network
from baco.compiler.network.prediction import predict_steps
from baco.sim.network.run import NetworkRun, run_network

#: Minutes on idle cores, more where others compute or simulators have to be built first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
DIM8 = Accelerator(name="eight", dim=8, scratchpad_kib=64, accumulator_kib=32)


def run_in_rtl(spec: str, accelerator: Accelerator, layers: int | None = None) -> NetworkRun:
    """Run a built-in network with random parameters; every boundary has to be right."""
    unit = prepare_network(NetworkRequest(spec, accelerator, layers))
    built = unit.compile(check=False)
    run = run_network(
        built,
        unit.reference,
        "rtl",
        predicted=[cost.cycles for cost in predict_steps(built.lowered, accelerator)],
    )
    assert run.result.exit_code == 0
    assert [str(boundary) for boundary in run.wrong] == []
    assert list(run.checked) == [op.name for op in unit.network.operators]
    assert (
        run.prologue + sum(operator.cycles for operator in run.operators) + run.epilogue == run.result.cycles
    )
    return run


def predicted_over_measured(run: NetworkRun) -> float:
    return sum(one.predicted or 0.0 for one in run.steps) / sum(one.cycles for one in run.steps)


@pytest.mark.parametrize(
    ("spec", "layers"),
    [("resnet18:image=32", None), ("bert_base:seq=16", 1), ("mobilenet_v2:image=32", None)],
)
def test_small_networks(spec: str, layers: int | None) -> None:
    run_in_rtl(spec, DIM8, layers)


def test_resnet50_takes_as_long_as_predicted() -> None:
    run = run_in_rtl("resnet50", load_accelerator("gemmini-default"))
    assert len(run.operators) == 71
    assert predicted_over_measured(run) == pytest.approx(1, abs=0.05)


def test_bert_takes_as_long_as_predicted() -> None:
    run = run_in_rtl("bert_base:seq=128", load_accelerator("gemmini-default"), 1)
    assert len(run.operators) == 21
    assert predicted_over_measured(run) == pytest.approx(1, abs=0.05)
