"""Whole programs of designs against the default machine: what is measured, kept, and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.bench import whole_programs
from baco.bench.fusion import fusion_page
from baco.bench.studies import ProgramRow, program_cost
from baco.common.errors import BacoError
from baco.exploration.cost.program import ProgramCost
from baco.exploration.measure.measured_design import Design, DesignProgram
from baco.exploration.measure.measurement import Measurement, OperatorMeasurement, Status
from baco.main import run

DEFAULT = load_accelerator("gemmini-default")


def design(status: Status) -> Design:
    operators = (
        OperatorMeasurement("a", "", "accelerator", 700, 650.0),
        OperatorMeasurement("b", "", "host", 300, 310.0),
    )
    measured = Measurement(
        status, "" if status == "measured" else "y[0] is 3", cycles=1000, energy_pj=5e6, energy_terms_pj={"mac": 4e6, "host": 1e6},
        operators=operators,
    )  # fmt: skip
    program = DesignProgram("small", 1.0, "key", None, "", ProgramCost(960.0, 4.9e6, 310.0, 0.9e6), measured)
    return Design("best 1", "candidate", DEFAULT, (), None, (), "", "instruction", programs=(program,))


def test_the_cost_of_a_program_has_the_parts_of_accelerator_and_host() -> None:
    cost = program_cost(design("measured"))
    assert cost == ProgramRow(1000, 300, 960.0, 5.0, 1.0)
    assert cost.edp == 5000.0


def test_a_wrong_result_is_an_error() -> None:
    with pytest.raises(BacoError, match=r"best 1: its whole program was not measured: small: y\[0\] is 3"):
        program_cost(design("failed"))


def test_the_table_has_medians_and_ranges() -> None:
    default = ProgramRow(4_000_000, 500_000, 4e6, 1000.0, 100.0)
    best = [
        ProgramRow(cycles, 500_000, 1.1 * cycles, 500.0, 50.0) for cycles in (1_000_000, 2_000_000, 4_000_000)
    ]
    row = {
        "network": "small",
        "samples": 2000,
        "baseline": vars(default),
        "mappings": vars(default),
        "best": [vars(one) for one in best],
        "gain_mappings": 1.0,
        "gain_best": [default.edp / one.edp for one in best],
    }
    text = whole_programs.page([row])
    assert "| small | default | 3.50 M | 0.50 M | 4.00 M | 1.00 | 0.10 | 1 |  | 1.000 |" in text
    assert (
        "| small | best | 1.50 M | 0.50 M | 2.00 M | 0.50 | 0.05 | **4.00×** | 2.00 to 8.00 | 1.100 to 1.100 |"
        in text
    )
    assert "3 seeds, 2,000 samples each" in text


def test_gains_of_fusion_are_of_the_same_seed() -> None:
    fused = [ProgramRow(cycles, 0, 0.9 * cycles, 100.0, 0.0) for cycles in (1000, 2000, 4000)]
    alone = [ProgramRow(cycles, 0, cycles, 200.0, 0.0) for cycles in (1000, 3000, 5000)]
    row = {
        "network": "small",
        "area_mm2": 1.25,
        "samples": 2000,
        "designs": {"alone": ["a", "b", "c"], "fused": ["d", "e", "f"]},
        "alone": [vars(program) for program in alone],
        "fused": [vars(program) for program in fused],
        "gain": [program.edp / other.edp for program, other in zip(alone, fused, strict=True)],
    }
    assert row["gain"] == [2.0, 3.0, 2.5]
    less = {**row, "area_mm2": 0.5, "gain": [1.0, 1.5, 2.0]}
    text = fusion_page([row, {**row, "network": "other", "gain": [10.0, 10.0, 10.0]}, less])
    assert "| 1.25 | small | without | c | 5,000 | 0.20 | 1.000e+06 |  |  | 1.000 to 1.000 |" in text
    assert (
        "| 1.25 | small | with groups | f | 4,000 | 0.10 | 4.000e+05 | **2.50×** | 2.00 to 3.00 | 0.900 to 0.900 |"
        in text
    )
    assert "| 0.50 | small | with groups | e |" in text
    assert (
        "Geometric mean of the medians: **5.00×** in 1.25 mm², **1.50×** in 0.50 mm². 3 seeds, 2,000 samples each."
        in text
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_benchmark_of_a_network(tmp_path: Path) -> None:
    arguments = [
        "bench",
        "programs",
        "-n",
        "deepbench_face",
        "--seeds",
        "1",
        "--samples",
        "200",
        "--out",
        str(tmp_path),
    ]
    assert run("baco", arguments) == 0
    (row,) = json.loads((tmp_path / "whole-programs.json").read_text(encoding="utf-8"))
    assert row["gain_best"][0] > 3
    assert row["gain_mappings"] > 1.2
    kept = (tmp_path / "whole-programs.json").read_bytes()
    assert run("baco", arguments) == 0
    assert (tmp_path / "whole-programs.json").read_bytes() == kept, "nothing is measured twice"
