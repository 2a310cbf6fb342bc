"""`baco.explore(kernel=...)`: the same study as the command's, its verdict in Python, and what goes wrong before."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import baco
from baco.main import run
from tests.baco.test_kernel_exploration import ATTENTION, KERNEL, SHAPE, SPACE
from tests.user_module import user_module

pytestmark = pytest.mark.usefixtures("short_reports")

SIZES = {"M": 48, "N": 40, "K": 32}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path


def written(folder: Path, text: str, name: str = "layer") -> ModuleType:
    return user_module(folder / f"{name}.py", text)


def test_python_and_the_command_find_the_same(
    tmp_path: Path, space: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, KERNEL)
    sizes = {**SIZES, "BM": 16, "BK": 16}
    found = baco.explore(
        kernel=file.layer, shape=sizes, grid=file.grid, space=space, samples=40, seed=3,
        out=tmp_path / "python", progress=False,
    )  # fmt: skip
    code = run(
        "baco",
        ["explore", "--kernel", f"{tmp_path / 'layer.py'}:layer", "--shape", SHAPE + ",BM=16,BK=16", "--space", str(space),
         "--samples", "40", "--seed", "3", "--out", str(tmp_path / "command")],
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert code == 0
    other = baco.load_study(tmp_path / "command")
    pd.testing.assert_frame_equal(found.designs(), other.designs())
    assert found.best == other.best

    verdict = found.kernel
    assert verdict is not None
    assert verdict.cycles is None
    assert set(verdict.blocks) == {"BN"}
    assert [one.name for one in verdict.files] == ["kernel.elf", "kernel.json"]
    ours, theirs = (
        json.loads((tmp_path / one / "best/kernel.json").read_text()) for one in ("python", "command")
    )
    assert ours == theirs
    assert (verdict.files[0].read_bytes()) == (tmp_path / "command/best/kernel.elf").read_bytes()
    # what the command prints is what Python says
    assert str(verdict).replace(str(tmp_path / "python"), str(tmp_path / "command")) in printed
    kept = baco.load_study(tmp_path / "python").kernel
    assert kept == verdict
    call = found.data.command
    assert call.startswith(f"baco.explore(kernel=layer, shape={sizes}, grid=grid, objective='edp'")


def test_a_network_has_no_kernel(tmp_path: Path) -> None:
    found = baco.explore("deepbench_face", samples=20, search="random", out=tmp_path, progress=False)
    assert found.kernel is None


def test_what_is_written_of_another_design_is_not_its_verdict(tmp_path: Path, space: Path) -> None:
    file = written(tmp_path, KERNEL)
    found = baco.explore(
        kernel=file.layer, shape={**SIZES, "BM": 16, "BN": 16, "BK": 16}, grid=file.grid, space=space,
        samples=10, out=tmp_path / "s", progress=False,
    )  # fmt: skip
    assert found.kernel is not None
    assert found.kernel.blocks == {}
    record = found.kernel.files[1]
    said = json.loads(record.read_text())
    record.write_text(json.dumps({**said, "accelerator": "0" * 16}))
    assert baco.load_study(tmp_path / "s").kernel is None
    record.write_text("[]")
    with pytest.raises(baco.StorageError, match="this says nothing of a kernel"):
        _ = baco.load_study(tmp_path / "s").kernel


def test_configurations_and_arrays_of_ones_own(tmp_path: Path, space: Path) -> None:
    """What a launch takes: an autotuned kernel, whose early pruning counts, and arrays instead of annotations."""
    text = KERNEL
    for array in ("x", "w", "bias", "y"):
        head, _, rest = text.partition(f'{array}: "')
        text = head + array + rest.partition('"')[2]
    file = written(tmp_path, text)
    sizes = [{"BM": 16, "BN": n, "BK": 16} for n in (16, 32, 64)]
    tuned = baco.autotune(
        configs=[baco.Config(one) for one in sizes],
        prune_configs_by={"early_config_prune": lambda configs, given: configs[: given["K"] // 16]},
    )(file.layer)
    arrays: dict[str, Any] = {
        "x": np.ones((48, 32), np.int8), "w": np.ones((32, 40), np.int8), "bias": np.full(40, 3, np.int32),
        "y": np.zeros((48, 40), np.int8),
    }  # fmt: skip
    found = baco.explore(
        kernel=tuned, shape={**arrays, **{k: np.int64(v) for k, v in SIZES.items()}}, grid=file.grid, space=space,
        samples=10, out=tmp_path / "s", progress=False,
    )  # fmt: skip
    assert found.explored is not None
    assert [blocks for blocks, _ in found.explored.work] == sizes[:2]
    assert found.kernel is not None
    assert dict(found.kernel.blocks) in sizes[:2]
    assert json.loads(found.kernel.files[1].read_text())["arguments"]["bias"] == "int32[40]"
    assert not arrays["y"].any(), "the user's arrays are as they were"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": {"M": 48, "N": 40}}, "the size of `x` is not known, since `K` has no value"),
        ({"shape": {**SIZES, "BX": 2}}, "shape: kernel `layer` has no parameter `BX`"),
        ({"shape": {**SIZES, "M": "48"}}, "the size of `x` is not known"),
        ({"grid": None}, "how many programs kernel `layer` is launched with is not known"),
        ({"grid": (0, 1)}, "has no programs"),
        ({"network": "resnet18"}, "kernel: explore a network or a kernel, not both"),
        ({"kernel": None}, "shape: only a kernel has arguments"),
        ({"kernel": "layer.py:layer"}, "kernel must be a kernel (@baco.jit), not 'layer.py:layer' (str)"),
        ({"search": "local"}, "have a search of their own"),
        ({"whole": False}, "a kernel is a whole program"),
        ({"cost_model": "reference", "space": "reference"}, "predicted by the instruction-aware model"),
    ],
)  # fmt: skip
def test_what_cannot_be_explored_is_one_error(
    tmp_path: Path, space: Path, change: dict[str, Any], message: str
) -> None:
    file = written(tmp_path, KERNEL)
    given: dict[str, Any] = {
        "kernel": file.layer,
        "shape": SIZES,
        "grid": file.grid,
        "space": space,
        **change,
    }
    with pytest.raises(baco.InputError) as caught:
        baco.explore(given.pop("network", None), **given, out=tmp_path / "none", progress=False)
    assert message in str(caught.value)
    assert not (tmp_path / "none").exists()


def test_mistakes_are_shown_at_their_line(tmp_path: Path) -> None:
    file = written(tmp_path, ATTENTION.replace("right.T", "right"), "attention")
    sizes = {"B": 2, "S": 32, "D": 16}
    with pytest.raises(baco.KernelError, match="the first has 16 columns, the second 32 rows") as caught:
        baco.explore(kernel=file.flash, shape=sizes, grid=file.grid, out=tmp_path / "none", progress=False)
    lines = str(caught.value).splitlines()
    caret = next(n for n, line in enumerate(lines) if line.strip() and set(line.strip()) <= {"^", "~"})
    assert lines[caret - 1][lines[caret].index("^") :].startswith("bl.dot(queries, right)")
    assert caught.value.location is not None
    assert caught.value.location.file == str(tmp_path / "attention.py")
