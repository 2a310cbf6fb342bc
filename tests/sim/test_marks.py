"""Watched instructions: what is noted at them, and that nothing changes by it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import UnitAttr

from baco.common.errors import InputError
from baco.compiler.codegen.program import Buffer, Program, build_program
from baco.compiler.ir.emit import Emitter
from baco.sim.engines.base import check_job, run_job
from baco.sim.job import Job, Watchpoint
from tests.machines import SMALL

LABELS = ["inside", "at_load", "at_fence", "after"]


@pytest.fixture(scope="module")
def program() -> Program:
    """Counts to 3 in memory, then loads a block, waits, and ends."""
    e = Emitter("counting", ["block", "target"])

    def label(name: str, instruction: str = "") -> None:
        text = f".globl {name}\n{name}: {instruction}"
        op = e.insert(llvm.InlineAsmOp(text, "", [], has_side_effects=True))
        op.attributes["noduplicate"] = UnitAttr()

    with e.loop(4, 1) as i:
        label("inside")
        e.store(e.arguments[1], i)
    e.command("config_ld", stride=4, block_stride=4)
    label("at_load")
    e.command("mvin", address=e.arguments[0], local=0, cols=4, rows=4)
    label("at_fence", "fence")
    label("after")
    buffers = [Buffer("block", (4, 4), "int8"), Buffer("target", (1,), "int64", "inout")]
    return build_program(e.finish(), "counting", buffers, SMALL, labels=LABELS)


@pytest.fixture
def job(program: Program, tmp_path: Path) -> Job:
    path = tmp_path / "program.elf"
    path.write_bytes(program.elf)
    return Job(machine=SMALL, program=path)


@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_marks_say_what_has_happened_before(program: Program, job: Job, engine: str) -> None:
    target = (program.symbols["target"], 8)
    watches = tuple(Watchpoint(program.labels[name], (target,)) for name in LABELS)
    result = run_job(replace(job, watches=watches), engine=engine)
    names = {address: name for name, address in program.labels.items()}
    # once each time, in order, however long the fence waits; copies are from before the instruction
    seen = [(names[mark.address], int(np.frombuffer(mark.copies[0], "<i8")[0])) for mark in result.marks]
    assert seen == [
        ("inside", 0),
        ("inside", 1),
        ("inside", 2),
        ("at_load", 3),
        ("at_fence", 3),
        ("after", 3),
    ]
    assert all(a.cycle < b.cycle for a, b in pairwise(result.marks))
    loads = [mark.counters["host_rocc_commands"] for mark in result.marks]
    assert loads == [0, 0, 0, 1, 2, 2]
    assert result.marks[-1].counters["dram_read_bytes"] == result.dram_read_bytes == 16
    if engine == "rtl":
        read = [mark.counters["memory_read_requests"] for mark in result.marks]
        assert read[3] == 0 < read[5]
        waited = [mark.counters["host_stall_fence"] for mark in result.marks]
        assert waited[4] == 0 < waited[5] == result.marks[5].cycle - result.marks[4].cycle - 1


@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_watching_every_instruction_changes_nothing(program: Program, job: Job, engine: str) -> None:
    plain = run_job(job, engine=engine)
    code = range(0x80000000, 0x80002000, 2)
    watched = run_job(replace(job, watches=tuple(Watchpoint(address) for address in code)), engine=engine)
    assert (watched.cycles, watched.counters, watched.unrolled) == (
        plain.cycles,
        plain.counters,
        plain.unrolled,
    )
    # every instruction is told of once, in the cycle in which it begins
    assert [one.counters["instructions"] for one in watched.marks] == list(range(len(watched.marks)))
    assert len(watched.marks) in (plain.instructions, (plain.instructions or 0) + 1)
    assert all(a.cycle < b.cycle for a, b in pairwise(watched.marks))


def test_marks_without_copies_are_plain_values(program: Program, job: Job) -> None:
    result = run_job(replace(job, watches=(Watchpoint(program.labels["after"]),)), engine="functional")
    (mark,) = result.to_dict()["marks"]
    assert mark["address"] == program.labels["after"]
    assert "copies" not in mark
    assert mark["counters"]["instructions"] > 0


def test_what_cannot_be_watched(program: Program, job: Job, tmp_path: Path) -> None:
    here = Watchpoint(program.labels["after"])
    with pytest.raises(InputError, match="watched twice"):
        run_job(replace(job, watches=(here, here)), engine="functional")
    with pytest.raises(InputError, match=r"the copy of a mark of .* is outside memory"):
        run_job(replace(job, watches=(Watchpoint(here.address, ((0, 8),)),)), engine="functional")
    with pytest.raises(InputError, match="watches no instructions"):
        check_job(replace(job, watches=(here,)), engine="spike")
    stream = tmp_path / "stream.txt"
    stream.write_text("")
    with pytest.raises(InputError, match="no instructions to watch"):
        run_job(Job(SMALL, stream=stream, watches=(here,)), engine="functional")
