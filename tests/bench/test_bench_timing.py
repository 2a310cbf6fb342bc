"""Measured sets of the original's cycles: read, run, compared; folders that lack something."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from baco.bench.timing import bench_timing
from baco.common.errors import InputError
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.machines import SMALL
from tests.sim.riscv_programs import compile_program

HEADER = "file,style,layer,mapping,original_cycles\n"


def measured_set(folder: Path, random: str, micro: str, program: Path) -> Path:
    (folder / "random.csv").write_text(random)
    (folder / "micro.csv").write_text(micro)
    with tarfile.open(folder / "programs.tar.gz", "w:gz") as archive:
        for name in ("one.elf", "two.elf"):
            archive.add(program, f"programs/{name}")
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("timing") / "matmul.elf", Path("matmul.c"), "-DDIM=4")


def test_errors_are_those_of_the_programs_by_table_and_style(tmp_path: Path, program: Path) -> None:
    cycles = run_job(Job(SMALL, program=program, timing="gemmini")).cycles
    assert cycles is not None
    rows = (
        f"one.elf,explicit,a layer,a mapping,{2 * cycles}\n",
        f"two.elf,loop_ws,a layer,a mapping,{cycles}\n",
    )
    folder = measured_set(tmp_path, HEADER + rows[0] + rows[1], HEADER + rows[0], program)
    found = bench_timing(folder, SMALL)
    assert [program.modelled for program in found.programs] == [cycles] * 3
    assert {
        name: (accuracy.rows, accuracy.mean_absolute_error, accuracy.bias)
        for name, accuracy in found.parts.items()
    } == {
        "random": (2, 0.25, -0.25),
        "random, explicit": (1, 0.5, -0.5),
        "random, loop_ws": (1, 0.0, 0.0),
        "micro": (1, 0.5, -0.5),
        "micro, explicit": (1, 0.5, -0.5),
    }
    assert [program.file for program in found.worst(2)] == ["one.elf", "one.elf"]
    assert "| random | 2 |" in found.text()
    assert len(bench_timing(folder, SMALL, files=["two.elf"]).programs) == 1


def test_a_set_that_lacks_something_is_refused(tmp_path: Path, program: Path) -> None:
    with pytest.raises(InputError, match=r"random.csv"):
        bench_timing(tmp_path, SMALL)
    folder = measured_set(tmp_path, HEADER + "three.elf,explicit,a,b,1\n", HEADER, program)
    with pytest.raises(InputError, match=r"the archive lacks three.elf"):
        bench_timing(folder, SMALL)
    (folder / "micro.csv").write_text("file,style\none.elf,explicit\n")
    with pytest.raises(InputError, match="the table has no column 'layer'"):
        bench_timing(folder, SMALL)
    (folder / "micro.csv").write_text(HEADER)
    (folder / "programs.tar.gz").write_bytes(b"none")
    with pytest.raises(InputError, match="this is no archive of programs"):
        bench_timing(folder, SMALL)
