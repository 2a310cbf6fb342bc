"""Random block programs against the interpreter of the block language (numpy), on several machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baco.common.errors import InfeasibleError
from tests.compiler.blocks.block_run import execute, machine
from tests.compiler.blocks.random_blocks import random_case
from tests.machines import SMALL, UNITS
from tests.seeds import seeds

MACHINES = {
    "dim 4": {"dim": 4},
    "dim 8": {"dim": 8},
    "dim 16": {"dim": 16},
    "dim 2": {"dim": 2},
    "output stationary": {"dim": 4, "dataflow": "OS"},
    "weight stationary": {"dim": 4, "dataflow": "WS"},
    "functions of rows": {"dim": 4, "features": {"row_functions": True}},
}


@pytest.mark.parametrize("seed", seeds(2, of=30))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    options = list(MACHINES.values())[seed % len(MACHINES)]
    execute(random_case(seed, tmp_path), machine(**options))


@pytest.mark.parametrize("seed", range(2000, 2004))
def test_random_programs_in_rtl(seed: int, tmp_path: Path) -> None:
    execute(random_case(seed, tmp_path), UNITS if seed % 2 else SMALL, engine="rtl")


@pytest.mark.parametrize("seed", seeds(2, of=12, start=3000))
def test_small_memories(seed: int, tmp_path: Path) -> None:
    """Exact, or refused with need and capacity; single copies are used where double ones do not fit."""
    small = machine(4, scratchpad_kib=1, accumulator_kib=1, scratchpad_banks=1, accumulator_banks=1)
    refused = None
    try:
        execute(random_case(seed, tmp_path), small)
    except InfeasibleError as error:
        refused = error
    if refused is not None:
        pattern = r"needs \d+ rows of the (scratchpad|accumulator), which has \d+ rows, \d+ of them in use"
        assert re.search(pattern, refused.message)
        assert refused.hint is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10_000, 10_600))
def test_many_random_programs(seed: int, tmp_path: Path) -> None:
    options = list(MACHINES.values())[seed % len(MACHINES)]
    execute(random_case(seed, tmp_path), machine(**options))
