"""The energy constants against the values printed in the method specification."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from baco.accel.config import Accelerator
from baco.accel.energy import EnergyTable

SPEC = Path(__file__).resolve().parents[2].parent / "shared" / "spec" / "baco.md"


def test_default_constants_are_those_of_the_reference_model() -> None:
    assert EnergyTable().model_dump() == {
        "mac_pj": 0.5608,
        "register_pj": 0.48746,
        "accumulator_base_pj": 1.94,
        "accumulator_pj_per_kib": 0.1005,
        "scratchpad_base_pj": 0.49,
        "scratchpad_pj_per_kib": 0.02513,
        "dram_pj": 100.0,
    }


@pytest.mark.skipif(not SPEC.exists(), reason="the method specification (../shared/spec/baco.md) is not here")
def test_default_constants_agree_with_the_printed_formula() -> None:
    line = next(t for t in SPEC.read_text().splitlines() if t.startswith("Energy (pJ) ="))
    formula = line.split("(Thesis")[0]
    printed = [float(number) for number in re.findall(r"(?<![A-Za-z\d.])\d+\.?\d*", formula)]
    table = EnergyTable()
    assert printed == [
        table.mac_pj,
        table.register_pj,
        table.accumulator_base_pj,
        table.accumulator_pj_per_kib,
        table.scratchpad_base_pj,
        table.scratchpad_pj_per_kib,
        table.dram_pj,
    ]


def test_access_energy_by_hand() -> None:
    table = EnergyTable()
    # 64 KiB over 16 columns are 4 KiB each: 1.94 + 4 * 0.1005; 256 KiB: 0.49 + 256 * 0.02513
    assert table.accumulator_pj(64, 16) == pytest.approx(2.342)
    assert table.scratchpad_pj(256) == pytest.approx(6.92328)


def test_access_energy_of_arrays_and_tensors() -> None:
    table = EnergyTable()
    kib, dim = np.array([[8.0], [64.0]]), np.array([2.0, 16.0])
    of_array = table.accumulator_pj(kib, dim)
    assert of_array.shape == (2, 2)
    assert of_array[1, 1] == table.accumulator_pj(64, 16)
    tensor = torch.tensor([8.0, 64.0], dtype=torch.float64, requires_grad=True)
    of_tensor = table.accumulator_pj(tensor, torch.tensor(16.0, dtype=torch.float64))
    of_tensor.sum().backward()
    assert of_tensor.detach().numpy() == pytest.approx(of_array[:, 1])
    assert tensor.grad is not None
    assert tensor.grad.tolist() == pytest.approx([0.1005 / 16] * 2)
    assert table.scratchpad_pj(torch.tensor([256.0])).tolist() == pytest.approx([6.92328])


@pytest.mark.parametrize(
    "bad", [{"mac_pj": -0.1}, {"dram_pj": float("inf")}, {"dram_pj": True}, {"dram": 100.0}]
)
def test_bad_constants_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EnergyTable.model_validate(bad)


def test_every_constant_states_its_unit_and_source() -> None:
    for name, info in EnergyTable.model_fields.items():
        assert info.description is not None, name
        assert ("mW" if "_mw_" in name else "pJ") in info.description, name
        assert "Table 6.3" in info.description, name


def test_floating_point_by_hand() -> None:
    """Horowitz' figures: 0.9 pJ for a float32 sum, 1.1 for a float16 product, 0.2 and 0.1 for an int8 product and an int32 sum."""
    table = EnergyTable()
    for fraction, significant in ((3, 4), (2, 3)):
        ratio = (0.9 + 1.1 * significant**2 / 121) / 0.3
        assert table.of_elements(fraction, 8).mac_pj == pytest.approx(0.5608 * ratio)
        assert table.of_elements(fraction, 8).scratchpad_pj(256) == table.scratchpad_pj(256)
    assert table.of_elements(7, 16).scratchpad_pj(256) == pytest.approx(2 * 6.92328)
    floats = Accelerator(
        dim=4,
        scratchpad_kib=1,
        accumulator_kib=1,
        dataflow="WS",
        input_format="fp8-e5m2",
        features={"mvin_scale": False},
    )
    assert floats.energy_law.mac_pj == table.of_elements(2, 8).mac_pj
    assert floats.energy_law.register_pj == table.register_pj


def test_row_functions_by_hand() -> None:
    table = EnergyTable()
    look_up = 2 * (0.49 + 0.02513 / 2)  # two bytes of half a KiB
    assert table.function_pj("table") == pytest.approx(look_up)
    assert table.function_pj("softmax") == pytest.approx(4 * 0.5608 + 2 * look_up)
    assert table.function_pj("normalisation") == pytest.approx((1 + 3.5 + 5) * 0.5608)
    assert table.function_pj("product") == pytest.approx((3.5 + 5) * 0.5608)
