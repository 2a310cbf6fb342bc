"""Whatever is given to a function of the interface: it works, or there is one of baco's own errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baco
from baco.api.preparation import PreparedSearch
from baco.common.errors import BacoError, InputError


class Odd:
    """Nothing that anybody could want, and it cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("not shown")


ODD: dict[str, Any] = {
    "object": Odd(),
    "class": Odd,
    "fraction": 2.5,
    "negative": -1,
    "nothing": 0,
    "huge": 10**400,
    "nan": float("nan"),
    "truth": True,
    "text": "x",
    "empty text": "",
    "line feed": "a\nb",
    "null character": "a\0b",
    "bytes": b"x",
    "empty list": [],
    "list": [1, "x"],
    "list of lists": [[1], [2]],
    "texts": ["x", "y"],
    "tuple": (1, 2),
    "set": {1},
    "empty dict": {},
    "dict": {"x": 1},
    "dict of odd": {"x": Odd()},
    "dict of numbers": {1: 2},
    "function": lambda *_: 1.0,
    "array": np.zeros((2, 3)),
    "number": np.float64(2.5),
    "complex": 1j,
    "path": Path("x"),
    "generator": (one for one in (1, 2)),
    "none": None,
}


class _EnoughError(BacoError):
    """Arguments were taken: what would follow takes long."""


def _enough(*_: object, **__: object) -> None:
    raise _EnoughError("enough")


@pytest.fixture(autouse=True)
def nothing_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PreparedSearch, "run", _enough)
    monkeypatch.setattr("baco.sim.job.simulate", _enough, raising=False)
    monkeypatch.setattr("baco.api.programs.Compiled.run", _enough)


#: Functions with arguments that they take.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "explore": (baco.explore, {"network": "deepbench_ocr", "out": "out"}),
    "validate": (baco.validate, {"study": "missing"}),
    "measure": (baco.measure, {"study": "missing", "cycles": 1e6}),
    "compare": (baco.compare, {"studies": ["missing"]}),
    "load_study": (baco.load_study, {"folder": "missing"}),
    "network": (baco.network, {"source": "deepbench_ocr"}),
    "accelerator": (baco.accelerator, {"source": "gemmini-default"}),
    "verilog": (baco.verilog, {"accelerator": "gemmini-default"}),
    "gemm": (baco.gemm, {"m": 4, "k": 4, "n": 4}),
    "conv": (baco.conv, {"height": 6, "width": 6, "channels": 4, "outputs": 4, "kernel": 3}),
    "expression": (baco.expression, {"text": "C[m, n] += A[m, k] * B[k, n]", "m": 4, "n": 4, "k": 4}),
    "compile": (baco.compile, {"source": baco.gemm(4, 4, 4)}),
    "run": (baco.run, {"source": baco.gemm(4, 4, 4)}),
    "simulate": (baco.simulate, {"program": "missing.elf"}),
    "evaluate": (baco.evaluate, {"table": "missing.csv", "out": "out.csv"}),
    "evaluate_tiles": (
        baco.evaluate_tiles,
        {"table": "missing.csv", "out": "out.csv", "machine": "missing.yaml"},
    ),
    "trace": (baco.trace, {"log": "missing.csv", "out": "chart.html"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_with_every_odd_value(name: str) -> None:
    function, right = CALLS[name]
    wrong = []
    for parameter in inspect.signature(function).parameters.values():
        names = ("dim", "style", "m") if parameter.kind is parameter.VAR_KEYWORD else (parameter.name,)
        for argument in names:
            for kind, value in ODD.items():
                try:
                    function(**{**right, argument: value})
                except BacoError as error:
                    if not str(error).strip():
                        wrong.append(f"{argument}={kind}: an error without words")
                except Exception as error:
                    if "unexpected keyword" in str(error):
                        continue
                    wrong.append(f"{argument}={kind}: {type(error).__name__}: {error}")
    assert not wrong


@pytest.mark.parametrize(
    ("function", "argument", "value", "said"),
    [
        (
            "explore",
            "objective",
            3,
            "objective must be text, a function or a list, not 3 (int)",
        ),
        ("explore", "objective", [3], "a function of a design's cost, or several of them for their front"),
        ("explore", "search", lambda setup: None, "a searcher's name: gradient"),
        ("explore", "samples", "many", "samples must be a whole number, not 'many' (str)"),
        ("explore", "samples", True, "samples must be a whole number, not True (bool)"),
        ("explore", "constraints", [1], "constraints must be a dict of numbers, not [1] (list)"),
        ("explore", "seed", 1.5, "seed must be a whole number, not 1.5 (float)"),
        ("explore", "space", {"dim": ["x"]}, "dim[0]"),
        ("explore", "space", {"sides": [8]}, "sides"),
        ("explore", "network", {"deepbench_ocr": "often"}, "the weight of deepbench_ocr"),
        ("validate", "best", "all", "best must be a whole number"),
        ("compare", "studies", "one", "studies must be a list, not 'one' (str)"),
        ("gemm", "m", 4.5, "m must be a whole number, not 4.5 (float)"),
        ("compile", "accelerator", [], "list is no accelerator"),
    ],
)
def test_what_is_said(function: str, argument: str, value: object, said: str) -> None:
    call, right = CALLS[function]
    with pytest.raises(InputError) as caught:
        call(**{**right, argument: value})
    assert said in str(caught.value)


def test_an_objective_may_be_a_list() -> None:
    for objective in (["latency", "energy"], ("latency", "energy"), "latency,energy"):
        assert str(baco.Study("deepbench_ocr", objective=objective).objective) == "latency,energy"


def test_a_space_may_be_a_dict() -> None:
    """What it does not say is as in the default space; numbers of any library count."""
    of_lists = baco.Study(
        "deepbench_ocr", space={"dim": [8], "constraints": {"area_mm2": np.float64(20)}}
    ).space
    of_arrays = baco.Study(
        "deepbench_ocr", space={"dim": np.array([8]), "constraints": {"area_mm2": 20}}
    ).space
    for space in (of_lists, of_arrays):
        assert space.dim == (8,)
        assert space.constraints == {"area_mm2": 20}
        assert space.scratchpad_kib == baco.Space.load("gemmini").scratchpad_kib
    assert of_lists == of_arrays
