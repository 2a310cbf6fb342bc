"""Memory laid over a program's before it starts, and read back at its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.codegen.program import Buffer, build_program
from baco.compiler.ir.emit import Emitter
from baco.sim.elf import symbol_range
from baco.sim.engines.base import check_job, run_job
from baco.sim.job import Job

GEMMINI = load_accelerator("gemmini-default")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A program that copies the first number of `source` to `target`."""
    e = Emitter("move", ["source", "target"])
    e.store(e.arguments[1], e.load(e.arguments[0]))
    buffers = [Buffer("source", (4,), "int64"), Buffer("target", (2,), "int64", "output")]
    path = tmp_path / "move.elf"
    path.write_bytes(build_program(e.finish(), "move", buffers, GEMMINI).elf)
    return Job(machine=GEMMINI, program=path)


def test_images_and_dumps(job: Job) -> None:
    assert job.program is not None
    source, target = (symbol_range(job.program, f"buffer_{name}") for name in ("source", "target"))
    assert (source[1], target[1]) == (32, 16)
    number = bytes(range(1, 9))
    images = ((source[0], b"x" * 32), (source[0], number))  # the last one counts
    result = run_job(
        replace(job, images=images, dumps=(target, (source[0], 12), (target[0], 0))), engine="functional"
    )
    assert result.exit_code == 0
    assert result.memory_dumps[0][:8] == number
    assert result.memory_dumps[1] == number + b"xxxx"
    assert result.memory_dumps[2] == b""
    assert run_job(job, engine="functional").memory_dumps == ()


@pytest.mark.parametrize(
    ("address", "count"), [(0, 8), (0x80000000 - 1, 8), (0x80000000 + (512 << 20) - 7, 8), (0x80000000, -1)]
)
def test_ranges_outside_memory(job: Job, address: int, count: int) -> None:
    with pytest.raises(InputError, match=r"a dump of .* is outside memory"):
        run_job(replace(job, dumps=((address, count),)), engine="functional")
    if count > 0:
        with pytest.raises(InputError, match=r"an image of .* is outside memory"):
            run_job(replace(job, images=((address, bytes(count)),)), engine="functional")


def test_who_cannot_do_it(job: Job, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither fills nor dumps memory"):
        check_job(replace(job, dumps=((0x80000000, 4),)), engine="spike")
    stream = tmp_path / "stream"
    stream.write_text("")
    with pytest.raises(InputError, match="by its own lines"):
        run_job(replace(job, program=None, stream=stream, dumps=((0x80000000, 4),)), engine="functional")


def test_symbols_of_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "none.elf"
    path.write_bytes(b"\x7fELF nothing")
    with pytest.raises(InputError, match="damaged"):
        symbol_range(path, "buffer_x")
