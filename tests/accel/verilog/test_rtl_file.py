"""The emitted Verilog of whole accelerators: read by Verilator, Pyverilog and pyslang, and compared."""

from functools import cache
from typing import Any

import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.presets import load_accelerator
from baco.accel.verilog.generate import TOP, verilog
from baco.accel.verilog.lint import lint, preprocess
from baco.accel.verilog.read_back import Hierarchy, discrepancies, read_hierarchy
from baco.accel.verilog.source import instantiated_modules
from baco.sim.toolchain import toolchain

SMALL: dict[str, Any] = {"dim": 4, "scratchpad_kib": 4, "accumulator_kib": 2}
NOTHING = dict.fromkeys(Features.model_fields, False)


def _small(**changes: Any) -> Accelerator:
    return load_accelerator("gemmini-default").replace(**{**SMALL, **changes})


ACCELERATORS = {
    "default": load_accelerator("gemmini-default"),
    "lean": load_accelerator("gemmini-lean"),
    "least": _small(dataflow="WS", counters=0, features=NOTHING),
    "os": _small(dataflow="OS", partial_sum_bits=19, counters=3, load_queue=1, store_entries=3),
    "rows": _small(scratchpad_kib=3, scratchpad_banks=1, accumulator_kib=3, accumulator_banks=1, tile_rows=2),
    "wide": _small(dma_bits=512, dma_max_bytes=128, dma_requests=256, execute_entries=64, load_entries=1),
    "normalized": _small(features={"normalizations": True, "row_functions": True}),
    "normalized least": _small(
        dma_bits=32,
        features={
            **NOTHING,
            **dict.fromkeys(("normalizations", "activations", "accumulator_scale", "read_small_width"), True),
        },
    ),
    "narrow": _small(dma_bits=32, dma_max_bytes=8, dma_requests=1, execute_queue=1, store_queue=1),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("lean", "rows", "wide", "normalized")))
        for name in ACCELERATORS
    ],
)
def emitted(request: pytest.FixtureRequest) -> tuple[Accelerator, str]:
    accelerator = ACCELERATORS[request.param]
    return accelerator, verilog(accelerator)


@cache
def _read(text: str) -> Hierarchy:
    pytest.importorskip("pyverilog")
    tools = toolchain()
    if not tools.verilator:
        pytest.skip("no Verilator")
    return read_hierarchy(preprocess(text, tools.verilator, tools.verilator_root))


def test_verilator_has_no_complaints(emitted: tuple[Accelerator, str]) -> None:
    tools = toolchain()
    if not tools.verilator:
        pytest.skip("no Verilator")
    assert lint(emitted[1], tools.verilator, tools.verilator_root) == []


def test_read_back_it_is_what_the_configuration_says(emitted: tuple[Accelerator, str]) -> None:
    assert discrepancies(_read(emitted[1]), emitted[0]) == []


def test_pyslang_elaborates_the_same(emitted: tuple[Accelerator, str]) -> None:
    pyslang = pytest.importorskip("pyslang")
    ast, syntax = getattr(pyslang, "ast", pyslang), getattr(pyslang, "syntax", pyslang)
    compilation = ast.Compilation()
    tree = syntax.SyntaxTree.fromText(emitted[1])
    compilation.addSyntaxTree(tree)
    errors = [one for one in compilation.getAllDiagnostics() if one.isError()]
    engine = getattr(pyslang, "diagnostics", pyslang).DiagnosticEngine
    assert not errors, engine.reportAll(tree.sourceManager, errors)
    expected: dict[str, list[int]] = {}

    def visit(symbol: Any) -> None:
        if type(symbol).__name__ == "InstanceSymbol":
            expected[symbol.hierarchicalPath] = [port.type.bitWidth for port in symbol.body.portList]

    compilation.getRoot().visit(visit)
    found = {one.path: [port.width for port in one.ports] for one in _read(emitted[1]).instances}
    assert found == expected
    assert TOP in found


def test_what_is_off_is_not_in_the_file() -> None:
    text = verilog(ACCELERATORS["least"])
    for name in ("baco_loop_ws", "baco_loop_conv", "baco_counters", "baco_pixel_repeat"):
        assert f"module {name} " in verilog(ACCELERATORS["default"])
        assert f"module {name} " not in text
        assert name not in instantiated_modules(text)
    assert "`ifdef BACO" not in text
